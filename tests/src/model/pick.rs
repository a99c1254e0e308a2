//! Picks as plain lists: what was sent last, what is reserved; caps are the model's rules.

use std::collections::{BTreeMap, BTreeSet};

use hermod_core::event::{Kind, Recorded};
use hermod_core::limit::{Act, Rule, Verdict};
use hermod_core::pick::history::{History, OLD};
use hermod_core::pick::{Fate, Plan, Taken};
use hermod_core::{Micros, Outcome};

use super::record::Numbers;
use super::{Asked, Model};

/// How long after the last pick a history is kept.
const KEEP: u64 = 400 * 86_400_000_000;

/// What the model answers to a plan, and what of an engine's answer it can be compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The message, the number of the pick, the generation.
    Picked(u32, u64, u64),
    /// Nothing of it is allowed.
    Nothing,
    /// Too many are open.
    Busy(u64),
    /// What is: the profile's version, and the history.
    Again(u64, Seen),
    /// What became of a pick, and whether this call did it.
    Settled(Option<Fate>, bool),
    /// The version of a profile.
    Profile(u64, bool),
    /// The numbers of the oldest and of the newest event of a partition, and some of them.
    Events(u64, u64, Vec<(u64, Logged)>),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    subject: String,
    kind: Kind,
    number: u64,
    ordinal: u32,
    at: u64,
}

/// The answer of an engine, in the model's terms.
pub fn events_told(recorded: &Recorded) -> Told {
    let events = recorded.events.iter().map(|(number, event)| {
        let event = event.clone().expect("all kinds are known");
        let logged = Logged {
            subject: event.pick.subject.to_string(),
            kind: event.kind,
            number: event.pick.number,
            ordinal: event.ordinal,
            at: event.at.get(),
        };
        (*number, logged)
    });
    Told::Events(recorded.first, recorded.last, events.collect())
}

/// A history, but for its caps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The number of the last pick.
    pub seq: u64,
    /// The generation.
    pub generation: u64,
    /// The number and time of the last pick of each message.
    pub entries: BTreeMap<u32, (u64, u64)>,
    /// What was sent long ago.
    pub old: BTreeSet<u32>,
    /// Number, ordinal, end and fate of what is or was reserved.
    pub reserved: Vec<(u64, u32, u64, Fate)>,
}

impl From<&History> for Seen {
    fn from(history: &History) -> Seen {
        Seen {
            seq: history.seq,
            generation: history.generation,
            entries: history.entries.iter().map(|(ordinal, entry)| (*ordinal, (entry.seq, entry.sent_at.get()))).collect(),
            old: history.all_old().collect(),
            reserved: history.reserved.iter().map(|one| (one.number, one.ordinal, one.expires.get(), one.fate)).collect(),
        }
    }
}

/// The outcome of an engine's plan, in the model's terms.
pub fn taken_told(taken: &Taken) -> Told {
    match taken {
        Taken::Picked(picked) => Told::Picked(picked.ordinal, picked.seq, picked.generation),
        Taken::Nothing(_) => Told::Nothing,
        Taken::Busy { until, .. } => Told::Busy(until.get()),
        Taken::Again(recalled) => Told::Again(recalled.profile, Seen::from(&recalled.history)),
    }
}

/// What is needed to give a pick back.
#[derive(Clone, Debug)]
struct Back {
    number: u64,
    ordinal: u32,
    seq: u64,
    was: (u64, u64),
    /// The message's rule, and when it was as new.
    rule: Option<(Rule, u64)>,
    /// The same of the subject's.
    cap: Option<(Rule, u64)>,
}

#[derive(Clone, Debug, Default)]
struct Of {
    seen: Seen,
    until: u64,
    backs: Vec<Back>,
}

/// All histories and profiles of one deck.
#[derive(Clone, Debug, Default)]
pub struct Picks {
    caps: Model,
    of: BTreeMap<String, Of>,
    profiles: BTreeMap<String, u64>,
    kept: BTreeMap<(String, String), (String, Told, u64)>,
    /// What happened, in order, in all partitions.
    log: Vec<Logged>,
}

/// A plan as the model takes it: the rules instead of the meters.
#[derive(Clone, Debug)]
pub struct Planned<'a> {
    /// As the engines have it.
    pub plan: &'a Plan,
    /// The subject's cap.
    pub cap: Option<Rule>,
    /// The cap of each candidate.
    pub rules: Vec<Option<Rule>>,
}

