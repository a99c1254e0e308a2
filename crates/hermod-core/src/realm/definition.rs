//! A realm, as people define it: one document that says all of an economy.
//!
//! What is written as a [`Formula`] is a CEL expression over integers. [`Definition::compile`](super::catalog) reads all of them and
//! tells every fault with its path; what is here only has the right shape.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::Name;
use crate::pick::Zone;
use crate::word::word_enum;

/// One economy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Definition {
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The time zone of calendar timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<Zone>,
    /// What there is to have.
    pub assets: BTreeMap<Name, Asset>,
    /// What can be claimed at times only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub timers: BTreeMap<Name, Timer>,
    /// What holds for a while.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<Name, Number>,
    /// What is counted, for everybody to see.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<Name, Number>,
    /// What is counted and not shown.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub boxes: BTreeMap<Name, Number>,
    /// What may drop, and how likely.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<Name, Table>,
    /// What can be made or bought, and of what.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub recipes: BTreeMap<Name, Recipe>,
    /// What can be done.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plays: BTreeMap<Name, Play>,
    /// What follows from what.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

word_enum! {
    /// What an asset is.
    AssetKind, "kind", {
        /// A thing.
        #[default]
        Item = "item",
        /// Money.
        Currency = "currency",
    }
}

/// Something to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asset {
    /// What it is.
    pub kind: AssetKind,
    /// The most that one owner can have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// The least that one owner can have: below 0 is credit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<i64>,
    /// Whether owners may trade it, for plays that ask `tradable(asset)`; they may if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tradable: Option<bool>,
    /// Whether it has a leaderboard. This is settled when it is first defined.
    #[serde(skip_serializing_if = "is_false")]
    pub board: bool,
    /// How to show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// When something can be claimed again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timer {
    /// So long after the last claim: `24h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// From this time of the day on, once until the same time of the next: `00:00`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Where that time is; the realm's time zone if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tz: Option<Where>,
    /// How long after it can be claimed again a streak is kept; for a calendar timer until the end of the next day if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<String>,
    /// Whether claims in a row are counted.
    #[serde(skip_serializing_if = "is_false")]
    pub streak: bool,
}

/// Where the time of a calendar timer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// Where its owner is, as far as that is known; else where the realm is.
    Owner,
    /// Where the realm is.
    Realm,
    /// There.
    Zone(Zone),
}

impl Serialize for Where {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Where::Owner => s.serialize_str("owner"),
            Where::Realm => s.serialize_str("realm"),
            Where::Zone(zone) => zone.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for Where {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Where, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        match &*text {
            "owner" => Ok(Where::Owner),
            "realm" => Ok(Where::Realm),
            name => {
                let told = "must be owner, realm, or a time zone of the IANA database, such as Europe/Berlin or UTC";
                Zone::new(name).map(Where::Zone).map_err(|_| serde::de::Error::custom(told))
            }
        }
    }
}

/// A number that is kept: an effect, a counter or a box.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Number {
    /// What it is while there is none.
    pub default: i64,
}

word_enum! {
    /// What becomes of something drawn that its owner has no room for.
    IfFull, "full", {
        /// Nothing is got.
        #[default]
        Lose = "lose",
        /// It is drawn again among those there is room for.
        Reroll = "reroll",
    }
}

/// What may drop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The weights are out of so many; the rest is nothing.
    pub of: u64,
    /// What becomes of something that there is no room for.
    #[serde(default)]
    pub full: IfFull,
    /// The weight of each asset.
    pub drops: BTreeMap<Name, u64>,
}

/// What can be made of what. With a price in a currency it is a shop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// What it takes.
    pub take: BTreeMap<Name, u64>,
    /// What it gives; one of its own name if absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub give: BTreeMap<Name, u64>,
}

