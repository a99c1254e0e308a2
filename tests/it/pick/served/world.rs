//! What there is, in plain terms: a deck, its messages, what is known of subjects; and who may get what of it.
//!
//! Caps and histories are those of the naive model, which is asked about one message at a time. Who is eligible, when it is quiet and
//! which message comes first is said here once more, without any of the planner's sets.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use hermod_core::pick::{Candidate, Cap, CapKind, Fate, Plan, Strategy};
use hermod_core::{MessageId, Micros};
use hermod_tests::history::Draws;
use hermod_tests::model::pick::{Picks, Planned, Told, rule_id};
use serde_json::{Value, json};

use crate::pick::differential::as_rule;
use crate::queue::time;

pub(super) const SECOND: u64 = 1_000_000;
pub(super) const HOUR: u64 = 3_600 * SECOND;
pub(super) const DAY: u64 = 24 * HOUR;
/// Time zones without a change of clocks in the months of these histories, and how many hours they are ahead or behind.
const ZONES: [(&str, i64); 3] = [("UTC", 0), ("Europe/Berlin", 2), ("America/New_York", -4)];
pub(super) const SUBJECTS: [&str; 3] = ["ann", "ben", "cem"];
const TAGS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum To {
    Everyone,
    Subject(&'static str),
    Tag(&'static str),
}

/// A message of the deck.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) ordinal: u32,
    to: To,
    /// The least level of a subject.
    level: Option<u64>,
    priority: u64,
    weight: u64,
    pub(super) active: bool,
    starts_at: Option<u64>,
    ends_at: Option<u64>,
    cap: Option<Cap>,
    tag: Option<&'static str>,
    critical: bool,
}

/// What is known of a subject.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    tag: Option<&'static str>,
    level: Option<u64>,
    zone: Option<&'static str>,
    quiet: Option<(u64, u64)>,
    mute_until: Option<u64>,
    opt_out: Option<&'static str>,
}

/// All there is.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) strategy: Strategy,
    cap: Option<Cap>,
    quiet: Option<(u64, u64)>,
    pub(super) messages: BTreeMap<String, Message>,
    pub(super) profiles: BTreeMap<&'static str, Profile>,
}

/// Divides its time without a rest, so that everything happens at whole milliseconds.
fn random_cap(draws: &mut Draws) -> Option<Cap> {
    let (kind, (tokens, per)) = match draws.below(10) {
        0..=2 => return None,
        3..=6 => (CapKind::Bucket, draws.one_of(&[(1, "1s"), (1, "7s"), (2, "10s"), (3, "1m"), (1, "1h"), (2, "1day"), (100, "1h")])),
        7 | 8 => (CapKind::Rolling, draws.one_of(&[(1, "10s"), (2, "1m"), (3, "1h"), (1, "1day")])),
        _ => (CapKind::Calendar, draws.one_of(&[(1, "hour"), (2, "hour"), (1, "day"), (3, "day")])),
    };
    Some(Cap::new(tokens, per, kind).unwrap())
}

/// One cap in the place of another. What expires is given back by the next pick, by the rate of when it was made: until then
/// `retry_at` does not know how that counts under a cap of another kind or rate. So such an edit waits until all is settled.
fn edited(old: Option<Cap>, new: Option<Cap>, is_settled: bool) -> Option<Cap> {
    let is_rolling = |cap: &Option<Cap>| cap.as_ref().is_some_and(|cap| cap.kind() == CapKind::Rolling);
    if is_settled || is_rolling(&old) && is_rolling(&new) { new } else { old }
}

fn cap_body(cap: Option<&Cap>) -> Value {
    cap.map_or(Value::Null, |cap| json!({"tokens": cap.tokens(), "per": cap.per(), "kind": cap.kind().as_str()}))
}

fn quiet_body(quiet: Option<(u64, u64)>) -> Value {
    quiet.map_or(Value::Null, |(from, to)| json!({"from": format!("{from:02}:00"), "to": format!("{to:02}:00")}))
}

fn random_quiet(draws: &mut Draws) -> Option<(u64, u64)> {
    let (from, hours) = (draws.below(24), 1 + draws.below(12));
    draws.chance(40).then_some((from, (from + hours) % 24))
}

fn time_body(us: Option<u64>) -> Value {
    us.map_or(Value::Null, |us| json!(time(us / 1_000)))
}

