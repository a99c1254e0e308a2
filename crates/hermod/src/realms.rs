//! `hermod realms`: economies that are data.

mod apply;
mod books;
mod enact;
mod events;
mod file;
mod form;
mod odds;
mod tell;
mod words;

use std::process::ExitCode;

use clap::Subcommand;
use hermod_client::{Client, Realm, RealmSummary};
use serde_json::Value;

use crate::file::Item;
use crate::file::export::{Export, ExportArgs};
use crate::noun::{NounArgs, PageArgs};
use crate::output::{Output, or_dash, table};
use apply::ApplyArgs;
use books::{BoardArgs, SimulateArgs};
use enact::{CaptureArgs, CommitArgs, EndArgs, HoldArgs, PlayArgs};
use events::EventsArgs;
use form::{Economy, ORDER};

pub(crate) const HELP: &str = "\
Examples:
  hermod realms apply -f ajo.yaml --dry-run
  hermod realms apply -f ajo.yaml
  hermod realms get ajo
  hermod realms export ajo -o copy.yaml
  hermod realms play ajo gamble --by 111 amount=all
  hermod realms simulate ajo gamble --by 111 amount=100
  hermod realms commit ajo --leg '@mint->111:ajo:100'
  hermod realms hold ajo --leg '111->222:ajo:10' --in 10m
  hermod realms account ajo 111
  hermod realms board ajo ajo --around 111
  hermod realms events ajo --stream currency --after 17
  hermod realms audit ajo";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the realms.
    List(PageArgs),
    /// Show what a realm has: its assets and plays; with --json its whole definition.
    Get {
        /// The realm's name.
        id: String,
    },
    /// Print a realm as YAML, for `apply`.
    Export {
        /// The realm's name.
        id: String,
        #[command(flatten)]
        to: ExportArgs,
    },
    /// Make a realm the one of a YAML file.
    #[command(after_help = apply::HELP)]
    Apply(ApplyArgs),
    /// Play; exit code 1 if it is refused.
    #[command(after_help = enact::PLAY_HELP)]
    Play(PlayArgs),
    /// Run a play many times on a copy, and show what it comes to.
    #[command(after_help = books::SIMULATE_HELP)]
    Simulate(SimulateArgs),
    /// Move legs, all or none; exit code 1 if it is refused.
    #[command(after_help = enact::COMMIT_HELP)]
    Commit(CommitArgs),
    /// Undo a commit with another one that moves the same back.
    Revert(EndArgs),
    /// Set legs aside until they are captured, released, or the time is over.
    #[command(after_help = enact::HOLD_HELP)]
    Hold(HoldArgs),
    /// Show what became of a hold.
    Held {
        /// The realm's name.
        realm: String,
        /// The hold's id.
        hold: String,
    },
    /// Take what is on hold, or part of it.
    Capture(CaptureArgs),
    /// Let go of what is on hold.
    Release(EndArgs),
    /// Show what an owner has.
    Account {
        /// The realm's name.
        realm: String,
        /// Whose.
        owner: String,
    },
    /// Show who leads.
    Board(BoardArgs),
    /// Show the commits of a realm, the newest first.
    Ledger {
        /// The realm's name.
        realm: String,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show what changed, the oldest first; or follow it.
    #[command(after_help = events::HELP)]
    Events(EventsArgs),
    /// Show what there is of each asset, and which plays brought and took it.
    Supply {
        /// The realm's name.
        realm: String,
    },
    /// Compute every account and every draw again; exit code 1 if something is wrong.
    Audit {
        /// The realm's name.
        realm: String,
    },
}

pub(crate) async fn run(args: &NounArgs<Verb>) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    match &args.verb {
        Verb::List(page) => page.list(client.realms(), out, rows).await?,
        Verb::Get { id } => out.answer(&client.realms().get(id).await?, shown)?,
        Verb::Export { id, to } => export(id, to, &client, out).await?,
        Verb::Apply(apply) => return apply.run(&client, &args.client).await,
        Verb::Play(play) => return play.run(&client, out).await,
        Verb::Simulate(simulate) => simulate.run(&client, out).await?,
        Verb::Commit(commit) => return commit.run(&client, out).await,
        Verb::Revert(commit) => return commit.revert(&client, out).await,
        Verb::Hold(hold) => return hold.run(&client, out).await,
        Verb::Held { realm, hold } => enact::held(realm, hold, &client, out).await?,
        Verb::Capture(hold) => return hold.run(&client, out).await,
        Verb::Release(hold) => return hold.release(&client, out).await,
        Verb::Account { realm, owner } => books::account(realm, owner, &client, out).await?,
        Verb::Board(board) => board.run(&client, out).await?,
        Verb::Ledger { realm, page } => books::ledger(realm, page, &client, out).await?,
        Verb::Events(events) => events.run(&client, out).await?,
        Verb::Supply { realm } => books::supply(realm, &client, out).await?,
        Verb::Audit { realm } => return books::audit(realm, &client, out).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// A realm in the form that `apply` reads.
async fn export(id: &str, args: &ExportArgs, client: &Client, out: Output) -> anyhow::Result<()> {
    let economy = Economy::from(client.realms().get(id).await?);
    Export::<Economy> { fields: economy.fields(), list: None, order: &ORDER }.write(args, out, &format!("Realm {id} is"))
}

fn rows(realms: &[RealmSummary]) -> String {
    table(
        ["REALM", "VERSION", "ASSETS", "PLAYS", "DESCRIPTION"],
        realms.iter().map(|realm| {
            [
                realm.realm.clone(),
                realm.version.to_string(),
                realm.assets.to_string(),
                realm.plays.to_string(),
                or_dash(Some(&realm.description).filter(|text| !text.is_empty())),
            ]
        }),
    )
}

/// A realm for people: what there is to have, and what can be done.
fn shown(realm: &Realm) -> String {
    let mut text = format!("realm {}, version {}", realm.realm, realm.version);
    if let Some(description) = realm.definition.get("description").and_then(Value::as_str) {
        text += &format!("\n{description}");
    }
    let named = |section: &str| realm.definition.get(section).and_then(Value::as_object).into_iter().flatten();
    let field = |of: &Value, name: &str| or_dash(of.get(name).filter(|value| **value != Value::Bool(false)).map(crate::file::text));
    let assets = named("assets")
        .map(|(name, asset)| [name.clone(), field(asset, "kind"), field(asset, "max"), field(asset, "board"), field(asset, "description")]);
    let plays = named("plays").map(|(name, play)| {
        let args = play.get("args").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.as_str());
        let args = Some(args.collect::<Vec<_>>().join(", ")).filter(|args| !args.is_empty());
        [name.clone(), or_dash(args), field(play, "internal"), field(play, "description")]
    });
    text += &format!("\n\n{}", table(["ASSET", "KIND", "MAX", "BOARD", "DESCRIPTION"], assets));
    text += &format!("\n\n{}", table(["PLAY", "ARGUMENTS", "INTERNAL", "DESCRIPTION"], plays));
    text
}
