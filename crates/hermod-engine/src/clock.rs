//! The one place where time enters the system.
//!
//! To ask the system for the time takes a sixth of a whole check, and the processor waits for all it has begun before it. What is asked most,
//! and needs no better than some microseconds, goes by the processor's own counter, which is held to the system's clock twice a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
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

    /// The time of what comes after something at `last`: not before it, unless the system's clock went back. One that is not exact may be some
    /// microseconds off.
    #[inline]
    pub(crate) fn after(&self, last: Micros, is_exact: bool) -> Micros {
        let Clock::System = self else { return self.now() };
        if let Some(counter) = COUNTER.get().filter(|_| !is_exact) {
            let about = counter.now();
            if about >= last {
                return about;
            }
        }
        let now = self.now();
        // Between two that went by the counter, on different processors, and after one that was ahead of the system.
        if now < last && last.get() - now.get() <= OFF_MAX_US { last } else { now }
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

/// How far the processor's counter may be off, in microseconds, generously.
const OFF_MAX_US: u64 = 1_000;

/// None until somebody held it to the system's clock.
static COUNTER: OnceLock<Counter> = OnceLock::new();

/// The processor's counter, where it has one that counts evenly; else a clock of the system that is no faster than the one above.
#[derive(Debug)]
struct Counter {
    ticks: quanta::Clock,
    /// When it would have begun, by the system's clock.
    began_us: AtomicU64,
}

impl Counter {
    fn new() -> Counter {
        let counter = Counter { ticks: quanta::Clock::new(), began_us: AtomicU64::new(0) };
        counter.hold();
        counter
    }

    /// Since it began.
    #[inline]
    fn elapsed_us(&self) -> u64 {
        self.ticks.delta_as_nanos(0, self.ticks.raw()) / 1_000
    }

    #[inline]
    fn now(&self) -> Micros {
        Micros::saturating(self.began_us.load(Ordering::Relaxed) + self.elapsed_us())
    }

    /// Sets it by the system's clock.
    fn hold(&self) {
        self.began_us.store(Clock::System.now().get().saturating_sub(self.elapsed_us()), Ordering::Relaxed);
    }
}

/// Holds the processor's counter to the system's clock. Whoever uses it does so twice a second; the first time takes some milliseconds.
pub(crate) fn hold_counter() {
    COUNTER.get_or_init(Counter::new).hold();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_by_the_counter_is_not_far_from_the_system_and_never_goes_back() {
        hold_counter();
        let mut last = Micros::ZERO;
        for turn in 0..20_000_u32 {
            let before = Clock::System.now();
            let now = Clock::System.after(last, turn % 7 == 0);
            let after = Clock::System.now();
            assert!(now >= last, "{now} after {last}");
            assert!(now.get() + OFF_MAX_US >= before.get() && now.get() <= after.get() + OFF_MAX_US, "{now} between {before} and {after}");
            last = now;
        }
    }

    #[test]
    fn a_system_that_went_back_is_followed() {
        let ahead = Clock::System.now().plus(Micros::saturating(3_600_000_000));
        assert!(Clock::System.after(ahead, true) < ahead);
        assert!(Clock::System.after(ahead, false) < ahead);
    }
}
