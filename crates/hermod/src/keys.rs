//! `hermod keys`: who may ask what.

use std::process::ExitCode;

use clap::Subcommand;
use hermod_client::{Key, KeyDraft, Scope};

use crate::noun::{NounArgs, PageArgs, TargetArgs, WriteArgs};
use crate::output::table;

pub(crate) const HELP: &str = "\
Scopes: admin, spaces, rules:read, rules:write, limit:check, queues:read, queues:write, queues:push,
queues:claim, decks:read, decks:write, decks:pick, realms:read, realms:write, realms:play,
events:read.

Examples:
  hermod keys create bot --scope limit:check
  hermod keys create deploy --scope rules:read,rules:write --space team
  hermod keys list";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the keys, without their secrets.
    List(PageArgs),
    /// Make a key and print its secret, this once.
    Create {
        /// What people will call it.
        name: String,
        /// What it may do; give it several times or with commas.
        #[arg(long = "scope", value_name = "SCOPE", required = true, value_delimiter = ',')]
        scopes: Vec<String>,
        /// The space it belongs to; that of the key you use if absent.
        #[arg(long)]
        space: Option<String>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Revoke a key.
    Delete(TargetArgs),
}

pub(crate) async fn run(args: &NounArgs<Verb>) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    match &args.verb {
        Verb::List(page) => page.list(client.keys(), out, rows).await?,
        Verb::Create { name, scopes, space, write } => {
            let mut draft = KeyDraft::new(name, scopes.iter().cloned().map(Scope::from));
            draft.space = space.clone();
            let key = write.on(client.keys()).create(&draft).await?;
            out.answer(&key, |key| format!("{}\n\n{}", rows(std::slice::from_ref(key)), secret(key)))?;
        }
        Verb::Delete(TargetArgs { id, write }) => {
            write.on(client.keys()).delete(id).await?;
            out.remark(&format!("Key {id} is revoked."))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The secret, or why there is none: the server keeps only its hash, so a repeated answer lacks it.
fn secret(key: &Key) -> String {
    match &key.secret {
        Some(secret) => format!("secret: {secret}\nIt is shown once and never again. Keep it."),
        None => format!(
            "The key was made by an earlier try whose answer was lost, and its secret with it.\n\
             Revoke it with `hermod keys delete {}` and make another.",
            key.id
        ),
    }
}

fn rows(keys: &[Key]) -> String {
    table(
        ["ID", "SPACE", "NAME", "SCOPES", "CREATED AT"],
        keys.iter().map(|key| {
            let scopes: Vec<&str> = key.scopes.iter().map(Scope::as_str).collect();
            [key.id.clone(), key.space.clone(), key.name.clone(), scopes.join(","), key.created_at.to_string()]
        }),
    )
}
