//! What the client's commands have in common.
//!
//! Each is a noun of the API with verbs of its own. How the server is reached, which part of a list
//! is wanted and how a write is made safe to repeat are the same for all of them, and are here.

use anyhow::Context;
use clap::builder::{StringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use hermod_client::{
    Client, ClientError, Deck, Decks, Key, Keys, Limit, Message, Messages, Page, PageRequest, Queue, Queues, RealmSummary, Realms, Rule,
    Rules, Schedule, Schedules, Space, Spaces, Subjects,
};
use serde::Serialize;

use crate::output::Output;

/// Where a server is if nothing else is said.
const SERVER: &str = "http://127.0.0.1:7700";

/// A noun: how to reach its server, and one of its verbs.
#[derive(Debug, Args)]
pub(crate) struct NounArgs<V: Subcommand> {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: V,
}

/// How a client command reaches its server, and how it answers.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// The server's address.
    #[arg(long, global = true, value_name = "URL", env = "HERMOD_SERVER", default_value = SERVER)]
    #[arg(value_parser = StringValueParser::new().map(named))]
    pub(crate) server: String,
    /// The API key. `hermod dev` needs none.
    #[arg(long, global = true, value_name = "KEY", env = "HERMOD_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
    /// Print JSON, for programs.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The server that is named. An empty variable names none.
fn named(server: String) -> String {
    if server.is_empty() { SERVER.to_owned() } else { server }
}

impl ClientArgs {
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let client = Client::new(&self.server).context("--server")?;
        // An empty variable is how scripts say "none".
        Ok(match self.key.as_deref() {
            None | Some("") => client,
            Some(key) => client.with_key(key),
        })
    }

    pub(crate) fn output(&self) -> Output {
        Output::new(self.json)
    }
}

/// What every command that changes something takes.
#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// Makes it safe to run this again: the same key gives the same answer, once.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

impl WriteArgs {
    /// The handle, with the key if one was given.
    pub(crate) fn on<H: Once>(&self, handle: H) -> H {
        match &self.idempotency_key {
            Some(key) => handle.once(key),
            None => handle,
        }
    }

    /// The same for one call of several: each has a key of its own.
    pub(crate) fn on_part<H: Once>(&self, handle: H, part: usize) -> H {
        match &self.idempotency_key {
            Some(key) => handle.once(&format!("{key}.{part}")),
            None => handle,
        }
    }
}

/// One thing to be changed, by its id.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// Its id.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

/// Which part of a list; of most lists all of it if neither is given.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// At most this many.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Go on where an earlier page ended.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl PageArgs {
    /// Prints the page that is wanted, or the whole list.
    pub(crate) async fn list<L: List>(&self, list: L, out: Output, rows: impl FnOnce(&[L::Item]) -> String) -> anyhow::Result<()> {
        let page =
            if self.limit.is_none() && self.cursor.is_none() { Page::whole(list.all().await?) } else { list.page(&self.request()).await? };
        out.page(&page, rows)
    }

    /// The page that is wanted; the first one of the server's usual size if nothing is said.
    pub(crate) fn request(&self) -> PageRequest {
        let mut request = PageRequest::default();
        request.limit = self.limit;
        request.cursor = self.cursor.clone();
        request
    }
}

/// A handle whose writes take an idempotency key.
pub(crate) trait Once {
    /// Makes its next write answer once for all calls with this key.
    fn once(self, key: &str) -> Self;
}

/// A handle of something that can be listed.
pub(crate) trait List {
    type Item: Serialize;

    async fn page(&self, request: &PageRequest) -> Result<Page<Self::Item>, ClientError>;
    async fn all(&self) -> Result<Vec<Self::Item>, ClientError>;
}

macro_rules! once {
    ($($handle:ident),+) => {
        $(impl Once for $handle<'_> {
            fn once(self, key: &str) -> Self {
                self.idempotency_key(key)
            }
        })+
    };
}

macro_rules! list {
    ($($handle:ident of $item:ident),+) => {
        $(impl List for $handle<'_> {
            type Item = $item;

            async fn page(&self, request: &PageRequest) -> Result<Page<$item>, ClientError> {
                self.list(request).await
            }

            async fn all(&self) -> Result<Vec<$item>, ClientError> {
                self.list_all().await
            }
        })+
    };
}

once!(Decks, Keys, Messages, Queues, Realms, Rules, Schedules, Spaces, Subjects, Limit);
list!(Decks of Deck, Keys of Key, Messages of Message, Queues of Queue, Realms of RealmSummary, Rules of Rule, Schedules of Schedule, Spaces of Space);
