//! A queue as flags.

use std::env::VarError;

use anyhow::bail;
use clap::Args;
use hermod_client::{Backoff, OnExhausted, OnFailure, Overdue, Push, QueueDraft, QueueMode, QueueOrder, Webhook};

pub(super) const HELP: &str = "\
What is left out has its default, also where the queue is there already. Only a webhook's secrets stay as
they are stored; a new webhook without one is given a secret, which is printed this once.";

/// Where secrets come from that no flag gives. Not by clap, for which a variable is as good as the flag: one that is
/// exported would then require a webhook of every queue.
pub(crate) const SECRET_VARIABLE: &str = "HERMOD_WEBHOOK_SECRET";

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
    /// What requests are signed with, whsec_...; a new one and the old one, with a comma, to change it. If absent,
    /// what HERMOD_WEBHOOK_SECRET says.
    #[arg(long, value_name = "SECRET", requires = "webhook", value_delimiter = ',')]
    secret: Vec<String>,
    /// How many requests may be under way; 8 if absent.
    #[arg(long, value_name = "N", requires = "webhook")]
    webhook_concurrency: Option<u32>,
    /// How long a request may take; 10s if absent.
    #[arg(long, value_name = "TIME", requires = "webhook")]
    webhook_timeout: Option<String>,
}

impl QueueArgs {
    /// What the variable says, where it matters; an empty one says nothing.
    pub(super) fn secret_variable(&self) -> anyhow::Result<Option<String>> {
        match std::env::var(SECRET_VARIABLE) {
            Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
            Err(VarError::NotUnicode(_)) if self.webhook.is_some() => bail!("{SECRET_VARIABLE} is not text"),
            Err(_) => Ok(None),
        }
    }

    /// The queue, with the secrets of the variable where flags give none.
    pub(super) fn draft(&self, variable: Option<&str>) -> QueueDraft {
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
        draft.push = self.push(variable);
        draft
    }

    fn push(&self, variable: Option<&str>) -> Option<Push> {
        let Some(url) = &self.webhook else { return self.log.then(Push::log) };
        let mut webhook = Webhook::new(url);
        let secrets = match (self.secret.as_slice(), variable) {
            ([], Some(variable)) => variable.split(',').map(str::to_owned).collect(),
            (given, _) => given.to_vec(),
        };
        match secrets.as_slice() {
            [one] => webhook.secret = Some(one.clone()),
            _ => webhook.secrets = secrets,
        }
        webhook.concurrency = self.webhook_concurrency;
        webhook.timeout = self.webhook_timeout.clone();
        Some(Push::webhook(webhook))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        queue: QueueArgs,
    }

    #[test]
    fn a_secret_in_the_environment_is_used_where_a_webhook_is_and_no_secret_is_given() {
        for (line, variable, secret, secrets) in [
            ("put --webhook https://h", None, None, vec![]),
            ("put --webhook https://h", Some("whsec_a"), Some("whsec_a"), vec![]),
            ("put --webhook https://h", Some("whsec_a,whsec_b"), None, vec!["whsec_a", "whsec_b"]),
            ("put --webhook https://h --secret whsec_c", Some("whsec_a"), Some("whsec_c"), vec![]),
        ] {
            let draft = Line::try_parse_from(line.split(' ')).unwrap().queue.draft(variable);
            let webhook = draft.push.unwrap().webhook.unwrap();
            assert_eq!(webhook.secret.as_deref(), secret, "{line} {variable:?}");
            assert_eq!(webhook.secrets, secrets, "{line} {variable:?}");
        }
        let plain = Line::try_parse_from(["put", "--lease", "1m"]).unwrap().queue;
        assert_eq!(plain.draft(Some("whsec_a")).push, None);
        assert!(Line::try_parse_from(["put", "--secret", "whsec_a"]).is_err(), "a flag without a webhook is a mistake");
    }
}
