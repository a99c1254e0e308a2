//! The third opinion: a slow, obvious model that shares no formula with the engines.
//!
//! It thinks in tokens, not in debt: how many have been used, as an exact fraction, and how many
//! have come back since. The engines think in units of debt. Where all three agree, the formula is
//! likely to be right.

use std::collections::{BTreeMap, HashMap};

use hermod_core::limit::{Checked, Retry, Rule, Ruled, Told, Verdict};
use hermod_core::{Micros, Outcome};

/// Used tokens as `parts / of`, when that was true, and until when it means anything.
#[derive(Clone, Copy, Debug)]
struct Used {
    parts: u128,
    of: u128,
    at: u128,
    /// When all of them are back, by the rule they were taken under.
    until: u128,
}

/// A rule in numbers wide enough for anything.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    limit: u128,
    burst: u128,
    /// The period in ticks.
    period: u128,
    tick: u128,
}

impl Numbers {
    fn of(rule: &Rule) -> Numbers {
        let (limit, burst) = (u128::from(rule.limit), u128::from(rule.burst.unwrap_or(rule.limit)));
        let per = u128::from(rule.per.span().get());
        // A tick is the finest at which the product of burst and period can be counted.
        let tick = [1, 1_000, 1_000_000].into_iter().find(|tick| burst * (per / tick) <= 1 << 52).unwrap_or(1_000_000);
        Numbers { limit, burst, period: per / tick, tick }
    }

    /// What of `used` is still used at `time` (in ticks), and the time that counts.
    fn used_at(self, used: Option<Used>, time: u128) -> (u128, u128) {
        let Some(used) = used else { return (0, time) };
        // The same share of tokens in this rule's parts, rounded in the owner's favour of nobody: up.
        let parts = (used.parts * self.period).div_ceil(used.of).min(self.burst * self.period);
        let at = used.at.div_ceil(self.tick);
        let whole_bucket = (self.burst * self.period).div_ceil(self.limit);
        match time {
            later if later > at => (parts.saturating_sub((later - at) * self.limit), later),
            earlier if at - earlier <= whole_bucket => (parts, at),
            _ => (0, time),
        }
    }
}

/// A check as the model sees it.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Who.
    pub subject: &'a str,
    /// How much.
    pub cost: u64,
    /// Under which rules.
    pub rules: &'a [Rule],
    /// An idempotency key and what it is bound to.
    pub once: Option<(&'a str, &'a str)>,
    /// When.
    pub now: Micros,
}

/// All state there is.
#[derive(Debug, Default)]
pub struct Model {
    used: HashMap<(String, String), Used>,
    kept: BTreeMap<(String, String), (String, Checked, u64)>,
}

impl Model {
    /// What the engines should answer.
    pub fn check(&mut self, asked: &Asked<'_>) -> Outcome<Checked> {
        if let Some((key, body)) = asked.once
            && let Some((kept_body, answer, until)) = self.kept.get(&(asked.subject.to_owned(), key.to_owned()))
            && *until > asked.now.get()
        {
            return if kept_body == body { Outcome::Replayed(answer.clone()) } else { Outcome::Conflict };
        }
        let checked = self.decide(asked);
        if let (Some((key, body)), Verdict::Allowed) = (asked.once, checked.verdict) {
            let until = asked.now.get() + 72 * 3_600_000_000;
            let tell = |rule: &Rule| Told {
                id: rule.id.clone(),
                name: rule.name.clone(),
                limit: rule.limit,
                burst: rule.burst.unwrap_or(rule.limit),
            };
            let kept = Checked { told: Some(asked.rules.iter().map(tell).collect()), ..checked.clone() };
            self.kept.insert((asked.subject.to_owned(), key.to_owned()), (body.to_owned(), kept, until));
        }
        Outcome::Done(checked)
    }

    fn decide(&mut self, asked: &Asked<'_>) -> Checked {
        let (now, cost) = (u128::from(asked.now.get()), u128::from(asked.cost));
        let mut seen = Vec::new();
        for rule in asked.rules {
            let n = Numbers::of(rule);
            let stored = self.used.get(&(rule.id.to_string(), asked.subject.to_owned())).copied().filter(|used| used.until > now);
            let (parts, time) = n.used_at(stored, now / n.tick);
            let retry = if cost > n.burst {
                Retry::Never
            } else {
                // The parts that must come back before the cost fits.
                match (parts + cost * n.period).saturating_sub(n.burst * n.period) {
                    0 => Retry::Now,
                    short => Retry::After(micros((time + short.div_ceil(n.limit)) * n.tick - now)),
                }
            };
            seen.push((rule, n, parts, time, retry));
        }
        let verdict = if seen.iter().any(|s| s.4 == Retry::Never) {
            Verdict::Never
        } else if seen.iter().any(|s| s.4 != Retry::Now) {
            Verdict::Denied
        } else {
            Verdict::Allowed
        };
        let mut rules = Vec::new();
        for (rule, n, parts, time, retry) in seen {
            let mut parts = parts;
            if verdict == Verdict::Allowed {
                parts += cost * n.period;
                let until = (time + parts.div_ceil(n.limit)) * n.tick;
                let used = Used { parts, of: n.period, at: time * n.tick, until };
                self.used.insert((rule.id.to_string(), asked.subject.to_owned()), used);
            }
            let left = u64::try_from((n.burst * n.period - parts) / n.period).unwrap_or(u64::MAX);
            let reset = if parts == 0 { Micros::ZERO } else { micros((time + parts.div_ceil(n.limit)) * n.tick - now) };
            rules.push(Ruled { left, reset, retry });
        }
        Checked { verdict, now: asked.now, rules, told: None }
    }
}

fn micros(us: u128) -> Micros {
    Micros::saturating(u64::try_from(us).unwrap_or(u64::MAX))
}
