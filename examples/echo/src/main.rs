//! Prints messages at their time: each once, by one of the instances that run, in order of their dates.
//! Messages of the first version wake an instance, those of the second are pulled by it.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use axum::extract::{State, rejection::JsonRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use clap::Parser;
use hermod_client::{ClaimRequest, Claimed, Client, ClientError, NewDelivery, QueueDraft, QueueOrder};
use hermod_server::{Config, Mode, Server};
use serde::Deserialize;
use serde_json::json;

const WOKEN: &str = "echo-v1";
const PULLED: &str = "echo-v2";
/// All messages have one recipient, and of one recipient one is on its way at a time: the next one is handed out when
/// this one was printed, whichever instance does it.
const RECIPIENT: &str = "stdout";
/// An instance that dies while it prints holds up the others for so long.
const LEASE: &str = "5s";
const AGAIN: Duration = Duration::from_millis(500);

#[derive(Parser)]
struct Args {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The Hermod server that several instances share; without it there is one in this process.
    #[arg(long, value_name = "URL", env = "HERMOD_URL")]
    hermod: Option<String>,
    /// Its API key.
    #[arg(long, value_name = "KEY", env = "HERMOD_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Where the server in this process keeps messages: embedded (in ./echo-data), or redis://host.
    #[arg(long, default_value = "embedded")]
    store: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Args { listen, hermod, key, store } = Args::parse();
    let (server, url) = match hermod {
        Some(url) => (None, url),
        None => {
            let config = Config { listen: ([127, 0, 0, 1], 0).into(), data: "echo-data".into(), store, ..Config::default() };
            // Open: it asks for no keys, and only this machine can reach it.
            let server = Server::start(config, Mode { open: true, ..Mode::default() }).await?;
            let url = server.url();
            (Some(server), url)
        }
    };
    let mut hermod = Client::new(&url)?;
    if let Some(key) = key {
        hermod = hermod.with_key(key);
    }
    for queue in [WOKEN, PULLED] {
        let draft = QueueDraft::new().order(QueueOrder::Total).lease(LEASE).max_attempts(100);
        hermod.queues().put(queue, &draft).await.with_context(|| format!("making the queue {queue} at {url}"))?;
    }
    let printers = [tokio::spawn(woken(hermod.clone())), tokio::spawn(pulled(hermod.clone()))];
    let routes = Router::new().route("/api/v1/echoAtTime", post(echo_v1)).route("/api/v2/echoAtTime", post(echo_v2)).with_state(hermod);
    let listener = tokio::net::TcpListener::bind(listen).await?;
    // Not to stdout, where the messages are.
    eprintln!("echo: http://{}", listener.local_addr()?);
    axum::serve(listener, routes).with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) }).await?;
    printers.iter().for_each(tokio::task::JoinHandle::abort);
    if let Some(server) = server {
        server.shutdown().await;
    }
    Ok(())
}

/// Prints what the server sends when its time has come.
async fn woken(hermod: Client) {
    loop {
        let follows = async {
            let mut stream = hermod.queues().stream(WOKEN, 1).await?;
            while let Some(delivery) = stream.next().await? {
                print(&hermod, WOKEN, &delivery).await?;
            }
            Ok::<(), ClientError>(())
        };
        if let Err(fault) = follows.await {
            eprintln!("echo: {fault}; looking again");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Asks for what is due, again and again. A question waits for its answer, so there is no hurry in between.
async fn pulled(hermod: Client) {
    let request = ClaimRequest::new(1).wait(Duration::from_secs(20));
    loop {
        let pulls = async {
            for delivery in hermod.queues().claim(PULLED, &request).await? {
                print(&hermod, PULLED, &delivery).await?;
            }
            Ok::<(), ClientError>(())
        };
        if let Err(fault) = pulls.await {
            eprintln!("echo: {fault}; asking again");
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Finished only when it is printed: an instance that dies before is followed by another.
async fn print(hermod: &Client, queue: &str, delivery: &Claimed) -> Result<(), ClientError> {
    match delivery.payload::<String>() {
        Ok(message) => println!("{message}"),
        Err(fault) => eprintln!("echo: {} is no message: {fault}", delivery.id),
    }
    hermod.queues().ack(queue, delivery).await.map(drop)
}

#[derive(Deserialize)]
struct Echo {
    message: String,
    date: String,
}

type Body = Result<Json<Echo>, JsonRejection>;

async fn echo_v1(State(hermod): State<Client>, body: Body) -> Result<Response, Problem> {
    echo_at_time(&hermod, WOKEN, body).await
}

async fn echo_v2(State(hermod): State<Client>, body: Body) -> Result<Response, Problem> {
    echo_at_time(&hermod, PULLED, body).await
}

async fn echo_at_time(hermod: &Client, queue: &str, body: Body) -> Result<Response, Problem> {
    let Json(Echo { message, date }) = body.map_err(|fault| Problem(fault.status(), fault.body_text()))?;
    let bad = |detail: &str| Problem(StatusCode::BAD_REQUEST, detail.to_owned());
    let time: jiff::Timestamp = date.parse().map_err(|_| bad("date must be a time such as 2030-01-31T09:00:00Z."))?;
    let time = SystemTime::from(time);
    if time < SystemTime::now() {
        return Err(bad("date must not be in the past."));
    }
    let pushed = hermod.queues().push(queue, &NewDelivery::new(message).due(time).to(RECIPIENT)).await?;
    Ok((StatusCode::CREATED, Json(json!({"id": pushed.id, "date": pushed.due}))).into_response())
}

/// What went wrong, as a problem document.
struct Problem(StatusCode, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({"type": "about:blank", "title": self.0.canonical_reason(), "status": self.0.as_u16(), "detail": self.1});
        (self.0, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
    }
}

impl From<ClientError> for Problem {
    fn from(fault: ClientError) -> Problem {
        eprintln!("echo: {fault}");
        match fault.problem().map(|problem| (StatusCode::from_u16(problem.status), problem)) {
            Some((Ok(status), problem)) if status.is_client_error() => Problem(status, problem.detail.clone()),
            _ => Problem(StatusCode::SERVICE_UNAVAILABLE, "The message could not be kept; send it again.".to_owned()),
        }
    }
}
