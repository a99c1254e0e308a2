//! The events of a realm as they happen.

use super::Realms;
use super::answer::RealmEvent;
use super::books::RealmEventsRequest;
use crate::error::ClientError;
use crate::sse::Sse;

/// What one who follows a realm is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RealmFollowed {
    /// It happened.
    Event(Box<RealmEvent>),
    /// The store has lost what came last, and goes on before it.
    Gap,
}

/// The events of a realm as they happen.
#[derive(Debug)]
pub struct RealmEventStream {
    events: Sse,
    last_id: Option<String>,
}

impl Realms<'_> {
    /// The events of a realm as they happen: the limit of the request has no meaning here.
    pub async fn follow(&self, realm: &str, request: &RealmEventsRequest) -> Result<RealmEventStream, ClientError> {
        self.resume(realm, request, None).await
    }

    /// The same after a stream has broken off, where its [`RealmEventStream::last_id`] says.
    pub async fn resume(&self, realm: &str, request: &RealmEventsRequest, last_id: Option<&str>) -> Result<RealmEventStream, ClientError> {
        let response = self.client.stream(&["v1", "realms", realm, "events"], &request.query(), last_id).await?;
        Ok(RealmEventStream { events: Sse::new(response), last_id: last_id.map(str::to_owned) })
    }
}

impl RealmEventStream {
    /// Where another stream goes on.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// What happened next; none when the server ends the stream. Giving it up half way loses nothing. After an error the stream is
    /// over: [`Realms::resume`] opens another one.
    pub async fn next(&mut self) -> Result<Option<RealmFollowed>, ClientError> {
        while let Some(event) = self.events.next().await? {
            let followed = match event.name.as_str() {
                _ if event.data.is_empty() => None,
                // A play may call an event of its own so, but that one has data.
                "gap" if event.data == b"{}" => Some(RealmFollowed::Gap),
                _ => Some(RealmFollowed::Event(Box::new(event.json()?))),
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
