//! Commits that are no plays, holds, and their ends.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::play::RealmTerms;
use crate::time::{Time, exact, span};
use crate::word::words;

words! {
    /// What becomes of what its new owner has no room for.
    Overflow {
        /// All is refused.
        #[default]
        Reject = "reject",
        /// It stays where it was.
        Clamp = "clamp",
        /// It is burnt.
        Burn = "burn",
    }
}

/// So many of an asset from one owner to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmLeg {
    /// From whom; `@mint`, `@burn`, `@house` and `@escrow` are the realm's own.
    pub from: String,
    /// To whom.
    pub to: String,
    /// Of what.
    pub asset: String,
    /// How many.
    pub qty: u64,
    /// What becomes of what there is no room for; refused if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<Overflow>,
    /// The type of its events; `commit` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
}

impl RealmLeg {
    /// So many from one owner to another.
    pub fn new(from: impl Into<String>, to: impl Into<String>, asset: impl Into<String>, qty: u64) -> RealmLeg {
        RealmLeg { from: from.into(), to: to.into(), asset: asset.into(), qty, overflow: None, event: None }
    }

    /// With this done to what there is no room for.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> RealmLeg {
        self.overflow = Some(overflow);
        self
    }

    /// With events of this type.
    #[must_use]
    pub fn event(mut self, event: impl Into<String>) -> RealmLeg {
        self.event = Some(event.into());
        self
    }
}

/// Something that must be true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RealmCondition {
    /// A formula: `balance('111', 'ajo') >= 10`.
    #[serde(rename = "if")]
    pub formula: String,
    /// What is refused with otherwise; `condition` if absent.
    #[serde(rename = "else", skip_serializing_if = "Option::is_none")]
    pub or_else: Option<String>,
}

impl RealmCondition {
    /// This must be true.
    pub fn new(formula: impl Into<String>) -> RealmCondition {
        RealmCondition { formula: formula.into(), or_else: None }
    }

    /// Otherwise it is refused with this code.
    #[must_use]
    pub fn or_else(mut self, code: impl Into<String>) -> RealmCondition {
        self.or_else = Some(code.into());
        self
    }
}

words! {
    /// What becomes of an effect that is there already.
    EffectMerge {
        /// The new one takes its place.
        #[default]
        Replace = "replace",
        /// The values add up, and it ends with the later of both.
        Add = "add",
        /// The larger value stays, and it ends with the later of both.
        Max = "max",
        /// The new value, for so much longer.
        Extend = "extend",
    }
}

/// An effect to set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RealmEffect {
    /// The effect.
    pub name: String,
    /// Whose.
    pub of: String,
    /// Its value.
    pub value: i64,
    /// For how long: `10m`.
    #[serde(rename = "for")]
    pub span: String,
    /// What becomes of one that is there.
    pub merge: EffectMerge,
}

/// A timer to claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RealmClaim {
    /// The timer.
    pub timer: String,
    /// Whose.
    pub of: String,
}

/// What is done all or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CommitRequest {
    /// What must be true, in this order.
    #[serde(rename = "if", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<RealmCondition>,
    /// What moves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub legs: Vec<RealmLeg>,
    /// Holds that are captured in the same step: two of them are a trade.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capture: Vec<String>,
    /// Effects that are set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<RealmEffect>,
    /// Timers that are claimed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<RealmClaim>,
    /// Its key, and what else every change may say.
    #[serde(flatten)]
    pub terms: RealmTerms,
}

impl CommitRequest {
    /// These legs.
    pub fn new(legs: impl IntoIterator<Item = RealmLeg>) -> CommitRequest {
        CommitRequest { legs: legs.into_iter().collect(), ..CommitRequest::default() }
    }

    /// What two or more holds have set aside, each to whom it was meant for: a trade.
    pub fn trade<S: Into<String>>(holds: impl IntoIterator<Item = S>) -> CommitRequest {
        CommitRequest { capture: holds.into_iter().map(Into::into).collect(), ..CommitRequest::default() }
    }

    /// Only if this is true.
    #[must_use]
    pub fn only_if(mut self, condition: RealmCondition) -> CommitRequest {
        self.conditions.push(condition);
        self
    }

    /// On these terms.
    #[must_use]
    pub fn terms(mut self, terms: RealmTerms) -> CommitRequest {
        self.terms = terms;
        self
    }
}

/// What is set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HoldRequest {
    /// What, and for whom.
    pub legs: Vec<RealmLeg>,
    /// For how long.
    #[serde(rename = "in", skip_serializing_if = "Option::is_none", serialize_with = "span")]
    pub span: Option<Duration>,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "exact")]
    pub at: Option<Time>,
    /// Its key, and what else every change may say.
    #[serde(flatten)]
    pub terms: RealmTerms,
}

impl HoldRequest {
    /// These legs, for so long.
    pub fn new(legs: impl IntoIterator<Item = RealmLeg>, span: Duration) -> HoldRequest {
        HoldRequest { legs: legs.into_iter().collect(), span: Some(span), at: None, terms: RealmTerms::new() }
    }

    /// These legs, until then.
    pub fn until(legs: impl IntoIterator<Item = RealmLeg>, at: impl Into<Time>) -> HoldRequest {
        HoldRequest { legs: legs.into_iter().collect(), span: None, at: Some(at.into()), terms: RealmTerms::new() }
    }

    /// On these terms.
    #[must_use]
    pub fn terms(mut self, terms: RealmTerms) -> HoldRequest {
        self.terms = terms;
        self
    }
}

/// How much of a hold is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CaptureRequest {
    /// How much of each asset; all if absent, and what is not taken is free again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<BTreeMap<String, u64>>,
    /// Its key, and what else every change may say.
    #[serde(flatten)]
    pub terms: RealmTerms,
}

impl CaptureRequest {
    /// All of it.
    pub fn whole() -> CaptureRequest {
        CaptureRequest::default()
    }

    /// So much of this asset, and of others what is said of them.
    #[must_use]
    pub fn part(mut self, asset: impl Into<String>, qty: u64) -> CaptureRequest {
        self.part.get_or_insert_default().insert(asset.into(), qty);
        self
    }

    /// On these terms.
    #[must_use]
    pub fn terms(mut self, terms: RealmTerms) -> CaptureRequest {
        self.terms = terms;
        self
    }
}
