//! The HTTP interface: JSON under `/v1`, problem documents for errors, OpenAPI from this code.
//!
//! One file per capability, each with its bodies, its handlers and their documentation. A request
//! passes one layer, the [`gate`], which gives it an id, a deadline and a place among those under
//! way; everything else is in the handlers' arguments.

mod books;
mod clock;
mod commits;
mod decks;
mod deep;
mod deliveries;
mod enacted;
mod errors;
mod events;
mod gate;
mod health;
mod keys;
mod limit;
mod linger;
mod messages;
mod odds;
pub mod openapi;
mod page;
mod picks;
mod plays;
mod problem;
mod queues;
mod realm_events;
mod realms;
mod rules;
mod schedules;
mod sent;
mod spaces;
mod subjects;
mod time;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::Next;
use axum::routing::{delete, get, post, put};
use utoipa_swagger_ui::SwaggerUi;

pub use decks::check_deck;
pub use messages::check_message;
pub use odds::realm_odds;
pub use realms::check_realm;
pub use subjects::check_subject;

#[cfg(feature = "client")]
pub(crate) use limit::{CheckBody, CheckDocument};

use crate::app::{App, to_the_end};
use crate::code::{Code, Problem};
use crate::config::{Config, Settings};

/// What every handler can reach.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) app: App,
    pub(crate) body_max: usize,
    pub(crate) request_timeout: Duration,
    pub(crate) gate: gate::Gate,
    /// Whether `X-RateLimit-*` is sent, too.
    pub(crate) legacy_headers: bool,
}

impl Shell {
    pub(crate) fn new(app: App, settings: &Settings, config: &Config) -> Arc<Shell> {
        let Settings { body_max, request_timeout, .. } = *settings;
        let (gate, legacy_headers) = (gate::Gate::new(config.in_flight_max), config.legacy_headers);
        Arc::new(Shell { app, body_max, request_timeout, gate, legacy_headers })
    }
}

