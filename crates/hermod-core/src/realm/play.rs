//! A play that was read: its formulas as trees, its references checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::definition::{ArgKind, Merge, Overflow};
use super::formula::{Node, Read};

/// A play that was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Played {
    pub internal: bool,
    pub args: Vec<Parameter>,
    pub lets: BTreeMap<Arc<str>, Node>,
    pub rolls: BTreeMap<Arc<str>, (Node, Node)>,
    pub needs: Vec<Needed>,
    pub steps: Vec<Step>,
    pub returns: Vec<(Arc<str>, Returns)>,
    pub sample: Vec<(Arc<str>, Arc<str>)>,
    /// What it is likely to ask of the state.
    pub hints: Vec<(Read, Vec<Node>)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub name: Arc<str>,
    pub kind: ArgKind,
    pub or_else: Option<Arc<str>>,
    pub all: Option<Arc<str>>,
    pub round_up: bool,
    pub default: Option<Node>,
}

#[derive(Clone, Debug)]
pub(crate) struct Needed {
    pub what: Needs,
    pub or_else: Arc<str>,
    pub with: Vec<(Arc<str>, Node)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Needs {
    Condition(Node),
    Timer(Arc<str>),
}

#[derive(Clone, Debug)]
pub(crate) enum Returns {
    Node(Node),
    Upcoming(Arc<str>, usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Move(Moving),
    Claim {
        timer: Arc<str>,
        of: Option<Node>,
        seconds: Option<Node>,
        or_else: Arc<str>,
    },
    Effect {
        name: Arc<str>,
        of: Option<Node>,
        value: Node,
        seconds: Node,
        merge: Merge,
    },
    Count(Counting),
    Craft {
        recipe: Node,
        event: Option<Arc<str>>,
        fee: Option<Arc<str>>,
    },
    Draw {
        table: Arc<str>,
        to: Option<Node>,
        event: Option<Arc<str>>,
        nothing: Option<Arc<str>>,
        full: Option<Arc<str>>,
        name: Option<Arc<str>>,
    },
    Schedule {
        play: Arc<str>,
        seconds: Node,
        args: Vec<(Arc<str>, Node)>,
    },
    If {
        when: Node,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Moving {
    pub from: Node,
    pub to: Node,
    pub asset: Node,
    pub qty: Node,
    pub overflow: Overflow,
    /// The play's name if absent.
    pub types: Option<(Arc<str>, Arc<str>)>,
    pub short: Arc<str>,
    pub full: Arc<str>,
}

#[derive(Clone, Debug)]
pub(crate) struct Counting {
    pub name: Arc<str>,
    /// `c` of a counter, `b` of a box.
    pub kind: char,
    pub of: Option<Node>,
    pub to: CountTo,
    pub seconds: Option<Node>,
}

#[derive(Clone, Debug)]
pub(crate) enum CountTo {
    Set(Node),
    Add(Node),
    Clear,
}
