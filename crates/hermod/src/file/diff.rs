//! What a file would change.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Item, Written};
use crate::output::verdict;

/// One item that is to change.
#[derive(Debug)]
pub(crate) enum Change<'a, T> {
    Create(&'a Written<T>),
    Edit(&'a Written<T>, Vec<Edit>),
    Delete(&'a T),
}

/// One field that is to change; null is none.
#[derive(Debug, PartialEq)]
pub(crate) struct Edit {
    pub(crate) field: Cow<'static, str>,
    pub(crate) from: Value,
    pub(crate) to: Value,
}

/// All that is to change, in the order of the file. What goes is last, but for what is in the way.
#[derive(Debug)]
pub(crate) struct Plan<'a, T> {
    pub(crate) changes: Vec<Change<'a, T>>,
    /// How many items of the file are on the server as they are in the file.
    pub(crate) unchanged: usize,
    /// How many items of the server are not in the file and stay.
    pub(crate) others: usize,
}

/// What makes the server's items, `there`, those of the file. Others stay unless `prune` is set; of those that go, the ones that
/// are in the way go first.
pub(crate) fn plan<'a, T: Item>(written: &'a [Written<T>], there: &'a [T], prune: bool, is_in_the_way: impl Fn(&T) -> bool) -> Plan<'a, T> {
    let by_id: BTreeMap<_, &T> = there.iter().map(|item| (key(item), item)).collect();
    let mut plan = Plan { changes: Vec::new(), unchanged: 0, others: 0 };
    for written in written {
        match by_id.get(&key(&written.item)).map(|old| old.edits(&written.item)) {
            None => plan.changes.push(Change::Create(written)),
            Some(edits) if edits.is_empty() => plan.unchanged += 1,
            Some(edits) => plan.changes.push(Change::Edit(written, edits)),
        }
    }
    let others = others(written, there);
    if prune {
        let (first, last): (Vec<&T>, Vec<&T>) = others.into_iter().partition(|item| is_in_the_way(item));
        plan.changes.splice(0..0, first.into_iter().map(Change::Delete));
        plan.changes.extend(last.into_iter().map(Change::Delete));
    } else {
        plan.others = others.len();
    }
    plan
}

fn key<T: Item>(item: &T) -> (&'static str, &str) {
    (item.noun(), item.id())
}

/// The server's items that are not in the file, by id.
pub(crate) fn others<'a, T: Item>(written: &[Written<T>], there: &'a [T]) -> Vec<&'a T> {
    let kept: BTreeSet<_> = written.iter().map(|written| key(&written.item)).collect();
    let mut others: Vec<&T> = there.iter().filter(|item| !kept.contains(&key(*item))).collect();
    others.sort_by_key(|item| key(*item));
    others
}

impl<T: Item> Change<'_, T> {
    pub(crate) fn item(&self) -> &T {
        match self {
            Change::Create(written) | Change::Edit(written, _) => &written.item,
            Change::Delete(item) => item,
        }
    }

    /// The change in a word, for programs.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Change::Create(_) => "create",
            Change::Edit(..) => "change",
            Change::Delete(_) => "delete",
        }
    }

    /// The change without its fields: `+ burst`.
    pub(crate) fn short(&self) -> String {
        let sign = match self {
            Change::Create(_) => '+',
            Change::Edit(..) => '~',
            Change::Delete(_) => '-',
        };
        format!("{sign} {}", self.item().label())
    }

    /// The change in a line: `~ burst  limit: 3 -> 5`.
    pub(crate) fn line(&self) -> String {
        match self {
            Change::Create(_) => verdict(true, &self.short()),
            Change::Delete(_) => verdict(false, &self.short()),
            Change::Edit(_, edits) => format!("{}{}", self.short(), T::told(edits)),
        }
    }
}