/// A named operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Play {
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether only rules and schedules may run it.
    #[serde(skip_serializing_if = "is_false")]
    pub internal: bool,
    /// What it is given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<Name, Arg>,
    /// Names for formulas; each is computed when it is first used.
    #[serde(rename = "let", skip_serializing_if = "BTreeMap::is_empty")]
    pub lets: BTreeMap<Name, Formula>,
    /// Draws, each from one number to another, both included; each is drawn when it is first used.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub roll: BTreeMap<Name, (Formula, Formula)>,
    /// What must be true, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub need: Vec<Need>,
    /// What is done.
    #[serde(rename = "do", skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// What is told besides.
    #[serde(rename = "return", skip_serializing_if = "BTreeMap::is_empty")]
    pub returns: BTreeMap<Name, Return>,
    /// Arguments to show what it is worth with, for reports.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sample: BTreeMap<Name, Formula>,
}

word_enum! {
    /// What an argument is.
    ArgKind, "type", {
        /// A whole number.
        #[default]
        Amount = "amount",
        /// Somebody who can have something.
        Owner = "owner",
        /// The name of an asset.
        Asset = "asset",
        /// Any text of at most 256 bytes.
        Text = "text",
    }
}

/// An argument: its kind, or all that is said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Arg {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ArgKind,
    /// What is refused with if it is not that; an error of the caller if absent.
    #[serde(rename = "else", skip_serializing_if = "Option::is_none")]
    pub or_else: Option<Name>,
    /// Of an amount: `all` stands for everything the player has of this asset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<Name>,
    /// Of an amount: a fraction is rounded up instead of refused.
    #[serde(skip_serializing_if = "is_false")]
    pub round_up: bool,
    /// What it is if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Formula>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ArgForm {
    Kind(ArgKind),
    Whole(ArgFields),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArgFields {
    #[serde(rename = "type")]
    kind: ArgKind,
    #[serde(rename = "else")]
    or_else: Option<Name>,
    all: Option<Name>,
    #[serde(default)]
    round_up: bool,
    default: Option<Formula>,
}

impl<'de> Deserialize<'de> for Arg {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Arg, D::Error> {
        Ok(match ArgForm::deserialize(d)? {
            ArgForm::Kind(kind) => Arg { kind, or_else: None, all: None, round_up: false, default: None },
            ArgForm::Whole(ArgFields { kind, or_else, all, round_up, default }) => Arg { kind, or_else, all, round_up, default },
        })
    }
}

/// What must be true: a condition, or a timer that can be claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// The condition.
    #[serde(rename = "if", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Formula>,
    /// The timer of the player.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<Name>,
    /// What is refused with.
    #[serde(rename = "else")]
    pub or_else: Name,
    /// What the refusal tells besides.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<Name, Formula>,
}

/// What is told: a formula, or when a play is scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Return {
    /// A number or text.
    Formula(Formula),
    /// The next times at which a play is scheduled.
    Upcoming(Upcoming),
}

/// The next times at which a play is scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upcoming {
    /// The play.
    pub upcoming: Name,
    /// How many; at most 100.
    pub limit: usize,
}

/// One step of what is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Moves so many of an asset.
    Move(Move),
    /// Claims a timer.
    Claim(Claim),
    /// Sets an effect on an owner.
    Effect(Effect),
    /// Sets a counter of an owner.
    Counter(Count),
    /// Sets a box by its name.
    Box(Count),
    /// Makes something by its recipe.
    Craft(Craft),
    /// Draws from a table.
    Draw(Draw),
    /// Has a play run later.
    Schedule(Schedule),
    /// Does one thing or another.
    If(If),
}

word_enum! {
    /// What becomes of what its new owner has no room for.
    Overflow, "overflow", {
        /// All is refused.
        #[default]
        Reject = "reject",
        /// It stays where it was.
        Clamp = "clamp",
        /// It is burnt.
        Burn = "burn",
    }
}

