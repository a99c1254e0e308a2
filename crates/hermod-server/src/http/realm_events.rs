//! realm: `GET /v1/realms/{realm}/events`: what changed for whom, as a page or as server-sent events.
//!
//! They are made of the ledger, which is in order and never trimmed. A reader's place is a commit's number, and the event's within it.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use hermod_core::realm::definition::AssetKind;
use hermod_core::realm::entry::What;
use hermod_core::realm::{Entry, Realm};
use hermod_core::{INT_MAX, Invalid, Micros, RealmId};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::Shell;
use super::books::limited;
use super::events::{ALIVE_EVERY, is_stream, last_event_id};
use super::problem::Document;
use super::sent::{Id, answer, bad_query};
use super::time::Time;
use crate::app::{Caller, LedgerFrom, RealmTold};
use crate::code::Problem;

/// What changed for one owner.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RealmEvent)]
pub(crate) struct EventDocument {
    /// The commit's number and the event's within it.
    #[schema(example = "17-0")]
    id: String,
    /// Of this format.
    version: u8,
    /// Where the change comes from.
    #[serde(rename = "type")]
    #[schema(example = "farm")]
    kind: String,
    /// To whom.
    user_id: String,
    /// Where; `0` if that is not known.
    guild_id: String,
    /// How much of the currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<i64>,
    /// Of which currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    asset: Option<String>,
    /// Of which item.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<String>,
    /// How many of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    quantity: Option<i64>,
    /// When.
    at: Time,
}

/// The events of a commit: one for each side of each leg, but the realm's own.
pub(super) fn events_of(realm: &Realm, seq: u64, at: Micros, entry: &Entry) -> Vec<EventDocument> {
    let mut events = Vec::new();
    if matches!(entry.what, What::Hold | What::Release) {
        return events;
    }
    for leg in &entry.legs {
        let is_currency = realm.asset(&leg.asset).is_some_and(|asset| asset.kind == AssetKind::Currency);
        for (owner, kind, change) in [(&leg.from, &leg.types.0, -leg.qty), (&leg.to, &leg.types.1, leg.qty)] {
            if owner.starts_with('@') {
                continue;
            }
            let name = leg.asset.to_string();
            events.push(EventDocument {
                id: format!("{seq}-{}", events.len()),
                version: 1,
                kind: kind.to_string(),
                user_id: owner.to_string(),
                guild_id: if entry.guild.is_empty() { "0".to_owned() } else { entry.guild.to_string() },
                amount: is_currency.then_some(change),
                asset: is_currency.then(|| name.clone()),
                item: (!is_currency).then_some(name),
                quantity: (!is_currency).then_some(change),
                at: Time::passed(at),
            });
        }
    }
    events
}

/// Which events.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    limit: Option<usize>,
    after: Option<String>,
    stream: Option<String>,
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RealmEvents)]
pub(crate) struct EventsDocument {
    /// In order.
    items: Vec<EventDocument>,
    /// What to ask for as `after` next: also when there is nothing new.
    after: u64,
    /// There is more already.
    more: bool,
}

/// Where a reader is: after a commit, or after this event of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    after: u64,
    event: Option<usize>,
}

impl Place {
    /// Reads the number of a commit, `17`, or the id of an event, `17-0`.
    fn read(field: &'static str, text: &str) -> Result<Place, Invalid> {
        let number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten();
        let place = match text.split_once('-') {
            None => number(text).map(|after| Place { after: after.min(INT_MAX), event: None }),
            Some((seq, event)) => number(seq).zip(number(event)).and_then(|(seq, event)| {
                let (after, event) = (seq.min(INT_MAX).checked_sub(1)?, usize::try_from(event).ok()?);
                Some(Place { after, event: Some(event) })
            }),
        };
        place.ok_or_else(|| Invalid::new(field, "must be the number of a commit, or the id of an event such as 17-0"))
    }
}

/// Which events of commits are told.
struct Telling {
    place: Place,
    is_currency: Option<bool>,
}

impl Telling {
    fn events(&self, realm: &Realm, commits: &[(u64, Micros, Entry)]) -> Vec<EventDocument> {
        let mut told = Vec::new();
        for (seq, at, entry) in commits {
            let skipped = if *seq == self.place.after + 1 { self.place.event.map_or(0, |event| event.saturating_add(1)) } else { 0 };
            let events = events_of(realm, *seq, *at, entry).into_iter().skip(skipped);
            told.extend(events.filter(|event| self.is_currency.is_none_or(|is_currency| event.amount.is_some() == is_currency)));
        }
        told
    }
}

