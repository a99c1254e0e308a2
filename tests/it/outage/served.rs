//! A server in this process, on a store and a catalog of the test's choice, asked over HTTP.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermod_server::{Config, Mode, Server};
use serde_json::{Value, json};

/// A server that asks for no keys.
pub(crate) struct Served {
    server: Server,
    http: reqwest::Client,
    _folder: tempfile::TempDir,
}

/// What it answered.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) retry_after: Option<String>,
    pub(crate) text: String,
    pub(crate) took: Duration,
}

impl Served {
    /// Starts it with the usual settings, but for what `set` changes.
    pub(crate) async fn start(set: impl FnOnce(&mut Config)) -> Result<Served> {
        let folder = tempfile::tempdir()?;
        let mut config = Config { listen: ([127, 0, 0, 1], 0).into(), data: folder.path().to_owned(), ..Config::default() };
        set(&mut config);
        let server = Server::start(config, Mode { open: true, ..Mode::default() }).await?;
        // No request of a test takes this long; one that hangs is told from one that is slow.
        let http = hermod_tests::request().timeout(Duration::from_secs(20)).build()?;
        Ok(Served { server, http, _folder: folder })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Told> {
        self.send(self.http.get(self.url(path))).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Told> {
        self.send(self.http.post(self.url(path)).json(body)).await
    }

    /// Adds or replaces the rule `id`, and fails unless that worked.
    pub(crate) async fn put_rule(&self, id: &str, body: &Value) -> Result<()> {
        self.put(&format!("/v1/rules/{id}"), body).await
    }

    /// Adds or replaces something, and fails unless that worked.
    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<()> {
        let told = self.send(self.http.put(self.url(path)).json(body)).await?;
        ensure!(told.status == 200 || told.status == 201, "{told:?}");
        Ok(())
    }

    pub(crate) async fn check(&self, subject: &str, action: &str) -> Result<Told> {
        self.post("/v1/limit/check", &json!({"subject": subject, "action": action})).await
    }

    /// The same, at most once for each idempotency key.
    pub(crate) async fn check_once(&self, subject: &str, action: &str, key: &str) -> Result<Told> {
        self.post_once("/v1/limit/check", &json!({"subject": subject, "action": action}), Some(key)).await
    }

    /// With an idempotency key, if there is one.
    pub(crate) async fn post_once(&self, path: &str, body: &Value, key: Option<&str>) -> Result<Told> {
        let request = self.http.post(self.url(path)).json(body);
        self.send(key.into_iter().fold(request, |request, key| request.header("Idempotency-Key", key))).await
    }

    /// How many of `burst` tokens are used. Asks for more than there can ever be, which is refused and changes nothing.
    pub(crate) async fn used(&self, subject: &str, action: &str, burst: u64) -> Result<u64> {
        let told = self.post("/v1/limit/check", &json!({"subject": subject, "action": action, "cost": burst + 1})).await?;
        let body = told.json()?;
        ensure!(told.status == 200 && body["never"] == true, "{told:?}");
        Ok(burst - body["rules"][0]["remaining"].as_u64().context("something remains")?)
    }

    /// Whether `/readyz` says so.
    pub(crate) async fn is_ready(&self) -> bool {
        self.get("/readyz").await.is_ok_and(|told| told.status == 200)
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.server.address()
    }

    pub(crate) async fn shutdown(self) {
        self.server.shutdown().await;
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Told> {
        let began = Instant::now();
        let response = request.send().await?;
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned);
        let (content_type, retry_after) = (header("content-type").unwrap_or_default(), header("retry-after"));
        let status = response.status().as_u16();
        Ok(Told { status, content_type, retry_after, text: response.text().await?, took: began.elapsed() })
    }
}

impl Told {
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| format!("no JSON: {self:?}"))
    }

    /// Whether it is an allowed check.
    pub(crate) fn is_allowed(&self) -> bool {
        self.status == 200 && self.json().is_ok_and(|body| body["allowed"] == true)
    }

    /// Fails unless it is this problem: one to come back with, in full, without a word of what stands behind.
    pub(crate) fn expect_problem(&self, status: u16, code: &str) -> Result<()> {
        let body = self.json()?;
        ensure!(self.status == status && body["status"] == status && body["code"] == code, "{self:?}");
        ensure!(self.content_type == "application/problem+json", "{self:?}");
        ensure!(self.retry_after.as_deref().is_some_and(|after| after.parse::<u32>().is_ok_and(|s| s >= 1)), "{self:?}");
        ensure!(body["retryable"] == true && body["detail"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        let inner = ["redis", "postgres", "sqlx", "refused", "os error", "127.0.0.1", "timed out", "oom", "evalsha", "fcall", "pool"];
        let text = self.text.to_lowercase();
        ensure!(!inner.iter().any(|word| text.contains(word)), "it tells what stands behind: {}", self.text);
        Ok(())
    }
}
