//! A todo list. Each user may add only so many tasks, by a rule that can be changed at any time.
//! Hermod runs inside this process, and keeps its rules in the same database as users and tasks.

use std::{net::SocketAddr, sync::Arc};

use axum::extract::{Path, Request, State, rejection::JsonRejection};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{post, put};
use axum::{Extension, Json, Router};
use clap::Parser;
use hermod_client::{Algorithm, Client, ClientError, RuleDraft, layer::RateLimit};
use hermod_server::{Config, Mode, Server};
use serde::Deserialize;
use serde_json::json;
use sqlx::AnyPool;
use uuid::Uuid;

const SAMPLE_USER: &str = "9725cc63-4e92-4893-a6b2-216617f3a5dd";
const CREATE: &str = "tasks/create";
const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS users (id VARCHAR(36) PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS tasks (id VARCHAR(36) PRIMARY KEY, user_id VARCHAR(36) NOT NULL, content TEXT NOT NULL)",
];

#[derive(Parser)]
struct Args {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Users, tasks and rules: sqlite://path or mysql://user:password@host/database.
    #[arg(long, default_value = "sqlite://todo-data/todo.db")]
    database: String,
    /// What is used up: embedded, or redis://host.
    #[arg(long, default_value = "embedded")]
    store: String,
}

struct App {
    database: AnyPool,
    hermod: Client,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Args { listen, database: catalog, store } = Args::parse();
    let config = Config { listen: ([127, 0, 0, 1], 0).into(), data: "todo-data".into(), store, catalog, ..Config::default() };
    // Open: it asks for no keys, and only this machine can reach it.
    let server = Server::start(config.clone(), Mode { open: true, ..Mode::default() }).await?;
    let app = Arc::new(App { database: AnyPool::connect(&config.catalog).await?, hermod: Client::new(&server.url())? });
    for table in TABLES {
        sqlx::query(table).execute(&app.database).await?;
    }
    if app.user(SAMPLE_USER).await?.is_none() {
        app.put_rule(SAMPLE_USER, CREATE, "day", 5).await?;
        sqlx::query("INSERT INTO users VALUES (?)").bind(SAMPLE_USER).execute(&app.database).await?;
    }
    let limit = RateLimit::action(CREATE).subject(|request| request.extensions().get().map(|User(id)| id.clone()));
    let routes = Router::new()
        .route("/users/{id}/tasks", post(create_task).layer(limit.with(server.limiter("default")?)))
        .route("/users/{id}/rules", put(put_rule))
        .layer(from_fn_with_state(Arc::clone(&app), known_user))
        .with_state(app);
    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("todo: http://{}", listener.local_addr()?);
    axum::serve(listener, routes).with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) }).await?;
    server.shutdown().await;
    Ok(())
}

/// The user in the path, as the database spells it.
#[derive(Clone)]
struct User(String);

/// Comes before the limit, so that what is counted is always a user.
async fn known_user(State(app): State<Arc<App>>, Path(id): Path<String>, mut request: Request, next: Next) -> Result<Response, Problem> {
    let unknown = || Problem(StatusCode::NOT_FOUND, format!("There is no user {id}."));
    request.extensions_mut().insert(User(app.user(&id).await?.ok_or_else(unknown)?));
    Ok(next.run(request).await)
}

type Body<T> = Result<Json<T>, JsonRejection>;

#[derive(Deserialize)]
struct Task {
    content: String,
}

async fn create_task(State(app): State<Arc<App>>, user: Extension<User>, body: Body<Task>) -> Result<Response, Problem> {
    let (id, User(user), Json(Task { content })) = (Uuid::new_v4().to_string(), user.0, body?);
    sqlx::query("INSERT INTO tasks VALUES (?, ?, ?)").bind(&id).bind(&user).bind(&content).execute(&app.database).await?;
    Ok((StatusCode::CREATED, Json(json!({"id": id, "user_id": user, "content": content}))).into_response())
}

#[derive(Deserialize)]
struct Rule {
    action: String,
    unit: String,
    requests_per_unit: u64,
}

async fn put_rule(State(app): State<Arc<App>>, user: Extension<User>, body: Body<Rule>) -> Result<Response, Problem> {
    let (User(user), Json(Rule { action, unit, requests_per_unit })) = (user.0, body?);
    if !["second", "minute", "hour", "day"].contains(&unit.as_str()) {
        return Err(Problem(StatusCode::BAD_REQUEST, "unit must be second, minute, hour or day.".to_owned()));
    }
    app.put_rule(&user, &action, &unit, requests_per_unit).await?;
    Ok(Json(json!({"user_id": user, "action": action, "unit": unit, "requests_per_unit": requests_per_unit})).into_response())
}

impl App {
    async fn user(&self, id: &str) -> Result<Option<String>, sqlx::Error> {
        sqlx::query_scalar("SELECT id FROM users WHERE id = ?").bind(id).fetch_optional(&self.database).await
    }

    /// One rule for each user and action, whose id follows from both. It counts by the calendar.
    async fn put_rule(&self, user: &str, action: &str, unit: &str, limit: u64) -> Result<(), ClientError> {
        let id = Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{user}/{action}").as_bytes()).to_string();
        let draft = RuleDraft::new(action, limit, unit).subject(user).algorithm(Algorithm::FixedWindow);
        self.hermod.rules().put(&id, &draft).await.map(drop)
    }
}

/// What went wrong, as a problem document.
struct Problem(StatusCode, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({"type": "about:blank", "title": self.0.canonical_reason(), "status": self.0.as_u16(), "detail": self.1});
        (self.0, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
    }
}

impl<E: Into<anyhow::Error>> From<E> for Problem {
    fn from(fault: E) -> Problem {
        let fault = fault.into();
        let refused = fault.downcast_ref::<ClientError>().and_then(ClientError::problem);
        match (fault.downcast_ref::<JsonRejection>(), refused.map(|problem| (StatusCode::from_u16(problem.status), problem))) {
            (Some(rejection), _) => Problem(rejection.status(), rejection.body_text()),
            (None, Some((Ok(status), problem))) => Problem(status, problem.detail.clone()),
            (None, _) => {
                eprintln!("todo: {fault:#}");
                Problem(StatusCode::SERVICE_UNAVAILABLE, "The database or the limiter does not answer.".to_owned())
            }
        }
    }
}
