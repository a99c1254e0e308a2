//! What a file would change.

use std::collections::{BTreeMap, BTreeSet};

use hermod_client::Rule;
use serde_json::Value;

use super::fault::Fault;
use super::file::Written;
use super::form::{covers, fields, text};
use crate::output::verdict;

/// One rule that is to change.
#[derive(Debug)]
pub(super) enum Change<'a> {
    Create(&'a Written),
    Edit(&'a Written, Vec<Edit>),
    Delete(&'a str),
}

/// One field that is to change; null is none.
#[derive(Debug, PartialEq)]
pub(super) struct Edit {
    pub(super) field: &'static str,
    pub(super) from: Value,
    pub(super) to: Value,
}

/// All that is to change, in the order of the file. What goes is last, but for what is in the way.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) changes: Vec<Change<'a>>,
    /// How many rules of the file are on the server as they are in the file.
    pub(super) unchanged: usize,
    /// How many rules of the server are not in the file and stay.
    pub(super) others: usize,
}

/// What makes the server's rules, `there`, those of the file. Others stay unless `prune` is set.
pub(super) fn plan<'a>(written: &'a [Written], there: &'a [Rule], prune: bool) -> Plan<'a> {
    let by_id: BTreeMap<&str, &Rule> = there.iter().map(|rule| (rule.id.as_str(), rule)).collect();
    let mut plan = Plan { changes: Vec::new(), unchanged: 0, others: 0 };
    for written in written {
        match by_id.get(written.rule.id.as_str()).map(|old| edits(old, &written.rule)) {
            None => plan.changes.push(Change::Create(written)),
            Some(edits) if edits.is_empty() => plan.unchanged += 1,
            Some(edits) => plan.changes.push(Change::Edit(written, edits)),
        }
    }
    let others = others(written, there);
    if prune {
        // A rule under a new id can only be made when the one under the old id is gone.
        let taken: BTreeSet<_> = written.iter().map(|written| covers(&written.rule)).collect();
        let (first, last): (Vec<&Rule>, Vec<&Rule>) = others.into_iter().partition(|rule| taken.contains(&covers(rule)));
        let delete = |rule: &'a Rule| Change::Delete(&rule.id);
        plan.changes.splice(0..0, first.into_iter().map(delete));
        plan.changes.extend(last.into_iter().map(delete));
    } else {
        plan.others = others.len();
    }
    plan
}

/// The server's rules that are not in the file, by id.
fn others<'a>(written: &[Written], there: &'a [Rule]) -> Vec<&'a Rule> {
    let kept: BTreeSet<&str> = written.iter().map(|written| written.rule.id.as_str()).collect();
    let mut others: Vec<&Rule> = there.iter().filter(|rule| !kept.contains(rule.id.as_str())).collect();
    others.sort_by(|a, b| a.id.cmp(&b.id));
    others
}

/// Rules of the file that the server would refuse, because of others that are not in the file and stay.
pub(super) fn conflicts(written: &[Written], there: &[Rule], prune: bool) -> Vec<Fault> {
    let others = if prune { Vec::new() } else { others(written, there) };
    let covered: BTreeMap<_, _> = others.into_iter().map(|rule| (covers(rule), &rule.id)).collect();
    let in_the_way = |written: &Written| {
        let id = covered.get(&covers(&written.rule))?;
        Some(written.fault("id", format!("rule {id} of the server, which is not in the file, has the same name, action, subject and when")))
    };
    written.iter().filter_map(in_the_way).collect()
}

fn edits(old: &Rule, new: &Rule) -> Vec<Edit> {
    let pairs = fields(old).into_iter().zip(fields(new));
    let changed = pairs.filter(|(old, new)| old.value != new.value);
    changed.map(|(old, new)| Edit { field: old.name, from: old.value, to: new.value }).collect()
}

