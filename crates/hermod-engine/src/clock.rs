//! The one place where time enters the system.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use hermod_core::Micros;

/// Where `now` comes from.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock; on Redis, that of the node the operation runs on.
    #[default]
    System,
    /// Stands still until it is moved: for tests, and for `hermod dev --manual-clock`.
    Manual(ManualClock),
}

impl Clock {
    /// The time now.
    #[inline]
    pub fn now(&self) -> Micros {
        match self {
            Clock::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Micros::from_duration(since).unwrap_or(Micros::MAX)
            }
            Clock::Manual(clock) => clock.now(),
        }
    }

    /// The time to send to a store that has a clock of its own: none, unless it must be ours.
    pub fn given(&self) -> Option<Micros> {
        match self {
            Clock::System => None,
            Clock::Manual(clock) => Some(clock.now()),
        }
    }

    /// What ended before this may be dropped: a little less than now, so that a clock stepping back
    /// still finds it. A manual clock may be set to anything, so nothing is dropped under one.
    pub fn sweep_before(&self) -> Option<Micros> {
        match self {
            Clock::System => Some(Micros::saturating(self.now().get().saturating_sub(1_000_000))),
            Clock::Manual(_) => None,
        }
    }

    /// What ended before this need not be written any more. It may be now itself: who crashes may forget the last second of
    /// what is written in the background, also of what has ended. Nothing under a clock that is set by hand.
    pub(crate) fn flush_before(&self) -> Micros {
        match self {
            Clock::System => self.now(),
            Clock::Manual(_) => Micros::ZERO,
        }
    }
}

/// A clock that stands still.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Starts at `now`. Zero would mean "the store's own clock" to a script and is held at 1.
    pub fn new(now: Micros) -> ManualClock {
        ManualClock(Arc::new(AtomicU64::new(now.get().max(1))))
    }

    /// The time it shows.
    pub fn now(&self) -> Micros {
        Micros::saturating(self.0.load(Ordering::SeqCst))
    }

    /// Sets it; tests step it backwards too.
    pub fn set(&self, now: Micros) {
        self.0.store(now.get().max(1), Ordering::SeqCst);
    }

    /// Moves it on; the new time.
    pub fn advance(&self, span: Micros) -> Micros {
        let moved = |now: u64| Some(Micros::saturating(now).plus(span).get());
        match self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved) {
            Ok(before) | Err(before) => Micros::saturating(before).plus(span),
        }
    }
}
