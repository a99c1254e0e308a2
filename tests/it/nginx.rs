//! A real nginx asks the gate, configured as `examples/nginx` shows it.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::{Request, State};
use hermod_tests::server::{Hermod, Nginx};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

const CONFIG: &str = include_str!("../../examples/nginx/nginx.conf");

/// The service behind nginx: it remembers what reached it.
#[derive(Clone, Default)]
struct Upstream(Arc<Mutex<Vec<String>>>);

impl Upstream {
    async fn start() -> Result<(Upstream, SocketAddr)> {
        let upstream = Upstream::default();
        let routes = Router::new().fallback(Upstream::serve).with_state(upstream.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok((upstream, address))
    }

    async fn serve(State(Upstream(seen)): State<Upstream>, request: Request) -> String {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1024).await.unwrap_or_default();
        // What only nginx knows must not come along.
        let key = if head.headers.contains_key("authorization") { " with a key" } else { "" };
        seen.lock().unwrap().push(format!("{} {} {}{key}", head.method, head.uri, String::from_utf8_lossy(&body)));
        "done".to_owned()
    }

    /// What reached it since the last time.
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Hermod with a rule of three a day and a key that may check and nothing else.
struct Gate {
    hermod: Hermod,
    admin: String,
    key: Value,
}

impl Gate {
    async fn start() -> Result<Gate> {
        let hermod = Hermod::serve::<&str>([])?;
        let mut gate = Gate { admin: hermod.admin_key()?, hermod, key: Value::Null };
        gate.call("/v1/rules", json!({"action": "tasks/create", "name": "burst", "limit": 3, "per": "1day"})).await?;
        gate.key = gate.call("/v1/keys", json!({"name": "nginx", "scopes": ["limit:check"]})).await?;
        Ok(gate)
    }

    async fn call(&self, path: &str, body: Value) -> Result<Value> {
        let url = format!("{}{path}", self.hermod.url()?);
        let answer = Client::new().post(url).bearer_auth(&self.admin).json(&body).send().await?;
        Ok(answer.error_for_status()?.json().await?)
    }

    async fn revoke(&self) -> Result<()> {
        let url = format!("{}/v1/keys/{}", self.hermod.url()?, self.key["id"].as_str().context("a key has an id")?);
        Client::new().delete(url).bearer_auth(&self.admin).send().await?.error_for_status()?;
        Ok(())
    }

    /// nginx with the example's configuration, of which only the addresses are others.
    fn nginx(&self, upstream: SocketAddr) -> Result<Nginx> {
        let hermod = self.hermod.url()?.trim_start_matches("http://");
        for address in ["127.0.0.1:7700", "127.0.0.1:3000"] {
            ensure!(CONFIG.matches(address).count() == 1, "the example names {address} once");
        }
        let config = CONFIG.replace("127.0.0.1:7700", hermod).replace("127.0.0.1:3000", &upstream.to_string());
        let secret = self.key["secret"].as_str().context("a new key is told")?;
        Nginx::start(&config, &[("hermod-key.conf", &format!("proxy_set_header Authorization \"Bearer {secret}\";\n"))])
    }
}

/// A caller at this address of the loopback.
fn caller(address: &str) -> Result<Client> {
    Ok(Client::builder().local_address(address.parse::<IpAddr>()?).build()?)
}

async fn create(caller: &Client, nginx: &Nginx, content: &str) -> Result<Response> {
    let sent = caller.post(format!("{}/tasks/new?a=b", nginx.url())).body(content.to_owned()).send().await;
    sent.with_context(|| nginx.log_tail())
}

fn header<'a>(answer: &'a Response, name: &str) -> &'a str {
    answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_passes_what_the_gate_admits_and_refuses_the_rest() -> Result<()> {
    let (upstream, address) = Upstream::start().await?;
    let gate = Gate::start().await?;
    let nginx = gate.nginx(address)?;
    let (one, other) = (caller("127.0.0.1")?, caller("127.0.0.2")?);

    for left in [2, 1, 0] {
        let passed = create(&one, &nginx, "milk").await?;
        ensure!(passed.status() == StatusCode::OK, "{passed:?}\n{}", nginx.log_tail());
        ensure!(header(&passed, "ratelimit").starts_with(&format!("\"burst\";r={left};t=")), "{passed:?}");
        assert_eq!(header(&passed, "ratelimit-policy"), "\"burst\";q=3;w=86400");
        assert_eq!(header(&passed, "retry-after"), "");
        assert_eq!(passed.text().await?, "done");
        assert_eq!(upstream.taken(), ["POST /tasks/new?a=b milk"], "it arrives as it was sent");
    }

    let refused = create(&one, &nginx, "one too many").await?;
    ensure!(refused.status() == StatusCode::TOO_MANY_REQUESTS, "{refused:?}\n{}", nginx.log_tail());
    let retry_after: u64 = header(&refused, "retry-after").parse()?;
    ensure!((1..=86_400 + 86_400 / 32).contains(&retry_after), "{refused:?}");
    ensure!(header(&refused, "ratelimit").starts_with("\"burst\";r=0;t="), "{refused:?}");
    assert_eq!(header(&refused, "ratelimit-policy"), "\"burst\";q=3;w=86400");
    assert_eq!(header(&refused, "content-type"), "application/problem+json");
    let problem: Value = refused.json().await?;
    assert_eq!((&problem["status"], &problem["code"]), (&json!(429), &json!("quota_exceeded")));
    assert_eq!(upstream.taken(), [""; 0], "what is refused does not reach the service");

    let passed = create(&other, &nginx, "tea").await?;
    ensure!(passed.status() == StatusCode::OK && header(&passed, "ratelimit").starts_with("\"burst\";r=2;"), "{passed:?}");
    assert_eq!(upstream.taken(), ["POST /tasks/new?a=b tea"], "another caller has its own");

    // What is not /tasks is nobody's, and the gate itself is not for callers.
    for path in ["/other", "/_gate"] {
        assert_eq!(one.get(format!("{}{path}", nginx.url())).send().await?.status(), StatusCode::NOT_FOUND, "{path}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_does_not_answer_refuses_nobody() -> Result<()> {
    let (upstream, address) = Upstream::start().await?;
    let mut gate = Gate::start().await?;
    let nginx = gate.nginx(address)?;
    let one = caller("127.0.0.1")?;
    for _ in 0..3 {
        assert_eq!(create(&one, &nginx, "milk").await?.status(), StatusCode::OK);
    }
    assert_eq!(create(&one, &nginx, "milk").await?.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(upstream.taken().len(), 3);

    gate.revoke().await?;
    let passed = create(&one, &nginx, "with an unknown key").await?;
    ensure!(passed.status() == StatusCode::OK && header(&passed, "www-authenticate").is_empty(), "{passed:?}\n{}", nginx.log_tail());
    assert_eq!(upstream.taken(), ["POST /tasks/new?a=b with an unknown key"], "whose fault it is not is not refused");

    gate.hermod.kill9()?;
    for content in ["without", "still without"] {
        let passed = create(&one, &nginx, content).await?;
        ensure!(passed.status() == StatusCode::OK && header(&passed, "retry-after").is_empty(), "{passed:?}\n{}", nginx.log_tail());
        assert_eq!(upstream.taken(), [format!("POST /tasks/new?a=b {content}")]);
    }
    Ok(())
}
