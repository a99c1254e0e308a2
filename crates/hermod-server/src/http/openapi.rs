//! The OpenAPI document, made from the handlers.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::{
    books, clock, commits, decks, deliveries, events, health, keys, limit, messages, odds, picks, plays, queues, realm_events, realms,
    rules, schedules, spaces, subjects, workers,
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Hermod", description = "The state engine behind bots, agents and notification services."),
    paths(
        limit::check,
        limit::batch,
        limit::refund,
        limit::reset,
        limit::acquire,
        limit::renew,
        limit::release,
        limit::reserve,
        limit::commit,
        limit::cancel,
        limit::refused,
        limit::gate,
        rules::list,
        rules::create,
        rules::read,
        rules::put,
        rules::remove,
        queues::list,
        queues::read,
        queues::put,
        queues::remove,
        schedules::list,
        schedules::read,
        schedules::put,
        schedules::remove,
        decks::list,
        decks::read,
        decks::put,
        decks::remove,
        messages::list,
        messages::create,
        messages::read,
        messages::put,
        messages::remove,
        picks::pick,
        picks::ack,
        picks::nack,
        picks::history,
        realms::list,
        realms::read,
        realms::put,
        plays::play,
        commits::commit,
        commits::revert,
        commits::hold,
        commits::capture,
        commits::release,
        plays::simulate,
        books::account,
        books::board,
        books::ledger,
        realm_events::events,
        books::hold,
        odds::read,
        books::supply,
        books::audit,
        events::events,
        subjects::read,
        subjects::put,
        subjects::remove,
        keys::list,
        keys::create,
        keys::remove,
        spaces::list,
        spaces::create,
        deliveries::push,
        deliveries::relay,
        deliveries::list,
        deliveries::read,
        deliveries::patch,
        deliveries::remove,
        deliveries::claim,
        deliveries::ack,
        deliveries::nack,
        deliveries::extend,
        deliveries::cancel,
        deliveries::shift,
        deliveries::redrive,
        deliveries::stream,
        deliveries::stats,
        deliveries::attempts,
        workers::list,
        workers::register,
        workers::leave,
        workers::heartbeat,
        workers::drain,
        workers::explain,
        workers::pin,
        clock::read,
        clock::advance,
        health::healthz,
        health::readyz,
        health::metrics
    ),
    modifiers(&Keys)
)]
struct Api;

/// Every path takes an API key.
struct Keys;

impl Modify for Keys {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("hk_...").build();
        api.components.get_or_insert_default().add_security_scheme("key", SecurityScheme::Http(scheme));
        api.security = Some(vec![SecurityRequirement::new("key", Vec::<String>::new())]);
    }
}

/// The document served at `/openapi.json`.
pub fn document() -> utoipa::openapi::OpenApi {
    Api::openapi()
}
