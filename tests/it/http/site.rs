//! A server of a test's own, and the few words to ask it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_core::Micros;
use hermod_engine::clock::ManualClock;
use hermod_server::{Config, Mode, Server};
use hermod_tests::lane::START;
use hermod_tests::until;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Far more than anything here takes; nobody waits for it unless something is wrong.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// What a caller must never read: names of what stands behind the API.
const FOREIGN: [&str; 21] = [
    "serde",
    "u64",
    "u32",
    "i64",
    "struct",
    "a sequence",
    "map,",
    "sqlx",
    "SQL",
    "SELECT",
    "INSERT",
    "sqlite",
    "EVALSHA",
    "FCALL",
    "redis",
    "axum",
    "Error(",
    "Some(",
    "::",
    "unwrap",
    "panic",
];

/// A server in this process: embedded store, SQLite catalog, a clock that stands still, a folder of its own.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) clock: ManualClock,
    /// Asks with the first key.
    pub(crate) admin: Caller,
    pub(crate) folder: TempDir,
}

impl Site {
    pub(crate) async fn start() -> Result<Site> {
        Site::start_with(|config| config).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(Config) -> Config) -> Result<Site> {
        Site::start_as(Mode::default(), change).await
    }

    /// The same, and what else is different; the clock is always set by hand.
    pub(crate) async fn start_as(mode: Mode, change: impl FnOnce(Config) -> Config) -> Result<Site> {
        let folder = tempfile::tempdir()?;
        let server = Server::start(change(config(&folder)), Mode { manual_clock: true, ..mode }).await?;
        let clock = server.app().manual_clock().context("the server has a manual clock")?.clone();
        clock.set(START);
        let admin = Caller::new(&server.url(), server.admin_key());
        Ok(Site { server, clock, admin, folder })
    }

    /// Moves the clock to `ms` after the start.
    pub(crate) fn at_ms(&self, ms: u64) {
        self.clock.set(START.plus(Micros::saturating(ms * 1000)));
    }
}

/// Any free port, and a folder of the test's own.
pub(crate) fn config(folder: &TempDir) -> Config {
    Config { listen: ([127, 0, 0, 1], 0).into(), data: folder.path().join("data"), ..Config::default() }
}

/// A request, to be completed.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Ask {
    pub(crate) fn new(method: &'static str, path: impl Into<String>, body: impl AsRef<[u8]>) -> Ask {
        Ask { method, path: path.into(), headers: Vec::new(), body: body.as_ref().to_vec() }
    }

    pub(crate) fn json(method: &'static str, path: impl Into<String>, body: &Value) -> Ask {
        Ask::new(method, path, body.to_string())
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Ask {
        self.headers.push((name, value.as_ref().to_vec()));
        self
    }

    pub(crate) fn once(self, key: &str) -> Ask {
        self.header("idempotency-key", key)
    }
}

/// Who asks which server.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    url: String,
    key: Option<String>,
    http: reqwest::Client,
}

