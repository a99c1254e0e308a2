//! What is done in a realm, and what its books say.

use std::time::Duration;

use reqwest::Method;
use serde::Serialize;

use super::Realms;
use super::answer::{RealmAnswer, RealmOutlook, SimulateRequest};
use super::board::{BoardRequest, RealmBoard};
use super::books::{RealmAccount, RealmAudit, RealmCommit, RealmEventPage, RealmEventsRequest, RealmHold, RealmSupply};
use super::commit::{CaptureRequest, CommitRequest, HoldRequest};
use super::play::{PlayRequest, RealmTerms};
use crate::call::random_key;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};
use crate::retry::Retry;

/// How long an audit may take: it reads a whole ledger. The server has a bound of its own.
const AUDIT_MAX: Duration = Duration::from_secs(600);

/// A refusal is an answer, too: it says its code, and when to ask again if time is all it takes.
impl Realms<'_> {
    /// Plays, in one atomic step: all of it is done, or it is refused and nothing is.
    pub async fn play(&self, realm: &str, play: &str, request: &PlayRequest) -> Result<RealmAnswer, ClientError> {
        self.change(&["v1", "realms", realm, "plays", play], request).await
    }

    /// Moves legs all or none, if the conditions hold.
    pub async fn commit(&self, realm: &str, request: &CommitRequest) -> Result<RealmAnswer, ClientError> {
        self.change(&["v1", "realms", realm, "commits"], request).await
    }

    /// Undoes a commit with another one that moves the same back. Once: it is refused as `reverted` afterwards.
    pub async fn revert(&self, realm: &str, commit: &str, terms: &RealmTerms) -> Result<RealmAnswer, ClientError> {
        self.change(&["v1", "realms", realm, "commits", commit, "revert"], terms).await
    }

    /// Sets legs aside until they are captured, released, or the time is over.
    pub async fn hold(&self, realm: &str, request: &HoldRequest) -> Result<RealmAnswer, ClientError> {
        self.change(&["v1", "realms", realm, "holds"], request).await
    }

    /// What became of a hold.
    pub async fn hold_state(&self, realm: &str, hold: &str) -> Result<RealmHold, ClientError> {
        self.client.read(&["v1", "realms", realm, "holds", hold], &[]).await
    }

    /// Takes what is on hold, or part of it; the rest is free again.
    pub async fn capture(&self, realm: &str, hold: &str, request: &CaptureRequest) -> Result<RealmAnswer, ClientError> {
        self.change(&["v1", "realms", realm, "holds", hold, "capture"], request).await
    }

    /// What is on hold is free again.
    pub async fn release(&self, realm: &str, hold: &str, terms: &RealmTerms) -> Result<RealmAnswer, ClientError> {
        self.change(&["v1", "realms", realm, "holds", hold, "release"], terms).await
    }

    /// Runs a play many times on a copy of what is now, and tells what it comes to. Nothing is changed.
    pub async fn simulate(&self, realm: &str, request: &SimulateRequest) -> Result<RealmOutlook, ClientError> {
        self.client.say(Method::POST, &["v1", "realms", realm, "simulate"], request).await
    }

    /// What an owner has.
    pub async fn account(&self, realm: &str, owner: &str) -> Result<RealmAccount, ClientError> {
        self.client.read(&["v1", "realms", realm, "accounts", owner], &[]).await
    }

    /// Who leads: the first ones, or those around an owner.
    pub async fn board(&self, realm: &str, asset: &str, request: &BoardRequest) -> Result<RealmBoard, ClientError> {
        self.client.read(&["v1", "realms", realm, "boards", asset], &request.query()).await
    }

    /// One page of the commits, the newest first.
    pub async fn ledger(&self, realm: &str, page: &PageRequest) -> Result<Page<RealmCommit>, ClientError> {
        self.client.page(&["v1", "realms", realm, "ledger"], page).await
    }

    /// One page of what changed, in order.
    pub async fn events(&self, realm: &str, request: &RealmEventsRequest) -> Result<RealmEventPage, ClientError> {
        self.client.read(&["v1", "realms", realm, "events"], &request.query()).await
    }

    /// What there is of each asset, its faucets and sinks.
    pub async fn supply(&self, realm: &str) -> Result<RealmSupply, ClientError> {
        self.client.read(&["v1", "realms", realm, "supply"], &[]).await
    }

    /// Computes every account and every draw again from the ledger. It may take ten minutes, or as long as the client
    /// waits for other calls if that is longer, and is not tried again.
    pub async fn audit(&self, realm: &str) -> Result<RealmAudit, ClientError> {
        let (deadline, try_timeout) = (self.client.deadline.max(AUDIT_MAX), self.client.try_timeout.max(AUDIT_MAX));
        // One that takes too long would do so again.
        let client = self.client.clone().with_deadline(deadline).with_try_timeout(try_timeout).with_retry(Retry::never());
        client.read(&["v1", "realms", realm, "audit"], &[]).await
    }

    /// Every change of a realm needs a key, also one that is never repeated. One in the body goes before it.
    async fn change(&self, path: &[&str], body: &impl Serialize) -> Result<RealmAnswer, ClientError> {
        let made_up = if self.key.is_none() { Some(random_key()?) } else { None };
        self.client.write(Method::POST, path, self.key.as_deref().or(made_up.as_deref()), body).await
    }
}
