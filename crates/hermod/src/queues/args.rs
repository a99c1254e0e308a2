//! A queue as flags.

use clap::Args;
use hermod_client::{Backoff, OnExhausted, OnFailure, Overdue, Push, QueueDraft, QueueMode, QueueOrder, Webhook};

pub(super) const HELP: &str = "\
What is left out has its default, also where the queue is there already. Only a webhook's secrets stay as
they are stored; a new webhook without one is given a secret, which is printed this once.";

/// A flag per field. Words are plain text here: the server knows its own, and names them if one is wrong.
#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    /// shared (any consumer has any delivery, the default) or sticky (each recipient has its worker).
    #[arg(long)]
    mode: Option<String>,
    /// What is kept in order: recipient (the deliveries of each, the default) or total (all).
    #[arg(long)]
    order: Option<String>,
    /// How long a delivery is held by whoever claimed it; 30s if absent.
    #[arg(long, value_name = "TIME")]
    lease: Option<String>,
    /// How long a worker lives without a heartbeat; 15s if absent.
    #[arg(long, value_name = "TIME")]
    worker_ttl: Option<String>,
    /// How long a recipient of a sticky queue keeps its worker when there is nothing for it: 24h.
    #[arg(long)]
    idle_after: Option<String>,
    /// How often a delivery is tried; 5 if absent.
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// The first pause between attempts; 1s if absent.
    #[arg(long, value_name = "TIME")]
    backoff_first: Option<String>,
    /// By how much each pause is longer than the last; 2 if absent.
    #[arg(long, value_name = "N")]
    backoff_factor: Option<f64>,
    /// The longest pause; 10m if absent.
    #[arg(long, value_name = "TIME")]
    backoff_max: Option<String>,
    /// Which share of a pause may be taken off it by chance; 0.2 if absent.
    #[arg(long, value_name = "SHARE")]
    backoff_jitter: Option<f64>,
    /// What becomes of a delivery after its last attempt: dead (kept, the default) or drop.
    #[arg(long, value_name = "WHAT")]
    on_exhausted: Option<String>,
    /// Whether a delivery that failed makes its recipient's next ones wait: block (the default) or skip.
    #[arg(long, value_name = "WHAT")]
    on_failure: Option<String>,
    /// Drop deliveries that are later than this; if absent they go out, however late.
    #[arg(long, value_name = "TIME")]
    drop_after: Option<String>,
    /// How many overdue deliveries go out each second; as fast as they are claimed if absent.
    #[arg(long, value_name = "N")]
    catch_up_per_second: Option<u32>,
    /// The largest payload in bytes; 262144 if absent.
    #[arg(long, value_name = "BYTES")]
    max_payload: Option<u32>,
    /// The server prints each delivery.
    #[arg(long, conflicts_with = "webhook")]
    log: bool,
    /// The server sends each delivery there.
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// What requests are signed with, whsec_...; a new one and the old one, with a comma, to change it.
    #[arg(long, value_name = "SECRET", requires = "webhook", value_delimiter = ',', env = "HERMOD_WEBHOOK_SECRET", hide_env_values = true)]
    secret: Vec<String>,
    /// How many requests may be under way; 8 if absent.
    #[arg(long, value_name = "N", requires = "webhook")]
    webhook_concurrency: Option<u32>,
    /// How long a request may take; 10s if absent.
    #[arg(long, value_name = "TIME", requires = "webhook")]
    webhook_timeout: Option<String>,
}

impl QueueArgs {
    pub(super) fn has_secret(&self) -> bool {
        !self.secret.is_empty()
    }

    pub(super) fn draft(&self) -> QueueDraft {
        let mut draft = QueueDraft::new();
        draft.mode = self.mode.clone().map(QueueMode::from);
        draft.order = self.order.clone().map(QueueOrder::from);
        draft.lease = self.lease.clone();
        draft.worker_ttl = self.worker_ttl.clone();
        draft.idle_after = self.idle_after.clone();
        draft.max_attempts = self.max_attempts;
        draft.backoff = Some(Backoff {
            first: self.backoff_first.clone(),
            factor: self.backoff_factor,
            max: self.backoff_max.clone(),
            jitter: self.backoff_jitter,
        });
        draft.on_exhausted = self.on_exhausted.clone().map(OnExhausted::from);
        draft.on_failure = self.on_failure.clone().map(OnFailure::from);
        draft.overdue = self.drop_after.clone().map(Overdue::DropAfter);
        draft.catch_up_per_second = self.catch_up_per_second;
        draft.max_payload = self.max_payload;
        draft.push = self.push();
        draft
    }

    fn push(&self) -> Option<Push> {
        let Some(url) = &self.webhook else { return self.log.then(Push::log) };
        let mut webhook = Webhook::new(url);
        match self.secret.as_slice() {
            [one] => webhook.secret = Some(one.clone()),
            several => webhook.secrets = several.to_vec(),
        }
        webhook.concurrency = self.webhook_concurrency;
        webhook.timeout = self.webhook_timeout.clone();
        Some(Push::webhook(webhook))
    }
}
