//! What a file of rules would change, and what is in its way.

use std::collections::{BTreeMap, BTreeSet};

use hermod_client::Rule;

use super::form::covers;
use crate::file::Written;
use crate::file::diff::{self, Plan, others};
use crate::file::fault::Fault;

/// What makes the server's rules, `there`, those of the file. Others stay unless `prune` is set.
pub(super) fn plan<'a>(written: &'a [Written<Rule>], there: &'a [Rule], prune: bool) -> Plan<'a, Rule> {
    // A rule under a new id can only be made when the one under the old id is gone.
    let taken: BTreeSet<_> = written.iter().map(|written| covers(&written.item)).collect();
    diff::plan(written, there, prune, |rule| taken.contains(&covers(rule)))
}

/// Rules of the file that the server would refuse, because of others that are not in the file and stay.
pub(super) fn conflicts(written: &[Written<Rule>], there: &[Rule], prune: bool) -> Vec<Fault> {
    let others = if prune { Vec::new() } else { others(written, there) };
    let covered: BTreeMap<_, _> = others.into_iter().map(|rule| (covers(rule), &rule.id)).collect();
    let in_the_way = |written: &Written<Rule>| {
        let id = covered.get(&covers(&written.item))?;
        Some(written.fault("id", format!("rule {id} of the server, which is not in the file, has the same name, action, subject and when")))
    };
    written.iter().filter_map(in_the_way).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;
    use crate::file::diff::Change;

    fn there(text: &str) -> Vec<Rule> {
        file::read(text).unwrap().into_iter().map(|written| written.item).collect()
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
