//! The layer of hermod-client before a real service, asking a real server over HTTP, which goes and comes back.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use hermod_client::layer::{Degraded, OnError, RateLimit};
use hermod_client::{Client, RuleDraft};
use hermod_server::{Config, Mode, Server};
use hermod_tests::server::free_port;
use serde_json::Value;

use crate::outage::until;

const LIMIT: u64 = 3;
/// Longer than the layer's breaker stays open after a few failures.
const RECOVERY: Duration = Duration::from_secs(10);

/// A server at this address, with the data that it had before.
async fn hermod(listen: SocketAddr, data: &Path) -> Result<Server> {
    let config = Config { listen, data: data.to_owned(), ..Config::default() };
    Server::start(config, Mode { open: true, ..Mode::default() }).await.map_err(Into::into)
}

/// What the service says: whether it knows that the limit was not asked for.
async fn create(request: Request) -> &'static str {
    if request.extensions().get::<Degraded>().is_some() { "degraded" } else { "counted" }
}

/// A service of which each route has another policy, and where it is.
async fn service(client: &Client) -> Result<String> {
    let mut routes = Router::new();
    let local = OnError::Local { limit: 1, per: Duration::from_secs(3_600) };
    for (path, policy) in [("/open", OnError::Open), ("/closed", OnError::Closed), ("/local", local)] {
        let user = |request: &Request| Some(request.headers().get("x-user")?.to_str().ok()?.to_owned());
        let limit = RateLimit::action("tasks/create").subject(user).on_error(policy).with(client.clone());
        routes = routes.route(path, post(create).layer(limit));
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    // It ends with the test.
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(url)
}

/// What a user of the service sees.
#[derive(Debug)]
struct Seen {
    status: u16,
    policy: Option<String>,
    limit: Option<String>,
    retry_after: Option<u64>,
    body: String,
}

impl Seen {
    async fn of(url: &str, path: &str, user: &str) -> Result<Seen> {
        let response = hermod_tests::request().build()?.post(format!("{url}{path}")).header("x-user", user).send().await?;
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (policy, limit, retry_after) = (header("ratelimit-policy"), header("ratelimit"), header("retry-after"));
        let retry_after = retry_after.map(|seconds| seconds.parse()).transpose()?;
        Ok(Seen { status: response.status().as_u16(), policy, limit, retry_after, body: response.text().await? })
    }

    /// It passed, and so many are left.
    fn ensure_counted(&self, left: u64) -> Result<()> {
        let limit = self.limit.as_deref().context("what is left")?;
        ensure!(self.status == 200 && self.body == "counted" && self.retry_after.is_none(), "{self:?}");
        ensure!(self.policy.as_deref() == Some(r#""default";q=3;w=3600"#), "{self:?}");
        ensure!(limit.starts_with(&format!(r#""default";r={left};t="#)), "{self:?}");
        Ok(())
    }

    /// It was refused under this policy, and told when to come again.
    fn ensure_refused(&self, policy: &str, within: u64) -> Result<()> {
        let body: Value = serde_json::from_str(&self.body)?;
        ensure!(self.status == 429 && body["code"] == "quota_exceeded" && body["violated-policies"][0] == policy, "{self:?}");
        ensure!(self.retry_after.is_some_and(|seconds| (1..=within).contains(&seconds)), "{self:?}");
        ensure!(self.limit.as_deref().is_some_and(|limit| limit.starts_with(&format!(r#""{policy}";r=0;"#))), "{self:?}");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_layer_enforces_what_a_real_server_says_while_there_is_one() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let listen = ([127, 0, 0, 1], free_port()?).into();
    let server = hermod(listen, folder.path()).await?;
    let client = Client::new(&server.url())?;
    let rule = RuleDraft::new("tasks/create", LIMIT, "1h").algorithm(hermod_client::Algorithm::TokenBucket);
    client.rules().put("r", &rule).await?;
    let url = service(&client).await?;

    for (path, left) in [("/open", 2), ("/closed", 1), ("/local", 0)] {
        Seen::of(&url, path, "ada").await?.ensure_counted(left)?;
    }
    for path in ["/open", "/closed", "/local"] {
        Seen::of(&url, path, "ada").await?.ensure_refused("default", 1_200)?;
    }
    Seen::of(&url, "/open", "bob").await?.ensure_counted(2)?;

    server.shutdown().await;
    // Often enough for nobody to be asked any more.
    for n in 0..8 {
        let open = Seen::of(&url, "/open", "ada").await?;
        ensure!((open.status, open.body.as_str(), open.limit.is_none()) == (200, "degraded", true), "{open:?}");
        let closed = Seen::of(&url, "/closed", "ada").await?;
        ensure!(closed.status == 503 && closed.retry_after.is_some_and(|seconds| seconds >= 1), "{closed:?}");
        ensure!(closed.body.contains("limit_unavailable"), "{closed:?}");
        let local = Seen::of(&url, "/local", "ada").await?;
        if n == 0 {
            ensure!((local.status, local.body.as_str()) == (200, "degraded"), "{local:?}");
        } else {
            local.ensure_refused("local", 3_600)?;
        }
    }

    let server = hermod(listen, folder.path()).await?;
    for path in ["/open", "/closed", "/local"] {
        let is_enforced = async || Seen::of(&url, path, "ada").await.is_ok_and(|seen| seen.ensure_refused("default", 1_200).is_ok());
        until(RECOVERY, "what was used before to count again", is_enforced).await.with_context(|| path.to_owned())?;
    }
    Seen::of(&url, "/closed", "bob").await?.ensure_counted(1)?;
    server.shutdown().await;
    Ok(())
}
