//! How often a call is repeated, and how long the pauses are.
//!
//! Pauses double from try to try and are drawn from the upper half of their length, so that clients
//! that failed together do not come back together. A `Retry-After` is a floor under the pause, never
//! a wish: who comes earlier only adds to the load that caused it. Everything is bounded: the
//! repeats here, the total time by the client's deadline.

use std::time::Duration;

/// The policy for repeating failed calls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// How many repeats after the first try.
    pub repeats: u32,
    /// The first pause.
    pub pause: Duration,
    /// The longest pause, unless the server asks for more.
    pub pause_max: Duration,
}

impl Retry {
    /// Never repeats. Writes then carry no idempotency key unless the caller gives one.
    pub fn never() -> Retry {
        Retry { repeats: 0, ..Retry::default() }
    }

    /// At most this many repeats.
    #[must_use]
    pub fn repeats(mut self, repeats: u32) -> Retry {
        self.repeats = repeats;
        self
    }

    /// The first pause; later ones double up to `pause_max`.
    #[must_use]
    pub fn pauses(mut self, pause: Duration, pause_max: Duration) -> Retry {
        self.pause = pause;
        self.pause_max = pause_max;
        self
    }

    /// The pause after the failed try number `done` (from 0), given a random number.
    pub(crate) fn pause_after(&self, done: u32, retry_after: Option<Duration>, random: u32) -> Duration {
        let doubled = self.pause.saturating_mul(2u32.saturating_pow(done)).min(self.pause_max);
        let half = doubled / 2;
        // A fraction of 1024ths is even enough for a pause and keeps the product small.
        let jitter = (half / 1024).saturating_mul(random % 1025);
        retry_after.unwrap_or_default().saturating_add(half).saturating_add(jitter)
    }
}

impl Default for Retry {
    fn default() -> Retry {
        Retry { repeats: 3, pause: Duration::from_millis(100), pause_max: Duration::from_secs(5) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_within_their_bounds() {
        let retry = Retry::default();
        for (done, full_ms) in [(0, 100), (1, 200), (2, 400), (6, 5_000), (40, 5_000), (u32::MAX, 5_000)] {
            for random in [0, 1, 512, 1024, u32::MAX] {
                let pause = retry.pause_after(done, None, random);
                let full = Duration::from_millis(full_ms);
                assert!(pause >= full / 2 && pause <= full, "try {done}: {pause:?}");
            }
        }
    }

    #[test]
    fn retry_after_is_a_floor() {
        let asked = Duration::from_secs(7);
        assert!(Retry::default().pause_after(0, Some(asked), 0) >= asked);
    }
}
