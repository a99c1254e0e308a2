//! `hermod decks apply`: makes a deck of the server and its messages those of a file.

use std::process::ExitCode;

use hermod_client::{Client, ClientError, DeckDraft, MessageDraft};

use super::file::read;
use super::form::Part;
use crate::file::Item;
use crate::file::apply::{ApplyArgs, gone, tell_faults};
use crate::file::diff::{Change, plan};
use crate::input;
use crate::noun::ClientArgs;

pub(super) const HELP: &str = "\
The file is what `hermod decks export` prints: the fields of one deck, and a list under `messages:`, each
with an id. It is checked as a whole before anything is changed. Applying it again changes nothing.

Exit codes: 0 applied (or nothing to do), 1 the file is faulty or not all could be applied, 2 error.

Examples:
  hermod decks apply -f tips.yaml --dry-run
  hermod decks apply -f tips.yaml --prune --yes";

pub(super) async fn run(args: &ApplyArgs, client: &Client, asked: &ClientArgs) -> anyhow::Result<ExitCode> {
    let (name, text) = input::read(&args.from.file)?;
    let written = match read(&text) {
        Ok(written) => written,
        Err(faults) => return Ok(tell_faults(&faults, &name, asked.json)),
    };
    let deck = written.iter().find(|part| matches!(part.item, Part::Deck(_))).map(|part| part.item.id()).unwrap_or_default();
    let there = there(client, deck).await?;
    let plan = plan(&written, &there, args.prune, |_| false);
    args.carry_out(&name, &plan, asked, async |change| send(client, deck, change).await).await
}

/// The deck of the server and its messages; nothing if there is none.
async fn there(client: &Client, deck: &str) -> Result<Vec<Part>, ClientError> {
    let known = match client.decks().get(deck).await {
        Err(ClientError::Problem(problem)) if problem.status == 404 => return Ok(Vec::new()),
        known => known?,
    };
    let messages = client.decks().messages(deck).list_all().await?;
    Ok([Part::Deck(known)].into_iter().chain(messages.into_iter().map(Part::Message)).collect())
}

async fn send(client: &Client, deck: &str, change: &Change<'_, Part>) -> Result<(), ClientError> {
    let (decks, messages) = (client.decks(), client.decks().messages(deck));
    match (change, change.item()) {
        (Change::Delete(_), Part::Message(message)) => gone(messages.delete(&message.id).await),
        (Change::Delete(_), Part::Deck(deck)) => gone(decks.delete(&deck.deck).await),
        (_, Part::Deck(deck)) => decks.put(&deck.deck, &DeckDraft::from(deck)).await.map(drop),
        (_, Part::Message(message)) => messages.put(&message.id, &MessageDraft::from(message)).await.map(drop),
    }
}
