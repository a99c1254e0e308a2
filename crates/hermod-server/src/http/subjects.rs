//! pick: `/v1/subjects/{subject}`: what is known of a subject.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hermod_core::limit::Attributes;
use hermod_core::pick::message::Stamp;
use hermod_core::pick::{Profile, Quiet, Zone};
use hermod_core::{Subject, Tag};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Shell;
use super::decks::{QuietBody, QuietDocument, shown};
use super::problem::Document;
use super::sent::{Id, Sent, answer, once_of, parse};
use super::time::{Time, read_time};
use crate::app::Caller;
use crate::code::{Code, Problem};

/// What is known of a subject, to be saved. It replaces all that was known.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileBody {
    /// The path's, if it is there.
    subject: Option<String>,
    /// What messages are addressed by; 256 at most.
    #[serde(default)]
    #[schema(example = json!(["vip"]))]
    tags: Vec<String>,
    /// What the `when` of messages asks for.
    #[serde(default)]
    #[schema(value_type = Object)]
    attributes: Attributes,
    /// Of quiet hours and calendars, of the IANA database; the deck's if absent.
    #[schema(example = "Europe/Berlin")]
    timezone: Option<String>,
    /// When nothing is sent; the deck's hours if absent.
    quiet: Option<QuietBody>,
    /// Until when nothing is sent at all.
    #[schema(format = DateTime)]
    mute_until: Option<String>,
    /// Messages with one of these tags are not sent; 256 at most.
    #[serde(default)]
    opt_out: Vec<String>,
}

/// What is known of a subject. It can be sent back as it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Profile)]
pub(crate) struct ProfileDocument<'a> {
    subject: &'a str,
    #[schema(value_type = Vec<String>)]
    tags: Vec<&'a str>,
    #[schema(value_type = Object)]
    attributes: &'a Attributes,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quiet: Option<QuietDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mute_until: Option<Time>,
    #[schema(value_type = Vec<String>)]
    opt_out: Vec<&'a str>,
}

impl ProfileBody {
    fn profile(&self) -> Result<Profile, Problem> {
        let tags = |field: &'static str, tags: &[String]| {
            let read = tags.iter().map(Tag::new).collect::<Result<Vec<_>, _>>();
            read.map_err(|fault| Problem::new(Code::InvalidField, format!("{field} {}", fault.reason)).in_field(field))
        };
        let quiet = self.quiet.as_ref().map(QuietBody::read).transpose();
        let quiet = quiet.map_err(|fault| {
            let field = format!("quiet.{}", fault.field);
            Problem::new(Code::InvalidField, format!("{field} {}", fault.reason)).in_field(field)
        });
        Ok(Profile {
            tags: tags("tags", &self.tags)?,
            attributes: self.attributes.clone(),
            timezone: self.timezone.as_deref().map(Zone::new).transpose()?,
            quiet: quiet?,
            mute_until: self.mute_until.as_deref().map(|text| read_time("mute_until", text)).transpose()?.map(Stamp),
            opt_out: tags("opt_out", &self.opt_out)?,
        })
    }
}

fn document<'a>(subject: &'a Subject, profile: &'a Profile) -> ProfileDocument<'a> {
    ProfileDocument {
        subject: subject.as_str(),
        tags: profile.tags.iter().map(Tag::as_str).collect(),
        attributes: &profile.attributes,
        timezone: profile.timezone.as_ref().map(Zone::as_str),
        quiet: profile.quiet.as_ref().map(|quiet: &Quiet| QuietDocument::new(quiet)),
        mute_until: profile.mute_until.map(|until| Time(until.0)),
        opt_out: profile.opt_out.iter().map(Tag::as_str).collect(),
    }
}

/// Checks what is known of a subject as `PUT` does, its name included, and gives it as it would be shown: for files, which are checked
/// as a whole before anything of them is sent.
pub fn check_subject(text: &[u8]) -> Result<Value, Problem> {
    let body = parse::<ProfileBody>(text)?;
    let named = body.subject.as_deref();
    let named = named.ok_or_else(|| Problem::new(Code::MissingField, "The field subject is needed.").in_field("subject"))?;
    let (subject, profile) = (Subject::new(named)?, body.profile()?);
    profile.check()?;
    shown(&document(&subject, &profile))
}

/// What is known of a subject. One nobody told anything of has an empty profile.
#[utoipa::path(get, path = "/v1/subjects/{subject}", tag = "pick", params(("subject" = String, Path, description = "Who.")),
    responses((status = 200, body = ProfileDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn read(State(shell): State<Arc<Shell>>, caller: Caller, Id(subject): Id) -> Result<Response, Problem> {
    let subject = Subject::new(subject)?;
    let profile = shell.app.profile(&caller, &subject).await?;
    Ok(answer(StatusCode::OK, &document(&subject, &profile)))
}

/// Replaces what is known of a subject.
#[utoipa::path(put, path = "/v1/subjects/{subject}", tag = "pick", request_body = ProfileBody,
    params(("subject" = String, Path, description = "Who."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body replays the answer.")),
    responses((status = 200, body = ProfileDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn put(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(subject): Id,
    sent: Sent<ProfileBody>,
) -> Result<Response, Problem> {
    let once = sent.once("subjects/put")?;
    let subject = Subject::new(subject)?;
    if sent.value.subject.as_deref().is_some_and(|named| named != subject.as_str()) {
        return Err(Problem::new(Code::InvalidField, "subject must be the one of the path").in_field("subject"));
    }
    let (profile, _) = shell.app.put_profile(&caller, &subject, &sent.value.profile()?, once.as_ref()).await?;
    Ok(answer(StatusCode::OK, &document(&subject, &profile)))
}

/// Forgets what is known of a subject. What it was sent is not forgotten.
#[utoipa::path(delete, path = "/v1/subjects/{subject}", tag = "pick",
    params(("subject" = String, Path, description = "Who."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key replays the answer.")),
    responses((status = 204), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn remove(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(subject): Id,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let once = once_of(&headers, "subjects/delete", subject.as_bytes())?;
    let subject = Subject::new(subject)?;
    match shell.app.forget_profile(&caller, &subject, once.as_ref()).await? {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(Problem::new(Code::NotFound, "Nothing is known of this subject.").in_field("subject")),
    }
}
