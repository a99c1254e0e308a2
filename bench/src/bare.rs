//! The rival of the HTTP bench: an axum handler that parses and answers the same JSON, and does nothing.

use anyhow::Result;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    subject: String,
    #[serde(rename = "action")]
    _action: String,
    cost: Option<u64>,
}

#[derive(Serialize)]
struct Answered {
    allowed: bool,
    never: bool,
    rules: Vec<Rule>,
    bound_by: Option<&'static str>,
    retry_at: Option<&'static str>,
    delay_ms: u64,
    now: &'static str,
    durability: &'static str,
    degraded: bool,
    replayed: bool,
}

#[derive(Serialize)]
struct Rule {
    id: &'static str,
    name: &'static str,
    limit: u64,
    burst: u64,
    window_ms: u64,
    remaining: u64,
    reset_at: &'static str,
    retry_at: Option<&'static str>,
    refused: bool,
    shadow: bool,
}

async fn check(Json(asked): Json<Asked>) -> Json<Answered> {
    Json(Answered {
        allowed: !asked.subject.is_empty(),
        never: false,
        rules: vec![Rule {
            id: "bench",
            name: "default",
            limit: 1_000_000,
            burst: 1_000_000,
            window_ms: 1_000,
            remaining: 999_999 - asked.cost.unwrap_or(1),
            reset_at: "2026-02-03T04:05:06.789Z",
            retry_at: None,
            refused: false,
            shadow: false,
        }],
        bound_by: None,
        retry_at: None,
        delay_ms: 0,
        now: "2026-02-03T04:05:06.789Z",
        durability: "deferred",
        degraded: false,
        replayed: false,
    })
}

/// Serves until it is killed; says where.
pub(crate) async fn serve() -> Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, Router::new().route("/v1/limit/check", post(check))).await?;
    Ok(())
}
