//! What the books of a realm say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::answer::RealmEvent;
use super::commit::RealmLeg;
use crate::time::Time;
use crate::word::words;

/// What an owner has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmAccount {
    /// Whose.
    pub owner: String,
    /// By asset; those of which there is nothing are left out.
    pub assets: BTreeMap<String, RealmHaving>,
    /// When timers can be claimed again, and how often in a row they were.
    pub timers: BTreeMap<String, RealmNumber>,
    /// Effects that hold.
    pub effects: BTreeMap<String, RealmNumber>,
    /// Counters.
    pub counters: BTreeMap<String, RealmNumber>,
}

/// What there is of an asset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmHaving {
    /// All of it.
    pub balance: i64,
    /// What is not on hold.
    pub available: i64,
}

/// A number that may end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmNumber {
    /// The number.
    pub value: i64,
    /// When it ends, or can be claimed again; absent: it does not end.
    pub until: Option<Time>,
}

/// One commit of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmCommit {
    /// Its id.
    pub commit: String,
    /// Its number.
    pub seq: u64,
    /// When.
    pub at: Time,
    /// `play`, `commit`, `hold`, `capture`, `release` or `revert`.
    pub kind: String,
    /// Which play it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub play: Option<String>,
    /// Who played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Its idempotency key, of which its draws were made.
    pub key: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The commit that it undoes, or the hold that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// What moved.
    pub legs: Vec<RealmLeg>,
    /// What was drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<RealmDraw>,
}

/// A draw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmDraw {
    /// Its name.
    pub name: String,
    /// From this number.
    pub from: i64,
    /// To this number, both included.
    pub to: i64,
    /// What came.
    pub value: i64,
}

words! {
    /// A part of the events of a realm.
    RealmStream {
        /// Changes of currencies.
        #[default]
        Currency = "currency",
        /// Changes of items.
        Inventory = "inventory",
    }
}

/// Which events of a realm; from the first on by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RealmEventsRequest {
    /// Those of commits after this one.
    pub after: Option<u64>,
    /// Only what is to come, and then `after` has no meaning: for those who follow.
    pub now: bool,
    /// Only changes of currencies, or of items.
    pub stream: Option<RealmStream>,
    /// Of at most so many commits, 200 at most; 50 if absent.
    pub limit: Option<u32>,
}

impl RealmEventsRequest {
    /// Those of commits after this one; 0: from the first on.
    pub fn after(seq: u64) -> RealmEventsRequest {
        RealmEventsRequest { after: Some(seq), ..RealmEventsRequest::default() }
    }

    /// Only what is to come.
    pub fn now() -> RealmEventsRequest {
        RealmEventsRequest { now: true, ..RealmEventsRequest::default() }
    }

    /// Only these.
    #[must_use]
    pub fn stream(mut self, stream: RealmStream) -> RealmEventsRequest {
        self.stream = Some(stream);
        self
    }

    /// Of at most so many commits.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> RealmEventsRequest {
        self.limit = Some(limit);
        self
    }

    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let after = if self.now { Some("now".to_owned()) } else { self.after.map(|after| after.to_string()) };
        let after = after.map(|after| ("after", after));
        let stream = self.stream.as_ref().map(|stream| ("stream", stream.to_string()));
        let limit = self.limit.map(|limit| ("limit", limit.to_string()));
        after.into_iter().chain(stream).chain(limit).collect()
    }
}

/// A page of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmEventPage {
    /// In order.
    pub items: Vec<RealmEvent>,
    /// After which commit the next page begins: also when there is nothing new.
    pub after: u64,
    /// There is more already.
    pub more: bool,
}

words! {
    /// What became of a hold.
    HoldStatus {
        /// It is neither captured nor released, and its time is not over.
        #[default]
        Open = "open",
        /// It was taken.
        Captured = "captured",
        /// It is free again.
        Released = "released",
        /// Its time was over before.
        Expired = "expired",
    }
}

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmHold {
    /// Its id.
    pub hold: String,
    /// What became of it.
    pub status: HoldStatus,
    /// When it ends, or would have.
    pub until: Time,
    /// What is set aside, and for whom.
    pub legs: Vec<RealmLeg>,
}

/// What there is of every asset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmSupply {
    /// By asset.
    pub items: Vec<AssetSupply>,
}

/// What there is of an asset, and where it came from and went to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AssetSupply {
    /// The asset.
    pub asset: String,
    /// Minted, less burnt.
    pub supply: i64,
    /// What was minted.
    pub minted: i64,
    /// What was burnt.
    pub burnt: i64,
    /// What of it the realm itself has.
    pub house: i64,
    /// What each play minted.
    pub faucets: BTreeMap<String, i64>,
    /// What each play burnt.
    pub sinks: BTreeMap<String, i64>,
}

/// Whether the books add up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmAudit {
    /// Nothing is wrong.
    pub clean: bool,
    /// How many commits were read.
    pub commits: u64,
    /// How many accounts were computed again.
    pub accounts: u64,
    /// How many draws were made again.
    pub draws: u64,
    /// What is wrong, in words; at most a hundred.
    pub faults: Vec<String>,
}