/// A time within some hours, before or after.
fn random_time(draws: &mut Draws, now: u64) -> u64 {
    let span = draws.one_of(&[SECOND, 10 * SECOND, 60 * SECOND, HOUR, 6 * HOUR]) * (1 + draws.below(3));
    if draws.chance(30) { now - span } else { now + span }
}

impl Message {
    pub(super) fn random(draws: &mut Draws, now: u64) -> Message {
        let starts_at = draws.chance(20).then(|| random_time(draws, now));
        let ends_at = draws.chance(20).then(|| random_time(draws, now)).filter(|end| starts_at.is_none_or(|start| start < *end));
        Message {
            ordinal: 0,
            to: match draws.below(6) {
                0 => To::Subject(draws.one_of(&SUBJECTS)),
                1 => To::Tag(draws.one_of(&TAGS)),
                _ => To::Everyone,
            },
            level: draws.chance(20).then(|| draws.below(4)),
            priority: draws.below(3),
            weight: 1 + draws.below(3),
            active: draws.chance(85),
            starts_at,
            ends_at,
            cap: random_cap(draws),
            tag: draws.chance(25).then(|| draws.one_of(&TAGS)),
            critical: draws.chance(15),
        }
    }

    /// Takes the place of another one of its name.
    pub(super) fn replacing(self, old: &Message, is_settled: bool) -> Message {
        Message { cap: edited(old.cap.clone(), self.cap, is_settled), ..self }
    }

    pub(super) fn body(&self, id: &str) -> Value {
        let to = match self.to {
            To::Everyone => json!("everyone"),
            To::Subject(subject) => json!({"subjects": [subject]}),
            To::Tag(tag) => json!({"tags": [tag]}),
        };
        let when = self.level.map(|level| format!("attributes.level >= {level}"));
        json!({"body": id, "to": to, "when": when, "priority": self.priority, "weight": self.weight, "active": self.active,
            "starts_at": time_body(self.starts_at), "ends_at": time_body(self.ends_at), "cap": cap_body(self.cap.as_ref()),
            "tags": self.tag.into_iter().collect::<Vec<_>>(), "critical": self.critical})
    }

    /// Whether this subject could find it in its history.
    pub(super) fn is_shown_to(&self, subject: &str) -> bool {
        !matches!(self.to, To::Subject(other) if other != subject)
    }

    fn is_for(&self, subject: &str, profile: &Profile, now: u64) -> bool {
        let is_addressed = match self.to {
            To::Everyone => true,
            To::Subject(other) => other == subject,
            To::Tag(tag) => profile.tag == Some(tag),
        };
        let is_on = self.active && self.starts_at.is_none_or(|at| at <= now) && self.ends_at.is_none_or(|at| at > now);
        let is_wanted = self.tag.is_none() || self.tag != profile.opt_out;
        let is_reached = self.level.is_none_or(|least| profile.level.is_some_and(|level| level >= least));
        is_addressed && is_on && is_wanted && is_reached
    }
}

impl Profile {
    pub(super) fn random(draws: &mut Draws, now: u64) -> Profile {
        Profile {
            tag: draws.chance(60).then(|| draws.one_of(&TAGS)),
            level: draws.chance(70).then(|| draws.below(4)),
            zone: draws.chance(60).then(|| draws.one_of(&ZONES).0),
            quiet: random_quiet(draws).filter(|_| draws.chance(50)),
            mute_until: draws.chance(20).then(|| random_time(draws, now)),
            opt_out: draws.chance(30).then(|| draws.one_of(&TAGS)),
        }
    }

    pub(super) fn body(&self) -> Value {
        let list = |tag: Option<&str>| tag.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let attributes = self.level.map_or(json!({}), |level| json!({"level": level}));
        let mut body = json!({"tags": list(self.tag), "attributes": attributes, "opt_out": list(self.opt_out)});
        let fields = [("timezone", json!(self.zone)), ("quiet", quiet_body(self.quiet)), ("mute_until", time_body(self.mute_until))];
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
            body[name] = value;
        }
        body
    }
}

impl World {
    pub(super) fn random(draws: &mut Draws) -> World {
        let strategies = [Strategy::FreshLru, Strategy::FreshLru, Strategy::Weighted, Strategy::Priority, Strategy::Sequence];
        let strategy = draws.one_of(&strategies);
        World { strategy, cap: random_cap(draws), quiet: random_quiet(draws), messages: BTreeMap::new(), profiles: BTreeMap::new() }
    }

