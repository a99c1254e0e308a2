//! Stores that are late, stopped, paused, failed over, reshaped or unfit.
//!
//! What a user would notice is asked over HTTP, the rest of the engine itself. Every test that harms a server
//! starts its own. Charges are counted under a rule that gives nothing back while a test runs, so that what was
//! acknowledged can be compared with what is used afterwards.

mod charger;
pub(crate) mod cluster;
mod durability;
mod expiry;
mod leases;
mod leaving;
mod load;
mod parallel;
mod policy;
pub(crate) mod refusals;
mod scripts;
mod sentinel;
pub(crate) mod served;
mod shard;
mod single;
mod unfit;

use std::time::Duration;

use anyhow::Result;

/// How long one request may take, whatever happens to the store: its time-out of 2 s, and a busy machine.
const REQUEST_MAX: Duration = Duration::from_secs(3);
/// How long a return may take to be noticed.
const RECOVERY: Duration = Duration::from_secs(6);

/// [`hermod_tests::until`], for a condition that has to be asked for.
pub(crate) async fn until(within: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) -> Result<()> {
    let asked = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| hermod_tests::until(within, what, || asked.block_on(holds())))
}
