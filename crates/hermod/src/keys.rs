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
            out.answer(&key, words)?;
            if key.secret.is_none() {
                eprintln!("{}", lost(&key.id));
                return Ok(ExitCode::FAILURE);
            }
        }
        Verb::Delete(TargetArgs { id, write }) => {
            write.on(client.keys()).delete(id).await?;
            out.remark(&format!("Key {id} is revoked."))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn words(key: &Key) -> String {
    let row = rows(std::slice::from_ref(key));
    match &key.secret {
        Some(secret) => format!("{row}\n\nsecret: {secret}\nIt is shown once and never again. Keep it."),
        None => row,
    }
}

/// Why there is no secret: the server keeps only its hash, so a repeated answer lacks it.
fn lost(id: &str) -> String {
    format!(
        "This answer is a repeated one: the secret was shown with the first, and never again.\n\
         If it is lost, revoke the key with `hermod keys delete {id}` and make another."
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_if_it_is_there() {
        let key = |secret: &str| {
            let text = r#"{"id":"k1","space":"default","name":"bot","scopes":["limit:check"],"created_at":"2026-02-03T04:05:06.789Z""#;
            words(&serde_json::from_str(&format!("{text}{secret}}}")).unwrap())
        };
        let made = key(r#","secret":"hk_s3cret""#);
        assert!(made.contains("secret: hk_s3cret") && made.contains("shown once"), "{made}");
        let repeated = key("");
        assert!(repeated.contains("k1") && !repeated.contains("secret"), "{repeated}");
    }
}
