//! `hermod decks`: messages, of which each subject gets one at a time.

mod apply;
mod args;
mod file;
mod form;
mod messages;
mod pick;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hermod_client::{Client, Deck};

use crate::file::apply::ApplyArgs;
use crate::file::counted;
use crate::file::export::{Export, ExportArgs};
use crate::file::{Field, Item};
use crate::noun::{NounArgs, PageArgs, TargetArgs};
use crate::output::{Output, or_dash, table};
use args::DeckArgs;
pub(crate) use args::quiet;
use form::Part;
use pick::PickArgs;

pub(crate) const HELP: &str = "\
Examples:
  hermod decks put tips --subject-cap 1/1day --quiet-hours 22:00-08:00 --timezone Europe/Berlin
  hermod decks messages tips put mute '{\"text\": \"You can mute me.\"}' --to-tag new --cap 1/30days
  hermod decks messages tips list
  hermod decks pick tips ann --explain
  hermod decks pick tips ann --reserve 30s
  hermod decks export tips -o tips.yaml
  hermod decks apply -f tips.yaml --dry-run";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the decks.
    List(PageArgs),
    /// Show one deck.
    Get {
        /// The deck's name.
        id: String,
    },
    /// Make a deck of this name, or replace the one that has it; its messages stay, and who got which.
    Put {
        #[command(flatten)]
        deck: DeckArgs,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Remove a deck and its messages.
    Delete(TargetArgs),
    /// The messages of a deck.
    Messages(MessagesArgs),
    /// Pick the next message for a subject; exit code 1 if there is none.
    Pick(PickArgs),
    /// Keep a reserved pick: the message was sent.
    Ack(TargetArgs),
    /// Give a reserved pick back: the message was not sent.
    Nack(TargetArgs),
    /// Show what a subject got of a deck, newest first.
    History {
        /// The deck's name.
        deck: String,
        /// Whose.
        subject: String,
        /// At most this many.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Print a deck and its messages as YAML, for `apply`.
    Export {
        /// The deck's name.
        id: String,
        #[command(flatten)]
        to: ExportArgs,
    },
    /// Make a deck and its messages those of a YAML file.
    #[command(after_help = apply::HELP)]
    Apply(ApplyArgs),
}

/// Of which deck, and one of the verbs of messages.
#[derive(Debug, Args)]
pub(crate) struct MessagesArgs {
    /// The deck's name.
    deck: String,
    #[command(subcommand)]
    verb: messages::Verb,
}

pub(crate) async fn run(args: &NounArgs<Verb>) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    match &args.verb {
        Verb::List(page) => page.list(client.decks(), out, rows).await?,
        Verb::Get { id } => out.one(&client.decks().get(id).await?, rows)?,
        Verb::Put { deck, target } => {
            let deck = target.write.on(client.decks()).put(&target.id, &deck.draft()).await?;
            out.one(&deck, rows)?;
        }
        Verb::Delete(TargetArgs { id, write }) => {
            write.on(client.decks()).delete(id).await?;
            out.remark(&format!("Deck {id} is removed."))?;
        }
        Verb::Messages(args) => messages::run(&args.deck, &args.verb, &client, out).await?,
        Verb::Pick(args) => return args.run(&client, out).await,
        Verb::Ack(args) => return pick::settle(args, true, &client, out).await,
        Verb::Nack(args) => return pick::settle(args, false, &client, out).await,
        Verb::History { deck, subject, limit } => pick::history(deck, subject, *limit, &client, out).await?,
        Verb::Export { id, to } => export(id, to, &client, out).await?,
        Verb::Apply(apply) => return apply::run(apply, &client, &args.client).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// A deck and its messages in the form that `apply` reads.
async fn export(id: &str, args: &ExportArgs, client: &Client, out: Output) -> anyhow::Result<()> {
    let deck = client.decks().get(id).await?;
    let mut messages = client.decks().messages(id).list_all().await?;
    // Where the deck is made anew, they are in the same order.
    messages.sort_by_key(|message| message.ordinal);
    let messages: Vec<Part> = messages.into_iter().map(Part::Message).collect();
    let what = format!("Deck {id} and {} are", counted(messages.len(), Part::NOUN));
    Export { fields: form::deck_fields(&deck), list: Some(("messages", &messages)), order: &[] }.write(args, out, &what)
}

fn rows(decks: &[Deck]) -> String {
    table(
        ["DECK", "STRATEGY", "SUBJECT CAP", "QUIET", "ZONE", "OPTIONS"],
        decks.iter().map(|deck| {
            let options = Field::options(form::deck_fields(deck), &["deck", "strategy", "subject_cap", "quiet_hours", "timezone"]);
            [
                deck.deck.clone(),
                deck.strategy.to_string(),
                or_dash(deck.subject_cap.as_ref().map(form::cap_text)),
                or_dash(deck.quiet_hours.as_ref().map(|quiet| format!("{}-{}", quiet.from, quiet.to))),
                deck.timezone.clone(),
                or_dash(Some(options).filter(|options| !options.is_empty())),
            ]
        }),
    )
}