impl Change<'_> {
    pub(super) fn id(&self) -> &str {
        match self {
            Change::Create(written) | Change::Edit(written, _) => &written.rule.id,
            Change::Delete(id) => id,
        }
    }

    /// The change in a word, for programs.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Change::Create(_) => "create",
            Change::Edit(..) => "change",
            Change::Delete(_) => "delete",
        }
    }

    /// The change without its fields: `+ burst`.
    pub(super) fn short(&self) -> String {
        let sign = match self {
            Change::Create(_) => '+',
            Change::Edit(..) => '~',
            Change::Delete(_) => '-',
        };
        format!("{sign} {}", self.id())
    }

    /// The change in a line: `~ burst  limit: 3 -> 5`.
    pub(super) fn line(&self) -> String {
        match self {
            Change::Create(_) => verdict(true, &self.short()),
            Change::Delete(_) => verdict(false, &self.short()),
            Change::Edit(_, edits) => {
                let edits = edits.iter().map(|edit| format!("{}: {} -> {}", edit.field, text(&edit.from), text(&edit.to)));
                format!("{}  {}", self.short(), edits.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn there(text: &str) -> Vec<Rule> {
        file::read(text).unwrap().into_iter().map(|written| written.rule).collect()
    }

    fn told(file: &str, server: &str, prune: bool) -> (Vec<String>, usize, usize) {
        let (written, there) = (file::read(file).unwrap(), there(server));
        let plan = plan(&written, &there, prune);
        (plan.changes.iter().map(Change::line).collect(), plan.unchanged, plan.others)
    }

    const SERVER: &str = "
rules:
  - {id: a, action: x, limit: 3, per: 10s}
  - {id: b, action: y, limit: 3, per: 1m, algorithm: token_bucket}
  - {id: c, action: z, limit: 3, per: 1day}";

    #[test]
    fn a_difference_names_what_is_new_changed_and_gone() {
        let file = "
rules:
  - {id: d, action: w, limit: 1, per: 1s}
  - {id: a, action: x, limit: 5, per: 10s, subject: vip, mode: shadow}
  - {id: b, action: y, limit: 4, per: 1m, algorithm: token_bucket}";
        let edits = ["+ d", "~ a  subject: none -> vip, limit: 3 -> 5, mode: enforce -> shadow", "~ b  limit: 3 -> 4, burst: 3 -> 4"];
        assert_eq!(told(file, SERVER, false), (edits.map(str::to_owned).to_vec(), 0, 1));
        let (pruned, _, others) = told(file, SERVER, true);
        assert_eq!((pruned.last().map(String::as_str), others), (Some("- c"), 0));
    }

    #[test]
    fn what_means_the_same_is_no_difference() {
        let file = "
rules:
  - {id: a, name: default, action: x, requests_per_unit: 3, per: 10000ms, algorithm: sliding_window, scope: subject, durable: false}
  - {id: b, action: y, limit: 3, unit: minute, algorithm: gcra, burst: 3, subject: ~, on_store_error: open, version: 9}
  - {id: c, action: z, limit: 3, per: day, mode: enforce}";
        assert_eq!(told(file, SERVER, true), (vec![], 3, 0));
        assert_eq!(told(SERVER, SERVER, true), (vec![], 3, 0));
    }

    #[test]
    fn a_rule_under_a_new_id_waits_until_the_old_one_is_gone() {
        let file = "
rules:
  - {id: a, action: x, limit: 3, per: 10s}
  - {id: new, action: z, limit: 3, per: 1day}";
        assert_eq!(told(file, SERVER, true).0, ["- c", "+ new", "- b"]);
        let (written, there) = (file::read(file).unwrap(), there(SERVER));
        let told: Vec<String> = conflicts(&written, &there, false).iter().map(|fault| fault.line("f")).collect();
        assert_eq!(told, ["f:4:10: rule new: rule c of the server, which is not in the file, has the same name, action, subject and when"]);
        assert!(conflicts(&written, &there, true).is_empty());
    }
}
