//! `hermod rules export`: all rules in the form that `apply` reads.

use hermod_client::{Client, Rule};

use crate::file::counted;
use crate::file::export::{Export, ExportArgs};
use crate::output::Output;

pub(super) async fn run(args: &ExportArgs, client: &Client, out: Output) -> anyhow::Result<()> {
    let mut rules = client.rules().list_all().await?;
    rules.sort_by(|a, b| a.id.cmp(&b.id));
    document(&rules).write(args, out, &format!("{} are", counted(rules.len(), "rule")))
}

fn document(rules: &[Rule]) -> Export<'_, Rule> {
    Export { fields: Vec::new(), list: Some(("rules", rules)), order: &[] }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
        assert_eq!(document(&[plain, calendar]).yaml().unwrap(), text);
        assert_eq!(document(&[]).yaml().unwrap(), "rules: []\n");
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
        for text in [document(&rules).yaml().unwrap(), document(&rules).json().to_string()] {
            let read = file::read(&text).map_err(|faults| format!("{faults:?}\n{text}")).unwrap();
            assert_eq!(read.into_iter().map(|written| written.item).collect::<Vec<_>>(), rules, "{text}");
        }
    }
}
