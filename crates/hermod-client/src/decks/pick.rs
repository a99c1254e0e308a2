//! Picks: which message a subject gets next, and why there is none.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limit::Durability;
use crate::time::{Time, span};
use crate::word::words;

words! {
    /// What a pick came to.
    PickStatus {
        /// A message was picked.
        #[default]
        Picked = "picked",
        /// There is none; the reason says why.
        None = "none",
        /// Nothing was changed; these would be the next.
        Simulated = "simulated",
    }
}

words! {
    /// Why nothing was picked.
    PickReason {
        /// The deck has nothing for the subject.
        #[default]
        NoMessages = "no_messages",
        /// All messages were sent as often as they may be.
        MessageCap = "message_cap",
        /// The subject got as many as it may.
        SubjectCap = "subject_cap",
        /// It is quiet.
        Quiet = "quiet",
        /// The subject is muted.
        Muted = "muted",
        /// Too many picks of the subject are not settled yet.
        Unsettled = "unsettled",
    }
}

words! {
    /// What became of a reserved pick.
    PickOutcome {
        /// It was sent.
        #[default]
        Acked = "acked",
        /// It was given back.
        Nacked = "nacked",
        /// It was not settled in time, and given back.
        Expired = "expired",
    }
}

/// Which message should this subject get next?
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PickRequest {
    /// For whom.
    pub subject: String,
    /// `reserve`: it is to be acknowledged; else it counts as sent at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
    /// For how long it is reserved.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "span")]
    pub ttl: Option<Duration>,
    /// Says what would be picked, and changes nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Lists what becomes of every candidate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
    /// Says what the next so many picks would be, and changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulate: Option<u64>,
}

impl PickRequest {
    /// One that counts as sent at once.
    pub fn new(subject: impl Into<String>) -> PickRequest {
        PickRequest { subject: subject.into(), mode: None, ttl: None, dry_run: false, explain: false, simulate: None }
    }

    /// One that is to be acknowledged within this time; else it is given back.
    #[must_use]
    pub fn reserve(mut self, ttl: Option<Duration>) -> PickRequest {
        (self.mode, self.ttl) = (Some("reserve"), ttl);
        self
    }

    /// Changes nothing.
    #[must_use]
    pub fn dry_run(mut self) -> PickRequest {
        self.dry_run = true;
        self
    }

    /// With what becomes of every candidate.
    #[must_use]
    pub fn explain(mut self) -> PickRequest {
        self.explain = true;
        self
    }

    /// What the next so many would be; 100 at most. Changes nothing.
    #[must_use]
    pub fn simulate(mut self, count: u64) -> PickRequest {
        self.simulate = Some(count);
        self
    }
}

/// A message that was picked, or why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Picked {
    /// Which of them.
    pub status: PickStatus,
    /// The pick's id, to settle it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pick: Option<String>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<PickedMessage>,
    /// When it was picked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picked_at: Option<Time>,
    /// When it is given back, unless it is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// Why there is none; of a simulation, why there are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<PickReason>,
    /// When something will be allowed, if nothing changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// What the change survives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Whether this is an earlier answer to the same idempotency key.
    #[serde(default)]
    pub replayed: bool,
    /// What became of every candidate, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<PickCandidate>,
    /// How many candidates are not listed, as there are too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
    /// The next picks of a simulation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub picks: Vec<SimulatedPick>,
}

/// The message of a pick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PickedMessage {
    /// Its id.
    pub id: String,
    /// What it says; null if it was deleted since.
    #[serde(default)]
    pub body: Value,
    /// What a subject can opt out of.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// What became of one candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PickCandidate {
    /// The message's id.
    pub id: String,
    /// In one word: `allowed`, or why not.
    pub verdict: String,
    /// When that may change by itself.
    #[serde(default)]
    pub until: Option<Time>,
    /// When the subject got it last, if that is known.
    #[serde(default)]
    pub last_sent_at: Option<Time>,
}

/// One pick of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SimulatedPick {
    /// When.
    pub at: Time,
    /// The message's id.
    pub id: String,
}

/// What became of a pick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SettledPick {
    /// What.
    pub outcome: PickOutcome,
    /// The pick's id.
    pub pick: String,
    /// Whether this call settled it.
    pub settled: bool,
    /// What the change survives; absent if nothing was changed.
    #[serde(default)]
    pub durability: Option<Durability>,
    /// Whether this is an earlier answer to the same idempotency key.
    #[serde(default)]
    pub replayed: bool,
}

/// What a subject was sent of a deck.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PickHistory {
    /// How many picks there were.
    pub picks: u64,
    /// What was sent, newest first.
    pub items: Vec<SentMessage>,
    /// How many messages were sent so long ago that no more is known of it.
    pub older: u64,
    /// How many picks are not settled yet.
    pub open: u64,
    /// When the subject's cap allows the next one; absent: now.
    #[serde(default)]
    pub subject_cap_until: Option<Time>,
}

/// One message that was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SentMessage {
    /// The message's id; absent if it was deleted, or is for others by now.
    pub id: Option<String>,
    /// When it was picked last.
    pub sent_at: Time,
}
