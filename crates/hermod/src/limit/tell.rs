//! Answers in words: whether, why, and until when; then the rules behind it.

use std::time::{Duration, SystemTime};

use hermod_client::{Checked, Considered, Forgotten, Leased, OnExpiry, Reserved, Ruled, SettleOutcome, Settled, Time};

use crate::output::{about, or_dash, table, verdict};

/// The answer to a check.
pub(super) fn checked(checked: &Checked, cost: u64, is_peek: bool) -> String {
    let mut text = verdict(checked.allowed, &sentence(checked, cost, is_peek));
    for rule in checked.rules.iter().filter(|rule| rule.shadow) {
        if let Some(at) = rule.retry_at {
            text += &format!("\n{} would have refused it until {at}, but only reports.", rule.name);
        }
    }
    text += degraded(checked.degraded);
    text += replayed(checked.replayed);
    if !checked.rules.is_empty() {
        text += &format!("\n\n{}", rows(&checked.rules));
    }
    if let Some(considered) = &checked.explain {
        text += &format!("\n\n{}", considered_rows(considered));
    }
    text
}

/// The answer to a check in one sentence.
pub(super) fn sentence(checked: &Checked, cost: u64, is_peek: bool) -> String {
    let would = if is_peek { "would be " } else { "" };
    let name = checked.bound_by.as_deref().unwrap_or("a rule");
    match (checked.allowed, checked.never, checked.retry_at) {
        (true, ..) if checked.rules.is_empty() => format!("{would}allowed: no rule limits this"),
        (true, ..) if checked.delay_ms > 0 => {
            format!("{would}allowed, after waiting {}", humantime::format_duration(Duration::from_millis(checked.delay_ms)))
        }
        (true, ..) => format!("{would}allowed"),
        // A limit of nothing is how a ban is told.
        (false, true, _) if checked.rules.iter().any(|rule| rule.name == name && rule.limit == 0) => {
            format!("{would}refused by {name}: it forbids this")
        }
        (false, true, _) => format!("{would}refused by {name}: a cost of {cost} never fits"),
        (false, false, Some(at)) => {
            let now = checked.now.map_or_else(SystemTime::now, Time::to_system_time);
            format!("{would}refused by {name} until {at}{}", distance(at, now))
        }
        (false, false, None) => format!("{would}refused by {name}"),
    }
}

pub(super) fn refunded(refunded: &Checked, cost: u64) -> String {
    if refunded.rules.is_empty() {
        return "no rule limits this; nothing to give back".to_owned();
    }
    format!("gave back {cost}{}\n\n{}", replayed(refunded.replayed), rows(&refunded.rules))
}

pub(super) fn forgotten(forgotten: &Forgotten, subject: &str) -> String {
    match forgotten.forgotten {
        0 => format!("{subject} had used nothing"),
        1 => format!("1 counter of {subject} is forgotten"),
        many => format!("{many} counters of {subject} are forgotten"),
    }
}

/// What was asked of a lease.
#[derive(Clone, Copy)]
pub(super) enum Lease {
    Acquired,
    Renewed,
    Released,
}

/// The answer about a lease.
pub(super) fn leased(leased: &Leased, asked: Lease, now: SystemTime) -> String {
    let lease = &leased.lease;
    let until = |at: Option<Time>| at.map(|at| format!(" until {at}{}", distance(at, now))).unwrap_or_default();
    let sentence = match (asked, leased.allowed) {
        (Lease::Acquired, true) if leased.rules.is_empty() && !leased.degraded => format!("{lease} is not needed: no rule limits this"),
        (Lease::Acquired | Lease::Renewed, true) => format!("{lease} is held{}", until(leased.expires_at)),
        (Lease::Acquired, false) => {
            format!("refused by {}{}", leased.bound_by.as_deref().unwrap_or("a rule"), until(leased.retry_at))
        }
        (Lease::Released, true) => format!("{lease} is given back"),
        (Lease::Renewed | Lease::Released, false) => format!("{lease} is not held; it may have ended"),
    };
    let mut text = verdict(leased.allowed, &sentence) + degraded(leased.degraded) + replayed(leased.replayed);
    if !leased.rules.is_empty() {
        let rules = leased.rules.iter();
        let rows = rules.map(|rule| [rule.name.clone(), rule.id.clone(), rule.limit.to_string(), rule.remaining.to_string()]);
        text += &format!("\n\n{}", table(["RULE", "ID", "LIMIT", "REMAINING"], rows));
    }
    text
}

/// The answer to an estimate.
pub(super) fn reserved(reserved: &Reserved, cost: u64, now: SystemTime) -> String {
    let text = checked(&reserved.checked, cost, false);
    let (Some(id), Some(at)) = (&reserved.reservation, reserved.expires_at) else { return text };
    format!("{text}\n\n{id}\nis to be committed or cancelled until {at}{}", distance(at, now))
}

