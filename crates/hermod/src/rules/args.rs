//! A rule as flags.

use clap::Args;
use hermod_client::{Algorithm, OnExpiry, OnStoreError, RuleDraft, RuleMode, RuleScope};

/// A flag per field. Words are plain text here: the server knows its own, and names them if one is wrong.
#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// The actions it limits: tasks/create, or a glob such as 'tasks/*'.
    #[arg(long)]
    action: String,
    /// How many per period; for concurrency, how many at once.
    #[arg(long, value_name = "N")]
    limit: u64,
    /// The period: 30s, 5m, second, minute, hour, day, or a calendar window such as
    /// day@Europe/Berlin; for concurrency, the longest lease.
    #[arg(long, value_name = "PERIOD")]
    per: String,
    /// The policy it belongs to.
    #[arg(long, default_value = "default")]
    name: String,
    /// Whom it is for: exact, or a glob such as 'vip:*'; everyone if absent.
    #[arg(long)]
    subject: Option<String>,
    /// Only where this CEL expression over subject, action, cost and attributes is true.
    #[arg(long, value_name = "CEL")]
    when: Option<String>,
    /// How it is counted: sliding_window, sliding_log, fixed_window, token_bucket, leaky_bucket or
    /// concurrency; if absent sliding_window, and fixed_window where the period is a calendar window.
    #[arg(long)]
    algorithm: Option<String>,
    /// The most that can be taken at once from a bucket; the limit if absent.
    #[arg(long, value_name = "N")]
    burst: Option<u64>,
    /// How many beyond the burst of a leaky_bucket are let in to wait their turn.
    #[arg(long, value_name = "N")]
    queue: Option<u64>,
    /// Estimate a sliding_window from two counters: less memory, up to twice the limit in the worst case.
    #[arg(long)]
    approximate: bool,
    /// What one counter is for: subject (each has its own, the default) or global.
    #[arg(long)]
    scope: Option<String>,
    /// enforce (the default), shadow (count and report only) or block (always refuse).
    #[arg(long)]
    mode: Option<String>,
    /// Answer only when the charge is on disk.
    #[arg(long)]
    durable: bool,
    /// What to answer while the store cannot be reached: open, closed or local; if absent open, and
    /// closed for a durable rule.
    #[arg(long, value_name = "POLICY")]
    on_store_error: Option<String>,
    /// What becomes of an estimate that was reserved and never settled: keep or refund; keep if absent.
    #[arg(long, value_name = "POLICY")]
    on_expiry: Option<String>,
}

impl RuleArgs {
    pub(super) fn draft(&self) -> RuleDraft {
        let mut draft = RuleDraft::new(&self.action, self.limit, &self.per).name(&self.name);
        draft.subject = self.subject.clone();
        draft.when = self.when.clone();
        draft.algorithm = self.algorithm.clone().map(Algorithm::from);
        draft.burst = self.burst;
        draft.queue = self.queue;
        draft.approximate = self.approximate;
        draft.scope = self.scope.clone().map(RuleScope::from);
        draft.mode = self.mode.clone().map(RuleMode::from);
        draft.durable = self.durable;
        draft.on_store_error = self.on_store_error.clone().map(OnStoreError::from);
        draft.on_expiry = self.on_expiry.clone().map(OnExpiry::from);
        draft
    }
}
