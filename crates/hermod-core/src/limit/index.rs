//! Finds the rules of a call among many, at a cost that follows those that match.
//!
//! Rules are kept by action, and below by subject, in tables that are asked by hash (`table.rs`).
//! Of each name the most specific rule wins: one for this very subject over one for subjects like
//! it over one for everyone, then one for this very action over one for actions like it, then the
//! one that spells out more. Rules of different names all apply.
//!
//! Most calls find rules for the very action, without a subject and without a condition, or one rule
//! alone. These answers are made when the index is, and found without an allocation.

mod facts;
mod table;

use std::cmp::Reverse;
use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;

pub use self::facts::{Attribute, Attributes, Facts};
use self::table::Table;
use crate::id::{Invalid, Name, RuleId};
use crate::limit::limited::{Limited, Rules};
use crate::limit::pattern::Pattern;
use crate::limit::rule::Rule;
use crate::limit::when::When;

static NO_RULES: LazyLock<Rules> = LazyLock::new(|| Arc::from([]));

/// No rules at all, without an allocation.
pub fn no_rules() -> Rules {
    Arc::clone(&NO_RULES)
}

/// Rules, found by the calls they apply to. Immutable: another set of rules is another index.
#[derive(Default)]
pub struct Index {
    actions: Table<Node>,
    /// Those of leases, which are renewed and given back without a word of their action.
    leases: Vec<(Option<Pattern>, Arc<Limited>)>,
    len: usize,
}

/// The rules of one action, or of actions that look alike.
#[derive(Default)]
struct Node {
    /// Everyone's, without a condition.
    plain: Vec<Entry>,
    /// The answer of those, where the action is exact.
    ready: Option<Rules>,
    /// Everyone's, with a condition.
    conditional: Vec<Entry>,
    subjects: Table<Vec<Entry>>,
}

struct Entry {
    rule: Arc<Limited>,
    /// The answer where no other rule applies, as is most often so.
    alone: Rules,
    action: Pattern,
    subject: Option<Pattern>,
    when: Option<When>,
    rank: Rank,
}

/// How specific a rule is. The first is the most specific.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    subject: Kind,
    action: Kind,
    /// One with a condition is before one without.
    is_unconditional: bool,
    subject_spelled: Reverse<usize>,
    action_spelled: Reverse<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Exact,
    Glob,
    Everyone,
}

type Found<'a> = SmallVec<[&'a Entry; 16]>;

/// A rule whose patterns match a call, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// The rule.
    pub rule: Arc<Limited>,
    /// Why it applies, or does not.
    pub why: Why,
}

/// Why a rule whose patterns match a call applies, or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It applies.
    Applies,
    /// A more specific rule of the same name applies.
    Overridden {
        /// That one.
        by: RuleId,
    },
    /// Its `when` is false, or cannot be told.
    WhenFalse,
}

