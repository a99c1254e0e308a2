//! The decks: their definitions, and their messages.

mod deck;
mod message;
mod pick;
mod words;

use reqwest::Method;

use crate::client::Client;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};

pub use deck::{Cap, Deck, DeckDraft, QuietHours};
pub use message::{Message, MessageDraft, Messages, To};
pub use pick::{
    PickCandidate, PickHistory, PickOutcome, PickReason, PickRequest, PickStatus, Picked, PickedMessage, SentMessage, SettledPick,
    SimulatedPick,
};
pub use words::{CapKind, Strategy};

/// The verbs of `/v1/decks`.
///
/// ```no_run
/// # async fn example(client: hermod_client::Client) -> Result<(), hermod_client::ClientError> {
/// use hermod_client::{Cap, DeckDraft, MessageDraft, To};
///
/// let decks = client.decks();
/// decks.put("tips", &DeckDraft::new().subject_cap(Some(Cap::new(1, "1day")))).await?;
/// let tip = MessageDraft::new("Did you know that you can mute me?").to(To::tags(["new"])).cap(Cap::new(1, "30days"));
/// decks.messages("tips").put("mute", &tip).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Decks<'a> {
    client: &'a Client,
    key: Option<String>,
}

impl<'a> Decks<'a> {
    pub(crate) fn new(client: &'a Client) -> Decks<'a> {
        Decks { client, key: None }
    }

    /// Makes the next write answer once for all calls with this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Decks<'a> {
        self.key = Some(key.into());
        self
    }

    /// One page of the decks.
    pub async fn list(&self, page: &PageRequest) -> Result<Page<Deck>, ClientError> {
        self.client.page(&["v1", "decks"], page).await
    }

    /// Every deck, page after page.
    pub async fn list_all(&self) -> Result<Vec<Deck>, ClientError> {
        self.client.pages(&["v1", "decks"]).await
    }

    /// One deck.
    pub async fn get(&self, deck: &str) -> Result<Deck, ClientError> {
        self.client.read(&["v1", "decks", deck], &[]).await
    }

    /// Saves a deck under this name, new or in place of the old one. Its messages stay, and who got which.
    pub async fn put(&self, deck: &str, draft: &DeckDraft) -> Result<Deck, ClientError> {
        self.client.write(Method::PUT, &["v1", "decks", deck], self.key.as_deref(), draft).await
    }

    /// Removes a deck and its messages.
    pub async fn delete(&self, deck: &str) -> Result<(), ClientError> {
        self.client.remove(&["v1", "decks", deck], self.key.as_deref()).await
    }

    /// Picks the next message for a subject; if there is none, says why and until when.
    pub async fn pick(&self, deck: &str, request: &PickRequest) -> Result<Picked, ClientError> {
        self.client.write(Method::POST, &["v1", "decks", deck, "picks"], self.key.as_deref(), request).await
    }

    /// Keeps a reserved pick: the message was sent.
    pub async fn ack(&self, pick: &str) -> Result<SettledPick, ClientError> {
        self.client.write(Method::POST, &["v1", "picks", pick, "ack"], self.key.as_deref(), &()).await
    }

    /// Gives a reserved pick back: the message was not sent.
    pub async fn nack(&self, pick: &str) -> Result<SettledPick, ClientError> {
        self.client.write(Method::POST, &["v1", "picks", pick, "nack"], self.key.as_deref(), &()).await
    }

    /// What a subject was sent of a deck; the newest `limit`, 1,000 at most.
    pub async fn history(&self, deck: &str, subject: &str, limit: usize) -> Result<PickHistory, ClientError> {
        self.client.read(&["v1", "decks", deck, "history", subject], &[("limit", limit.to_string())]).await
    }

    /// The messages of a deck.
    pub fn messages(&self, deck: impl Into<String>) -> Messages<'a> {
        Messages::new(self.client, deck.into())
    }
}
