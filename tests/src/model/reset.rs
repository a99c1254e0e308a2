//! Checks, and resets between them.

use std::collections::BTreeMap;

use hermod_core::limit::{ResetAnswer, Rule};
use hermod_core::{Micros, Outcome};

use super::{Asked, Decided, Model};

/// A reset as the model sees it.
#[derive(Clone, Debug)]
pub struct ResetAsked<'a> {
    /// Whose.
    pub subject: &'a str,
    /// Under which rules.
    pub rules: &'a [Rule],
    /// An idempotency key and what it is bound to.
    pub once: Option<(&'a str, &'a str)>,
    /// When.
    pub now: Micros,
}

/// A model whose records can be forgotten.
#[derive(Debug, Default)]
pub struct Resets {
    checks: Model,
    /// Keys of resets. Those of checks are the model's own; a key is only ever in one of both.
    kept: BTreeMap<(String, String), (String, u64, u64)>,
}

impl Resets {
    /// What the engines should answer to a check.
    pub fn check(&mut self, asked: &Asked<'_>) -> Outcome<Decided> {
        let place = asked.once.map(|(key, _)| (asked.subject.to_owned(), key.to_owned()));
        let kept = place.as_ref().and_then(|place| self.kept.get(place));
        if kept.is_some_and(|(_, _, until)| *until > asked.now.get()) {
            return Outcome::Conflict;
        }
        let outcome = self.checks.check(asked);
        if let Some(place) = place.filter(|place| self.checks.kept.contains_key(place)) {
            self.kept.remove(&place);
        }
        outcome
    }

    /// What the engines should answer to a reset.
    pub fn reset(&mut self, asked: &ResetAsked<'_>) -> Outcome<ResetAnswer> {
        let now = asked.now.get();
        let once = asked.once.map(|(key, body)| ((asked.subject.to_owned(), key.to_owned()), body));
        if let Some((place, body)) = &once {
            if self.checks.kept.get(place).is_some_and(|(_, _, until)| *until > now) {
                return Outcome::Conflict;
            }
            match self.kept.get(place) {
                Some((kept, forgotten, until)) if *until > now && kept == body => {
                    return Outcome::Replayed(ResetAnswer { forgotten: *forgotten });
                }
                Some((_, _, until)) if *until > now => return Outcome::Conflict,
                _ => {}
            }
        }
        let mut forgotten = 0;
        for rule in asked.rules {
            let record = self.checks.used.remove(&(rule.id.to_string(), asked.subject.to_owned()));
            if record.is_some_and(|record| record.until > u128::from(now)) {
                forgotten += 1;
            }
        }
        if let Some((place, body)) = once {
            self.checks.kept.remove(&place);
            self.kept.insert(place, (body.to_owned(), forgotten, now + 72 * 3_600_000_000));
        }
        Outcome::Done(ResetAnswer { forgotten })
    }
}
