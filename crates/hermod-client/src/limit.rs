//! May this subject do this now?
//!
//! The verbs of `/v1/limit`; what they take and answer is in a file for each.

mod batch;
mod check;
mod durability;
mod give_back;
mod lease;
mod refused;
mod reserve;

use std::time::Duration;

use crate::call::random_key;
use crate::client::Client;
use crate::error::ClientError;

pub use batch::{BatchCheck, BatchProblem};
pub use check::{Attributes, CheckRequest, Checked, Considered, Ruled};
pub use durability::Durability;
pub use give_back::{Forgotten, RefundRequest, ResetRequest};
pub use lease::{AcquireRequest, LeaseRule, Leased};
pub use refused::RefusedSubject;
pub use reserve::{ReserveRequest, Reserved, SettleOutcome, Settled};

/// The verbs of `/v1/limit`.
///
/// Unlike other writes they send no idempotency key unless one is given: the server keeps an answer
/// for three days, which is long for a rate limit. Without a key a call is tried again only if doing
/// it twice is the same as doing it once, or if the request cannot have taken effect.
#[derive(Clone, Debug)]
pub struct Limit<'a> {
    client: &'a Client,
    key: Option<String>,
}

impl<'a> Limit<'a> {
    pub(crate) fn new(client: &'a Client) -> Limit<'a> {
        Limit { client, key: None }
    }

    /// Makes the next write answer once for all calls with this key. A batch has keys of its checks instead.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Limit<'a> {
        self.key = Some(key.into());
        self
    }

    /// Charges every rule if every rule admits it, else none.
    pub async fn check(&self, request: &CheckRequest) -> Result<Checked, ClientError> {
        self.client.charge(&["v1", "limit", "check"], self.key(), request.peek, request).await
    }

    /// Gives back to every rule that matches; never below nothing used.
    pub async fn refund(&self, request: &RefundRequest) -> Result<Checked, ClientError> {
        self.client.charge(&["v1", "limit", "refund"], self.key(), false, request).await
    }

    /// Forgets what a subject has used under the rules that match. Counters that all subjects share stay.
    pub async fn reset(&self, request: &ResetRequest) -> Result<Forgotten, ClientError> {
        self.client.charge(&["v1", "limit", "reset"], self.key(), true, request).await
    }

    /// Makes many independent checks, at most 1,000: each is charged or refused by itself. One answer
    /// for each, in their order.
    pub async fn batch(&self, checks: &[BatchCheck]) -> Result<Vec<Result<Checked, BatchProblem>>, ClientError> {
        let is_repeatable = checks.iter().all(BatchCheck::is_repeatable);
        let answers: batch::Answers = self.client.charge(&["v1", "limit", "batch"], None, is_repeatable, &batch::Batch { checks }).await?;
        Ok(answers.answers.into_iter().map(Into::into).collect())
    }

    /// Takes a lease, or says when one could be had.
    pub async fn acquire(&self, request: &AcquireRequest) -> Result<Leased, ClientError> {
        let mut request = request.clone();
        // Made up here and not by the server, so that the next try after a lost answer is the same lease.
        // With a key it is the server's to make up: the same key must come with the same body.
        if request.lease.is_none() && self.key.is_none() {
            request.lease = Some(random_key()?);
        }
        self.client.charge(&["v1", "limit", "acquire"], self.key(), true, &request).await
    }

    /// Keeps a lease for this long from now; as long as it was taken for if `ttl` is absent.
    pub async fn renew(&self, subject: &str, lease: &str, ttl: Option<Duration>) -> Result<Leased, ClientError> {
        self.client.charge(&["v1", "limit", "renew"], self.key(), true, &lease::Held { subject, lease, ttl }).await
    }

    /// Gives a lease back. After a lost answer and a second try it says that none was held.
    pub async fn release(&self, subject: &str, lease: &str) -> Result<Leased, ClientError> {
        self.client.charge(&["v1", "limit", "release"], self.key(), true, &lease::Held { subject, lease, ttl: None }).await
    }

    /// Charges an estimate as a check does; if it is admitted, it can be settled to what was really used.
    pub async fn reserve(&self, request: &ReserveRequest) -> Result<Reserved, ClientError> {
        self.client.charge(&["v1", "limit", "reserve"], self.key(), false, request).await
    }

    /// Settles a reservation to what was really used; as it was estimated if `actual` is absent. Doing it twice is
    /// doing it once.
    pub async fn commit(&self, reservation: &str, actual: Option<u64>) -> Result<Settled, ClientError> {
        self.client.charge(&["v1", "limit", "commit"], self.key(), true, &reserve::Settle { reservation, actual }).await
    }

    /// Settles a reservation to nothing: the estimate is given back.
    pub async fn cancel(&self, reservation: &str) -> Result<Settled, ClientError> {
        self.client.charge(&["v1", "limit", "cancel"], self.key(), true, &reserve::Settle { reservation, actual: None }).await
    }

    /// The subjects that this server refused most, at most `most` of them (1-100).
    pub async fn refused(&self, most: u32) -> Result<Vec<RefusedSubject>, ClientError> {
        let refused: refused::Refused = self.client.read(&["v1", "limit", "refused"], &[("limit", most.to_string())]).await?;
        Ok(refused.items)
    }

    fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}