/// What changed in a realm, in order: all of it, changes of currencies, or changes of items; as a page, or, with
/// `Accept: text/event-stream`, followed live, each event named by its type.
#[utoipa::path(get, path = "/v1/realms/{realm}/events", tag = "realm",
    params(("realm" = String, Path, description = "The realm."),
        ("after" = Option<String>, Query, description = "The number of the last commit that was read, or the `id` of the last event; `now`: \
            only what is to come. From the first on if absent."),
        ("limit" = Option<usize>, Query, description = "Of at most so many commits; 50 if absent, 200 at most."),
        ("stream" = Option<String>, Query, description = "`currency` or `inventory`; both if absent."),
        ("Last-Event-ID" = Option<String>, Header, description = "Where a stream broke off: as `after`, and before it.")),
    responses((status = 200, description = "Events, and where to go on.", content((EventsDocument = "application/json"),
            (EventDocument = "text/event-stream"))),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn events(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(realm): Id,
    query: Result<Query<EventsQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|fault| bad_query(&fault, "limit", "after, limit (a number) and stream"))?;
    let is_currency = match query.stream.as_deref() {
        None => None,
        Some("currency") => Some(true),
        Some("inventory") => Some(false),
        Some(_) => return Err(Invalid::new("stream", "must be one of: currency inventory").into()),
    };
    let (id, limit, is_stream) = (RealmId::new(realm)?, limited(query.limit, 50)?, is_stream(&headers));
    let seen = last_event_id(&headers)?.filter(|_| is_stream);
    let place = match (seen, query.after.as_deref()) {
        (Some(seen), _) => Place::read("Last-Event-ID", seen)?,
        (None, Some("now")) => Place { after: shell.app.ledger(&caller, &id, LedgerFrom::After(INT_MAX), 1).await?.last, event: None },
        (None, Some(after)) => Place::read("after", after)?,
        (None, None) => Place::default(),
    };
    let telling = Telling { place, is_currency };
    if is_stream {
        let receive = shell.app.follow_realm(&caller, &id, place.after).await?;
        return Ok(stream(receive, telling));
    }
    let commits = shell.app.ledger(&caller, &id, LedgerFrom::After(place.after), limit).await?;
    let realm = shell.app.realm_of(&caller.space, &id)?;
    let items = telling.events(&realm, &commits.entries);
    let after = commits.entries.last().map_or(place.after, |(seq, ..)| *seq);
    Ok(answer(StatusCode::OK, &EventsDocument { items, after, more: after < commits.last }))
}

fn stream(receive: mpsc::Receiver<RealmTold>, telling: Telling) -> Response {
    let told = futures_util::stream::unfold(receive, |mut receive| async move { Some((receive.recv().await?, receive)) });
    let events = told.flat_map(move |told| {
        let events: Vec<Event> = match told {
            RealmTold::Commits(realm, commits) => {
                let events: Vec<_> = telling.events(&realm, &commits).iter().map(event).collect();
                // Without data nothing is dispatched, but a reader that comes back does so from here.
                let last = commits.last().filter(|_| events.is_empty()).map(|(seq, ..)| Event::default().id(seq.to_string()));
                events.into_iter().chain(last).collect()
            }
            RealmTold::Gap(last) => vec![Event::default().event("gap").id(last.to_string()).data("{}")],
        };
        futures_util::stream::iter(events.into_iter().map(Ok::<Event, Infallible>))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)).into_response()
}

fn event(told: &EventDocument) -> Event {
    Event::default().event(&told.kind).id(&told.id).data(serde_json::to_string(told).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_commit_or_an_event_of_it() {
        let place = |after, event| Ok(Place { after, event });
        for (text, read) in [("0", place(0, None)), ("17", place(17, None)), ("17-0", place(16, Some(0))), ("1-12", place(0, Some(12)))] {
            assert_eq!(Place::read("after", text), read, "{text}");
        }
        for bad in ["", "x", "-1", "17-", "17-0-1", "0-0", "+17", "1.5", "now", "99999999999999999999"] {
            assert!(Place::read("after", bad).is_err(), "{bad}");
        }
    }
}
