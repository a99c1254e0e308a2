//! `hermod realms`: economies that are data.

mod apply;
mod file;
mod form;
mod odds;

use std::process::ExitCode;

use clap::Subcommand;
use hermod_client::{Client, Realm, RealmSummary};
use serde_json::Value;

use crate::file::Item;
use crate::file::export::{Export, ExportArgs};
use crate::noun::{NounArgs, PageArgs};
use crate::output::{Output, or_dash, table};
use apply::ApplyArgs;
use form::{Economy, ORDER};

pub(crate) const HELP: &str = "\
Examples:
  hermod realms apply -f ajo.yaml --dry-run
  hermod realms apply -f ajo.yaml
  hermod realms get ajo
  hermod realms export ajo -o copy.yaml";

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
}

pub(crate) async fn run(args: &NounArgs<Verb>) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    match &args.verb {
        Verb::List(page) => page.list(client.realms(), out, rows).await?,
        Verb::Get { id } => out.answer(&client.realms().get(id).await?, shown)?,
        Verb::Export { id, to } => export(id, to, &client, out).await?,
        Verb::Apply(apply) => return apply.run(&client, &args.client).await,
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
