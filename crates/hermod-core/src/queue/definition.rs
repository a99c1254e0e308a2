//! A queue, as people define it. What is not said has a default; everything has a bound.

use serde::{Deserialize, Serialize};

use super::backoff::Backoff;
use super::webhook::Push;
use crate::id::{Invalid, QueueId};
use crate::int::Micros;
use crate::word::word_enum;

/// The largest payload, in bytes; also the default of a queue.
pub const PAYLOAD_MAX: u32 = 262_144;
/// The most attempts.
pub const ATTEMPTS_MAX: u32 = 100;
/// The fastest a backlog can be told to go out, in deliveries a second.
pub const CATCH_UP_MAX: u32 = 1_000_000;

const SECOND: u64 = 1_000_000;
const LEASE: (Micros, Micros) = (Micros::saturating(SECOND / 10), Micros::saturating(12 * 3_600 * SECOND));
const WORKER_TTL: (Micros, Micros) = (Micros::saturating(SECOND), Micros::saturating(3_600 * SECOND));
const IDLE_AFTER: (Micros, Micros) = (Micros::saturating(SECOND), Micros::saturating(366 * 86_400 * SECOND));
const DROP_AFTER_MAX: Micros = Micros::saturating(366 * 86_400 * SECOND);
const DISABLED_MAX: usize = 256;

/// A queue: how its deliveries are handed out, and how often.
///
/// As it is stored, secrets included. What is shown to people is made from it with them masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Its name.
    pub id: QueueId,
    /// Who may have a delivery.
    pub mode: Mode,
    /// What is kept in order.
    pub order: Order,
    /// How long a delivery is held by whoever claimed it; 100 ms to 12 h.
    #[serde(with = "span_text")]
    pub lease: Micros,
    /// How long a worker lives without a heartbeat; 1 s to 1 h.
    #[serde(with = "span_text")]
    pub worker_ttl: Micros,
    /// How long a recipient of a sticky queue keeps its worker when there is nothing for it; 1 s to 366 days.
    #[serde(default = "idle_after", with = "span_text")]
    pub idle_after: Micros,
    /// How often a delivery is tried; 1 to 100.
    pub max_attempts: u32,
    /// The pauses between attempts.
    pub backoff: Backoff,
    /// What becomes of a delivery after its last attempt.
    pub on_exhausted: OnExhausted,
    /// What the recipient's next deliveries do while one waits to be tried again.
    pub on_failure: OnFailure,
    /// What becomes of deliveries that are late.
    pub overdue: Overdue,
    /// How many overdue deliveries go out each second; as fast as they are claimed if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up_per_second: Option<u32>,
    /// The largest payload in bytes; at most [`PAYLOAD_MAX`].
    pub max_payload: u32,
    /// How the server itself consumes it; `None`: it is claimed by others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
    /// Why the webhook was switched off, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<String>,
    /// Grows with every change.
    pub version: u64,
}

word_enum! {
    /// Who may have a delivery.
    Mode, "mode", {
        /// Any consumer.
        #[default]
        Shared = "shared",
        /// The recipient's worker.
        Sticky = "sticky",
    }
}

word_enum! {
    /// What is kept in order.
    Order, "order", {
        /// The deliveries of one recipient.
        #[default]
        Recipient = "recipient",
        /// All deliveries of the queue, which then live in one partition.
        Total = "total",
    }
}

word_enum! {
    /// What becomes of a delivery after its last attempt.
    OnExhausted, "on_exhausted", {
        /// It is kept, to be looked at and tried again by hand.
        #[default]
        Dead = "dead",
        /// It is forgotten.
        Drop = "drop",
    }
}

word_enum! {
    /// What the recipient's next deliveries do while one waits to be tried again.
    OnFailure, "on_failure", {
        /// They wait too.
        #[default]
        Block = "block",
        /// They pass.
        Skip = "skip",
    }
}

/// What becomes of a delivery that is late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overdue {
    /// It goes out, however late.
    #[default]
    Deliver,
    /// It is dropped if it is later than this.
    #[serde(with = "span_text")]
    DropAfter(Micros),
}