/// What became of a reservation.
pub(super) fn settled(settled: &Settled) -> String {
    let Settled { estimate, charged, .. } = settled;
    let sentence = match (&settled.outcome, &settled.on_expiry) {
        (SettleOutcome::Settled, _) if charged == estimate => format!("settled: {charged} stay charged, as estimated"),
        (SettleOutcome::Settled, _) => format!("settled: {charged} are charged instead of {estimate}"),
        (SettleOutcome::Already, _) => format!("it was settled before: {charged} are charged, of {estimate} estimated"),
        (SettleOutcome::Expired, Some(OnExpiry::Refund)) => format!("it had expired; the {estimate} estimated were given back"),
        (SettleOutcome::Expired, _) => format!("it had expired; the {estimate} estimated stay charged"),
        (other, _) => format!("{other}: {charged} are charged, of {estimate} estimated"),
    };
    verdict(settled.outcome != SettleOutcome::Expired, &sentence) + replayed(settled.replayed)
}

fn degraded(is_degraded: bool) -> &'static str {
    if is_degraded { "\nThe answer is degraded: not all that should have been asked could be." } else { "" }
}

fn replayed(is_replayed: bool) -> &'static str {
    if is_replayed { "\nThis is the answer given earlier for the same idempotency key." } else { "" }
}

/// How far away a time is; nothing if the clock has passed it already.
fn distance(at: Time, now: SystemTime) -> String {
    let Ok(wait) = at.to_system_time().duration_since(now) else { return String::new() };
    format!(" (in about {})", about(wait))
}

fn rows(rules: &[Ruled]) -> String {
    table(
        ["RULE", "ID", "LIMIT", "BURST", "REMAINING", "RESET AT", "RETRY AT"],
        rules.iter().map(|rule| {
            [
                rule.name.clone(),
                rule.id.clone(),
                rule.limit.to_string(),
                rule.burst.to_string(),
                rule.remaining.to_string(),
                rule.reset_at.to_string(),
                or_dash(rule.retry_at),
            ]
        }),
    )
}

fn considered_rows(rules: &[Considered]) -> String {
    table(
        ["CONSIDERED", "ID", "APPLIES", "WHY"],
        rules.iter().map(|rule| {
            let applies = if rule.applies { "yes" } else { "no" };
            [rule.name.clone(), rule.id.clone(), applies.to_owned(), rule.why.clone()]
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Checked {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_refusal_says_by_whom_and_until_when() {
        for (now, told) in
            [("04:05:06", " (in about 10s)"), ("04:05:16", " (in about 1s)"), ("03:04:15", " (in about 1h 1m)"), ("04:05:17", "")]
        {
            let refused = answer(&format!(
                r#"{{"allowed":false,"rules":[],"bound_by":"burst","retry_at":"2026-02-03T04:05:16.000Z","now":"2026-02-03T{now}.000Z"}}"#
            ));
            assert_eq!(checked(&refused, 1, false), format!("refused by burst until 2026-02-03T04:05:16.000Z{told}"));
            assert_eq!(checked(&refused, 1, true), format!("would be refused by burst until 2026-02-03T04:05:16.000Z{told}"));
        }
    }

    #[test]
    fn never_is_told_from_later_and_a_ban_from_a_cost() {
        let ruled = |limit: u64| {
            answer(&format!(
                r#"{{"allowed":false,"never":true,"bound_by":"burst","rules":[{{"id":"r","name":"burst","limit":{limit},
                    "burst":{limit},"remaining":0,"reset_at":"2026-02-03T04:05:16.000Z"}}]}}"#
            ))
        };
        assert_eq!(sentence(&ruled(3), 9, false), "refused by burst: a cost of 9 never fits");
        assert_eq!(sentence(&ruled(0), 1, false), "refused by burst: it forbids this");
    }

    #[test]
    fn an_allowed_check_says_how_long_to_wait() {
        let delayed = r#"{"allowed":true,"delay_ms":1500,"rules":[{"id":"r","name":"burst","limit":1,"burst":1,"remaining":0,"reset_at":"2026-02-03T04:05:16.000Z"}]}"#;
        assert_eq!(sentence(&answer(delayed), 1, false), "allowed, after waiting 1s 500ms");
        assert_eq!(sentence(&answer(r#"{"allowed":true,"rules":[]}"#), 1, true), "would be allowed: no rule limits this");
    }

    #[test]
    fn a_lease_says_until_when() {
        let lease = |text: &str| serde_json::from_str::<Leased>(text).unwrap();
        let held = lease(r#"{"allowed":true,"lease":"tab-1","expires_at":"2026-02-03T04:05:16.000Z","rules":[]}"#);
        let now = held.expires_at.unwrap().to_system_time() - Duration::from_secs(30);
        assert_eq!(leased(&held, Lease::Renewed, now), "tab-1 is held until 2026-02-03T04:05:16.000Z (in about 30s)");
        assert_eq!(leased(&held, Lease::Acquired, now), "tab-1 is not needed: no rule limits this");
        let mut away = held;
        away.degraded = true;
        let told = "tab-1 is held until 2026-02-03T04:05:16.000Z (in about 30s)\nThe answer is degraded: not all that should have been asked could be.";
        assert_eq!(leased(&away, Lease::Acquired, now), told);
        let none = lease(r#"{"allowed":false,"lease":"tab-1","rules":[]}"#);
        assert_eq!(leased(&none, Lease::Released, now), "tab-1 is not held; it may have ended");
    }
}
