//! So many at once: leases that are taken, renewed and given back. Twin of `lease.lua`.
//!
//! All leases of a subject stand in one record, whatever rule they count under: a lease is renewed and
//! given back by its id alone, also where the rules have changed meanwhile. Taking one twice with the
//! same id is one lease; nobody can give back another's without knowing its id.

use crate::id::Invalid;
use crate::int::Micros;
use crate::key;
use crate::limit::index::no_rules;
use crate::limit::limited::{Limited, Rules, take_text, write_text};
use crate::limit::meter::Meter;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State, Value};

/// The longest lease id, in bytes.
pub const LEASE_ID_MAX: usize = 128;

/// What is to be done with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAct {
    /// Take it under every rule, or under none.
    Acquire,
    /// Keep it for longer.
    Renew,
    /// Give it back.
    Release,
}

/// Takes, renews or gives back a lease.
#[derive(Clone, Debug)]
pub struct Lease {
    place: Place,
    /// Whose; empty where all subjects share the rules.
    home: String,
    act: LeaseAct,
    /// Of all leases of this home.
    id: String,
    /// For how long; zero: as long as it was taken for.
    ttl: Micros,
    /// The longest it may be held at a time.
    ttl_max: Micros,
    /// Who asks, and whose idempotency keys count, where all subjects share the rules.
    asker: Option<String>,
    rules: Rules,
}

impl Lease {
    /// Takes a lease under these rules, which must all be about leases, for as long as they all allow.
    pub fn acquire(place: Place, home: &str, id: String, ttl: Micros, rules: Rules) -> Lease {
        let ttl_max = Lease::longest(&rules);
        Lease { place, home: home.to_owned(), act: LeaseAct::Acquire, id, ttl, ttl_max, asker: None, rules }
    }

    /// For how long a lease may be taken that counts under all of these rules: it ends under all at once.
    pub fn longest(rules: &[std::sync::Arc<Limited>]) -> Micros {
        rules.iter().map(|rule| rule.meter.lease_max()).min().unwrap_or(Micros::MAX)
    }

    /// At most so long at a time, because it counts elsewhere, too.
    #[must_use]
    pub fn at_most(mut self, ttl_max: Micros) -> Lease {
        self.ttl_max = self.ttl_max.min(ttl_max);
        self
    }

    /// On behalf of this subject, where all share the rules.
    #[must_use]
    pub fn asked_by(mut self, asker: &str) -> Lease {
        self.asker = Some(asker.to_owned());
        self
    }

    /// Keeps a lease for longer: for `ttl` from now, or as long as it was taken for.
    pub fn renew(place: Place, home: &str, id: String, ttl: Option<Micros>) -> Lease {
        let ttl = ttl.unwrap_or(Micros::ZERO);
        Lease { place, home: home.to_owned(), act: LeaseAct::Renew, id, ttl, ttl_max: Micros::MAX, asker: None, rules: no_rules() }
    }

    /// Gives a lease back.
    pub fn release(place: Place, home: &str, id: String) -> Lease {
        Lease {
            place,
            home: home.to_owned(),
            act: LeaseAct::Release,
            id,
            ttl: Micros::ZERO,
            ttl_max: Micros::MAX,
            asker: None,
            rules: no_rules(),
        }
    }

    /// Whether this can be a lease's id.
    pub fn check_id(id: &str) -> Result<(), Invalid> {
        if id.is_empty() || id.len() > LEASE_ID_MAX || !id.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Invalid::new("lease", format!("must be 1 to {LEASE_ID_MAX} printable ASCII characters without spaces")));
        }
        Ok(())
    }

    fn renewed(&self, held: &mut Held, now: Micros) -> Option<Micros> {
        let mut until = None;
        for grip in held.0.iter_mut().filter(|grip| *grip.id == *self.id) {
            if self.act == LeaseAct::Renew {
                let ttl = if self.ttl == Micros::ZERO { grip.ttl } else { self.ttl.min(grip.ttl_max) };
                (grip.ttl, grip.until) = (ttl, now.plus(ttl));
            }
            until = Some(until.map_or(grip.until, |earliest: Micros| earliest.min(grip.until)));
        }
        if self.act == LeaseAct::Release {
            held.0.retain(|grip| *grip.id != *self.id);
        }
        until
    }

    fn holds(&self, rule: &Limited, held: &Held) -> bool {
        held.0.iter().any(|grip| *grip.rule == *rule.id.as_str() && *grip.id == *self.id)
    }

    /// How many others hold one under this rule; if it is full, when it will not be.
    fn taken(&self, rule: &Limited, held: &Held) -> (u64, Option<Micros>) {
        let of_rule = || held.0.iter().filter(|grip| *grip.rule == *rule.id.as_str());
        let mut others: Vec<Micros> = of_rule().filter(|grip| *grip.id != *self.id).map(|grip| grip.until).collect();
        let count = u64::try_from(others.len()).unwrap_or(u64::MAX);
        if self.holds(rule, held) || count < rule.meter.most() {
            return (count, None);
        }
        others.sort_unstable();
        let must_end = usize::try_from(count - rule.meter.most()).unwrap_or(usize::MAX);
        (count, Some(others.get(must_end).copied().unwrap_or(Micros::MAX)))
    }
}

