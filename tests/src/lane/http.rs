//! A server of its own, asked over HTTP.
#![expect(clippy::indexing_slicing, reason = "a JSON value that lacks a field gives null, and does not panic")]

use anyhow::{Context, Result, bail, ensure};
use hermod_core::limit::{Act, Rule};
use hermod_engine::clock::ManualClock;
use hermod_server::{Config, Mode, Server};
use serde_json::{Value, json};

use super::{Ask, START, Seen, Store};
use crate::server::{Cluster, Redis};
use crate::unique;

/// A server in this process, with a catalog and a space of its own.
#[derive(Debug)]
pub struct HttpLane {
    server: Server,
    clock: ManualClock,
    http: reqwest::Client,
    key: String,
    _folder: tempfile::TempDir,
}

impl HttpLane {
    /// Starts a server on this store, and makes a space and a key for this lane.
    pub async fn open(store: Store) -> Result<HttpLane> {
        let folder = tempfile::tempdir()?;
        let config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            data: folder.path().to_owned(),
            store: match store {
                Store::Embedded => "embedded".to_owned(),
                Store::Redis => Redis::shared()?.url(),
                Store::Cluster => Cluster::shared()?.url(),
            },
            ..Config::default()
        };
        let server = Server::start(config, Mode { manual_clock: true, ..Mode::default() }).await?;
        let clock = server.app().manual_clock().context("the server has a manual clock")?.clone();
        clock.set(START);
        let admin = server.admin_key().context("a new catalog has a first key")?.to_owned();
        let mut lane = HttpLane { server, clock, http: crate::request().build()?, key: admin, _folder: folder };
        let space = unique("lane");
        lane.send("POST", "/v1/spaces", &[], &json!({"space": space})).await?;
        let key = lane.send("POST", "/v1/keys", &[], &json!({"name": "lane", "scopes": ["admin"], "space": space})).await?;
        key["secret"].as_str().context("a new key shows its secret")?.clone_into(&mut lane.key);
        Ok(lane)
    }

    /// Its clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Result<Value> {
        let mut request = self.http.request(method.parse()?, format!("{}{path}", self.server.url())).bearer_auth(&self.key).json(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await?;
        let status = response.status();
        let answer: Value = response.json().await?;
        ensure!(status.is_success() || status == 422, "{method} {path}: {status} {answer}");
        Ok(answer)
    }

    pub(super) async fn put_rule(&self, rule: &Rule) -> Result<()> {
        let mut body = serde_json::to_value(rule)?;
        body.as_object_mut().context("a rule is an object")?.remove("version");
        self.send("PUT", &format!("/v1/rules/{}", rule.id), &[], &body).await.map(|_| ())
    }

    pub(super) async fn check(&self, ask: &Ask) -> Result<Seen> {
        let headers: Vec<_> = ask.key.iter().map(|key| ("Idempotency-Key", key.as_str())).collect();
        let mut body = json!({"subject": ask.subject, "action": ask.action, "cost": ask.cost});
        let path = match ask.act {
            Act::Refund => "/v1/limit/refund",
            Act::Undo => bail!("there is no such verb"),
            Act::Check | Act::Peek | Act::Force => "/v1/limit/check",
        };
        match ask.act {
            Act::Peek => body["peek"] = true.into(),
            Act::Force => body["force"] = true.into(),
            Act::Check | Act::Refund | Act::Undo => {}
        }
        let answer = self.send("POST", path, &headers, &body).await?;
        if answer["code"] == "idempotency_conflict" {
            return Ok(Seen::only("conflict"));
        }
        let verdict = match (answer["allowed"].as_bool(), answer["never"].as_bool()) {
            (Some(true), Some(false)) => "allowed",
            (Some(false), Some(false)) => "denied",
            (Some(false), Some(true)) => "never",
            _ => bail!("no verdict in {answer}"),
        };
        let mut left = std::collections::BTreeMap::new();
        for rule in answer["rules"].as_array().context("rules is a list")? {
            let name = rule["name"].as_str().context("a rule has a name")?;
            left.insert(name.to_owned(), rule["remaining"].as_u64().context("a rule has something left")?);
        }
        let retry_ms = match answer["retry_at"].as_str() {
            Some(text) => Some(since_start_ms(text)?),
            None => None,
        };
        Ok(Seen {
            verdict,
            left,
            bound_by: answer["bound_by"].as_str().map(ToOwned::to_owned),
            retry_ms,
            delay_ms: answer["delay_ms"].as_u64().context("a delay is told")?,
            is_replayed: answer["replayed"].as_bool().context("replayed is told")?,
        })
    }

    pub(super) async fn close(self) {
        self.server.shutdown().await;
    }
}

/// An RFC 3339 time as milliseconds since the start.
fn since_start_ms(text: &str) -> Result<u64> {
    let time = humantime::parse_rfc3339(text)?.duration_since(std::time::UNIX_EPOCH)?;
    Ok(u64::try_from(time.as_millis())? - START.get() / 1000)
}