impl Picks {
    /// Answers once for each key, as long as it is kept.
    pub fn once(&mut self, subject: &str, once: Option<(&str, &str)>, now: u64, act: impl FnOnce(&mut Picks) -> Told) -> Outcome<Told> {
        let Some((key, body)) = once else { return Outcome::Done(act(self)) };
        let place = (subject.to_owned(), key.to_owned());
        match self.kept.get(&place).filter(|(_, _, until)| *until > now) {
            Some((kept, told, _)) if kept == body => return Outcome::Replayed(told.clone()),
            Some(_) => return Outcome::Conflict,
            None => {}
        }
        let told = act(self);
        let is_kept = matches!(told, Told::Picked(..) | Told::Settled(_, true) | Told::Profile(..));
        if is_kept {
            self.kept.insert(place, (body.to_owned(), told.clone(), now + 72 * 3_600_000_000));
        }
        Outcome::Done(told)
    }

    /// What is known of a subject.
    pub fn seen(&self, subject: &str, now: u64) -> Seen {
        self.of.get(subject).filter(|of| of.until > now).map(|of| of.seen.clone()).unwrap_or_default()
    }

    /// The same when what has expired is given back.
    pub fn seen_then(&self, subject: &str, now: u64) -> Seen {
        let mut then = self.alone(subject);
        for number in due(&self.seen(subject, now), now) {
            then.give_back(subject, number, Fate::Expired, now);
        }
        then.seen(subject, now)
    }

    /// One subject without the others and without what happened, to try something with.
    pub fn alone(&self, subject: &str) -> Picks {
        let used = self.caps.used.iter().filter(|((_, other), _)| other == subject);
        let caps = Model { used: used.map(|(key, record)| (key.clone(), record.clone())).collect(), ..Model::default() };
        let of = self.of.get(subject).map(|of| (subject.to_owned(), of.clone())).into_iter().collect();
        let profiles = self.profiles.get(subject).map(|version| (subject.to_owned(), *version)).into_iter().collect();
        Picks { caps, of, profiles, ..Picks::default() }
    }

    /// The version of its profile.
    pub fn profile(&self, subject: &str) -> u64 {
        self.profiles.get(subject).copied().unwrap_or(0)
    }

    /// Tells or forgets a profile, or asks.
    pub fn about(&mut self, subject: &str, tell: Option<bool>, now: u64) -> Told {
        let before = self.profile(subject);
        match tell {
            None => return Told::Profile(before, before > 0),
            Some(true) => drop(self.profiles.insert(subject.to_owned(), now.max(before + 1))),
            Some(false) => drop(self.profiles.remove(subject)),
        }
        Told::Profile(self.profile(subject), before > 0)
    }

    /// Tries a plan; without one, tells what is.
    pub fn take(&mut self, subject: &str, planned: Option<&Planned<'_>>, now: u64) -> Told {
        let seen = self.seen(subject, now);
        let again = Told::Again(self.profile(subject), seen.clone());
        let Some(planned) = planned else { return again };
        let plan = planned.plan;
        let due = due(&seen, now);
        let is_right = plan.profile == self.profile(subject)
            && plan.generation == seen.generation
            && (plan.from.get()..plan.until.get()).contains(&now)
            && usize::try_from(plan.expired) == Ok(due.len());
        if !is_right {
            return again;
        }
        let open: Vec<u64> = seen.reserved.iter().filter(|one| one.3 == Fate::Open && one.2 > now).map(|one| one.2).collect();
        if plan.lease > Micros::ZERO && open.len() >= 32 {
            return Told::Busy(*open.iter().min().expect("there are 32"));
        }
        let is_fresh = plan.seq == seen.seq;
        // On a copy: a refusal changes nothing.
        let (of, used, logged) = (self.of.get(subject).cloned(), self.caps.used.clone(), self.log.len());
        if of.as_ref().is_some_and(|of| of.until <= now) {
            self.forget_all(subject);
        }
        due.iter().for_each(|number| self.give_back(subject, *number, Fate::Expired, now));
        let told = self.try_plan(subject, planned, is_fresh, now);
        told.unwrap_or_else(|| {
            self.caps.used = used;
            self.log.truncate(logged);
            match of {
                Some(of) => drop(self.of.insert(subject.to_owned(), of)),
                None => drop(self.of.remove(subject)),
            }
            if is_fresh { Told::Nothing } else { again }
        })
    }

