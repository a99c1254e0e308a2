//! The one server of a kind that tests of this process share.
//!
//! It is started by the first test that asks. It is never dropped; the death signal ends its processes and
//! the next test process sweeps its folder.

use std::sync::OnceLock;

use anyhow::{Result, anyhow};

/// Keeps a failed start as well, as text: the second test that asks learns what the first one did, at once.
pub(super) type Shared<T> = OnceLock<Result<T, String>>;

/// The server in `cell`, started if it is not there yet.
pub(super) fn shared<T>(cell: &'static Shared<T>, start: impl FnOnce() -> Result<T>) -> Result<&'static T> {
    let started = cell.get_or_init(|| start().map_err(|error| format!("{error:#}")));
    started.as_ref().map_err(|error| anyhow!("the shared server did not start: {error}"))
}
