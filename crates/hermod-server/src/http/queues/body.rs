//! A queue as it is sent.

use std::fmt;

use hermod_core::Invalid;
use hermod_core::queue::Secret;
use serde::Deserialize;
use serde_json::Number;
use utoipa::ToSchema;

use crate::app::{BackoffDraft, PushDraft, QueueDraft};

/// A queue, to be saved. What is absent has its default.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueBody {
    /// The path's, if it is there.
    pub(super) queue: Option<String>,
    /// shared (the default): any consumer has any delivery; sticky: each recipient has its worker.
    mode: Option<String>,
    /// recipient (the default): the deliveries of each are in order; total: all are.
    order: Option<String>,
    /// How long a delivery is held by whoever claimed it; 30s if absent, 100ms to 12h.
    #[schema(example = "30s")]
    lease: Option<String>,
    /// How long a worker lives without a heartbeat; 15s if absent, 1s to 1h.
    worker_ttl: Option<String>,
    /// How long a recipient of a sticky queue keeps its worker when there is nothing for it; 24h if absent, 1s to 366days.
    idle_after: Option<String>,
    /// How often a delivery is tried; 5 if absent.
    #[schema(minimum = 1, maximum = 100)]
    max_attempts: Option<u32>,
    /// The pauses between attempts.
    backoff: Option<BackoffBody>,
    /// dead (the default): a delivery is kept after its last attempt; drop: it is forgotten.
    on_exhausted: Option<String>,
    /// block (the default): the recipient's next deliveries wait for one that failed; skip: they pass.
    on_failure: Option<String>,
    /// deliver (the default), or after which time a late delivery is dropped.
    overdue: Option<OverdueBody>,
    /// How many overdue deliveries go out each second; as fast as they are claimed if absent.
    #[schema(minimum = 1)]
    catch_up_per_second: Option<u32>,
    /// The largest payload in bytes; 262144 if absent, which is also the most.
    #[schema(minimum = 1, maximum = 262144)]
    max_payload: Option<u32>,
    /// How the server itself consumes it; absent if others claim.
    push: Option<PushBody>,
    /// Why the webhook is switched off. Without it, saving a queue switches its webhook on again.
    disabled: Option<String>,
    /// Numbered by the server. It may stand here, so that what was read can be sent back.
    #[serde(rename = "version")]
    _version: Option<u64>,
}

/// The pauses between attempts: `first`, then each `factor` times the last, up to `max`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackoffBody {
    /// 1s if absent.
    #[schema(example = "1s")]
    first: Option<String>,
    /// 2 if absent, 1 to 100, with up to three decimals.
    #[schema(value_type = Option<f64>, example = 2.0)]
    factor: Option<Number>,
    /// 10m if absent, at most 30days.
    max: Option<String>,
    /// Which share of a pause may be taken off it by chance: 0.2 if absent, 0 to 1, with up to three decimals.
    #[schema(value_type = Option<f64>, example = 0.2)]
    jitter: Option<Number>,
}

/// What becomes of late deliveries: `"deliver"`, or `{"drop_after": "1h"}`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "it is neither, expected \"deliver\" or an object with drop_after")]
pub(crate) enum OverdueBody {
    Word(String),
    Drop(DropAfter),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DropAfter {
    /// How late is too late.
    #[schema(example = "1h")]
    drop_after: String,
}

/// How the server itself consumes a queue: one of the two.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PushBody {
    /// It prints each delivery.
    log: Option<bool>,
    /// It sends each delivery there.
    webhook: Option<WebhookBody>,
}

/// Where deliveries are sent, signed as Standard Webhooks has it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookBody {
    /// An http or https address.
    #[schema(example = "https://example.com/hook")]
    url: String,
    /// `whsec_` and the base64 of 24 to 64 bytes. If absent what is stored stays; if nothing is, one is
    /// made up and shown once.
    #[schema(value_type = Option<String>)]
    secret: Option<Hidden>,
    /// Instead of `secret`, while a new one takes the old one's place: the new one and the old one.
    #[schema(value_type = Option<Vec<String>>)]
    secrets: Option<Vec<Hidden>>,
    /// How many requests may be under way; 8 if absent.
    #[schema(minimum = 1, maximum = 64)]
    concurrency: Option<u32>,
    /// How long a request may take: 10s if absent, 1s to 30s, and shorter than the lease.
    timeout: Option<String>,
}

/// A text that no log shows.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Hidden(String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hidden")
    }
}

impl QueueBody {
    pub(super) fn draft(&self, queue: String) -> Result<QueueDraft, Invalid> {
        let drop_after = match &self.overdue {
            None => None,
            Some(OverdueBody::Word(word)) if word == "deliver" => None,
            Some(OverdueBody::Word(_)) => return Err(Invalid::new("overdue", r#"must be "deliver" or {"drop_after": "1h"}"#)),
            Some(OverdueBody::Drop(DropAfter { drop_after })) => Some(drop_after.clone()),
        };
        let number = |number: &Option<Number>| number.as_ref().map(Number::to_string);
        let backoff = self.backoff.as_ref().map_or_else(BackoffDraft::default, |backoff| BackoffDraft {
            first: backoff.first.clone(),
            factor: number(&backoff.factor),
            max: backoff.max.clone(),
            jitter: number(&backoff.jitter),
        });
        Ok(QueueDraft {
            queue,
            mode: self.mode.clone(),
            order: self.order.clone(),
            lease: self.lease.clone(),
            worker_ttl: self.worker_ttl.clone(),
            idle_after: self.idle_after.clone(),
            max_attempts: self.max_attempts,
            backoff,
            on_exhausted: self.on_exhausted.clone(),
            on_failure: self.on_failure.clone(),
            drop_after,
            catch_up_per_second: self.catch_up_per_second,
            max_payload: self.max_payload,
            push: self.push.as_ref().map(PushBody::draft).transpose()?,
            disabled: self.disabled.clone(),
        })
    }
}

impl PushBody {
    fn draft(&self) -> Result<PushDraft, Invalid> {
        match (self.log, &self.webhook) {
            (Some(true), None) => Ok(PushDraft::Log),
            (None | Some(false), Some(webhook)) => Ok(PushDraft::Webhook {
                url: webhook.url.clone(),
                secrets: webhook.secrets()?,
                concurrency: webhook.concurrency,
                timeout: webhook.timeout.clone(),
            }),
            _ => Err(Invalid::new("push", r#"must be {"log": true} or {"webhook": {...}}, or absent"#)),
        }
    }
}

impl WebhookBody {
    fn secrets(&self) -> Result<Vec<Secret>, Invalid> {
        match (&self.secret, &self.secrets) {
            (Some(_), Some(_)) => Err(Invalid::new("push.webhook.secret", "must be absent where secrets are given")),
            (Some(secret), None) => Ok(vec![Secret::new(&secret.0)?]),
            (None, Some(secrets)) if secrets.is_empty() => {
                Err(Invalid::new("push.webhook.secrets", "must be one or two; leave the field out to keep what is stored"))
            }
            (None, secrets) => {
                let read = |secret: &Hidden| Secret::new(&secret.0).map_err(|fault| Invalid::new("push.webhook.secrets", fault.reason));
                secrets.iter().flatten().map(read).collect()
            }
        }
    }
}