    fn forget_all(&mut self, subject: &str) {
        self.of.remove(subject);
        self.caps.used.retain(|(_, other), _| other != subject);
    }

    fn try_plan(&mut self, subject: &str, planned: &Planned<'_>, is_fresh: bool, now: u64) -> Option<Told> {
        let plan = planned.plan;
        let cap = match &planned.cap {
            None => {
                self.caps.used.remove(&(String::from("cap"), subject.to_owned()));
                None
            }
            Some(rule) => Some((rule.clone(), self.charge(subject, rule, Act::Check, now)?)),
        };
        for (candidate, rule) in plan.candidates.iter().zip(&planned.rules) {
            let of = self.of.entry(subject.to_owned()).or_default();
            let found = of.seen.entries.get(&candidate.ordinal).copied();
            let is_as_planned = match candidate.seq {
                0 | OLD => found.is_none(),
                seq => found.is_some_and(|(found, _)| found == seq),
            };
            if !is_as_planned {
                continue;
            }
            let rule = match rule {
                None => {
                    self.caps.used.remove(&(rule_id(candidate.ordinal), subject.to_owned()));
                    None
                }
                Some(rule) => match self.charge(subject, rule, Act::Check, now) {
                    Some(ends) => Some((rule.clone(), ends)),
                    None => continue,
                },
            };
            let of = self.of.entry(subject.to_owned()).or_default();
            of.seen.seq += 1;
            of.until = now + KEEP;
            of.seen.entries.insert(candidate.ordinal, (of.seen.seq, now));
            of.seen.old.remove(&candidate.ordinal);
            if plan.lease > Micros::ZERO {
                let (number, ordinal, seq) = (plan.number, candidate.ordinal, of.seen.seq);
                let was = (candidate.seq, found.map_or(0, |(_, at)| at));
                of.backs.push(Back { number, ordinal, seq, was, rule, cap });
                of.seen.reserved.push((number, ordinal, now + plan.lease.get(), Fate::Open));
            }
            if is_fresh {
                of.seen.entries.retain(|ordinal, _| !plan.forget.contains(ordinal) && !plan.evict.contains(ordinal));
                of.seen.old.retain(|ordinal| !plan.forget.contains(ordinal));
                of.seen.old.extend(&plan.evict);
                of.seen.generation += u64::from(!plan.forget.is_empty() || !plan.evict.is_empty());
                for ordinal in plan.forget.iter().chain(&plan.evict) {
                    self.caps.used.remove(&(rule_id(*ordinal), subject.to_owned()));
                }
            }
            self.happens(subject, Kind::Picked, (plan.number, candidate.ordinal), now);
            let seen = &self.of.get(subject)?.seen;
            return Some(Told::Picked(candidate.ordinal, seen.seq, seen.generation));
        }
        None
    }

    fn happens(&mut self, subject: &str, kind: Kind, (number, ordinal): (u64, u32), now: u64) {
        self.log.push(Logged { subject: subject.to_owned(), kind, number, ordinal, at: now });
    }

    /// What happened to some subjects, those of one partition, after an event.
    pub fn events(&self, is_there: impl Fn(&str) -> bool, after: u64, limit: usize) -> Told {
        let log: Vec<(u64, Logged)> = (1..).zip(self.log.iter().filter(|one| is_there(&one.subject)).cloned()).collect();
        let last = log.last().map_or(0, |(number, _)| *number);
        Told::Events(last.min(1), last, log.into_iter().filter(|(number, _)| *number > after).take(limit).collect())
    }

    /// Settles a pick.
    pub fn settle(&mut self, subject: &str, number: u64, fate: Fate, now: u64) -> Told {
        let seen = self.seen(subject, now);
        let Some((_, _, expires, found)) = seen.reserved.iter().find(|one| one.0 == number) else { return Told::Settled(None, false) };
        if *found != Fate::Open {
            return Told::Settled(Some(*found), false);
        }
        let fate = if *expires <= now { Fate::Expired } else { fate };
        self.give_back(subject, number, fate, now);
        Told::Settled(Some(fate), true)
    }

