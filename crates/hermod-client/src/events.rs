//! Events: what changed, read from any point, and followed live.

use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::ClientError;
use crate::sse::Sse;
use crate::time::Time;
use crate::word::words;

words! {
    /// What happened.
    EventType {
        /// A message was picked.
        #[default]
        MessagePicked = "message.picked",
        /// A reserved pick was kept.
        MessageAcked = "message.acked",
        /// A reserved pick was given back.
        MessageNacked = "message.nacked",
        /// A reserved pick was not settled in time, and given back.
        MessageExpired = "message.expired",
    }
}

/// The record of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// To go on after it.
    pub id: String,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// When.
    pub time: Time,
    /// To whom.
    pub subject: String,
    /// Of which deck.
    pub deck: Option<String>,
    /// Which message; none if it was deleted, or is for others by now.
    pub message: Option<String>,
    /// Which pick.
    pub pick: Option<String>,
}

/// A page of events, in the order of their times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventPage {
    /// The events.
    pub items: Vec<Event>,
    /// Where the next page begins; always there, as more will happen.
    pub next: String,
    /// Events after the place that was asked for are not kept any more.
    pub gap: bool,
    /// There is more to be read at once.
    pub more: bool,
}

/// Which events; all that are kept, from the oldest on, by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventsRequest {
    /// What follows this: the id of an event, the `next` of a page, or `now`.
    pub after: Option<String>,
    /// Only of this type.
    pub kind: Option<EventType>,
    /// Only about this subject.
    pub subject: Option<String>,
    /// At most this many in a page.
    pub limit: Option<u32>,
}

impl EventsRequest {
    /// All that are kept.
    pub fn new() -> EventsRequest {
        EventsRequest::default()
    }

    /// What follows this: the id of an event, the `next` of a page, or `now`.
    #[must_use]
    pub fn after(mut self, after: impl Into<String>) -> EventsRequest {
        self.after = Some(after.into());
        self
    }

    /// Only of this type.
    #[must_use]
    pub fn kind(mut self, kind: EventType) -> EventsRequest {
        self.kind = Some(kind);
        self
    }

    /// Only about this subject.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> EventsRequest {
        self.subject = Some(subject.into());
        self
    }

    /// At most this many in a page.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> EventsRequest {
        self.limit = Some(limit);
        self
    }

    fn query(&self) -> Vec<(&'static str, String)> {
        let after = self.after.clone().map(|after| ("after", after));
        let kind = self.kind.clone().map(|kind| ("type", String::from(kind)));
        let subject = self.subject.clone().map(|subject| ("subject", subject));
        let limit = self.limit.map(|limit| ("limit", limit.to_string()));
        [after, kind, subject, limit].into_iter().flatten().collect()
    }
}

/// The verbs of `/v1/events`.
///
/// ```no_run
/// # async fn example(client: hermod_client::Client) -> Result<(), hermod_client::ClientError> {
/// use hermod_client::{EventsRequest, Followed};
///
/// let mut events = client.events().follow(&EventsRequest::new().after("now")).await?;
/// while let Some(followed) = events.next().await? {
///     match followed {
///         Followed::Event(event) => println!("{} {}", event.kind.as_str(), event.subject),
///         Followed::Gap => println!("some are not kept any more"),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Events<'a> {
    client: &'a Client,
}

impl<'a> Events<'a> {
    pub(crate) fn new(client: &'a Client) -> Events<'a> {
        Events { client }
    }

    /// One page.
    pub async fn list(&self, request: &EventsRequest) -> Result<EventPage, ClientError> {
        self.client.read(&["v1", "events"], &request.query()).await
    }

    /// Events as they happen.
    pub async fn follow(&self, request: &EventsRequest) -> Result<EventStream, ClientError> {
        self.resume(request, None).await
    }

    /// The same after a stream has broken off, where its [`EventStream::last_id`] says.
    pub async fn resume(&self, request: &EventsRequest, last_id: Option<&str>) -> Result<EventStream, ClientError> {
        let response = self.client.stream(&["v1", "events"], &request.query(), last_id).await?;
        Ok(EventStream { events: Sse::new(response), last_id: last_id.map(str::to_owned) })
    }
}

/// What one who follows is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Followed {
    /// It happened.
    Event(Box<Event>),
    /// Some happened that are not kept any more.
    Gap,
}

/// Events as they happen.
#[derive(Debug)]
pub struct EventStream {
    events: Sse,
    last_id: Option<String>,
}

impl EventStream {
    /// Where another stream goes on.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// What happened next; none when the server ends the stream. Giving it up half way loses nothing. After an error the
    /// stream is over: [`Events::resume`] opens another one.
    pub async fn next(&mut self) -> Result<Option<Followed>, ClientError> {
        while let Some(event) = self.events.next().await? {
            let followed = match event.name.as_str() {
                _ if event.data.is_empty() => None,
                "gap" => Some(Followed::Gap),
                _ => Some(Followed::Event(Box::new(event.json()?))),
            };
            if !event.id.is_empty() {
                self.last_id = Some(event.id);
            }
            if followed.is_some() {
                return Ok(followed);
            }
        }
        Ok(None)
    }
}
