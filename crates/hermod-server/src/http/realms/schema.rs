//! The definition of a realm as the OpenAPI document describes it.
//!
//! It is read by `hermod-core`, which knows nothing of HTTP. What is here is only looked at; a test compares it with what is read.

#![allow(dead_code, reason = "these types describe, and are never made")]

mod step;

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use step::StepSchema;

/// One economy.
#[derive(ToSchema)]
#[schema(as = RealmDefinition)]
pub(crate) struct DefinitionSchema {
    /// For people.
    #[schema(required = false)]
    description: String,
    /// The time zone of calendar timers, of the IANA database; UTC if absent.
    #[schema(required = false, example = "Europe/Berlin")]
    timezone: String,
    /// What there is to have.
    #[schema(required = false)]
    assets: BTreeMap<String, AssetSchema>,
    /// What can be claimed at times only.
    #[schema(required = false)]
    timers: BTreeMap<String, TimerSchema>,
    /// What holds for a while.
    #[schema(required = false)]
    effects: BTreeMap<String, NumberSchema>,
    /// What is counted, for everybody to see.
    #[schema(required = false)]
    counters: BTreeMap<String, NumberSchema>,
    /// What is counted and not shown.
    #[schema(required = false)]
    boxes: BTreeMap<String, NumberSchema>,
    /// What may drop, and how likely.
    #[schema(required = false)]
    tables: BTreeMap<String, TableSchema>,
    /// What can be made or bought, and of what.
    #[schema(required = false)]
    recipes: BTreeMap<String, RecipeSchema>,
    /// What can be done.
    #[schema(required = false)]
    plays: BTreeMap<String, PlaySchema>,
    /// What follows from what.
    #[schema(required = false)]
    rules: Vec<RuleSchema>,
}

/// Something to have.
#[derive(ToSchema)]
#[schema(as = RealmAsset)]
struct AssetSchema {
    /// item (the default) or currency. This is settled when it is first defined.
    #[schema(required = false)]
    kind: String,
    /// The most that one owner can have.
    #[schema(required = false)]
    max: u64,
    /// The least that one owner can have: below 0 is credit.
    #[schema(required = false)]
    floor: i64,
    /// Whether owners may trade it, for plays that ask for that; they may if absent.
    #[schema(required = false)]
    tradable: bool,
    /// Whether it has a leaderboard. This is settled when it is first defined.
    #[schema(required = false)]
    board: bool,
    /// How to show it.
    #[schema(required = false)]
    emoji: String,
    /// For people.
    #[schema(required = false)]
    description: String,
}

/// When something can be claimed again.
#[derive(ToSchema)]
#[schema(as = RealmTimer)]
struct TimerSchema {
    /// So long after the last claim.
    #[schema(required = false, example = "24h")]
    every: String,
    /// From this time of the day on, once until the same time of the next.
    #[schema(required = false, example = "00:00")]
    at: String,
    /// Where that time is: `owner`, by the time zone of the subject who claims, if it has one; `realm`; or a time zone of the
    /// IANA database. The realm's time zone if absent.
    #[schema(required = false)]
    tz: String,
    /// How long after it can be claimed again a streak is kept.
    #[schema(required = false)]
    grace: String,
    /// Whether claims in a row are counted.
    #[schema(required = false)]
    streak: bool,
}

/// A number that is kept.
#[derive(ToSchema)]
#[schema(as = RealmNumber)]
struct NumberSchema {
    /// What it is while there is none; 0 if absent.
    #[schema(required = false)]
    default: i64,
}

/// What may drop.
#[derive(ToSchema)]
#[schema(as = RealmTable)]
struct TableSchema {
    /// The weights are out of so many; the rest is nothing.
    of: u64,
    /// What becomes of something that there is no room for: lose (the default) or reroll.
    #[schema(required = false)]
    full: String,
    /// The weight of each asset.
    drops: BTreeMap<String, u64>,
}

/// What can be made of what. With a price in a currency it is a shop.
#[derive(ToSchema)]
#[schema(as = RealmRecipe)]
struct RecipeSchema {
    /// What it takes.
    take: BTreeMap<String, u64>,
    /// What it gives; one of its own name if absent.
    #[schema(required = false)]
    give: BTreeMap<String, u64>,
}

