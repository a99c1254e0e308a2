//! A typed async client for Hermod.
//!
//! A [`Client`] is a base address, perhaps an API key, and a policy for tries. It is cheap to clone
//! and meant to be shared. The API's nouns are its methods: [`Client::rules`], [`Client::limit`],
//! [`Client::queues`], [`Client::decks`], [`Client::realms`], [`Client::subjects`], [`Client::keys`], [`Client::spaces`],
//! [`Client::clock`]; each gives a handle whose methods are the verbs of that noun.
//!
//! ```no_run
//! # async fn example() -> Result<(), hermod_client::ClientError> {
//! use hermod_client::{CheckRequest, Client, RuleDraft};
//!
//! let client = Client::new("http://127.0.0.1:7700")?.with_key("hk_...");
//! client.rules().create(&RuleDraft::new("tasks/create", 3, "30s").name("burst")).await?;
//! let checked = client.limit().check(&CheckRequest::new("bot-7", "tasks/create")).await?;
//! if !checked.allowed {
//!     println!("ask again at {:?}", checked.retry_at);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A refusal is an answer (`allowed: false`), not an error. An error means that no answer was had,
//! and [`ClientError::is_retryable`] says whether asking again can help.
//!
//! **Tries.** A call is repeated only if the error is retryable and repeating is safe. Reads are.
//! Writes are because each carries an idempotency key, the same on every try: a random one, or the
//! caller's own through `idempotency_key` on the handle. See [`Retry`] for how often and how long.
//!
//! **In front of a service.** With the feature `tower`, `layer::RateLimit` puts a check before a route.
//!
//! The crate stands alone: it shares no types with the server, so that it stays light for others to
//! build. Fields it does not know are ignored, so that an older client reads a newer server.

mod call;
mod client;
mod clock;
mod decks;
mod error;
mod events;
mod health;
mod keys;
#[cfg(feature = "tower")]
pub mod layer;
mod limit;
mod page;
mod queues;
mod realms;
mod retry;
mod rules;
mod spaces;
mod sse;
mod subjects;
mod time;
#[cfg(feature = "tls")]
mod tls;
mod word;

pub use client::Client;
pub use clock::{Clock, ClockTime};
pub use decks::{
    Cap, CapKind, Deck, DeckDraft, Decks, Message, MessageDraft, Messages, PickCandidate, PickHistory, PickOutcome, PickReason,
    PickRequest, PickStatus, Picked, PickedMessage, QuietHours, SentMessage, SettledPick, SimulatedPick, Strategy, To,
};
pub use error::{ClientError, Problem};
pub use events::{Event, EventPage, EventStream, EventType, Events, EventsRequest, Followed};
pub use health::Health;
pub use keys::{Key, KeyDraft, Keys, Scope};
pub use limit::{
    AcquireRequest, Attributes, BatchCheck, BatchProblem, CheckRequest, Checked, Considered, Durability, Forgotten, LeaseRule, Leased,
    Limit, RefundRequest, RefusedSubject, ReserveRequest, Reserved, ResetRequest, Ruled, SettleOutcome, Settled,
};
pub use page::{Page, PageRequest};
pub use queues::{
    Backoff, Bulk, BulkChange, ClaimRequest, Claimed, Delivery, DeliveryFilter, DeliveryState, DeliveryStream, Dst, Due, EditOutcome,
    Edited, Held, HeldOutcome, IfExists, NewDelivery, OnExhausted, OnFailure, Overdue, OwnerChange, OwnerReason, Push, PushOutcome, Pushed,
    Queue, QueueDraft, QueueMode, QueueOrder, QueueStats, Queues, Recipient, RecipientHead, RecipientState, RegisteredWorker, Relayed,
    Schedule, ScheduleDraft, Schedules, SettledDelivery, Webhook, Which, Worker, WorkerState, Workers,
};
pub use realms::{
    AlsoPlayed, AssetSupply, BoardRequest, CaptureRequest, CommitRequest, EffectMerge, HoldRequest, HoldStatus, Overflow, PlayRequest,
    Realm, RealmAccount, RealmAnswer, RealmAudit, RealmBoard, RealmClaim, RealmCommit, RealmCondition, RealmDraw, RealmEffect, RealmEvent,
    RealmEventPage, RealmEventStream, RealmEventsRequest, RealmFollowed, RealmHaving, RealmHold, RealmLeg, RealmNumber, RealmOutlook,
    RealmRank, RealmSpread, RealmStatus, RealmStream, RealmSummary, RealmSupply, RealmTerms, Realms, SavedRealm, SimulateRequest,
};
pub use retry::Retry;
pub use rules::{Algorithm, OnExpiry, OnStoreError, Rule, RuleDraft, RuleMode, RuleScope, Rules};
pub use spaces::{Space, Spaces};
pub use subjects::{Profile, Subjects};
pub use time::Time;
