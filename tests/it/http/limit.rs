//! What `limit` promises, over HTTP: on every store where the store matters.

mod attacked;
mod batch;
mod charge;
mod explain;
mod gate;
mod lease;
mod lease_global;
mod refused;
mod reserve;
mod shared;
mod units;
mod when;

use anyhow::{Context, Result};
use hermod_server::Config;
use hermod_tests::server::{Cluster, Redis};
use hermod_tests::{Store, unique};
use serde_json::{Value, json};

use super::site::{Ask, Caller, Site};

/// The same on every store: a server of its own, whose clock is set by hand, and a space of its own.
async fn on_every_store(test: impl AsyncFn(&Site, &Caller) -> Result<()>) -> Result<()> {
    for store in Store::ALL {
        // Shown where an assertion fails.
        println!("on {store:?}");
        let store_url = match store {
            Store::Embedded => "embedded".to_owned(),
            Store::Redis => Redis::shared()?.url(),
            Store::Cluster => Cluster::shared()?.url(),
        };
        let site = Site::start_with(|config| Config { store: store_url, ..config }).await?;
        let team = site.admin.space(&unique("limit")).await?;
        test(&site, &team).await.with_context(|| format!("on {store:?}"))?;
        site.server.shutdown().await;
    }
    Ok(())
}

impl Caller {
    /// Adds or replaces the rule `id`; its name is its id unless `fields` has another.
    async fn rule(&self, id: &str, action: &str, limit: u64, per: &str, fields: Value) -> Result<Value> {
        let mut body = json!({"name": id, "action": action, "limit": limit, "per": per});
        body.as_object_mut().into_iter().zip(fields.as_object()).for_each(|(body, fields)| body.extend(fields.clone()));
        let reply = self.put(&format!("/v1/rules/{id}"), &body).await?;
        reply.expect(if reply.status == 200 { 200 } else { 201 })
    }

    /// An operation of `limit` that must be answered.
    async fn limit(&self, operation: &str, body: Value) -> Result<Value> {
        self.post(&format!("/v1/limit/{operation}"), &body).await?.expect(200)
    }

    /// The same under an idempotency key.
    async fn limit_once(&self, operation: &str, body: Value, key: &str) -> Result<Value> {
        self.send(&Ask::json("POST", format!("/v1/limit/{operation}"), &body).once(key)).await?.expect(200)
    }

    /// What is left under the rule `id` for this subject; looked at only.
    async fn left(&self, subject: &str, action: &str, id: &str) -> Result<u64> {
        let seen = self.limit("check", json!({"subject": subject, "action": action, "peek": true})).await?;
        let rule = seen["rules"].as_array().into_iter().flatten().find(|rule| rule["id"] == id);
        rule.and_then(|rule| rule["remaining"].as_u64()).with_context(|| format!("no rule {id} in {seen}"))
    }
}

/// A time of an answer as milliseconds since the start.
fn at_ms(value: &Value) -> Result<u64> {
    let text = value.as_str().with_context(|| format!("{value} is no time"))?;
    let since = humantime::parse_rfc3339(text)?.duration_since(std::time::UNIX_EPOCH)?;
    u64::try_from(since.as_millis())?.checked_sub(hermod_tests::lane::START.get() / 1000).context("a time after the start")
}
