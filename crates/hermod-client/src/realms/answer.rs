//! What a realm answers to a play, a commit or a hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::commit::RealmLeg;
use crate::limit::Durability;
use crate::time::Time;
use crate::word::words;

words! {
    /// What came of it.
    RealmStatus {
        /// All of it was done.
        #[default]
        Done = "done",
        /// It was refused, and nothing was changed.
        Refused = "refused",
    }
}

/// What came of a play, a commit or a hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmAnswer {
    /// In one word.
    pub status: RealmStatus,
    /// The commit's id; absent in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Its number in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The hold's id, if one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// What whoever was touched has now, by owner and asset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balances: Option<BTreeMap<String, BTreeMap<String, i64>>>,
    /// What the play returns.
    #[serde(rename = "return", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub returns: BTreeMap<String, Value>,
    /// What came of the plays that followed from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<AlsoPlayed>,
    /// What changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<RealmEvent>>,
    /// What was drawn.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub draws: BTreeMap<String, i64>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// When to ask again, if time is all it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// What else there is to say of the refusal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, Value>,
    /// What the change survives; absent if nothing was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Whether this is an earlier answer to the same key.
    #[serde(default)]
    pub replayed: bool,
    /// Nothing was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// What moved: of a play if it was to be explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legs: Option<Vec<RealmLeg>>,
}

impl RealmAnswer {
    /// Whether it was done, or in a dry run would be.
    pub fn is_done(&self) -> bool {
        self.status == RealmStatus::Done
    }

    /// What somebody who was touched has now.
    pub fn balance(&self, owner: &str, asset: &str) -> Option<i64> {
        self.balances.as_ref()?.get(owner)?.get(asset).copied()
    }
}

/// What came of a play that followed from another, in the same commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AlsoPlayed {
    /// The play.
    pub play: String,
    /// In one word.
    pub status: RealmStatus,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// When to ask again, if time is all it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// What else there is to say of the refusal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, Value>,
}

/// What changed for one owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmEvent {
    /// The commit's number and the event's within it.
    pub id: String,
    /// Of this format.
    pub version: u8,
    /// Where the change comes from.
    #[serde(rename = "type")]
    pub kind: String,
    /// To whom.
    pub user_id: String,
    /// Where; `0` if that is not known.
    pub guild_id: String,
    /// How much of a currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<i64>,
    /// Of which currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asset: Option<String>,
    /// Of which item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// How many of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantity: Option<i64>,
    /// When.
    pub at: Time,
}

/// A play to try.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SimulateRequest {
    /// The play.
    pub play: String,
    /// Who plays.
    pub by: String,
    /// What it is given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Value>,
    /// How often, 100,000 at most; 10,000 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
}

impl SimulateRequest {
    /// Somebody plays this, without arguments.
    pub fn new(play: impl Into<String>, by: impl Into<String>) -> SimulateRequest {
        SimulateRequest { play: play.into(), by: by.into(), args: BTreeMap::new(), n: None }
    }

    /// With this argument.
    #[must_use]
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<Value>) -> SimulateRequest {
        self.args.insert(name.into(), value.into());
        self
    }

    /// So often.
    #[must_use]
    pub fn times(mut self, n: u64) -> SimulateRequest {
        self.n = Some(n);
        self
    }
}

/// What a play comes to over many runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmOutlook {
    /// How often it was run, each time with what is now.
    pub runs: u64,
    /// How often it was done.
    pub done: u64,
    /// How often it was refused, by the reason.
    pub refused: BTreeMap<String, u64>,
    /// What the player gains or loses, by asset.
    pub gains: BTreeMap<String, RealmSpread>,
}

/// How a gain is spread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmSpread {
    /// On average.
    pub mean: f64,
    /// The least.
    pub min: i64,
    /// Half of the runs gain no more than this.
    pub p50: i64,
    /// Nine of ten.
    pub p90: i64,
    /// 99 of a hundred.
    pub p99: i64,
    /// The most.
    pub max: i64,
}