impl Operation for Lease {
    type Answer = Leased;

    const SCRIPT: Script = Script::short("limit/lease");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.asker.as_deref().unwrap_or(&self.home)
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Leased, Full> {
        let stored = state.leases.get(&self.place.space, &self.home, now);
        let mut held = stored.cloned().unwrap_or_default();
        held.0.retain(|grip| grip.until > now);
        let mut leased = Leased { now, until: None, was_held: false, rules: self.rules.clone(), taken: Vec::new() };
        if self.act != LeaseAct::Acquire {
            leased.until = self.renewed(&mut held, now);
        } else {
            leased.taken = self.rules.iter().map(|rule| self.taken(rule, &held)).collect();
            if leased.taken.iter().any(|(_, retry_at)| retry_at.is_some()) {
                return Ok(leased);
            }
            if state.is_full {
                return Err(Full);
            }
            leased.was_held = !self.rules.is_empty() && self.rules.iter().all(|rule| self.holds(rule, &held));
            held.0.retain(|grip| *grip.id != *self.id || self.rules.iter().all(|rule| *rule.id.as_str() != *grip.rule));
            for (rule, taken) in self.rules.iter().zip(&mut leased.taken) {
                let (ttl, rule) = (self.ttl.min(self.ttl_max), rule.id.as_str().into());
                let until = now.plus(ttl);
                held.0.push(Grip { until, ttl, ttl_max: self.ttl_max, rule, id: self.id.as_str().into() });
                leased.until = Some(until);
                taken.0 += 1;
            }
        }
        if leased.until.is_none() {
            return Ok(leased);
        }
        let until = held.0.iter().map(|grip| grip.until).max().unwrap_or(now);
        state.leases.put(&self.place, &self.home, held, until, self.is_durable());
        Ok(leased)
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::lease(&self.place, &self.home));
        let number = match self.act {
            LeaseAct::Acquire => 0,
            LeaseAct::Renew => 1,
            LeaseAct::Release => 2,
        };
        call.given.push(number);
        call.given.extend_from_slice(&self.ttl.get().to_le_bytes());
        call.given.extend_from_slice(&self.ttl_max.get().to_le_bytes());
        write_long(&mut call.given, &self.id);
        call.given.extend_from_slice(&u16::try_from(self.rules.len()).unwrap_or(u16::MAX).to_le_bytes());
        for rule in self.rules.iter() {
            write_text(&mut call.given, rule.id.as_str());
            call.given.extend_from_slice(&rule.meter.most().to_le_bytes());
        }
    }

    fn is_durable(&self) -> bool {
        self.rules.iter().any(|rule| rule.durable)
    }

    fn frees(&self) -> bool {
        self.act == LeaseAct::Release
    }

    fn is_kept(&self, answer: &Leased) -> bool {
        answer.is_held()
    }

    fn note(&self, about: Micros) -> Vec<u8> {
        Limited::write_all(&self.rules, about)
    }

    fn reply(&self, answer: &Leased) -> Reply {
        let word = match (answer.is_held(), answer.was_held) {
            (true, false) => b'a',
            (true, true) => b'o',
            (false, _) => b'd',
        };
        let mut bytes = vec![word];
        bytes.extend_from_slice(&answer.now.get().to_le_bytes());
        bytes.extend_from_slice(&answer.until.unwrap_or_default().get().to_le_bytes());
        for (taken, retry_at) in &answer.taken {
            bytes.extend_from_slice(&taken.to_le_bytes());
            bytes.extend_from_slice(&retry_at.unwrap_or_default().get().to_le_bytes());
        }
        Reply::new(bytes)
    }

    fn answer(&self, reply: &Reply, note: Option<&[u8]>) -> Result<Leased, BadReply> {
        let bad = || reply.bad("is none about a lease");
        let mut rest = reply.as_bytes();
        let [word] = record::take(&mut rest).ok_or_else(bad)?;
        let now = record::take_micros(&mut rest).ok_or_else(bad)?;
        let until = record::take_micros(&mut rest).ok_or_else(bad)?;
        let rules = match note {
            Some(note) => Limited::read_all(note).ok_or_else(bad)?,
            None => self.rules.clone(),
        };
        let mut taken = Vec::with_capacity(rules.len());
        while !rest.is_empty() {
            let count = record::take(&mut rest).map(u64::from_le_bytes).ok_or_else(bad)?;
            let retry_at = record::take_micros(&mut rest).ok_or_else(bad)?;
            taken.push((count, Some(retry_at).filter(|at| *at > Micros::ZERO)));
        }
        Ok(Leased { now, until: (word != b'd').then_some(until), was_held: word == b'o', rules, taken })
    }
}

