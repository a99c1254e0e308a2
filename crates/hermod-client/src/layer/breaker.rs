//! Stops asking who does not answer.
//!
//! Closed: every attempt is made. Five failures in a row open it: no attempt is made for a cool-down.
//! Then one attempt goes ahead as a probe while the others still stay back. A success closes it, a
//! failure doubles the cool-down.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So many failures in a row open it.
const FAILURES_MAX: u32 = 5;
/// The first cool-down.
const COOL_DOWN: Duration = Duration::from_secs(1);
/// The longest cool-down.
const COOL_DOWN_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Failures in a row.
    failures: u32,
    /// It is open.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    cool_down: Duration,
    until: Instant,
    /// A probe is under way.
    is_probed: bool,
}

impl Open {
    fn new(cool_down: Duration) -> Open {
        Open { cool_down, until: Instant::now() + cool_down, is_probed: false }
    }
}

/// An attempt that may be made. How it ends must be told.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
}

impl Breaker {
    /// Whether an attempt may be made now.
    pub(super) fn attempt(&self) -> Option<Attempt<'_>> {
        let mut state = self.lock();
        let is_probe = match &mut state.open {
            None => false,
            Some(open) if open.is_probed || Instant::now() < open.until => return None,
            Some(open) => {
                open.is_probed = true;
                true
            }
        };
        Some(Attempt { breaker: self, is_probe })
    }

    /// How long no attempt will be made.
    pub(super) fn pause(&self) -> Duration {
        self.lock().open.as_ref().map_or(Duration::ZERO, |open| open.until.saturating_duration_since(Instant::now()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt<'_> {
    /// There was an answer.
    pub(super) fn succeeded(self) {
        *self.breaker.lock() = State::default();
    }

    /// There was none.
    pub(super) fn failed(self) {
        let mut state = self.breaker.lock();
        state.failures = state.failures.saturating_add(1);
        let cool_down = match &state.open {
            Some(open) if self.is_probe => open.cool_down.saturating_mul(2).min(COOL_DOWN_MAX),
            None if state.failures >= FAILURES_MAX => COOL_DOWN,
            // Too few yet; or it was begun before the others failed, and says nothing new.
            _ => return,
        };
        state.open = Some(Open::new(cool_down));
    }
}

impl Drop for Attempt<'_> {
    /// A probe that nobody waits for any more tells nothing; the next attempt is one instead.
    fn drop(&mut self) {
        if let Some(open) = self.breaker.lock().open.as_mut().filter(|_| self.is_probe) {
            open.is_probed = false;
        }
    }
}