impl Index {
    /// An index of these rules. An error if one of them cannot be counted.
    pub fn new<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Result<Index, Invalid> {
        let mut index = Index::default();
        for rule in rules {
            let entry = Entry::new(rule)?;
            if entry.rule.is_lease() {
                index.leases.push((rule.subject.clone(), Arc::clone(&entry.rule)));
            }
            let node = index.actions.entry(&rule.action);
            let list = match (&rule.subject, &rule.when) {
                (Some(subject), _) => node.subjects.entry(subject),
                (None, Some(_)) => &mut node.conditional,
                (None, None) => &mut node.plain,
            };
            list.push(entry);
            index.len += 1;
        }
        for node in index.actions.exact_mut().filter(|node| !node.plain.is_empty()) {
            node.ready = Some(chosen(node.plain.iter().collect()));
        }
        Ok(index)
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rules that apply, by name.
    pub fn find(&self, facts: &Facts<'_>) -> Rules {
        self.find_among(None, facts)
    }

    /// The rules that apply, of these and of a subject's `own`, as if all were in one index.
    pub fn find_with(&self, own: &Index, facts: &Facts<'_>) -> Rules {
        self.find_among(Some(own), facts)
    }

    fn find_among<'a>(&'a self, own: Option<&'a Index>, facts: &Facts<'_>) -> Rules {
        let mut found = Found::new();
        let mut take = |entry: &'a Entry| {
            if entry.is_true(facts) {
                found.push(entry);
            }
        };
        let exact = self.particular(facts, &mut take);
        let own = own.and_then(|own| own.particular(facts, &mut take));
        match (exact, own) {
            (None, None) if found.is_empty() => return no_rules(),
            (Some(Node { ready: Some(ready), .. }), None) | (None, Some(Node { ready: Some(ready), .. })) if found.is_empty() => {
                return Arc::clone(ready);
            }
            _ => {}
        }
        found.extend([exact, own].into_iter().flatten().flat_map(|node| &node.plain));
        chosen(found)
    }

    /// The rules of leases that may apply to what this subject does, whatever it is.
    pub fn leases_of(&self, subject: &str) -> impl Iterator<Item = &Arc<Limited>> {
        let is_for = move |whom: &Option<Pattern>| whom.as_ref().is_none_or(|whom| whom.matches(subject));
        self.leases.iter().filter(move |(whom, _)| is_for(whom)).map(|(_, rule)| rule)
    }

    /// All rules whose patterns match, by name, the most specific first, and what became of them.
    pub fn explain(&self, own: Option<&Index>, facts: &Facts<'_>) -> Vec<Considered> {
        let mut found = Found::new();
        for index in [Some(self), own].into_iter().flatten() {
            let exact = index.particular(facts, &mut |entry| found.push(entry));
            found.extend(exact.into_iter().flat_map(|node| &node.plain));
        }
        found.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        let mut applies: Option<&Limited> = None;
        let considered = found.into_iter().map(|entry| {
            let why = match applies.filter(|applies| applies.name == entry.rule.name) {
                Some(winner) => Why::Overridden { by: winner.id.clone() },
                None if !entry.is_true(facts) => Why::WhenFalse,
                None => {
                    applies = Some(&entry.rule);
                    Why::Applies
                }
            };
            Considered { rule: Arc::clone(&entry.rule), why }
        });
        considered.collect()
    }

    /// Visits the rules whose patterns match, but for the plain ones of the very action: their node is the answer.
    fn particular<'a>(&'a self, facts: &Facts<'_>, visit: &mut impl FnMut(&'a Entry)) -> Option<&'a Node> {
        for node in self.actions.globs(facts.action) {
            node.plain.iter().filter(|entry| entry.action.matches(facts.action)).for_each(&mut *visit);
            node.particular(facts, visit);
        }
        let exact = self.actions.exact(facts.action)?;
        exact.particular(facts, visit);
        (!exact.plain.is_empty()).then_some(exact)
    }
}

impl Node {
    fn particular<'a>(&'a self, facts: &Facts<'_>, visit: &mut impl FnMut(&'a Entry)) {
        let lists = self.subjects.exact(facts.subject).into_iter().chain(self.subjects.globs(facts.subject));
        let entries = lists.flatten().chain(&self.conditional);
        entries.filter(|entry| entry.is_for(facts)).for_each(visit);
    }
}

impl Entry {
    fn new(rule: &Rule) -> Result<Entry, Invalid> {
        let kind = |pattern: &Pattern| if pattern.is_glob() { Kind::Glob } else { Kind::Exact };
        let rank = Rank {
            subject: rule.subject.as_ref().map_or(Kind::Everyone, kind),
            action: kind(&rule.action),
            is_unconditional: rule.when.is_none(),
            subject_spelled: Reverse(rule.subject.as_ref().map_or(0, Pattern::literal_len)),
            action_spelled: Reverse(rule.action.literal_len()),
        };
        let limited = Arc::new(Limited::new(rule)?);
        let alone = Arc::from([Arc::clone(&limited)]);
        Ok(Entry { rule: limited, alone, action: rule.action.clone(), subject: rule.subject.clone(), when: rule.when.clone(), rank })
    }

    /// Whether its patterns match.
    fn is_for(&self, facts: &Facts<'_>) -> bool {
        self.action.matches(facts.action) && self.subject.as_ref().is_none_or(|subject| subject.matches(facts.subject))
    }

    /// Whether its condition holds.
    fn is_true(&self, facts: &Facts<'_>) -> bool {
        self.when.as_ref().is_none_or(|when| when.holds(facts))
    }

    /// By name, the most specific first.
    fn order(&self) -> (&Name, Rank, &RuleId) {
        (&self.rule.name, self.rank, &self.rule.id)
    }
}

/// Of each name the most specific, by name.
fn chosen(mut found: Found<'_>) -> Rules {
    if let [only] = found.as_slice() {
        return Arc::clone(&only.alone);
    }
    found.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
    found.dedup_by(|next, first| next.rule.name == first.rule.name);
    found.iter().map(|entry| Arc::clone(&entry.rule)).collect()
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
