//! When to leave an endpoint alone.
//!
//! Five failures in a row, or one that says how long to wait, begin a rest. After it one attempt goes ahead
//! while the others stay back: a success ends it all, a failure makes the next rest twice as long.
//!
//! Time is a parameter, so that the tests need not wait.

use std::time::Duration;

use tokio::time::Instant;

/// So many failures in a row begin a rest.
const FAILURES_MAX: u32 = 5;
/// The first rest.
const REST: Duration = Duration::from_secs(1);
/// The longest rest, also for who asks for more: what was asked for holds for the delivery, and other
/// deliveries may find out earlier that all is well.
const REST_MAX: Duration = Duration::from_mins(1);
/// How soon to look again while an attempt is finding out.
const PROBE_LOOK: Duration = Duration::from_millis(100);

/// What is known of one endpoint.
#[derive(Debug, Default)]
pub(super) struct Circuit {
    /// Failures in a row.
    failures: u32,
    rest: Option<Rest>,
}

#[derive(Debug)]
struct Rest {
    until: Instant,
    span: Duration,
    /// An attempt is finding out whether it is over.
    is_probed: bool,
}

/// An attempt that may be made. How it ends is to be told.
#[derive(Debug)]
pub(super) struct Pass {
    is_probe: bool,
}

impl Circuit {
    /// Until when no attempt is to be made; `None`: one may be made now.
    pub(super) fn wait(&self, now: Instant) -> Option<Instant> {
        match &self.rest {
            Some(rest) if now < rest.until => Some(rest.until),
            Some(rest) if rest.is_probed => Some(now + PROBE_LOOK),
            _ => None,
        }
    }

    /// Begins an attempt, or says when to ask again.
    pub(super) fn pass(&mut self, now: Instant) -> Result<Pass, Instant> {
        if let Some(until) = self.wait(now) {
            return Err(until);
        }
        if let Some(rest) = &mut self.rest {
            rest.is_probed = true;
        }
        Ok(Pass { is_probe: self.rest.is_some() })
    }

    /// The attempt went well.
    pub(super) fn succeeded(&mut self, pass: Pass) {
        // One that began before the rest did says nothing new.
        if pass.is_probe || self.rest.is_none() {
            *self = Circuit::default();
        }
    }

    /// The attempt failed, and was perhaps told how long to wait.
    pub(super) fn failed(&mut self, pass: Pass, now: Instant, asked: Option<Duration>) {
        self.failures = self.failures.saturating_add(1);
        let asked = asked.map(|asked| asked.min(REST_MAX));
        let span = match &mut self.rest {
            Some(rest) if pass.is_probe => rest.span.saturating_mul(2).clamp(REST, REST_MAX),
            Some(rest) => {
                rest.until = asked.map_or(rest.until, |asked| rest.until.max(now + asked));
                return;
            }
            None if self.failures >= FAILURES_MAX => REST,
            None if asked.is_some() => Duration::ZERO,
            None => return,
        };
        let span = asked.map_or(span, |asked| span.max(asked));
        self.rest = Some(Rest { until: now + span, span, is_probed: false });
    }

    /// The attempt was given up before it told anything; the next one finds out instead.
    pub(super) fn given_up(&mut self, pass: Pass) {
        if let Some(rest) = self.rest.as_mut().filter(|_| pass.is_probe) {
            rest.is_probed = false;
        }
    }

    /// Whether a rest has begun that no attempt has ended yet.
    pub(super) fn is_resting(&self) -> bool {
        self.rest.is_some()
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_calm(&self) -> bool {
        self.failures == 0 && self.rest.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets one attempt fail at `at`.
    fn fail(circuit: &mut Circuit, at: Instant, asked: Option<Duration>) {
        let pass = circuit.pass(at).expect("an attempt may be made");
        circuit.failed(pass, at, asked);
    }

    fn resting_s(circuit: &Circuit, now: Instant) -> Option<f32> {
        circuit.wait(now).map(|until| (until - now).as_secs_f32())
    }

    #[test]
    fn five_failures_begin_a_rest_and_one_attempt_ends_it() {
        let (mut circuit, mut now) = (Circuit::default(), Instant::now());
        for _ in 0..4 {
            fail(&mut circuit, now, None);
            assert_eq!(circuit.wait(now), None);
        }
        fail(&mut circuit, now, None);
        for expected_s in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] {
            assert_eq!(resting_s(&circuit, now), Some(expected_s));
            now = circuit.wait(now).unwrap();
            let probe = circuit.pass(now).unwrap();
            assert_eq!(resting_s(&circuit, now), Some(0.1), "the others stay back meanwhile");
            assert!(circuit.pass(now).is_err());
            circuit.failed(probe, now, None);
        }
        now = circuit.wait(now).unwrap();
        let probe = circuit.pass(now).unwrap();
        circuit.succeeded(probe);
        assert!(circuit.is_calm() && circuit.wait(now).is_none());
    }

    #[test]
    fn a_success_in_between_starts_the_count_again() {
        let (mut circuit, now) = (Circuit::default(), Instant::now());
        for _ in 0..4 {
            fail(&mut circuit, now, None);
        }
        let pass = circuit.pass(now).unwrap();
        circuit.succeeded(pass);
        for _ in 0..4 {
            fail(&mut circuit, now, None);
        }
        assert_eq!(circuit.wait(now), None);
    }

    #[test]
    fn one_that_asks_for_a_rest_gets_it_at_once_and_a_minute_at_most() {
        for (asked_s, expected_s) in [(7, Some(7.0)), (3_600, Some(60.0)), (0, None)] {
            let (mut circuit, now) = (Circuit::default(), Instant::now());
            fail(&mut circuit, now, Some(Duration::from_secs(asked_s)));
            assert_eq!(resting_s(&circuit, now), expected_s);
        }
    }

    #[test]
    fn attempts_that_began_before_the_rest_change_it_only_if_they_ask() {
        let (mut circuit, now) = (Circuit::default(), Instant::now());
        let [one, two, three] = [(); 3].map(|()| circuit.pass(now).unwrap());
        fail(&mut circuit, now, Some(Duration::from_secs(2)));
        circuit.succeeded(one);
        circuit.failed(two, now, None);
        assert_eq!(resting_s(&circuit, now), Some(2.0));
        circuit.failed(three, now, Some(Duration::from_secs(5)));
        assert_eq!(resting_s(&circuit, now), Some(5.0));
    }

    #[test]
    fn a_probe_that_is_given_up_makes_way_for_the_next() {
        let (mut circuit, now) = (Circuit::default(), Instant::now());
        fail(&mut circuit, now, Some(Duration::ZERO));
        let probe = circuit.pass(now).unwrap();
        assert!(circuit.pass(now).is_err());
        circuit.given_up(probe);
        assert!(circuit.pass(now).is_ok());
    }
}
