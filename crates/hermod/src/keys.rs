//! `hermod keys`: who may ask what.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hermod_client::{Key, KeyDraft, Keys, Page, Scope};

use crate::cli::{ClientArgs, PageArgs, WriteArgs};
use crate::output::table;

#[derive(Debug, Args)]
#[command(after_help = "\
Scopes: admin, spaces, rules:read, rules:write, limit:check.

Examples:
  hermod keys create bot --scope limit:check
  hermod keys create deploy --scope rules:read,rules:write --space team
  hermod keys list")]
pub(crate) struct KeysArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
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
    Delete {
        /// The key's id.
        id: String,
        #[command(flatten)]
        write: WriteArgs,
    },
}

pub(crate) async fn run(args: &KeysArgs) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    let keys = |write: &WriteArgs| with_key(client.keys(), write);
    match &args.verb {
        Verb::List(page) => {
            let page = match page.request() {
                Some(request) => client.keys().list(&request).await?,
                None => Page::whole(client.keys().list_all().await?),
            };
            out.page(&page, rows)?;
        }
        Verb::Create { name, scopes, space, write } => {
            let mut draft = KeyDraft::new(name, scopes.iter().cloned().map(Scope::from));
            draft.space = space.clone();
            let key = keys(write).create(&draft).await?;
            out.answer(&key, |key| format!("{}\n\n{}", rows(std::slice::from_ref(key)), secret(key)))?;
        }
        Verb::Delete { id, write } => {
            keys(write).delete(id).await?;
            out.remark(&format!("Key {id} is revoked."))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn with_key<'a>(keys: Keys<'a>, write: &WriteArgs) -> Keys<'a> {
    match &write.idempotency_key {
        Some(key) => keys.idempotency_key(key),
        None => keys,
    }
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