/// What became of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// The time of the answer.
    pub now: Micros,
    /// How long it is held, or was until it was given back; none: it is not held.
    pub until: Option<Micros>,
    /// It was taken, and had been held before under all of the rules.
    pub was_held: bool,
    /// The rules, in a replay those of then. None of them where it was not taken but renewed or given back.
    pub rules: Rules,
    /// Of each rule how many are held, this one included if it was taken, and when one would be free.
    pub taken: Vec<(u64, Option<Micros>)>,
}

impl Leased {
    /// Whether it is, or was.
    pub fn is_held(&self) -> bool {
        self.until.is_some()
    }

    /// The rule that refused longest.
    pub fn bound_by(&self) -> Option<&Limited> {
        let refused = self.rules.iter().zip(&self.taken).filter_map(|(rule, (_, retry_at))| retry_at.map(|at| (rule, at)));
        refused.reduce(|a, b| if b.1 > a.1 { b } else { a }).map(|(rule, _)| &**rule)
    }

    /// When it could be taken, if nobody else takes one meanwhile.
    pub fn retry_at(&self) -> Option<Micros> {
        self.taken.iter().filter_map(|(_, retry_at)| *retry_at).max()
    }
}

/// One lease under one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grip {
    until: Micros,
    ttl: Micros,
    ttl_max: Micros,
    rule: Box<str>,
    id: Box<str>,
}

/// All leases of a home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held(Vec<Grip>);

impl Value for Held {
    /// Also as Redis holds it: per lease `until ttl ttl_max u64, rule (u8 length), id (u16 length)`.
    fn write(&self, out: &mut Vec<u8>) {
        for grip in &self.0 {
            for time in [grip.until, grip.ttl, grip.ttl_max] {
                out.extend_from_slice(&time.get().to_le_bytes());
            }
            write_text(out, &grip.rule);
            write_long(out, &grip.id);
        }
    }

    fn read(mut rest: &[u8]) -> Option<Held> {
        let mut grips = Vec::new();
        while !rest.is_empty() {
            let (until, ttl, ttl_max) = (record::take_micros(&mut rest)?, record::take_micros(&mut rest)?, record::take_micros(&mut rest)?);
            let rule = take_text(&mut rest)?.into();
            let length = u16::from_le_bytes(record::take(&mut rest)?);
            let (id, tail) = rest.split_at_checked(usize::from(length))?;
            rest = tail;
            grips.push(Grip { until, ttl, ttl_max, rule, id: std::str::from_utf8(id).ok()?.into() });
        }
        Some(Held(grips))
    }

    fn heap_bytes(&self) -> usize {
        self.0.iter().map(|grip| size_of::<Grip>() + grip.rule.len() + grip.id.len()).sum()
    }

    fn to_text(&self, _until: Micros) -> String {
        let text = |grip: &Grip| format!("{}/{} until {} for {} of {}", grip.rule, grip.id, grip.until, grip.ttl, grip.ttl_max);
        self.0.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

impl Meter {
    /// The longest lease under this rule.
    fn lease_max(&self) -> Micros {
        match self {
            Meter::Leases { ttl_max, .. } => *ttl_max,
            _ => Micros::ZERO,
        }
    }
}

fn write_long(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&u16::try_from(text.len()).expect("lease ids are bounded").to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}
