//! A matching rule, as far as an operation and its answer need it.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::id::{Invalid, Name, RuleId};
use crate::int::Micros;
use crate::limit::meter::Meter;
use crate::limit::records::Tag;
use crate::limit::rule::{Mode, OnExpiry, OnStoreError, Rule, Scope};
use crate::record;

/// The rules of a call, in the order of its answer.
pub type Rules = Arc<[Arc<Limited>]>;

/// A matching rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// Which rule; part of the counter's key.
    pub id: RuleId,
    /// The hash of its id: with that of their home, what counters are found by.
    pub id_hash: u64,
    /// The policy it belongs to.
    pub name: Name,
    /// How it counts.
    pub meter: Meter,
    /// Whether it refuses.
    pub mode: Mode,
    /// What one counter is for.
    pub scope: Scope,
    /// Whether the charge must be durable before the answer.
    pub durable: bool,
    /// What to answer while the store cannot be reached.
    pub on_store_error: OnStoreError,
    /// What becomes of an estimate that was reserved and never settled.
    pub on_expiry: OnExpiry,
    /// The usual length of its period.
    pub window: Micros,
    /// It is for one very subject, so that its id may tell whose it is.
    pub is_personal: bool,
}

const SHADOW: u8 = 1;
/// Only where an answer is kept: scripts have no use for it.
const PERSONAL: u8 = 2;

impl Limited {
    /// What operations need of a rule.
    pub fn new(rule: &Rule) -> Result<Limited, Invalid> {
        Ok(Limited {
            id: rule.id.clone(),
            id_hash: Limited::hash_of(rule.id.as_str()),
            name: rule.name.clone(),
            meter: rule.meter()?,
            mode: rule.mode,
            scope: rule.scope,
            durable: rule.durable,
            on_store_error: rule.on_store_error(),
            on_expiry: rule.on_expiry,
            window: rule.per.usual(),
            is_personal: rule.subject.as_ref().is_some_and(|subject| !subject.is_glob()),
        })
    }

    /// A rule with this meter that enforces, of the default policy.
    pub fn enforced(id: RuleId, meter: Meter) -> Limited {
        let (mode, scope, on_store_error, on_expiry) = (Mode::default(), Scope::default(), OnStoreError::default(), OnExpiry::default());
        let window = Micros::saturating(1_000_000);
        let id_hash = Limited::hash_of(id.as_str());
        let name = Name::default_name();
        Limited { id, id_hash, name, meter, mode, scope, durable: false, on_store_error, on_expiry, window, is_personal: false }
    }

    /// The hash of a rule's id.
    pub(crate) fn hash_of(id: &str) -> u64 {
        xxh3_64(id.as_bytes())
    }

    /// Whether it counts leases and not charges.
    pub fn is_lease(&self) -> bool {
        matches!(self.meter, Meter::Leases { .. })
    }

    /// What its record is found by on Redis.
    pub(crate) fn tag(&self) -> Tag {
        Tag::of(self.id_hash)
    }

    /// As scripts take it: tag and id, then what it computes with. Calendar windows are those around `about`.
    pub fn write(&self, out: &mut Vec<u8>, about: Micros) {
        out.extend_from_slice(&self.tag().bytes());
        write_text(out, self.id.as_str());
        self.write_meter(out, about, 0);
    }

    fn write_meter(&self, out: &mut Vec<u8>, about: Micros, flags: u8) {
        let (kind, ints) = self.meter.given(about);
        out.extend_from_slice(&[kind, flags | if self.mode == Mode::Shadow { SHADOW } else { 0 }]);
        for int in ints {
            out.extend_from_slice(&int.to_le_bytes());
        }
    }

    /// The rules of an answer that is kept: by the time it is replayed, today's may be others.
    pub fn write_all(rules: &[Arc<Limited>], about: Micros) -> Vec<u8> {
        let mut out = Vec::new();
        for rule in rules {
            write_text(&mut out, rule.id.as_str());
            write_text(&mut out, rule.name.as_str());
            rule.write_meter(&mut out, about, if rule.is_personal { PERSONAL } else { 0 });
            out.extend_from_slice(&rule.window.get().to_le_bytes());
        }
        out
    }

    /// Reads them back, as far as an answer needs them.
    pub fn read_all(mut rest: &[u8]) -> Option<Rules> {
        let mut rules = Vec::new();
        while !rest.is_empty() {
            let id = RuleId::new(take_text(&mut rest)?).ok()?;
            let name = Name::new(take_text(&mut rest)?).ok()?;
            let [kind, flags] = record::take(&mut rest)?;
            let mut ints = [0; 5];
            for int in &mut ints {
                *int = u64::from_le_bytes(record::take(&mut rest)?);
            }
            let meter = Meter::told(kind, ints)?;
            let window = record::take_micros(&mut rest)?;
            let mode = match (&meter, flags & SHADOW) {
                (Meter::Block, _) => Mode::Block,
                (_, 0) => Mode::Enforce,
                _ => Mode::Shadow,
            };
            let is_personal = flags & PERSONAL != 0;
            rules.push(Arc::new(Limited { name, mode, window, is_personal, ..Limited::enforced(id, meter) }));
        }
        Some(rules.into())
    }
}

/// Names are at most 64 bytes, so one byte tells their length.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("names are bounded to 64 bytes"));
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let [length] = record::take(rest)?;
    let (text, tail) = rest.split_at_checked(usize::from(length))?;
    *rest = tail;
    std::str::from_utf8(text).ok()
}
