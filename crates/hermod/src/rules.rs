//! `hermod rules`: limits on actions.

mod apply;
mod args;
mod diff;
mod export;
mod file;
mod form;

use std::process::ExitCode;

use clap::Subcommand;
use hermod_client::Rule;

use crate::file::apply::ApplyArgs;
use crate::file::export::ExportArgs;
use crate::file::{Field, Item};
use crate::noun::{NounArgs, PageArgs, TargetArgs, WriteArgs};
use crate::output::{or_dash, table};
use args::RuleArgs;

pub(crate) const HELP: &str = "\
Rules of different names all apply; among rules of one name the most specific one does.

Examples:
  hermod rules create --name burst --action tasks/create --limit 3 --per 10s
  hermod rules put vip-daily --name daily --action 'tasks/*' --subject vip --limit 1000 --per day@Europe/Berlin
  hermod rules export -o rules.yaml
  hermod rules apply -f rules.yaml --dry-run";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the rules.
    List(PageArgs),
    /// Show one rule.
    Get {
        /// The rule's id.
        id: String,
    },
    /// Make a rule.
    Create {
        /// The rule's id; the server makes one if absent.
        #[arg(long)]
        id: Option<String>,
        #[command(flatten)]
        rule: RuleArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Make a rule with this id, or replace the one that has it; what is used stays used.
    Put {
        #[command(flatten)]
        rule: RuleArgs,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Remove a rule.
    Delete(TargetArgs),
    /// Print all rules as YAML, for `apply`.
    Export(ExportArgs),
    /// Make the server's rules those of a YAML file.
    #[command(after_help = apply::HELP)]
    Apply(ApplyArgs),
}

pub(crate) async fn run(args: &NounArgs<Verb>) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    match &args.verb {
        Verb::List(page) => page.list(client.rules(), out, rows).await?,
        Verb::Get { id } => out.one(&client.rules().get(id).await?, rows)?,
        Verb::Create { id, rule, write } => {
            let mut draft = rule.draft();
            draft.id = id.clone();
            out.one(&write.on(client.rules()).create(&draft).await?, rows)?;
        }
        Verb::Put { rule, target } => {
            let rule = target.write.on(client.rules()).put(&target.id, &rule.draft()).await?;
            out.one(&rule, rows)?;
        }
        Verb::Delete(TargetArgs { id, write }) => {
            write.on(client.rules()).delete(id).await?;
            out.remark(&format!("Rule {id} is removed."))?;
        }
        Verb::Export(args) => export::run(args, &client, out).await?,
        Verb::Apply(apply) => return apply::run(apply, &client, &args.client).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// The fields that have a column of their own.
const OWN: [&str; 6] = ["id", "name", "action", "subject", "limit", "per"];

/// A table whose last column names only what differs from the default, as few rules need more than a limit.
fn rows(rules: &[Rule]) -> String {
    table(
        ["ID", "NAME", "ACTION", "SUBJECT", "LIMIT", "PER", "OPTIONS"],
        rules.iter().map(|rule| {
            [
                rule.id.clone(),
                rule.name.clone(),
                rule.action.clone(),
                or_dash(rule.subject.as_ref()),
                rule.limit.to_string(),
                rule.per.clone(),
                or_dash(Some(Field::options(rule.fields(), &OWN)).filter(|options| !options.is_empty())),
            ]
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_what_is_not_the_default() {
        let rule = |text: &str| serde_json::from_str::<Rule>(text).unwrap();
        let plain = rule(r#"{"id":"a","name":"default","action":"x","limit":3,"per":"10s"}"#);
        let other = rule(
            r#"{"id":"b","name":"daily","action":"x","limit":3,"per":"10s","algorithm":"token_bucket","burst":3,
                "scope":"global","mode":"shadow","durable":true,"on_store_error":"closed"}"#,
        );
        let text = rows(&[plain, other]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ID  NAME     ACTION  SUBJECT  LIMIT  PER  OPTIONS");
        assert_eq!(lines[1], "a   default  x       -        3      10s  -");
        assert_eq!(lines[2], "b   daily    x       -        3      10s  algorithm=token_bucket scope=global mode=shadow durable=true");
    }
}
