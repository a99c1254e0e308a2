//! What a play does, step by step.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use super::{FormulaSchema, TypesSchema};

/// One step of what is done: an object with one name.
#[derive(ToSchema)]
#[schema(as = RealmStep, rename_all = "snake_case")]
pub(super) enum StepSchema {
    /// Moves so many of an asset.
    Move(MoveSchema),
    /// Claims a timer.
    Claim(ClaimSchema),
    /// Sets an effect on an owner.
    Effect(EffectSchema),
    /// Sets a counter of an owner.
    Counter(CountSchema),
    /// Sets a box by its name.
    Box(CountSchema),
    /// Makes something by its recipe.
    Craft(CraftSchema),
    /// Draws from a table.
    Draw(DrawSchema),
    /// Has a play run later.
    Schedule(ScheduleSchema),
    /// Does one thing or another.
    If(IfSchema),
}

/// Moves so many of an asset from one owner to another.
#[derive(ToSchema)]
#[schema(as = RealmMove)]
pub(super) struct MoveSchema {
    /// From whom: a formula, or one of @mint, @burn, @house and @escrow.
    from: FormulaSchema,
    /// To whom.
    to: FormulaSchema,
    /// The name of the asset, or a formula of it.
    asset: FormulaSchema,
    /// How many.
    qty: FormulaSchema,
    /// What becomes of what there is no room for: reject (the default), clamp or burn.
    #[schema(required = false)]
    overflow: String,
    /// The type of its events; the play's name if absent.
    #[schema(required = false)]
    event: TypesSchema,
    /// What is refused with if there is not enough: funds if absent.
    #[schema(required = false)]
    short: String,
    /// What is refused with if there is no room: stack if absent.
    #[schema(required = false)]
    full: String,
}

/// Claims a timer.
#[derive(ToSchema)]
#[schema(as = RealmClaim)]
pub(super) struct ClaimSchema {
    /// The timer.
    timer: String,
    /// Whose; the player's if absent.
    #[schema(required = false)]
    of: FormulaSchema,
    /// For how many seconds, instead of what the timer says.
    #[schema(required = false, rename = "for")]
    seconds: FormulaSchema,
    /// What is refused with if it cannot be claimed: ttl if absent.
    #[schema(required = false, rename = "else")]
    or_else: String,
}

/// Sets an effect on an owner.
#[derive(ToSchema)]
#[schema(as = RealmEffect)]
pub(super) struct EffectSchema {
    /// The effect.
    name: String,
    /// Whose; the player's if absent.
    #[schema(required = false)]
    of: FormulaSchema,
    /// Its value.
    value: FormulaSchema,
    /// For how many seconds.
    #[schema(rename = "for")]
    seconds: FormulaSchema,
    /// What becomes of one that is there: replace (the default), add, max or extend.
    #[schema(required = false)]
    merge: String,
}

/// Sets a counter or a box.
#[derive(ToSchema)]
#[schema(as = RealmCount)]
pub(super) struct CountSchema {
    /// The counter or box.
    name: String,
    /// Whose it is; of a box, which it is. The player's if absent.
    #[schema(required = false)]
    of: FormulaSchema,
    /// Its value from now on.
    #[schema(required = false)]
    set: FormulaSchema,
    /// How much is added.
    #[schema(required = false)]
    add: FormulaSchema,
    /// It is forgotten.
    #[schema(required = false)]
    clear: bool,
    /// For how many seconds; as long as it did, or for ever, if absent.
    #[schema(required = false, rename = "for")]
    seconds: FormulaSchema,
}

/// Makes something by its recipe.
#[derive(ToSchema)]
#[schema(as = RealmCraft)]
pub(super) struct CraftSchema {
    /// The name of the recipe, or a formula of it.
    recipe: FormulaSchema,
    /// The type of the event of what is made.
    #[schema(required = false)]
    event: String,
    /// The type of the events of what it takes.
    #[schema(required = false)]
    fee: String,
}

/// Draws from a table.
#[derive(ToSchema)]
#[schema(as = RealmDraw)]
pub(super) struct DrawSchema {
    /// The table.
    table: String,
    /// For whom; the player if absent.
    #[schema(required = false)]
    to: FormulaSchema,
    /// The type of the event.
    #[schema(required = false)]
    event: String,
    /// What is refused with if nothing is drawn; nothing is if absent.
    #[schema(required = false)]
    nothing: String,
    /// What is refused with if there is no room; nothing is if absent.
    #[schema(required = false)]
    full: String,
    /// The name under which formulas after it know what was drawn.
    #[schema(required = false, rename = "as")]
    name: String,
}

/// Has a play run later, exactly once.
#[derive(ToSchema)]
#[schema(as = RealmSchedule)]
pub(super) struct ScheduleSchema {
    /// The play.
    play: String,
    /// In how many seconds.
    #[schema(rename = "in")]
    seconds: FormulaSchema,
    /// Its arguments.
    #[schema(required = false)]
    args: BTreeMap<String, FormulaSchema>,
}

/// Does one thing or another.
#[derive(ToSchema)]
#[schema(as = RealmIf)]
pub(super) struct IfSchema {
    /// The condition.
    when: FormulaSchema,
    /// What is done if it is true.
    #[schema(no_recursion)]
    then: Vec<StepSchema>,
    /// What is done otherwise.
    #[schema(required = false, rename = "else", no_recursion)]
    otherwise: Vec<StepSchema>,
}
