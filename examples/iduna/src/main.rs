//! Messages that people write for each other, and which of them a user gets next: one that was never sent, at random, else
//! the one sent longest ago, each no more often than its rule says. Hermod runs inside this process.

use std::{net::SocketAddr, sync::Arc};

use axum::extract::{Path, State, rejection::JsonRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Parser;
use hermod_client::{Cap, Client, ClientError, DeckDraft, MessageDraft, PickReason, PickRequest, To};
use hermod_server::{Config, Mode, Server};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const DECK: &str = "messages";

#[derive(Parser)]
struct Args {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The messages: sqlite://path, or postgres://user:password@host/database.
    #[arg(long, default_value = "sqlite://iduna-data/iduna.db")]
    database: String,
    /// Who got what: embedded, or redis://host.
    #[arg(long, default_value = "embedded")]
    store: String,
    /// At most one message per user in this time, such as 10m; without it only the messages' own rules count.
    #[arg(long)]
    pause: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Args { listen, database: catalog, store, pause } = Args::parse();
    let config = Config { listen: ([127, 0, 0, 1], 0).into(), data: "iduna-data".into(), store, catalog, ..Config::default() };
    // Open: it asks for no keys, and only this machine can reach it.
    let server = Server::start(config, Mode { open: true, ..Mode::default() }).await?;
    let hermod = Client::new(&server.url())?;
    hermod.decks().put(DECK, &DeckDraft::new().subject_cap(pause.map(|pause| Cap::new(1, pause)))).await?;
    let routes = Router::new().route("/messages/{user_id}", get(next)).route("/messages", post(create)).with_state(Arc::new(hermod));
    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("iduna: http://{}", listener.local_addr()?);
    axum::serve(listener, routes).with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) }).await?;
    server.shutdown().await;
    Ok(())
}

#[derive(Deserialize, Serialize)]
struct Message {
    author: String,
    target: String,
    text: String,
    #[serde(default = "yes")]
    active: bool,
    rule: Option<Rule>,
}

/// So many in so many seconds.
#[derive(Deserialize, Serialize)]
struct Rule {
    tokens: u64,
    seconds: u64,
}

fn yes() -> bool {
    true
}

/// One person writes for another.
async fn create(State(hermod): State<Arc<Client>>, body: Result<Json<Message>, JsonRejection>) -> Result<Response, Problem> {
    let Json(message) = body?;
    let mut draft = MessageDraft::new(json!(message)).to(To::subjects([&message.target]));
    draft.active = message.active;
    draft.cap = message.rule.as_ref().map(|rule| Cap::new(rule.tokens, format!("{}s", rule.seconds)));
    let saved = hermod.decks().messages(DECK).create(&draft).await?;
    Ok((StatusCode::CREATED, Json(with_id(&saved.id, saved.body))).into_response())
}

/// The next message for this user, which counts as sent.
async fn next(State(hermod): State<Arc<Client>>, Path(user): Path<String>) -> Result<Response, Problem> {
    let picked = hermod.decks().pick(DECK, &PickRequest::new(&user)).await?;
    if let Some(message) = picked.message {
        return Ok(Json(with_id(&message.id, message.body)).into_response());
    }
    let status = if picked.reason == Some(PickReason::NoMessages) { StatusCode::NOT_FOUND } else { StatusCode::TOO_MANY_REQUESTS };
    let why = json!({"status": status.as_u16(), "reason": picked.reason, "retry_at": picked.retry_at});
    Ok((status, [(header::CONTENT_TYPE, "application/problem+json")], why.to_string()).into_response())
}

fn with_id(id: &str, mut message: Value) -> Value {
    message.as_object_mut().map(|fields| fields.insert("id".to_owned(), json!(id)));
    message
}

/// What went wrong, as a problem document.
struct Problem(StatusCode, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({"title": self.0.canonical_reason(), "status": self.0.as_u16(), "detail": self.1});
        (self.0, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Problem {
        Problem(rejection.status(), rejection.body_text())
    }
}

impl From<ClientError> for Problem {
    fn from(fault: ClientError) -> Problem {
        let refused = fault.problem().and_then(|problem| Some((StatusCode::from_u16(problem.status).ok()?, problem.detail.clone())));
        match refused {
            Some((status, detail)) => Problem(status, detail),
            None => {
                eprintln!("iduna: {fault}");
                Problem(StatusCode::SERVICE_UNAVAILABLE, "The database or the store does not answer.".to_owned())
            }
        }
    }
}
