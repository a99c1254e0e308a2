//! `hermod rules export`: all rules in the form that `apply` reads.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use hermod_client::{Client, Rule};
use saphyr::{Mapping, Scalar, Yaml, YamlEmitter};
use serde_json::{Map, Value, json};

use super::form::fields;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Write it here and not to the terminal.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) async fn run(args: &ExportArgs, client: &Client, out: Output) -> anyhow::Result<()> {
    let mut rules = client.rules().list_all().await?;
    rules.sort_by(|a, b| a.id.cmp(&b.id));
    // JSON is YAML, too: `apply` reads either.
    let text = if out.is_json() { format!("{:#}\n", document(&rules)) } else { yaml(&rules)? };
    match &args.output {
        Some(file) if file.as_os_str() != "-" => {
            std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
            out.remark(&format!("{} rules are in {}.", rules.len(), file.display()))
        }
        _ => out.text(&text),
    }
}

/// The rules without what is at its default.
fn document(rules: &[Rule]) -> Value {
    let written = |rule| {
        let fields = fields(rule).into_iter().filter(|field| !field.is_default);
        Value::Object(fields.map(|field| (field.name.to_owned(), field.value)).collect::<Map<_, _>>())
    };
    json!({ "rules": rules.iter().map(written).collect::<Vec<_>>() })
}

/// The same as YAML, the fields in the order in which people think of them.
pub(super) fn yaml(rules: &[Rule]) -> anyhow::Result<String> {
    let rules = rules.iter().map(|rule| {
        let fields = fields(rule).into_iter().filter(|field| !field.is_default);
        Yaml::Mapping(fields.map(|field| (string(field.name.to_owned()), scalar(field.value))).collect())
    });
    let document = Yaml::Mapping(Mapping::from_iter([(string("rules".to_owned()), Yaml::Sequence(rules.collect()))]));
    let mut text = String::new();
    YamlEmitter::new(&mut text).dump(&document)?;
    // One document needs no mark of where it begins.
    Ok(format!("{}\n", text.strip_prefix("---\n").unwrap_or(&text)))
}

fn string(text: String) -> Yaml<'static> {
    Yaml::Value(Scalar::String(text.into()))
}

/// Fields hold texts, counts and switches only.
fn scalar(value: Value) -> Yaml<'static> {
    match value {
        Value::Bool(switch) => Yaml::Value(Scalar::Boolean(switch)),
        Value::Number(number) if number.is_i64() => Yaml::Value(Scalar::Integer(number.as_i64().unwrap_or_default())),
        Value::String(text) => string(text),
        other => string(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn rule(value: Value) -> Rule {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_is_at_its_default_is_left_out() {
        let plain = rule(json!({"id": "burst", "name": "default", "action": "tasks/create", "limit": 3, "per": "10s", "version": 4}));
        let calendar = rule(
            json!({"id": "daily", "name": "daily", "action": "tasks/*", "subject": "vip:*", "limit": 1000, "per": "day@Europe/Berlin",
                "algorithm": "fixed_window", "durable": true, "on_store_error": "closed"}),
        );
        let text = "\
rules:
  - id: burst
    action: tasks/create
    limit: 3
    per: 10s
  - id: daily
    name: daily
    action: tasks/*
    subject: \"vip:*\"
    limit: 1000
    per: day@Europe/Berlin
    durable: true
";
        assert_eq!(yaml(&[plain, calendar]).unwrap(), text);
        assert_eq!(yaml(&[]).unwrap(), "rules: []\n");
    }

    #[test]
    fn what_is_written_reads_back() {
        let odd = ["yes", "null", "42", "1e3", "- x", "a: b", "#1", "*", "it's", "say \"so\"", "emoji 🦀", "@house", "0x1F", "~", "a  b"];
        let rules: Vec<Rule> = odd
            .iter()
            .enumerate()
            .map(|(n, subject)| {
                let when = format!("attributes.plan == '{}' && cost > {n}", n);
                rule(json!({"id": format!("r{n:02}"), "name": "default", "action": "*", "subject": subject, "when": when, "limit": n + 1, "per": "1day",
                    "algorithm": "leaky_bucket", "burst": 7, "queue": 2, "mode": "shadow", "on_store_error": "local", "on_expiry": "refund"}))
            })
            .collect();
        for text in [yaml(&rules).unwrap(), document(&rules).to_string()] {
            let read = file::read(&text).map_err(|faults| format!("{faults:?}\n{text}")).unwrap();
            assert_eq!(read.into_iter().map(|written| written.rule).collect::<Vec<_>>(), rules, "{text}");
        }
    }
}