impl Caller {
    pub(crate) fn new(url: &str, key: Option<&str>) -> Caller {
        let http = hermod_tests::request().timeout(SOON).redirect(reqwest::redirect::Policy::none()).no_proxy();
        Caller { url: url.to_owned(), key: key.map(str::to_owned), http: http.build().expect("a client") }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn key_text(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Another server, asked with the same key.
    pub(crate) fn at(&self, url: &str) -> Caller {
        Caller { url: url.to_owned(), ..self.clone() }
    }

    /// The same server, asked with another key.
    pub(crate) fn with_key(&self, key: Option<&str>) -> Caller {
        Caller { key: key.map(str::to_owned), ..self.clone() }
    }

    pub(crate) async fn send(&self, ask: &Ask) -> Result<Reply> {
        let mut request = self.http.request(ask.method.parse()?, format!("{}{}", self.url, ask.path)).body(ask.body.clone());
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        for (name, value) in &ask.headers {
            request = request.header(HeaderName::from_static(name), HeaderValue::from_bytes(value)?);
        }
        let response = request.send().await.with_context(|| format!("{} {}", ask.method, ask.path))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Reply { status, headers, body: response.bytes().await?.to_vec() })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Reply> {
        self.send(&Ask::new("GET", path, "")).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(&Ask::json("POST", path, body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(&Ask::json("PUT", path, body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Reply> {
        self.send(&Ask::new("DELETE", path, "")).await
    }

    /// A check that must be answered.
    pub(crate) async fn check(&self, subject: &str, action: &str, cost: u64) -> Result<Value> {
        self.post("/v1/limit/check", &json!({"subject": subject, "action": action, "cost": cost})).await?.expect(200)
    }

    /// A new key in `space`, and who asks with it.
    pub(crate) async fn key(&self, space: &str, scopes: &[&str]) -> Result<(String, Caller)> {
        let body = json!({"name": "test", "scopes": scopes, "space": space});
        let made = self.post("/v1/keys", &body).await?.expect(201)?;
        let secret = made["secret"].as_str().context("a new key shows its secret")?;
        Ok((made["id"].as_str().context("a key has an id")?.to_owned(), self.with_key(Some(secret))))
    }

    /// A new space, and who rules it.
    pub(crate) async fn space(&self, space: &str) -> Result<Caller> {
        self.post("/v1/spaces", &json!({"space": space})).await?.expect(201)?;
        Ok(self.key(space, &["admin"]).await?.1)
    }

    /// All that is defined, and what is left of the counter that [`Caller::fill`] began.
    pub(crate) async fn state(&self) -> Result<Value> {
        let mut state = json!({});
        for list in ["rules", "queues", "decks", "keys", "spaces"] {
            state[list] = self.get(&format!("/v1/{list}")).await?.expect(200)?;
        }
        // What can never fit charges nothing, and tells what is left.
        state["left"] = self.check("witness", "watched", 1_000).await?["rules"][0]["remaining"].clone();
        Ok(state)
    }

    /// Defines something, and uses some of it, for [`Caller::state`] to watch.
    pub(crate) async fn fill(&self) -> Result<()> {
        self.put("/v1/rules/watched", &json!({"action": "watched", "limit": 5, "per": "1day"})).await?.expect(201)?;
        let used = self.check("witness", "watched", 2).await?;
        ensure!(used["rules"][0]["remaining"] == 3, "{used}");
        Ok(())
    }

    /// Asks until the answer is as wanted. Needs a runtime with more than one thread.
    pub(crate) fn until(&self, within: Duration, what: &str, ask: &Ask, wanted: impl Fn(&Reply) -> bool) -> Result<()> {
        let runtime = tokio::runtime::Handle::current();
        let is_so = || runtime.block_on(self.send(ask)).is_ok_and(|reply| wanted(&reply));
        tokio::task::block_in_place(|| until(within, what, is_so))
    }
}

/// A rule as a body.
pub(crate) fn rule(action: &str, limit: u64, per: &str) -> Value {
    json!({"action": action, "limit": limit, "per": per})
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body of an answer with this status; null if there is none.
    pub(crate) fn expect(&self, status: u16) -> Result<Value> {
        ensure!(self.status == status, "{} instead of {status}: {}", self.status, self.text());
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        ensure!(self.header("content-type") == "application/json", "{:?}", self.headers);
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// The problem document of an answer, in every respect as promised.
    pub(crate) fn problem(&self, status: u16, code: &str, field: Option<&str>) -> Result<Value> {
        let text = self.text();
        ensure!(self.status == status, "{} instead of {status}: {text}", self.status);
        ensure!(self.header("content-type") == "application/problem+json", "{:?}: {text}", self.headers);
        let document: Value = serde_json::from_slice(&self.body).with_context(|| text.clone())?;
        ensure!(document["code"] == code, "{code} is expected: {text}");
        ensure!(document["status"] == status, "the document tells another status: {text}");
        ensure!(document.get("field").and_then(Value::as_str) == field, "{field:?} is expected: {text}");
        ensure!(document["request_id"] == self.header("x-request-id") && document["request_id"] != "", "{:?}: {text}", self.headers);
        ensure!(document["retryable"] == (status >= 500), "{text}");
        ensure!(document["type"] == format!("/docs/errors#{code}"), "{text}");
        for part in ["title", "detail"] {
            ensure!(document[part].as_str().is_some_and(|text| (10..300).contains(&text.len())), "{part} is no sentence: {text}");
        }
        for word in FOREIGN {
            ensure!(!text.contains(word), "{word:?} is nothing a caller knows: {text}");
        }
        Ok(document)
    }
}