impl Queue {
    /// A queue with all the defaults.
    pub fn new(id: QueueId) -> Queue {
        Queue {
            id,
            mode: Mode::default(),
            order: Order::default(),
            lease: Micros::saturating(30 * SECOND),
            worker_ttl: Micros::saturating(15 * SECOND),
            idle_after: idle_after(),
            max_attempts: 5,
            backoff: Backoff::default(),
            on_exhausted: OnExhausted::default(),
            on_failure: OnFailure::default(),
            overdue: Overdue::default(),
            catch_up_per_second: None,
            max_payload: PAYLOAD_MAX,
            push: None,
            disabled: None,
            version: 0,
        }
    }

    /// That every field is within its bounds, and that they fit together.
    pub fn check(&self) -> Result<(), Invalid> {
        within("lease", self.lease, LEASE, "must be between 100ms and 12h")?;
        within("worker_ttl", self.worker_ttl, WORKER_TTL, "must be between 1s and 1h")?;
        within("idle_after", self.idle_after, IDLE_AFTER, "must be between 1s and 366days")?;
        between("max_attempts", self.max_attempts, ATTEMPTS_MAX)?;
        self.backoff.check()?;
        if let Overdue::DropAfter(span) = self.overdue {
            within("overdue.drop_after", span, (Micros::saturating(1_000), DROP_AFTER_MAX), "must be between 1ms and 366days")?;
        }
        if let Some(rate) = self.catch_up_per_second {
            between("catch_up_per_second", rate, CATCH_UP_MAX)?;
        }
        between("max_payload", self.max_payload, PAYLOAD_MAX)?;
        if let Some(Push::Webhook(webhook)) = &self.push {
            webhook.check(self.lease)?;
        }
        if self.push.is_some() && self.mode == Mode::Sticky {
            return Err(Invalid::new("push", "is for a shared queue: a sticky one is claimed by its workers"));
        }
        match &self.disabled {
            Some(_) if !matches!(self.push, Some(Push::Webhook(_))) => Err(Invalid::new("disabled", "is for a queue with a webhook only")),
            Some(why) if why.is_empty() || why.len() > DISABLED_MAX || why.chars().any(char::is_control) => {
                Err(Invalid::new("disabled", format!("must be 1 to {DISABLED_MAX} bytes long, without control characters")))
            }
            _ => Ok(()),
        }
    }

    /// The same with every secret masked: fit to be kept where nobody signs with it.
    #[must_use]
    pub fn masked(&self) -> Queue {
        let mut queue = self.clone();
        if let Some(Push::Webhook(webhook)) = &mut queue.push {
            webhook.secrets.iter_mut().for_each(|secret| *secret = secret.masked());
        }
        queue
    }
}

/// A day.
fn idle_after() -> Micros {
    Micros::saturating(86_400 * SECOND)
}

/// A span as people write it: `30s`, `1h 30m`.
pub fn span(field: &'static str, text: &str) -> Result<Micros, Invalid> {
    let span = humantime::parse_duration(text).ok().and_then(Micros::from_duration);
    let span = span.ok_or_else(|| Invalid::new(field, "must be a duration such as \"30s\", \"5m\" or \"1h\""))?;
    whole_ms(field, span)?;
    Ok(span)
}

/// Pauses are computed in whole milliseconds, so that their products stay exact in Lua; nothing finer is promised.
pub(super) fn whole_ms(field: &'static str, span: Micros) -> Result<(), Invalid> {
    match span.get() % 1_000 {
        0 => Ok(()),
        _ => Err(Invalid::new(field, "must be a whole number of milliseconds")),
    }
}

pub(super) fn within(field: &'static str, span: Micros, (min, max): (Micros, Micros), what: &str) -> Result<(), Invalid> {
    if span < min || span > max {
        return Err(Invalid::new(field, what));
    }
    whole_ms(field, span)
}

pub(super) fn between(field: &'static str, value: u32, max: u32) -> Result<(), Invalid> {
    if value == 0 || value > max {
        return Err(Invalid::new(field, format!("must be between 1 and {max}")));
    }
    Ok(())
}

/// Spans as text, as everywhere else.
pub(super) mod span_text {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::int::Micros;

