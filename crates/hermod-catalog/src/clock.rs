//! The one place where the catalog reads the system's clock.
//!
//! Its times are for people (`created_at`) and for forgetting old records; no decision about a limit
//! depends on them.

use std::time::SystemTime;

use hermod_core::Micros;

/// Now. Zero if the system's clock stands before 1970.
pub(crate) fn now() -> Micros {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Micros::from_duration(since_epoch).unwrap_or(Micros::MAX)
}
