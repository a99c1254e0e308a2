//! Many who push and many who claim and ack, all of it written into a ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_tests::ledger::Ledger;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{epoch_ms, held};
use crate::http::site::Caller;

/// So long those rest who are not answered and go on.
const PAUSE: Duration = Duration::from_millis(20);
/// So often those who are patient are not answered when all should be well again: what was under way on a connection
/// that hangs takes its time to fail.
const UNANSWERED_MAX: u32 = 3;

/// A worker of which so long nothing was heard may be taken for dead: its time is 2 s at least.
const SILENT_US: u64 = 1_500_000;

/// Those who push and claim, until they are told to stop. What is not answered they try no more.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    pub(super) ledger: Arc<Ledger>,
    next: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    /// They go on when they are not answered.
    is_patient: bool,
    /// How many acks were answered.
    pub(super) acked: Arc<AtomicU64>,
    /// How many pushes were answered.
    pub(super) pushed: Arc<AtomicU64>,
}

impl Load {
    /// The same ledger, for those who come after a stop.
    pub(super) fn again(&self) -> Load {
        Load { stop: Arc::default(), ..self.clone() }
    }

    /// Those who go on though they are not answered.
    pub(super) fn patient(self) -> Load {
        Load { is_patient: true, ..self }
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Whether to go on after something that was answered or not.
    async fn goes_on(&self, is_answered: bool) -> bool {
        if !is_answered && self.is_patient {
            tokio::time::sleep(PAUSE).await;
        }
        (is_answered || self.is_patient) && !self.stop.load(Ordering::SeqCst)
    }

    /// Pushes one, due in so many milliseconds. Whether that was answered.
    pub(super) async fn push(&self, team: &Caller, queue: &str, recipients: u64, delay_ms: u64) -> Result<bool> {
        let n = self.next.fetch_add(1, Ordering::SeqCst);
        let to = format!("r{}", n % recipients);
        self.ledger.pushing(n, Some(&to));
        let body = json!({"payload": n, "to": to, "in": format!("{delay_ms}ms")});
        let Ok(reply) = team.post(&format!("/v1/queues/{queue}/deliveries"), &body).await else { return Ok(false) };
        if reply.status >= 500 {
            return Ok(false);
        }
        let pushed = reply.expect(201)?;
        self.ledger.pushed(n, pushed["id"].as_str().context("an id")?, epoch_ms(&pushed["due"])?);
        self.pushed.fetch_add(1, Ordering::SeqCst);
        Ok(true)
    }

    /// Claims up to `count` and acks them together. How many were handed out; none if there was no answer.
    pub(super) async fn work(&self, team: &Caller, queue: &str, count: u64, wait_ms: u64) -> Result<Option<usize>> {
        self.work_as(team, queue, &json!({"count": count, "wait_ms": wait_ms})).await
    }

    /// The same, as whoever it says; none also if that worker must register again.
    pub(super) async fn work_as(&self, team: &Caller, queue: &str, body: &Value) -> Result<Option<usize>> {
        let asked = self.ledger.now();
        let Ok(reply) = team.post(&format!("/v1/queues/{queue}/claim"), body).await else { return Ok(None) };
        if reply.status >= 500 || reply.status == 409 {
            return Ok(None);
        }
        let claimed = reply.expect(200)?;
        let deliveries = claimed["deliveries"].as_array().context("a list")?;
        let mut tokens = Vec::with_capacity(deliveries.len());
        for one in deliveries {
            let (n, token) = (one["payload"].as_u64().context("a number")?, one["token"].as_u64().context("a token")?);
            let (due, until) = (epoch_ms(&one["due"])?, epoch_ms(&one["lease_until"])?);
            self.ledger.handed(n, one["id"].as_str().context("an id")?, token, due, until, asked)?;
            tokens.push((n, token));
        }
        let heard = body.get("worker").map(|_| asked);
        if deliveries.is_empty() || !self.ack(team, queue, deliveries, &tokens, heard).await? {
            return Ok(if deliveries.is_empty() { Some(0) } else { None });
        }
        Ok(Some(deliveries.len()))
    }

    /// Acks, where a worker was `heard` of last.
    async fn ack(&self, team: &Caller, queue: &str, deliveries: &[Value], tokens: &[(u64, u64)], heard: Option<u64>) -> Result<bool> {
        for (n, token) in tokens {
            self.ledger.settling(*n, *token);
        }
        let body = json!({"deliveries": deliveries.iter().map(held).collect::<Vec<_>>()});
        let Ok(reply) = team.post(&format!("/v1/queues/{queue}/ack"), &body).await else { return Ok(false) };
        if reply.status >= 500 {
            return Ok(false);
        }
        let acked = reply.expect(200)?;
        let items = acked["items"].as_array().context("a list")?;
        ensure!(items.len() == tokens.len(), "one answer for each: {acked}");
        for ((n, token), item) in tokens.iter().zip(items) {
            if item["outcome"] == "done" {
                self.ledger.finished(*n, *token);
                self.acked.fetch_add(1, Ordering::SeqCst);
            } else {
                ensure!(item["outcome"] == "stale", "{item}");
                // Who is silent for so long has lost what it holds, also before its lease ends.
                if heard.is_none_or(|heard| self.ledger.now() < heard + SILENT_US) {
                    self.ledger.was_stale(*n, *token)?;
                }
            }
        }
        Ok(true)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// So many push and so many work, each until the first that is not answered, or until told to stop.
    pub(super) fn start(&self, team: &Caller, queue: &str, pushers: u64, workers: u64, recipients: u64) -> JoinSet<Result<()>> {
        let mut all = JoinSet::new();
        for pusher in 0..pushers {
            let (load, team, queue) = (self.clone(), team.clone(), queue.to_owned());
            all.spawn(async move {
                while load.goes_on(load.push(&team, &queue, recipients, pusher * 3).await?).await {}
                Ok(())
            });
        }
        for worker in 0..workers {
            let (load, team, queue) = (self.clone(), team.clone(), queue.to_owned());
            all.spawn(async move {
                while load.goes_on(load.work(&team, &queue, 1 + worker * 3, 200).await?.is_some()).await {}
                Ok(())
            });
        }
        all
    }

    /// Works until nothing is left: not even what somebody held who is gone.
    /// Those who are patient ask again where there is no answer.
    pub(super) async fn drain(&self, team: &Caller, queue: &str) -> Result<()> {
        let mut patience = if self.is_patient { UNANSWERED_MAX } else { 0 };
        loop {
            let (worked, stats) = (self.work(team, queue, 200, 100).await?, team.stats(queue).await);
            let (Some(worked), Ok(stats)) = (worked, stats) else {
                ensure!(patience > 0, "nothing is answered");
                patience -= 1;
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let left: u64 = ["ready", "scheduled", "leased"].iter().filter_map(|name| stats[name].as_u64()).sum();
            if worked == 0 && left == 0 {
                return Ok(());
            }
        }
    }
}

/// Waits for all, and fails as the first of them that did.
pub(super) async fn join(mut all: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = all.join_next().await {
        ended.context("somebody panicked")??;
    }
    Ok(())
}