/// Moves so many of an asset from one owner to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// From whom: a formula, or one of `@mint @burn @house @escrow`.
    pub from: Formula,
    /// To whom.
    pub to: Formula,
    /// The name of the asset, or a formula of it.
    pub asset: Formula,
    /// How many.
    pub qty: Formula,
    /// What becomes of what there is no room for.
    #[serde(default)]
    pub overflow: Overflow,
    /// The type of its events; the play's name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Types>,
    /// What is refused with if there is not enough: `funds` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<Name>,
    /// What is refused with if there is no room: `stack` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Name>,
}

/// The type of an event: the same for both sides, or each its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Types {
    /// For both.
    Both(Name),
    /// From and to.
    Each(Name, Name),
}

/// Claims a timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The timer.
    pub timer: Name,
    /// Whose; the player's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Formula>,
    /// For how many seconds, instead of what the timer says.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Formula>,
    /// What is refused with if it cannot be claimed: `ttl` if absent.
    #[serde(rename = "else", default, skip_serializing_if = "Option::is_none")]
    pub or_else: Option<Name>,
}

word_enum! {
    /// What becomes of an effect that is there already.
    Merge, "merge", {
        /// The new one takes its place.
        #[default]
        Replace = "replace",
        /// The values add up, and it ends with the later of both.
        Add = "add",
        /// The larger value stays, and it ends with the later of both.
        Max = "max",
        /// The new value, for so much longer.
        Extend = "extend",
    }
}

/// Sets an effect on an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// The effect.
    pub name: Name,
    /// Whose; the player's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Formula>,
    /// Its value.
    pub value: Formula,
    /// For how many seconds.
    #[serde(rename = "for")]
    pub seconds: Formula,
    /// What becomes of one that is there.
    #[serde(default)]
    pub merge: Merge,
}

/// Sets a counter or a box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// The counter or box.
    pub name: Name,
    /// Whose it is; of a box, which it is. The player's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Formula>,
    /// Its value from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Formula>,
    /// How much is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<Formula>,
    /// It is forgotten.
    #[serde(default, skip_serializing_if = "is_false")]
    pub clear: bool,
    /// For how many seconds; as long as it did, or for ever, if absent.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Formula>,
}

/// Makes something by its recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Craft {
    /// The name of the recipe, or a formula of it.
    pub recipe: Formula,
    /// The type of the event of what is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Name>,
    /// The type of the events of what it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fee: Option<Name>,
}

/// Draws from a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draw {
    /// The table.
    pub table: Name,
    /// For whom; the player if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Formula>,
    /// The type of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Name>,
    /// What is refused with if nothing is drawn; nothing is if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<Name>,
    /// What is refused with if there is no room; nothing is if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Name>,
    /// The name under which formulas after it know what was drawn; `''` if nothing was.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
}

/// Has a play run later, exactly once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The play.
    pub play: Name,
    /// In how many seconds.
    #[serde(rename = "in")]
    pub seconds: Formula,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<Name, Formula>,
}

/// Does one thing or another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct If {
    /// The condition.
    pub when: Formula,
    /// What is done if it is true.
    pub then: Vec<Step>,
    /// What is done otherwise.
    #[serde(rename = "else", default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<Step>,
}

word_enum! {
    /// When a rule's play runs.
    Mode, "mode", {
        /// In the same commit. Its refusal is told, and refuses nothing else.
        #[default]
        Inline = "inline",
        /// After it, exactly once.
        After = "after",
    }
}

/// What follows from what: after an event of this type a play runs, for whom the event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The type of the event.
    pub on: Name,
    /// The play. It is given no arguments.
    pub play: Name,
    /// When it runs.
    #[serde(default)]
    pub mode: Mode,
}

/// A CEL expression over integers, or a number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Formula(pub String);

impl fmt::Debug for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Formula {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Formula, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
            type Value = Formula;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or a formula as text")
            }

            fn visit_i64<E>(self, number: i64) -> Result<Formula, E> {
                Ok(Formula(number.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Formula, E> {
                Ok(Formula(number.to_string()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Formula, E> {
                Ok(Formula(value.to_string()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Formula, E> {
                Ok(Formula(text.to_owned()))
            }
        }
        d.deserialize_any(Written)
    }
}