    pub(in crate::queue) fn serialize<S: Serializer>(span: &Micros, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&humantime::format_duration(span.to_duration()))
    }

    pub(in crate::queue) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Micros, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        super::span("", &text).map_err(|fault| serde::de::Error::custom(fault.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::webhook::{Secret, Webhook};

    fn queue() -> Queue {
        Queue::new(QueueId::new("mail").unwrap())
    }

    #[test]
    fn the_defaults_are_those_of_the_documentation_and_fit_together() {
        let queue = queue();
        queue.check().unwrap();
        assert_eq!((queue.lease.get(), queue.worker_ttl.get(), queue.max_attempts), (30_000_000, 15_000_000, 5));
        assert_eq!((queue.mode.as_str(), queue.order.as_str()), ("shared", "recipient"));
        assert_eq!((queue.on_exhausted.as_str(), queue.on_failure.as_str(), queue.overdue), ("dead", "block", Overdue::Deliver));
    }

    #[test]
    fn every_bound_is_held_on_both_sides_and_named() {
        let us = Micros::saturating;
        let webhook = move |timeout: u64| {
            let mut webhook = Webhook::new("https://example.com/hook");
            webhook.secrets = vec![Secret::from_bytes(&[7; 32])];
            webhook.timeout = us(timeout);
            Some(Push::Webhook(webhook))
        };
        type Edit = Box<dyn Fn(&mut Queue)>;
        let good: Vec<Edit> = vec![
            Box::new(move |q| q.lease = us(100_000)),
            Box::new(move |q| q.lease = us(43_200_000_000)),
            Box::new(move |q| q.worker_ttl = us(3_600_000_000)),
            Box::new(|q| q.max_attempts = 100),
            Box::new(move |q| q.overdue = Overdue::DropAfter(us(1_000))),
            Box::new(|q| q.max_payload = 1),
            Box::new(move |q| q.push = webhook(29_999_000)),
            Box::new(move |q| (q.push, q.disabled) = (webhook(1_000_000), Some(String::from("410 Gone")))),
        ];
        for (row, edit) in good.iter().enumerate() {
            let mut queue = queue();
            edit(&mut queue);
            queue.check().unwrap_or_else(|fault| panic!("row {row}: {fault}"));
        }
        let bad: Vec<(&str, Edit)> = vec![
            ("lease", Box::new(move |q| q.lease = us(99_000))),
            ("lease", Box::new(move |q| q.lease = us(43_200_001_000))),
            ("lease", Box::new(move |q| q.lease = us(1_000_001))),
            ("worker_ttl", Box::new(move |q| q.worker_ttl = us(999_000))),
            ("idle_after", Box::new(move |q| q.idle_after = us(999_000))),
            ("max_attempts", Box::new(|q| q.max_attempts = 0)),
            ("max_attempts", Box::new(|q| q.max_attempts = 101)),
            ("backoff.factor", Box::new(|q| q.backoff.factor_permille = 1)),
            ("overdue.drop_after", Box::new(move |q| q.overdue = Overdue::DropAfter(us(0)))),
            ("catch_up_per_second", Box::new(|q| q.catch_up_per_second = Some(0))),
            ("max_payload", Box::new(|q| q.max_payload = PAYLOAD_MAX + 1)),
            ("push.webhook.timeout", Box::new(move |q| q.push = webhook(30_000_000))),
            ("push", Box::new(move |q| (q.mode, q.push) = (Mode::Sticky, webhook(1_000_000)))),
            ("disabled", Box::new(|q| q.disabled = Some(String::from("no webhook")))),
            ("disabled", Box::new(move |q| (q.push, q.disabled) = (webhook(1_000_000), Some(String::new())))),
        ];
        for (row, (field, edit)) in bad.iter().enumerate() {
            let mut queue = queue();
            edit(&mut queue);
            assert_eq!(queue.check().unwrap_err().field, *field, "row {row}");
        }
    }

    #[test]
    fn spans_are_whole_milliseconds() {
        assert_eq!(span("lease", "1h 30m").unwrap().get(), 5_400_000_000);
        assert_eq!(span("lease", "250ms").unwrap().get(), 250_000);
        for bad in ["", "10", "1us", "-1s", "ten seconds", "1500us"] {
            assert_eq!(span("lease", bad).unwrap_err().field, "lease", "{bad}");
        }
    }
}