    fn give_back(&mut self, subject: &str, number: u64, fate: Fate, now: u64) {
        let Some(mut of) = self.of.remove(subject) else { return };
        for one in of.seen.reserved.iter_mut().filter(|one| one.0 == number && one.3 == Fate::Open) {
            one.3 = fate;
        }
        let at = of.backs.iter().position(|back| back.number == number).expect("it is open");
        let back = of.backs.remove(at);
        let kind = match fate {
            Fate::Acked => Kind::Acked,
            Fate::Nacked => Kind::Nacked,
            _ => Kind::Expired,
        };
        self.happens(subject, kind, (number, back.ordinal), now);
        if fate != Fate::Acked {
            of.seen.generation += 1;
            if let Some((seq, _)) = of.seen.entries.get(&back.ordinal).copied() {
                let is_last = seq == back.seq;
                self.returned(subject, back.rule.as_ref(), is_last, now);
                if is_last {
                    of.seen.entries.remove(&back.ordinal);
                    match back.was.0 {
                        0 | OLD => drop(self.caps.used.remove(&(rule_id(back.ordinal), subject.to_owned()))),
                        _ => drop(of.seen.entries.insert(back.ordinal, back.was)),
                    }
                    if back.was.0 == OLD {
                        of.seen.old.insert(back.ordinal);
                    }
                }
                for other in of.backs.iter_mut().filter(|other| !is_last && other.ordinal == back.ordinal && other.was.0 == back.seq) {
                    other.was = back.was;
                }
            }
            self.returned(subject, back.cap.as_ref(), of.seen.seq == back.seq, now);
        }
        while of.seen.reserved.iter().filter(|one| one.3 != Fate::Open).count() > 32 {
            let oldest = of.seen.reserved.iter().position(|one| one.3 != Fate::Open).expect("there are some");
            of.seen.reserved.remove(oldest);
        }
        self.of.insert(subject.to_owned(), of);
    }

    fn returned(&mut self, subject: &str, charged: Option<&(Rule, u64)>, is_last: bool, now: u64) {
        let Some((rule, ends)) = charged else { return };
        if let hermod_core::limit::Per::Calendar(calendar) = &rule.per {
            // Of the window it was charged in; `ends` is its end.
            let bounds = calendar.bounds(Micros::saturating(ends - 1));
            if now < bounds.start.get() || now >= bounds.end.get() {
                return;
            }
        }
        if now >= *ends {
            return;
        }
        if rule.algorithm != hermod_core::limit::Algorithm::TokenBucket {
            return self.undo(subject, rule, if is_last { Act::Undo } else { Act::Refund }, now);
        }
        let key = (rule.id.to_string(), subject.to_owned());
        let Some(record) = self.caps.used.remove(&key) else { return };
        let left = Numbers::of(rule).without_one(&record, u128::from(*ends), u128::from(now));
        if left.until > u128::from(now) {
            self.caps.used.insert(key, left);
        }
    }

    /// Gives one token back. What is as new then is forgotten, also for a clock that steps back.
    fn undo(&mut self, subject: &str, rule: &Rule, act: Act, now: u64) {
        if self.charge(subject, rule, act, now) == Some(now) {
            self.caps.used.remove(&(rule.id.to_string(), subject.to_owned()));
        }
    }

    /// Takes one token, or gives it back; when everything is back then, none if it did not fit.
    fn charge(&mut self, subject: &str, rule: &Rule, act: Act, now: u64) -> Option<u64> {
        let key = (rule.id.to_string(), subject.to_owned());
        // What was never charged has nothing to give back.
        if act != Act::Check && !self.caps.used.contains_key(&key) {
            return None;
        }
        let now = Micros::saturating(now);
        let decided = self.caps.decide(&Asked { subject, act, cost: 1, rules: std::slice::from_ref(rule), once: None, now });
        let reset = decided.rules.first().map_or(0, |(_, ruled)| ruled.reset.get());
        (decided.verdict == Verdict::Allowed).then_some(now.get() + reset)
    }
}

/// The numbers of what has expired, and is not given back yet.
fn due(seen: &Seen, now: u64) -> Vec<u64> {
    seen.reserved.iter().filter(|one| one.3 == Fate::Open && one.2 <= now).map(|one| one.0).collect()
}

/// The name of the rule that a message's cap is.
pub fn rule_id(ordinal: u32) -> String {
    format!("m{ordinal}")
}
