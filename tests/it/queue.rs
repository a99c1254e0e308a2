//! queue: deliveries, their order, their holders.
//!
//! What a user would notice is asked over HTTP, on every store where the store matters: with a clock that is set by
//! hand where times count, with the system's where waiting does. What many do at once is written into a
//! [`hermod_tests::ledger`], which knows what must never be.

mod ahead;
mod burst;
mod catch_up;
mod counted;
mod crash;
mod differential;
mod edits;
mod failover;
mod forget;
mod holding;
mod input;
mod keys;
mod large;
mod load;
mod named;
mod once;
mod pushed;
mod receiver;
mod relay;
mod replies;
mod schedules;
mod servers;
mod sticky;
mod stream;
mod takeover;
mod webhook;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_server::{Config, Mode, Server};
use hermod_tests::server::{Cluster, Redis};
use hermod_tests::{Store, unique};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::site::{Ask, Caller, Reply, Site, config};

/// Far more than anything here takes; nobody waits for it unless something is wrong.
const SOON: Duration = Duration::from_secs(30);

/// The address of a store that tests share.
pub(super) fn shared(store: Store) -> Result<String> {
    Ok(match store {
        Store::Embedded => "embedded".to_owned(),
        Store::Redis => Redis::shared()?.url(),
        Store::Cluster => Cluster::shared()?.url(),
    })
}

/// The same on every store: a server of its own, whose clock is set by hand, and a space of its own.
pub(super) async fn on_every_store(test: impl AsyncFn(&Site, &Caller) -> Result<()>) -> Result<()> {
    for store in Store::ALL {
        // Shown where an assertion fails.
        println!("on {store:?}");
        let url = shared(store)?;
        let site = Site::start_with(|config| Config { store: url, ..config }).await?;
        let team = site.admin.space(&unique("queue")).await?;
        test(&site, &team).await.with_context(|| format!("on {store:?}"))?;
        site.server.shutdown().await;
    }
    Ok(())
}

/// A server in this process that follows the system's clock.
pub(super) struct Live {
    server: Server,
    /// Asks in a space of this test.
    pub(super) team: Caller,
    folder: TempDir,
}

impl Live {
    pub(super) async fn start(store: &str, space: &str) -> Result<Live> {
        Live::start_with(|config| Config { store: store.to_owned(), ..config }, space).await
    }

    async fn start_with(change: impl FnOnce(Config) -> Config, space: &str) -> Result<Live> {
        let folder = tempfile::tempdir()?;
        let server = Server::start(change(config(&folder)), Mode::default()).await?;
        let team = Caller::new(&server.url(), server.admin_key()).space(space).await?;
        Ok(Live { server, team, folder })
    }

    /// Another server on the same store and catalog, and who asks it.
    pub(super) async fn beside(&self, store: &str) -> Result<(Server, Caller)> {
        let folder = tempfile::tempdir()?;
        let catalog = format!("sqlite:{}", self.folder.path().join("data/catalog.db").display());
        let server = Server::start(Config { store: store.to_owned(), catalog, ..config(&folder) }, Mode::default()).await?;
        let team = self.team.at(&server.url());
        Ok((server, team))
    }

    /// Stops it; its folder, for another one to go on with.
    pub(super) async fn stop(self) -> TempDir {
        self.server.shutdown().await;
        self.folder
    }
}

/// One object with the fields of both.
pub(super) fn with(mut body: Value, fields: &Value) -> Value {
    body.as_object_mut().into_iter().zip(fields.as_object()).for_each(|(body, fields)| body.extend(fields.clone()));
    body
}

/// What identifies a delivery to whoever holds it.
fn held(delivery: &Value) -> Value {
    json!({"id": delivery["id"], "token": delivery["token"]})
}

/// The payloads of deliveries, in order.
fn payloads(deliveries: &[Value]) -> Vec<Value> {
    deliveries.iter().map(|delivery| delivery["payload"].clone()).collect()
}

impl Caller {
    /// Adds or replaces a queue.
    async fn queue(&self, queue: &str, fields: Value) -> Result<Value> {
        let reply = self.put(&format!("/v1/queues/{queue}"), &fields).await?;
        reply.expect(if reply.status == 200 { 200 } else { 201 })
    }

    /// Pushes one delivery.
    async fn push(&self, queue: &str, fields: Value) -> Result<Value> {
        self.post(&format!("/v1/queues/{queue}/deliveries"), &fields).await?.expect(201)
    }

    /// Pushes lines; for each what became of it.
    async fn push_lines(&self, queue: &str, lines: &str) -> Result<Vec<Value>> {
        let ask = Ask::new("POST", format!("/v1/queues/{queue}/deliveries"), lines).header("content-type", "application/x-ndjson");
        let reply = self.send(&ask).await?;
        ensure!(reply.status == 200, "{}: {}", reply.status, reply.text());
        reply.text().lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Claims; what was handed out.
    async fn claim(&self, queue: &str, fields: Value) -> Result<Vec<Value>> {
        let claimed = self.post(&format!("/v1/queues/{queue}/claim"), &fields).await?.expect(200)?;
        Ok(claimed["deliveries"].as_array().context("a list")?.clone())
    }

    /// Claims one that must be there.
    async fn claim_one(&self, queue: &str) -> Result<Value> {
        self.claim(queue, json!({})).await?.pop().context("there is something to claim")
    }

    /// `ack`, `nack` or `extend` by whoever holds it; what became of it.
    async fn settle(&self, queue: &str, verb: &str, delivery: &Value, fields: Value) -> Result<Value> {
        self.post(&format!("/v1/queues/{queue}/{verb}"), &with(held(delivery), &fields)).await?.expect(200)
    }

    /// Acks what must be held.
    async fn ack(&self, queue: &str, delivery: &Value) -> Result<()> {
        let settled = self.settle(queue, "ack", delivery, json!({})).await?;
        ensure!(settled["outcome"] == "done", "{settled}");
        Ok(())
    }

    /// The outcome of `DELETE` or `PATCH` of a delivery.
    async fn edit(&self, queue: &str, id: &Value, change: Option<Value>) -> Result<Value> {
        let path = format!("/v1/queues/{queue}/deliveries/{}", id.as_str().context("an id")?);
        let reply: Reply = match change {
            None => self.delete(&path).await?,
            Some(change) => self.send(&Ask::json("PATCH", path, &change)).await?,
        };
        reply.expect(200)
    }

    async fn stats(&self, queue: &str) -> Result<Value> {
        self.get(&format!("/v1/queues/{queue}/stats")).await?.expect(200)
    }

    /// What is listed under this query.
    async fn list(&self, queue: &str, query: &str) -> Result<Vec<Value>> {
        let page = self.get(&format!("/v1/queues/{queue}/deliveries?{query}")).await?.expect(200)?;
        Ok(page["items"].as_array().context("a list")?.clone())
    }
}

/// A time of an answer as milliseconds since the Unix epoch.
pub(super) fn epoch_ms(value: &Value) -> Result<u64> {
    let text = value.as_str().with_context(|| format!("{value} is no time"))?;
    let since = humantime::parse_rfc3339(text)?.duration_since(std::time::UNIX_EPOCH)?;
    Ok(u64::try_from(since.as_millis())?)
}

/// A time as it is sent, so many milliseconds after the Unix epoch.
pub(super) fn time(ms: u64) -> String {
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

/// A time as it is sent, so many milliseconds after the clock that is set by hand began.
fn at(ms: u64) -> String {
    time(hermod_tests::lane::START.get() / 1000 + ms)
}

/// The system's time in milliseconds since the Unix epoch.
fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
