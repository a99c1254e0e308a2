//! pick: `/v1/decks/{deck}/messages`.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hermod_core::Invalid;
use hermod_core::pick::{Audience, Message};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Shell;
use super::decks::{CapBody, CapDocument, shown};
use super::page::{Page, fetched, to_fetch};
use super::problem::Document;
use super::sent::{Id, Ids, Raw, Sent, answer, catalog_once, parse};
use super::time::{Time, read_time};
use crate::app::{Caller, MessageDraft, ToDraft};
use crate::code::{Code, Problem};

/// So many messages in a list.
const LIST_MAX: usize = 1_000;

/// A message, to be saved.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageBody {
    /// Made up if absent. With `PUT`, the path's.
    id: Option<String>,
    /// What is said: any JSON of up to 65536 bytes.
    #[schema(value_type = Value)]
    body: Box<RawValue>,
    /// Whom it is for; everyone if absent.
    to: Option<ToBody>,
    /// It is only for subjects of which this CEL expression is true.
    #[schema(example = "attributes.plan == 'free'")]
    when: Option<String>,
    /// How likely it is beside others; 1 if absent.
    #[schema(minimum = 1, maximum = 1000000)]
    weight: Option<u32>,
    /// What goes first, where the deck goes by priority; 0 if absent.
    priority: Option<i32>,
    /// Whether it is sent at all; it is if absent. Who got what is deactivated keeps having got it.
    active: Option<bool>,
    /// From when on it is sent.
    #[schema(example = "2026-12-01T00:00:00Z")]
    starts_at: Option<String>,
    /// From when on it is not.
    ends_at: Option<String>,
    /// How often one subject gets it; no bound of its own if null or absent.
    cap: Option<CapBody>,
    /// What a subject can opt out of: up to 32 of up to 128 bytes.
    #[serde(default)]
    tags: Vec<String>,
    /// Passes quiet hours and mute, and counts all the same.
    #[serde(default)]
    critical: bool,
    /// Numbered by the server. It may stand here, so that what was read can be sent back.
    #[serde(rename = "ordinal")]
    _ordinal: Option<u32>,
    /// Numbered by the server, too.
    #[serde(rename = "version")]
    _version: Option<u64>,
}

