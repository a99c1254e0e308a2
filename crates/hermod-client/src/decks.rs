//! The decks: their definitions, and their messages.

mod deck;
mod message;
mod words;

use reqwest::Method;

use crate::client::Client;
use crate::error::ClientError;
use crate::page::{Page, PageRequest};

pub use deck::{Cap, Deck, DeckDraft, QuietHours};
pub use message::{Message, MessageDraft, Messages, To};
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

    /// The messages of a deck.
    pub fn messages(&self, deck: impl Into<String>) -> Messages<'a> {
        Messages::new(self.client, deck.into())
    }
}
