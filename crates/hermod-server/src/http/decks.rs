//! pick: `/v1/decks`.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hermod_core::Invalid;
use hermod_core::pick::{Cap, Deck, Quiet};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Shell;
use super::page::{Page, cut};
use super::problem::Document;
use super::sent::{Id, Sent, answer, catalog_once, parse};
use crate::app::{Caller, CapDraft, DeckDraft};
use crate::code::{Code, Problem};

/// A deck, to be saved. What is absent has its default.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeckBody {
    /// The path's, if it is there.
    deck: Option<String>,
    /// fresh_lru (the default): what was never sent at random, then what was sent longest ago; weighted: at random by weight;
    /// priority: the highest first; sequence: in the order they were made.
    strategy: Option<String>,
    /// How many messages one subject gets, whatever the messages say; 1 per 10m if absent, no bound if null.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<CapBody>)]
    subject_cap: Option<Option<CapBody>>,
    /// When nothing is sent, for subjects that do not say it themselves.
    quiet_hours: Option<QuietBody>,
    /// The time zone of subjects that do not say theirs, of the IANA database; UTC if absent.
    #[schema(example = "Europe/Berlin")]
    timezone: Option<String>,
    /// How many sends of a subject are remembered exactly, of older ones only that they were; 512 if absent.
    #[schema(minimum = 16, maximum = 4096)]
    history_max: Option<u32>,
    /// Numbered by the server. It may stand here, so that what was read can be sent back.
    #[serde(rename = "version")]
    _version: Option<u64>,
}

/// Tells null from absent.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// So many per period.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapBody {
    /// How many. What must not be sent is not active, and no cap is null.
    #[schema(minimum = 1, maximum = 1000000, example = 1)]
    tokens: u64,
    /// A duration; for kind calendar hour, day, week, month or year.
    #[schema(example = "10m")]
    per: String,
    /// bucket (the default): tokens drip back evenly; rolling: never more in any span of this length; calendar: so many in
    /// each period of the subject's own calendar.
    kind: Option<String>,
}

impl CapBody {
    pub(super) fn draft(self) -> CapDraft {
        CapDraft { tokens: self.tokens, per: self.per, kind: self.kind }
    }
}

/// A span of every day, across midnight where `to` is not after `from`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuietBody {
    #[schema(example = "22:00")]
    from: String,
    #[schema(example = "08:00")]
    to: String,
}

impl QuietBody {
    pub(super) fn read(&self) -> Result<Quiet, Invalid> {
        Quiet::new(&self.from, &self.to)
    }
}

impl DeckBody {
    fn draft(self, deck: String) -> DeckDraft {
        DeckDraft {
            deck,
            strategy: self.strategy,
            subject_cap: self.subject_cap.map(|cap| cap.map(CapBody::draft)),
            quiet_hours: self.quiet_hours.map(|quiet| (quiet.from, quiet.to)),
            timezone: self.timezone,
            history_max: self.history_max,
        }
    }
}

/// A deck. It can be sent back as it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Deck)]
pub(crate) struct DeckDocument<'a> {
    deck: &'a str,
    strategy: &'a str,
    /// No bound if null.
    subject_cap: Option<CapDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quiet_hours: Option<QuietDocument>,
    timezone: &'a str,
    history_max: u32,
    /// Grows with every change of the deck, and not with those of its messages.
    version: u64,
}

/// So many per period.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cap)]
pub(crate) struct CapDocument<'a> {
    tokens: u64,
    per: &'a str,
    kind: &'a str,
}

impl<'a> CapDocument<'a> {
    pub(super) fn new(cap: &'a Cap) -> CapDocument<'a> {
        CapDocument { tokens: cap.tokens(), per: cap.per(), kind: cap.kind().as_str() }
    }
}

/// A span of every day.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QuietHours)]
pub(crate) struct QuietDocument {
    from: String,
    to: String,
}

impl QuietDocument {
    pub(super) fn new(quiet: &Quiet) -> QuietDocument {
        let (from, to) = quiet.bounds();
        QuietDocument { from, to }
    }
}

impl<'a> DeckDocument<'a> {
    fn new(deck: &'a Deck) -> DeckDocument<'a> {
        DeckDocument {
            deck: deck.id.as_str(),
            strategy: deck.strategy.as_str(),
            subject_cap: deck.subject_cap.as_ref().map(CapDocument::new),
            quiet_hours: deck.quiet_hours.as_ref().map(QuietDocument::new),
            timezone: deck.timezone.as_str(),
            history_max: deck.history_max,
            version: deck.version,
        }
    }
}

/// Checks a deck as `PUT` does, its name included, and gives it as it would be shown: for files, which are checked as a whole
/// before anything of them is sent.
pub fn check_deck(text: &[u8]) -> Result<Value, Problem> {
    let mut body = parse::<DeckBody>(text)?;
    let deck = body.deck.take().ok_or_else(|| Problem::new(Code::MissingField, "The field deck is needed.").in_field("deck"))?;
    shown(&DeckDocument::new(&body.draft(deck).read()?))
}

/// A document by itself.
pub(super) fn shown(document: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(document).map_err(|fault| Problem::new(Code::Internal, "It cannot be written as JSON.").caused_by(&fault))
}

/// A page of decks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Decks<'a> {
    items: Vec<DeckDocument<'a>>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

/// Lists the space's decks, by name.
#[utoipa::path(get, path = "/v1/decks", tag = "pick", params(Page),
    responses((status = 200, body = Decks<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Response, Problem> {
    let (limit, cursor) = Page::read(page)?;
    let (decks, next) = cut(shell.app.decks(&caller)?, limit, cursor.as_deref(), |view| view.deck.id.as_str());
    Ok(answer(StatusCode::OK, &Decks { items: decks.iter().map(|view| DeckDocument::new(&view.deck)).collect(), next }))
}

/// Reads a deck.
#[utoipa::path(get, path = "/v1/decks/{deck}", tag = "pick", params(("deck" = String, Path)),
    responses((status = 200, body = DeckDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn read(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let view = shell.app.deck(&caller, &id)?;
    Ok(answer(StatusCode::OK, &DeckDocument::new(&view.deck)))
}

/// Adds or replaces a deck. Its messages stay, and who got which.
#[utoipa::path(put, path = "/v1/decks/{deck}", tag = "pick", request_body = DeckBody,
    params(("deck" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = DeckDocument<'_>, description = "Replaced."), (status = 201, body = DeckDocument<'_>, description = "Added."),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn put(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id, sent: Sent<DeckBody>) -> Result<Response, Problem> {
    if sent.value.deck.as_ref().is_some_and(|body| *body != id) {
        return Err(Problem::new(Code::InvalidField, "deck must be absent, or the same as in the path").in_field("deck"));
    }
    let once = sent.catalog_once(&caller, &format!("decks/put/{id}"))?;
    let saved = shell.app.put_deck(&caller, sent.value.draft(id), once.as_ref()).await?;
    let status = if saved.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, &DeckDocument::new(&saved.value)))
}

/// Deletes a deck and its messages, and forgets who got which.
#[utoipa::path(delete, path = "/v1/decks/{deck}", tag = "pick",
    params(("deck" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and path replays the answer.")),
    responses((status = 204, description = "Deleted."), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn remove(State(shell): State<Arc<Shell>>, caller: Caller, Id(id): Id, headers: HeaderMap) -> Result<Response, Problem> {
    let once = catalog_once(&caller, &headers, &format!("decks/delete/{id}"))?;
    shell.app.delete_deck(&caller, &id, once.as_ref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