/// Whom a message is for: `"everyone"`, `{"subjects": [...]}` or `{"tags": [...]}`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "it is neither, expected \"everyone\" or an object with subjects or tags")]
pub(crate) enum ToBody {
    Word(String),
    Some(ToSome),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToSome {
    /// Up to 1000, by name.
    subjects: Option<Vec<String>>,
    /// Those that have one of these.
    tags: Option<Vec<String>>,
}

impl ToBody {
    fn draft(self) -> Result<ToDraft, Invalid> {
        match self {
            ToBody::Word(word) if word == "everyone" => Ok(ToDraft::Everyone),
            ToBody::Some(ToSome { subjects: Some(subjects), tags: None }) => Ok(ToDraft::Subjects(subjects)),
            ToBody::Some(ToSome { subjects: None, tags: Some(tags) }) => Ok(ToDraft::Tags(tags)),
            _ => Err(Invalid::new("to", r#"must be "everyone", {"subjects": [...]} or {"tags": [...]}"#)),
        }
    }
}

impl MessageBody {
    fn draft(self, id: Option<String>) -> Result<MessageDraft, Invalid> {
        // Kept as it was written, but nothing that others could not read.
        if serde_json::from_str::<Value>(self.body.get()).is_err() {
            return Err(Invalid::new("body", "is nested too deeply, or holds a number that is too large"));
        }
        Ok(MessageDraft {
            id,
            body: self.body.get().to_owned(),
            to: self.to.map(ToBody::draft).transpose()?.unwrap_or_default(),
            when: self.when,
            weight: self.weight,
            priority: self.priority,
            active: self.active,
            starts_at: self.starts_at.map(|text| read_time("starts_at", &text)).transpose()?,
            ends_at: self.ends_at.map(|text| read_time("ends_at", &text)).transpose()?,
            cap: self.cap.map(CapBody::draft),
            tags: self.tags,
            critical: self.critical,
        })
    }
}

/// A message. It can be sent back as it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Message)]
pub(crate) struct MessageDocument<'a> {
    id: &'a str,
    #[schema(value_type = Value)]
    body: &'a RawValue,
    to: ToDocument<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<&'a str>,
    weight: u32,
    priority: i32,
    active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    starts_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_at: Option<Time>,
    /// No bound of its own if null.
    cap: Option<CapDocument<'a>>,
    tags: Vec<&'a str>,
    critical: bool,
    /// Its number in the deck, in the order they were made, which is the order of a sequence; never used again.
    ordinal: u32,
    /// Grows with every change.
    version: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = To)]
pub(crate) enum ToDocument<'a> {
    Everyone,
    Subjects(Vec<&'a str>),
    Tags(Vec<&'a str>),
}

impl<'a> MessageDocument<'a> {
    fn new(message: &'a Message) -> Result<MessageDocument<'a>, Problem> {
        let body = serde_json::from_str(&message.body);
        Ok(MessageDocument {
            id: message.id.as_str(),
            body: body.map_err(|fault| Problem::new(Code::Internal, "A stored body is not JSON.").caused_by(&fault))?,
            to: match &message.to {
                Audience::Everyone => ToDocument::Everyone,
                Audience::Subjects(subjects) => ToDocument::Subjects(subjects.iter().map(|subject| subject.as_str()).collect()),
                Audience::Tags(tags) => ToDocument::Tags(tags.iter().map(|tag| tag.as_str()).collect()),
            },
            when: message.when.as_ref().map(|when| when.as_str()),
            weight: message.weight,
            priority: message.priority,
            active: message.active,
            starts_at: message.starts_at.map(|stamp| Time(stamp.0)),
            ends_at: message.ends_at.map(|stamp| Time(stamp.0)),
            cap: message.cap.as_ref().map(CapDocument::new),
            tags: message.tags.iter().map(|tag| tag.as_str()).collect(),
            critical: message.critical,
            ordinal: message.ordinal,
            version: message.version,
        })
    }
}

/// Checks a message as `POST` does, and gives it as it would be shown: for files, which are checked as a whole before anything of
/// them is sent.
pub fn check_message(text: &[u8]) -> Result<Value, Problem> {
    shown(&MessageDocument::new(&read_one(text)?)?)
}

/// A page of messages, or those that were added.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Messages<'a> {
    items: Vec<MessageDocument<'a>>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

fn several(status: StatusCode, messages: &[Message], next: Option<String>) -> Result<Response, Problem> {
    let items = messages.iter().map(MessageDocument::new).collect::<Result<_, _>>()?;
    Ok(answer(status, &Messages { items, next }))
}

/// Lists a deck's messages, by id.
#[utoipa::path(get, path = "/v1/decks/{deck}/messages", tag = "pick", params(("deck" = String, Path), Page),
    responses((status = 200, body = Messages<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(deck): Id,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Response, Problem> {
    let (limit, cursor) = Page::read(page)?;
    let mut messages = shell.app.messages(&caller, &deck, cursor.as_deref(), to_fetch(limit)).await?;
    let next = fetched(&mut messages, limit, |message| message.id.as_str());
    several(StatusCode::OK, &messages, next)
}

/// Adds a message, or a list of up to 1,000, all or none.
#[utoipa::path(post, path = "/v1/decks/{deck}/messages", tag = "pick", request_body = MessageBody,
    params(("deck" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 201, body = MessageDocument<'_>, description = "Of a list, an object with all of them in items."),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn create(State(shell): State<Arc<Shell>>, caller: Caller, Id(deck): Id, request: Request) -> Result<Response, Problem> {
    let raw = Raw::read(request, &shell).await?;
    let once = raw.catalog_once(&caller, &format!("messages/create/{deck}"))?;
    let (messages, is_list) = match raw.bytes.trim_ascii_start().starts_with(b"[") {
        true => (read_list(&raw.bytes)?, true),
        false => (vec![read_one(&raw.bytes)?], false),
    };
    let saved = shell.app.create_messages(&caller, &deck, messages, once.as_ref()).await?;
    match saved.value.as_slice() {
        [message] if !is_list => Ok(answer(StatusCode::CREATED, &MessageDocument::new(message)?)),
        messages => several(StatusCode::CREATED, messages, None),
    }
}

fn read_one(text: &[u8]) -> Result<Message, Problem> {
    let mut body = parse::<MessageBody>(text)?;
    let id = body.id.take();
    body.draft(id)?.read()
}

fn read_list(text: &[u8]) -> Result<Vec<Message>, Problem> {
    let bodies: Vec<&RawValue> =
        serde_json::from_slice(text).map_err(|_| Problem::new(Code::InvalidJson, "The body is no list of JSON objects."))?;
    if bodies.len() > LIST_MAX {
        let many = format!("The list has {} messages; {LIST_MAX} are taken at once.", bodies.len());
        return Err(Problem::new(Code::BodyTooLarge, many));
    }
    let read = |(place, body): (usize, &&RawValue)| {
        read_one(body.get().as_bytes()).map_err(|mut problem| {
            problem.detail = format!("Message {place} of the list: {}", problem.detail);
            problem.field = problem.field.map(|field| format!("[{place}].{field}"));
            problem
        })
    };
    bodies.iter().enumerate().map(read).collect()
}

/// Reads a message.
#[utoipa::path(get, path = "/v1/decks/{deck}/messages/{id}", tag = "pick", params(("deck" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = MessageDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn read(State(shell): State<Arc<Shell>>, caller: Caller, Ids(deck, id): Ids) -> Result<Response, Problem> {
    let message = shell.app.message(&caller, &deck, &id).await?;
    Ok(answer(StatusCode::OK, &MessageDocument::new(&message)?))
}

/// Adds or replaces a message. Who got it keeps having got it.
#[utoipa::path(put, path = "/v1/decks/{deck}/messages/{id}", tag = "pick", request_body = MessageBody,
    params(("deck" = String, Path), ("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = MessageDocument<'_>, description = "Replaced."), (status = 201, body = MessageDocument<'_>, description = "Added."),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn put(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(deck, id): Ids,
    sent: Sent<MessageBody>,
) -> Result<Response, Problem> {
    if sent.value.id.as_ref().is_some_and(|body| *body != id) {
        return Err(Problem::new(Code::InvalidField, "id must be absent, or the same as in the path").in_field("id"));
    }
    let once = sent.catalog_once(&caller, &format!("messages/put/{deck}/{id}"))?;
    let saved = shell.app.put_message(&caller, &deck, sent.value.draft(Some(id))?, once.as_ref()).await?;
    let status = if saved.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, &MessageDocument::new(&saved.value)?))
}

/// Deletes a message, and forgets who got it.
#[utoipa::path(delete, path = "/v1/decks/{deck}/messages/{id}", tag = "pick",
    params(("deck" = String, Path), ("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and path replays the answer.")),
    responses((status = 204, description = "Deleted."), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn remove(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(deck, id): Ids,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let once = catalog_once(&caller, &headers, &format!("messages/delete/{deck}/{id}"))?;
    shell.app.delete_message(&caller, &deck, &id, once.as_ref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