/// All routes.
pub(crate) fn router(shell: &Arc<Shell>) -> Router {
    // Else the page would have somebody else's server look at the document.
    let offline = utoipa_swagger_ui::Config::default().validator_url("none");
    Router::new()
        .route("/v1/limit/check", post(limit::check))
        .route("/v1/limit/batch", post(limit::batch))
        .route("/v1/limit/refund", post(limit::refund))
        .route("/v1/limit/reset", post(limit::reset))
        .route("/v1/limit/acquire", post(limit::acquire))
        .route("/v1/limit/renew", post(limit::renew))
        .route("/v1/limit/release", post(limit::release))
        .route("/v1/limit/reserve", post(limit::reserve))
        .route("/v1/limit/commit", post(limit::commit))
        .route("/v1/limit/cancel", post(limit::cancel))
        .route("/v1/limit/refused", get(limit::refused))
        .route("/v1/limit/gate/{action}/{subject}", get(limit::gate))
        .route("/v1/decks/{deck}/picks", post(picks::pick))
        .route("/v1/decks/{deck}/history/{subject}", get(picks::history))
        .route("/v1/picks/{id}/ack", post(picks::ack))
        .route("/v1/picks/{id}/nack", post(picks::nack))
        .route("/v1/subjects/{subject}", get(subjects::read).put(subjects::put).delete(subjects::remove))
        .route("/v1/realms/{realm}/plays/{play}", post(plays::play))
        .route("/v1/realms/{realm}/commits", post(commits::commit))
        .route("/v1/realms/{realm}/commits/{id}/revert", post(commits::revert))
        .route("/v1/realms/{realm}/holds", post(commits::hold))
        .route("/v1/realms/{realm}/holds/{id}", get(books::hold))
        .route("/v1/realms/{realm}/holds/{id}/capture", post(commits::capture))
        .route("/v1/realms/{realm}/holds/{id}/release", post(commits::release))
        .route("/v1/realms/{realm}/simulate", post(plays::simulate))
        .route("/v1/realms/{realm}/accounts/{owner}", get(books::account))
        .route("/v1/realms/{realm}/boards/{asset}", get(books::board))
        .route("/v1/realms/{realm}/ledger", get(books::ledger))
        .route("/v1/realms/{realm}/events", get(realm_events::events))
        .route("/v1/realms/{realm}/odds", get(odds::read))
        .route("/v1/realms/{realm}/supply", get(books::supply))
        .route("/v1/realms/{realm}/audit", get(books::audit))
        .route("/v1/events", get(events::events))
        .route("/v1/queues/{queue}/deliveries", get(deliveries::list).post(deliveries::push))
        .route("/v1/queues/{queue}/deliveries/{id}", get(deliveries::read).patch(deliveries::patch).delete(deliveries::remove))
        .route("/v1/queues/{queue}/relay", post(deliveries::relay))
        .route("/v1/queues/{queue}/claim", post(deliveries::claim))
        .route("/v1/queues/{queue}/ack", post(deliveries::ack))
        .route("/v1/queues/{queue}/nack", post(deliveries::nack))
        .route("/v1/queues/{queue}/extend", post(deliveries::extend))
        .route("/v1/queues/{queue}/cancel", post(deliveries::cancel))
        .route("/v1/queues/{queue}/shift", post(deliveries::shift))
        .route("/v1/queues/{queue}/redrive", post(deliveries::redrive))
        .route("/v1/queues/{queue}/workers", get(workers::list))
        .route("/v1/queues/{queue}/workers/{worker}", put(workers::register).delete(workers::leave))
        .route("/v1/queues/{queue}/workers/{worker}/heartbeat", post(workers::heartbeat))
        .route("/v1/queues/{queue}/workers/{worker}/drain", post(workers::drain))
        .route("/v1/queues/{queue}/recipients/{recipient}", get(workers::explain).put(workers::pin))
        .route("/v1/queues/{queue}/stream", get(deliveries::stream))
        .route("/v1/queues/{queue}/attempts", get(deliveries::attempts))
        .route("/v1/queues/{queue}/stats", get(deliveries::stats))
        .merge(definitions())
        .route("/v1/clock", get(clock::read).post(clock::advance))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .route("/", get(health::index))
        .route("/docs/errors", get(errors::page))
        .merge(SwaggerUi::new("/docs").url("/openapi.json", openapi::document()).config(offline))
        .method_not_allowed_fallback(|| async {
            Problem::new(Code::MethodNotAllowed, "This path does not take this method; /docs lists what it takes.")
        })
        .fallback(|| async { Problem::new(Code::NotFound, "There is nothing at this path; /docs lists what there is.") })
        .layer(gate::GateLayer(Arc::clone(shell)))
        .with_state(Arc::clone(shell))
}

/// What is defined: what changes the catalog is done to its end, also if whoever asked leaves. A connection to the database that is left in the
/// middle of something may stay in it.
fn definitions() -> Router<Arc<Shell>> {
    Router::new()
        .route("/v1/rules", get(rules::list).post(rules::create))
        .route("/v1/rules/{id}", get(rules::read).put(rules::put).delete(rules::remove))
        .route("/v1/queues", get(queues::list))
        .route("/v1/queues/{queue}", get(queues::read).put(queues::put).delete(queues::remove))
        .route("/v1/queues/{queue}/schedules", get(schedules::list))
        .route("/v1/queues/{queue}/schedules/{name}", get(schedules::read).put(schedules::put).delete(schedules::remove))
        .route("/v1/decks", get(decks::list))
        .route("/v1/decks/{deck}", get(decks::read).put(decks::put).delete(decks::remove))
        .route("/v1/decks/{deck}/messages", get(messages::list).post(messages::create))
        .route("/v1/decks/{deck}/messages/{id}", get(messages::read).put(messages::put).delete(messages::remove))
        .route("/v1/realms", get(realms::list))
        .route("/v1/realms/{realm}", get(realms::read).put(realms::put))
        .route("/v1/keys", get(keys::list).post(keys::create))
        .route("/v1/keys/{id}", delete(keys::remove))
        .route("/v1/spaces", get(spaces::list).post(spaces::create))
        .route_layer(axum::middleware::from_fn(async |request: Request, next: Next| to_the_end(next.run(request)).await))
}