    /// Has another strategy, quiet hours, and cap if it may.
    pub(super) fn edit_deck(&mut self, draws: &mut Draws, is_settled: bool) {
        let World { strategy, cap, quiet, .. } = World::random(draws);
        let cap = edited(self.cap.take(), cap, is_settled);
        (self.strategy, self.cap, self.quiet) = (strategy, cap, quiet);
    }

    pub(super) fn deck_body(&self) -> Value {
        json!({"strategy": self.strategy.as_str(), "subject_cap": cap_body(self.cap.as_ref()), "quiet_hours": quiet_body(self.quiet)})
    }

    fn profile(&self, subject: &str) -> Profile {
        self.profiles.get(subject).cloned().unwrap_or_default()
    }

    /// `muted` or `quiet`, if it is.
    fn hushed(&self, subject: &str, now: u64) -> Option<&'static str> {
        let profile = self.profile(subject);
        if profile.mute_until.is_some_and(|until| until > now) {
            return Some("muted");
        }
        let (from, to) = profile.quiet.or(self.quiet)?;
        let ahead = ZONES.iter().find(|(name, _)| *name == profile.zone.unwrap_or("UTC")).map_or(0, |(_, hours)| *hours);
        let hour = (i64::try_from(now / HOUR).unwrap() + ahead).rem_euclid(24);
        let hour = u64::try_from(hour).unwrap();
        let is_quiet = if from < to { (from..to).contains(&hour) } else { hour >= from || hour < to };
        is_quiet.then_some("quiet")
    }

    /// Times after `now` at which who is eligible may change by itself.
    pub(super) fn turns(&self, subject: &str, now: u64) -> Vec<u64> {
        let schedules = self.messages.values().flat_map(|message| [message.starts_at, message.ends_at]).flatten();
        let hours = (1..=48).map(|hour| (now / HOUR + hour) * HOUR);
        schedules.chain(self.profile(subject).mute_until).chain(hours).filter(|at| *at > now).collect()
    }

    /// What the subject could get, in the order of the catalog, with the number of the last pick; and why it is nothing.
    pub(super) fn allowed<'a>(&'a self, model: &Picks, subject: &str, now: u64) -> Result<(Vec<(&'a Message, u64)>, &'static str)> {
        let profile = self.profile(subject);
        let eligible: Vec<&Message> = self.messages.values().filter(|message| message.is_for(subject, &profile, now)).collect();
        let hushed = self.hushed(subject, now);
        let (alone, then) = (model.alone(subject), model.seen_then(subject, now));
        let mut allowed = Vec::new();
        for message in eligible.iter().filter(|message| hushed.is_none() || message.critical) {
            let seq = then.entries.get(&message.ordinal).map_or(0, |(seq, _)| *seq);
            match self.take(&mut alone.clone(), subject, (message.ordinal, seq, message.cap.as_ref()), (0, 0), now) {
                Told::Picked(..) => allowed.push((*message, seq)),
                Told::Nothing => {}
                other => bail!("the model itself is not right: {other:?}"),
            }
        }
        // One that is not there has no cap of its own: what refuses it is the subject's.
        let is_capped = self.take(&mut alone.clone(), subject, (u32::MAX / 2, 0, None), (0, 0), now) == Told::Nothing;
        let reason = match hushed {
            _ if eligible.is_empty() => "no_messages",
            Some(hushed) => hushed,
            None if is_capped => "subject_cap",
            None => "message_cap",
        };
        Ok((allowed, reason))
    }

    /// Does a pick of one message in the model.
    fn take(
        &self,
        model: &mut Picks,
        subject: &str,
        (ordinal, seq, cap): (u32, u64, Option<&Cap>),
        (number, lease): (u64, u64),
        now: u64,
    ) -> Told {
        let seen = model.seen(subject, now);
        let expired = seen.reserved.iter().filter(|one| one.3 == Fate::Open && one.2 <= now).count();
        let candidate = Candidate { ordinal, id: MessageId::new("m").unwrap(), seq, meter: 0 };
        let plan = Plan {
            seq: seen.seq,
            generation: seen.generation,
            expired: u32::try_from(expired).unwrap(),
            profile: model.profile(subject),
            until: Micros::MAX,
            number,
            lease: Micros::saturating(lease),
            candidates: vec![candidate],
            ..Plan::default()
        };
        let zone = self.profile(subject).zone.unwrap_or("UTC");
        let subject_cap = self.cap.as_ref().map(|cap| as_rule(cap, "cap", zone));
        let rules = vec![cap.map(|cap| as_rule(cap, &rule_id(ordinal), zone))];
        model.take(subject, Some(&Planned { plan: &plan, cap: subject_cap, rules }), now)
    }

    /// Checks that this message was the one to be picked, and takes it in.
    pub(super) fn picked(&self, model: &mut Picks, subject: &str, id: &str, pick: (u64, u64), now: u64) -> Result<()> {
        let (allowed, reason) = self.allowed(model, subject, now)?;
        let message = self.messages.get(id).context("it is not there")?;
        let found = allowed.iter().find(|(one, _)| one.ordinal == message.ordinal);
        let (_, seq) = *found.with_context(|| format!("{id} is not allowed: {reason}; allowed are {allowed:?}"))?;
        let highest = allowed.iter().map(|(one, _)| one.priority).max().unwrap_or(0);
        let among: Vec<(&Message, u64)> = match self.strategy {
            Strategy::Priority => allowed.iter().filter(|(one, _)| one.priority == highest).copied().collect(),
            _ => allowed.clone(),
        };
        let oldest = among.iter().map(|(_, seq)| *seq).min();
        let first = among.iter().filter(|(_, seq)| *seq == 0).map(|(one, _)| one.ordinal).min();
        let is_right = match self.strategy {
            Strategy::Weighted => true,
            // What was never sent has no number: it is the oldest, too.
            Strategy::FreshLru | Strategy::Priority => oldest == Some(seq),
            Strategy::Sequence => oldest == Some(seq) && first.is_none_or(|first| first == message.ordinal),
        };
        let is_among = among.iter().any(|(one, _)| one.ordinal == message.ordinal);
        ensure!(is_right && is_among, "by {:?} it was not for {id}, last picked as {seq}: allowed are {among:?}", self.strategy);
        let told = self.take(model, subject, (message.ordinal, seq, message.cap.as_ref()), pick, now);
        ensure!(matches!(told, Told::Picked(ordinal, ..) if ordinal == message.ordinal), "the model says {told:?}");
        Ok(())
    }

    /// Checks that nothing was allowed, for this reason, and that something is at `retry_at` and not before.
    pub(super) fn refused(
        &self,
        draws: &mut Draws,
        model: &Picks,
        subject: &str,
        (reason, retry_at): (&str, Option<u64>),
        now: u64,
    ) -> Result<()> {
        let (allowed, expected) = self.allowed(model, subject, now)?;
        ensure!(allowed.is_empty(), "{allowed:?} are allowed");
        ensure!(reason == expected, "it is for {expected}");
        let ends = model.seen(subject, now).reserved.into_iter().map(|one| one.2);
        let last = retry_at.unwrap_or(now + 60 * DAY);
        let turns: Vec<u64> = self.turns(subject, now).into_iter().chain(ends).filter(|at| (now..last).contains(at)).collect();
        let mut looks = vec![last - 1];
        if !turns.is_empty() {
            looks.extend((0..4).map(|_| draws.one_of(&turns)));
        }
        for at in looks {
            let (allowed, _) = self.allowed(model, subject, at)?;
            ensure!(allowed.is_empty(), "at {at}, before {retry_at:?}, these are allowed: {allowed:?}");
        }
        if let Some(retry_at) = retry_at {
            let (allowed, reason) = self.allowed(model, subject, retry_at)?;
            ensure!(!allowed.is_empty(), "at {retry_at} nothing is allowed: {reason}");
        }
        Ok(())
    }

    /// Ids of what a subject got, newest first, as far as they can be told.
    pub(super) fn history(&self, model: &Picks, subject: &str, now: u64) -> Vec<&str> {
        let then = model.seen_then(subject, now);
        let shown = self.messages.iter().filter(|(_, message)| message.is_shown_to(subject));
        let mut sent: Vec<(u64, &str)> = shown.filter_map(|(id, one)| Some((then.entries.get(&one.ordinal)?.0, id.as_str()))).collect();
        sent.sort_unstable_by(|one, other| other.cmp(one));
        sent.into_iter().map(|(_, id)| id).collect()
    }
}