/// A named operation.
#[derive(ToSchema)]
#[schema(as = RealmPlay)]
struct PlaySchema {
    /// For people.
    #[schema(required = false)]
    description: String,
    /// Whether only rules and schedules may run it.
    #[schema(required = false)]
    internal: bool,
    /// What it is given.
    #[schema(required = false)]
    args: BTreeMap<String, ArgSchema>,
    /// Names for formulas; each is computed when it is first used.
    #[schema(required = false, rename = "let")]
    lets: BTreeMap<String, FormulaSchema>,
    /// Draws, each from one number to another, both included; each is drawn when it is first used.
    #[schema(required = false)]
    roll: BTreeMap<String, Vec<FormulaSchema>>,
    /// What must be true, in this order.
    #[schema(required = false)]
    need: Vec<NeedSchema>,
    /// What is done.
    #[schema(required = false, rename = "do")]
    steps: Vec<StepSchema>,
    /// What is told besides.
    #[schema(required = false, rename = "return")]
    returns: BTreeMap<String, ReturnSchema>,
    /// Arguments to show what it is worth with, for reports.
    #[schema(required = false)]
    sample: BTreeMap<String, FormulaSchema>,
}

/// A CEL expression over whole numbers, as text, or a number.
#[derive(Serialize, ToSchema)]
#[schema(as = RealmFormula)]
#[serde(untagged)]
enum FormulaSchema {
    Text(String),
    Number(i64),
    Truth(bool),
}

/// The type of an event: the same for both sides, or that of each.
#[derive(Serialize, ToSchema)]
#[schema(as = RealmEventTypes)]
#[serde(untagged)]
enum TypesSchema {
    Both(String),
    Each(Vec<String>),
}

/// An argument: amount, owner, asset or text, or all that is said of it.
#[derive(Serialize, ToSchema)]
#[schema(as = RealmArgument)]
#[serde(untagged)]
enum ArgSchema {
    Kind(String),
    Whole(ArgFieldsSchema),
}

/// All that is said of an argument.
#[derive(Serialize, ToSchema)]
#[schema(as = RealmArgumentFields)]
struct ArgFieldsSchema {
    /// amount, owner, asset or text.
    #[schema(rename = "type")]
    kind: String,
    /// What is refused with if it is not that; an error of the caller if absent.
    #[schema(required = false, rename = "else")]
    or_else: String,
    /// Of an amount: all stands for everything the player has of this asset.
    #[schema(required = false)]
    all: String,
    /// Of an amount: a fraction is rounded up instead of refused.
    #[schema(required = false)]
    round_up: bool,
    /// What it is if it is not given.
    #[schema(required = false)]
    default: FormulaSchema,
}

/// What is told: a formula, or when a play is scheduled.
#[derive(Serialize, ToSchema)]
#[schema(as = RealmReturn)]
#[serde(untagged)]
enum ReturnSchema {
    Formula(FormulaSchema),
    Upcoming(UpcomingSchema),
}

/// The next times at which a play is scheduled.
#[derive(Serialize, ToSchema)]
#[schema(as = RealmUpcoming)]
struct UpcomingSchema {
    /// The play.
    upcoming: String,
    /// How many; at most 100.
    limit: u64,
}

/// What must be true: a condition, or a timer that can be claimed.
#[derive(ToSchema)]
#[schema(as = RealmNeed)]
struct NeedSchema {
    /// The condition.
    #[schema(required = false, rename = "if")]
    condition: FormulaSchema,
    /// The timer of the player.
    #[schema(required = false)]
    timer: String,
    /// What is refused with.
    #[schema(rename = "else")]
    or_else: String,
    /// What the refusal tells besides.
    #[schema(required = false)]
    with: BTreeMap<String, FormulaSchema>,
}

/// What follows from what: after an event of this type a play runs, for whom the event is about.
#[derive(ToSchema)]
#[schema(as = RealmRule)]
struct RuleSchema {
    /// The type of the event.
    on: String,
    /// The play. It is given no arguments.
    play: String,
    /// inline (the default): in the same commit; after: after it, exactly once.
    #[schema(required = false)]
    mode: String,
}
