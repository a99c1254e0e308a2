//! realm: `POST /v1/realms/{realm}/plays/{play}`, `commits`, `commits/{id}/revert`, `holds`, `holds/{id}/{capture,release}`,
//! `simulate`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use hermod_core::queue::delivery::Due;
use hermod_core::realm::args::{Raw, is_owner};
use hermod_core::realm::commit::LEGS_MAX;
use hermod_core::realm::definition::{Merge, Overflow};
use hermod_core::realm::entry::What;
use hermod_core::realm::formula::Datum;
use hermod_core::realm::told::Returned;
use hermod_core::realm::{Account, Condition, Deed, Lasting, Leg, Legs, Realm, Refusal};
use hermod_core::{Invalid, Micros, Once, RealmId};
use hermod_engine::Durability;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::Shell;
use super::books::{EventDocument, events_of};
use super::limit::{durability, span};
use super::problem::Document;
use super::sent::{Id, Ids, Sent, answer};
use super::time::{Time, read_time};
use crate::app::{Caller, EnactAsk, Outlook, RealmAnswer, SimulateAsk};
use crate::code::{Code, Problem};

/// A play, and what it is given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlayBody {
    /// Who plays.
    #[schema(example = "111")]
    by: String,
    /// What the play is given, by name.
    #[serde(default)]
    #[schema(value_type = Object)]
    args: BTreeMap<String, Value>,
    #[serde(flatten)]
    keyed: Keyed,
    /// Shows what moved, too.
    #[serde(default)]
    explain: bool,
}

/// What every change of a realm has. One of `key`, `interaction` and the header `Idempotency-Key` is needed.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct Keyed {
    /// The same key and body give the same answer, and are done once.
    #[schema(example = "order-17")]
    key: Option<String>,
    /// The id of a Discord interaction, of which the key is made.
    interaction: Option<String>,
    /// Where it happened, for the events.
    #[serde(default)]
    guild: String,
    /// For people.
    #[serde(default)]
    note: String,
    /// Says what would be, and changes nothing.
    #[serde(default)]
    dry_run: bool,
}

/// So many of an asset from one owner to another.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LegBody {
    /// From whom; `@mint`, `@burn`, `@house` and `@escrow` are the realm's own.
    #[schema(example = "@mint")]
    from: String,
    /// To whom.
    #[schema(example = "111")]
    to: String,
    /// Of what.
    #[schema(example = "ajo")]
    asset: String,
    /// How many.
    #[schema(example = 100)]
    qty: u64,
    /// What becomes of what there is no room for: `reject`, `clamp` or `burn`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    overflow: Overflow,
    /// The type of its events; `commit` if absent.
    event: Option<String>,
}

/// Something that must be true.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConditionBody {
    /// A formula: `balance('111', 'ajo') >= 10`.
    #[serde(rename = "if")]
    condition: String,
    /// What is refused with otherwise; `condition` if absent.
    #[serde(rename = "else")]
    or_else: Option<String>,
}

/// An effect to set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EffectBody {
    name: String,
    of: String,
    value: i64,
    /// For how long: `10m`.
    #[serde(rename = "for")]
    span: String,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    merge: Merge,
}

/// A timer to claim.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimerBody {
    timer: String,
    of: String,
}

/// Legs that are moved all or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommitBody {
    /// What must be true, in this order.
    #[serde(rename = "if", default)]
    needs: Vec<ConditionBody>,
    /// What moves.
    #[serde(default)]
    legs: Vec<LegBody>,
    /// Holds that are captured in the same step: two of them are a trade.
    #[serde(default)]
    capture: Vec<String>,
    /// Effects that are set.
    #[serde(default)]
    effects: Vec<EffectBody>,
    /// Timers that are claimed.
    #[serde(default)]
    timers: Vec<TimerBody>,
    #[serde(flatten)]
    keyed: Keyed,
}

/// Legs that are set aside.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HoldBody {
    /// What is set aside, and for whom.
    legs: Vec<LegBody>,
    /// For how long: `10m`.
    #[serde(rename = "in")]
    span: Option<String>,
    /// Until when.
    at: Option<String>,
    #[serde(flatten)]
    keyed: Keyed,
}

/// The end of a hold, or what undoes a commit.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndBody {
    /// How much of each asset is captured; all if absent, and what is not is free again.
    #[schema(value_type = Option<Object>)]
    part: Option<BTreeMap<String, u64>>,
    #[serde(flatten)]
    keyed: Keyed,
}

/// A play to try.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimulateBody {
    /// The play.
    #[schema(example = "gamble")]
    play: String,
    /// Who plays.
    #[schema(example = "111")]
    by: String,
    /// What it is given.
    #[serde(default)]
    #[schema(value_type = Object)]
    args: BTreeMap<String, Value>,
    /// How often, 100,000 at most; 10,000 if absent.
    n: Option<u64>,
}

/// What came of a play, a commit or a hold.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = RealmAnswer)]
pub(crate) struct RealmDocument {
    /// `done` or `refused`.
    #[schema(example = "done")]
    status: &'static str,
    /// The commit's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "cm_17")]
    commit: Option<String>,
    /// Its number in the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    /// The hold's id, if one was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Time>,
    /// What whoever was touched has now, by owner and asset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    balances: Option<Value>,
    /// What the play returns.
    #[serde(rename = "return", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    returns: Option<Value>,
    /// What came of the plays that followed from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    also: Option<Vec<Value>>,
    /// What changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<EventDocument>>,
    /// What was drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    draws: Option<Value>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "funds")]
    code: Option<String>,
    /// When to ask again, if time is all it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<Time>,
    /// What else there is to say of the refusal: `asset`, `have`, `need`, `room`, or what the play says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    with: Option<Value>,
    /// What the change survives.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "durability")]
    #[schema(value_type = Option<String>)]
    durability: Option<Durability>,
    /// The same answer was given before, for the same key.
    replayed: bool,
    /// Nothing was changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    /// What moved, if it was to be explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    legs: Option<Vec<Value>>,
}

pub(super) fn commit_id(seq: u64) -> String {
    format!("cm_{seq}")
}

pub(super) fn hold_id(number: u64) -> String {
    format!("ho_{number}")
}

pub(super) fn number_of(field: &'static str, id: &str, prefix: &str) -> Result<u64, Invalid> {
    let number = id.strip_prefix(prefix).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let number = number.and_then(|digits| digits.parse().ok()).filter(|number| *number <= hermod_core::INT_MAX);
    number.ok_or_else(|| Invalid::new(field, format!("must be an id such as {prefix}17")))
}

impl Keyed {
    /// The key and what it is bound to: what is done, and the body.
    fn ask<T>(&self, realm: &str, by: &str, operation: &str, sent: &Sent<T>) -> Result<EnactAsk, Problem> {
        let interaction = self.interaction.as_ref().map(|id| format!("discord:{id}"));
        let body_key = self.key.clone().or(interaction);
        let once = match body_key {
            Some(key) => Some(
                Once::new(&key, &[operation.as_bytes(), b"\n", sent.bytes()].concat())
                    .map_err(|fault| Invalid::new("key", fault.reason))?,
            ),
            None => sent.once(operation)?,
        };
        // A dry run changes nothing, so it needs none.
        let once = match once {
            None if self.dry_run => Once::new("dry-run", b"")?,
            None => {
                let what = "Every change of a realm needs a key: in `key`, as `interaction`, or in the header Idempotency-Key.";
                return Err(Problem::new(Code::MissingField, what).in_field("key"));
            }
            Some(once) => once,
        };
        let ask = EnactAsk { realm: RealmId::new(realm)?, once, by: "".into(), guild: "".into(), note: "".into(), is_dry: self.dry_run };
        Ok(ask.checked(by, &self.guild, &self.note)?)
    }
}

fn raw(value: &Value) -> Raw {
    match value {
        Value::Number(number) => number.as_i64().map_or_else(|| Raw::Text(number.to_string().into()), Raw::Int),
        Value::String(text) => Raw::Text(text.as_str().into()),
        Value::Null => Raw::Other("null"),
        Value::Bool(_) => Raw::Other("true or false"),
        Value::Array(_) => Raw::Other("a list"),
        Value::Object(_) => Raw::Other("an object"),
    }
}

fn raws(args: &BTreeMap<String, Value>) -> BTreeMap<Arc<str>, Raw> {
    args.iter().map(|(name, value)| (name.as_str().into(), raw(value))).collect()
}

fn datum(datum: &Datum) -> Value {
    match datum {
        Datum::Int(number) => json!(number),
        Datum::Bool(value) => json!(value),
        Datum::Text(text) => json!(&**text),
    }
}

fn refusal(refusal: &Refusal) -> (Option<Time>, Option<Value>) {
    let with: Map<_, _> = refusal.with.iter().map(|(name, value)| (name.to_string(), datum(value))).collect();
    (refusal.retry_at.map(Time), (!with.is_empty()).then_some(Value::Object(with)))
}

fn document(realm: &Realm, done: &RealmAnswer, explain: bool, is_dry: bool) -> RealmDocument {
    let done = match done {
        RealmAnswer::Done(done) => done,
        RealmAnswer::Refused { refusal: why, now, is_replayed } => {
            let (retry_at, with) = refusal(why);
            let (code, at) = (Some(why.code.to_string()), Some(Time::passed(*now)));
            return RealmDocument {
                status: "refused",
                code,
                retry_at,
                with,
                at,
                replayed: *is_replayed,
                dry_run: is_dry,
                ..RealmDocument::default()
            };
        }
    };
    let mut balances = Map::new();
    // What was only looked at is nobody's business here.
    let is_hold = matches!(done.entry.what, What::Hold | What::Release);
    let is_moved = |account: &Account| {
        let mut legs = done.entry.legs.iter();
        is_hold || legs.any(|leg| leg.asset == account.asset && (leg.from == account.owner || leg.to == account.owner))
    };
    for (account, value) in done.balances.iter().filter(|(account, _)| is_moved(account)) {
        let owner = balances.entry(account.owner.to_string()).or_insert_with(|| json!({}));
        if let Value::Object(owner) = owner {
            owner.insert(account.asset.to_string(), json!(value));
        }
    }
    let returns: Map<_, _> = done
        .told
        .returns
        .iter()
        .map(|(name, returned)| {
            let value = match returned {
                Returned::Datum(value) => datum(value),
                Returned::Times(times) => json!(times.iter().map(|time| json!(Time(*time))).collect::<Vec<_>>()),
            };
            (name.to_string(), value)
        })
        .collect();
    let also = done.told.also.iter().map(|(play, refused)| match refused {
        None => json!({"play": &**play, "status": "done"}),
        Some(why) => {
            let (retry_at, with) = refusal(why);
            let mut also = json!({"play": &**play, "status": "refused", "code": &*why.code});
            if let Value::Object(also) = &mut also {
                also.extend(retry_at.map(|at| ("retry_at".to_owned(), json!(at))));
                also.extend(with.map(|with| ("with".to_owned(), with)));
            }
            also
        }
    });
    let also: Vec<_> = also.collect();
    let draws: Map<_, _> = done.entry.draws.iter().map(|drawn| (drawn.name.to_string(), json!(drawn.value))).collect();
    let leg = |leg: &Leg| json!({"from": &*leg.from, "to": &*leg.to, "asset": &*leg.asset, "qty": leg.qty});
    RealmDocument {
        status: "done",
        commit: done.seq.map(commit_id),
        seq: done.seq,
        hold: (done.entry.what == What::Hold).then(|| hold_id(done.entry.refers)),
        at: Some(Time::passed(done.now)),
        balances: Some(Value::Object(balances)),
        returns: (!returns.is_empty()).then_some(Value::Object(returns)),
        also: (!also.is_empty()).then_some(also),
        events: Some(events_of(realm, done.seq.unwrap_or(0), done.now, &done.entry)),
        draws: (!draws.is_empty()).then_some(Value::Object(draws)),
        durability: done.durability,
        replayed: done.is_replayed,
        dry_run: is_dry,
        legs: explain.then(|| done.entry.legs.iter().map(leg).collect()),
        ..RealmDocument::default()
    }
}

fn told(shell: &Shell, caller: &Caller, ask: &EnactAsk, done: &RealmAnswer, explain: bool) -> Result<Response, Problem> {
    let realm = shell.app.realm_of(&caller.space, &ask.realm)?;
    Ok(answer(StatusCode::OK, &document(&realm, done, explain, ask.is_dry)))
}

/// Plays, in one atomic step: all of it is done, or it is refused and nothing is.
#[utoipa::path(post, path = "/v1/realms/{realm}/plays/{play}", tag = "realm", request_body = PlayBody,
    params(("realm" = String, Path, description = "The realm."), ("play" = String, Path, description = "The play."),
        ("Idempotency-Key" = Option<String>, Header, description = "Instead of `key` in the body.")),
    responses((status = 200, description = "What was done, or why it was refused; both are answers.", body = RealmDocument),
        (status = "4XX", description = "The request is not acceptable; nothing was changed.", body = Document<'_>, content_type = "application/problem+json"),
        (status = "5XX", description = "No answer could be given.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn play(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(realm, play): Ids,
    sent: Sent<PlayBody>,
) -> Result<Response, Problem> {
    let body = &sent.value;
    let ask = body.keyed.ask(&realm, &body.by, &format!("plays {play}"), &sent)?;
    let done = shell.app.play(&caller, &ask, &play, raws(&body.args)).await?;
    told(&shell, &caller, &ask, &done, body.explain)
}

fn leg(realm: &Realm, leg: &LegBody) -> Result<Leg, Invalid> {
    for (field, owner) in [("legs.from", &leg.from), ("legs.to", &leg.to)] {
        if !is_owner(owner) && !matches!(owner.as_str(), "@mint" | "@burn" | "@house" | "@escrow") {
            return Err(Invalid::new(field, "must be an owner, or one of @mint @burn @house @escrow"));
        }
    }
    if realm.asset(&leg.asset).is_none() {
        return Err(Invalid::new("legs.asset", format!("there is no asset {}", leg.asset.chars().take(64).collect::<String>())));
    }
    let qty = i64::try_from(leg.qty).ok().filter(|qty| leg.qty > 0 && *qty <= hermod_core::realm::plan::AMOUNT_MAX);
    let qty = qty.ok_or_else(|| Invalid::new("legs.qty", "must be between 1 and 2^53 - 1"))?;
    let event = leg.event.as_deref().unwrap_or("commit");
    hermod_core::Name::new(event).map_err(|fault| Invalid::new("legs.event", fault.reason))?;
    let (asset, from, to) = (leg.asset.as_str().into(), leg.from.as_str().into(), leg.to.as_str().into());
    Ok(Leg { asset, from, to, qty, types: (event.into(), event.into()) })
}

fn many(field: &'static str, count: usize) -> Result<(), Invalid> {
    if count > LEGS_MAX { Err(Invalid::new(field, format!("are {count}; at most {LEGS_MAX} are allowed"))) } else { Ok(()) }
}

fn deed(realm: &Realm, body: &CommitBody) -> Result<Deed, Invalid> {
    for (field, count) in [
        ("legs", body.legs.len()),
        ("if", body.needs.len()),
        ("capture", body.capture.len()),
        ("effects", body.effects.len() + body.timers.len()),
    ] {
        many(field, count)?;
    }
    if body.legs.is_empty() && body.capture.is_empty() && body.effects.is_empty() && body.timers.is_empty() {
        return Err(Invalid::new("legs", "a commit does something: it needs legs, capture, effects or timers"));
    }
    let mut legs = Legs::default();
    for need in &body.needs {
        let code = need.or_else.as_deref().unwrap_or("condition");
        hermod_core::Name::new(code).map_err(|fault| Invalid::new("if.else", fault.reason))?;
        legs.needs.push((Condition::new(realm, &need.condition).map_err(|reason| Invalid::new("if", reason))?, code.into()));
    }
    for one in &body.legs {
        legs.legs.push((leg(realm, one)?, one.overflow));
    }
    legs.captures = body.capture.iter().map(|id| number_of("capture", id, "ho_")).collect::<Result<_, _>>()?;
    let owner = |field, owner: &str| {
        if is_owner(owner) || owner == "@house" { Ok(Arc::from(owner)) } else { Err(Invalid::new(field, "must be an owner, or @house")) }
    };
    for effect in &body.effects {
        if !realm.definition.effects.keys().any(|name| name.as_str() == effect.name) {
            return Err(Invalid::new("effects.name", "there is no such effect"));
        }
        let for_how_long = span(Some(&effect.span)).ok().flatten().filter(|span| *span > Micros::ZERO);
        let for_how_long = for_how_long.ok_or_else(|| Invalid::new("effects.for", "must be a duration such as \"10m\""))?;
        let (effect_name, of) = (effect.name.as_str().into(), owner("effects.of", &effect.of)?);
        legs.effects.push(Lasting { effect: effect_name, owner: of, value: effect.value, span: for_how_long, merge: effect.merge });
    }
    for timer in &body.timers {
        if !realm.definition.timers.keys().any(|name| name.as_str() == timer.timer) {
            return Err(Invalid::new("timers.timer", "there is no such timer"));
        }
        legs.timers.push((timer.timer.as_str().into(), owner("timers.of", &timer.of)?));
    }
    Ok(Deed::Legs(Box::new(legs)))
}

/// Moves legs all or none, if the conditions hold.
#[utoipa::path(post, path = "/v1/realms/{realm}/commits", tag = "realm", request_body = CommitBody,
    params(("realm" = String, Path, description = "The realm."),
        ("Idempotency-Key" = Option<String>, Header, description = "Instead of `key` in the body.")),
    responses((status = 200, description = "What was done, or why it was refused; both are answers.", body = RealmDocument),
        (status = "4XX", description = "The request is not acceptable; nothing was changed.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn commit(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(realm): Id,
    sent: Sent<CommitBody>,
) -> Result<Response, Problem> {
    let body = &sent.value;
    let ask = body.keyed.ask(&realm, "", "commits", &sent)?;
    let done = shell.app.commit_to(&caller, &ask, |realm| deed(realm, body)).await?;
    told(&shell, &caller, &ask, &done, true)
}

/// Undoes a commit with another one that moves the same back. Once: it is refused as `reverted` afterwards.
#[utoipa::path(post, path = "/v1/realms/{realm}/commits/{id}/revert", tag = "realm", request_body = EndBody,
    params(("realm" = String, Path, description = "The realm."), ("id" = String, Path, description = "The commit's id."),
        ("Idempotency-Key" = Option<String>, Header, description = "Instead of `key` in the body.")),
    responses((status = 200, body = RealmDocument),
        (status = "4XX", description = "The request is not acceptable; nothing was changed.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn revert(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(realm, id): Ids,
    sent: Sent<EndBody>,
) -> Result<Response, Problem> {
    let ask = sent.value.keyed.ask(&realm, "", &format!("revert {id}"), &sent)?;
    no_part(&sent.value)?;
    let done = shell.app.revert(&caller, &ask, number_of("id", &id, "cm_")?).await?;
    told(&shell, &caller, &ask, &done, true)
}

fn no_part(body: &EndBody) -> Result<(), Invalid> {
    if body.part.is_some() { Err(Invalid::new("part", "is for captures only")) } else { Ok(()) }
}

/// Sets legs aside until they are captured, released, or the time is over.
#[utoipa::path(post, path = "/v1/realms/{realm}/holds", tag = "realm", request_body = HoldBody,
    params(("realm" = String, Path, description = "The realm."),
        ("Idempotency-Key" = Option<String>, Header, description = "Instead of `key` in the body.")),
    responses((status = 200, description = "What was set aside, or why it was refused; both are answers.", body = RealmDocument),
        (status = "4XX", description = "The request is not acceptable; nothing was changed.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn hold(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(realm): Id,
    sent: Sent<HoldBody>,
) -> Result<Response, Problem> {
    let body = &sent.value;
    let ask = body.keyed.ask(&realm, "", "holds", &sent)?;
    let until = match (&body.span, &body.at) {
        (Some(text), None) => {
            let span = span(Some(text))?.filter(|span| *span > Micros::ZERO && *span <= HOLD_MAX);
            Due::In(span.ok_or_else(|| Invalid::new("in", "must be a duration such as \"10m\", of at most 30 days"))?)
        }
        (None, Some(text)) => {
            let at = read_time("at", text)?;
            if at.since(shell.app.clock.now()) > HOLD_MAX {
                return Err(Invalid::new("at", "must be within 30 days").into());
            }
            Due::At(at)
        }
        _ => return Err(Problem::new(Code::InvalidField, "A hold needs either in or at.").in_field("in")),
    };
    // The same request makes the same hold.
    let number = u64::try_from(ask.once.number() & u128::from(hermod_core::INT_MAX)).unwrap_or(0);
    let act = |realm: &Realm| {
        many("legs", body.legs.len())?;
        if body.legs.is_empty() {
            return Err(Invalid::new("legs", "a hold needs legs"));
        }
        let legs = body.legs.iter().map(|one| leg(realm, one)).collect::<Result<Vec<_>, _>>()?;
        if legs.iter().any(|leg| leg.from.starts_with('@')) {
            return Err(Invalid::new("legs.from", "nothing of the realm's own can be put on hold"));
        }
        let own =
            |leg: Leg| if matches!(&*leg.to, "@burn" | "@mint") { Leg { to: format!("{}:capture", leg.to).into(), ..leg } } else { leg };
        Ok(Deed::Hold(number, until, legs.into_iter().map(own).collect()))
    };
    let done = shell.app.commit_to(&caller, &ask, act).await?;
    told(&shell, &caller, &ask, &done, false)
}

/// The longest hold.
const HOLD_MAX: Micros = Micros::saturating(30 * 86_400_000_000);

/// Takes what is on hold, or part of it; the rest is free again.
#[utoipa::path(post, path = "/v1/realms/{realm}/holds/{id}/capture", tag = "realm", request_body = EndBody,
    params(("realm" = String, Path, description = "The realm."), ("id" = String, Path, description = "The hold's id."),
        ("Idempotency-Key" = Option<String>, Header, description = "Instead of `key` in the body.")),
    responses((status = 200, body = RealmDocument),
        (status = "4XX", description = "The request is not acceptable; nothing was changed.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn capture(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(realm, id): Ids,
    sent: Sent<EndBody>,
) -> Result<Response, Problem> {
    let ask = sent.value.keyed.ask(&realm, "", &format!("capture {id}"), &sent)?;
    let number = number_of("id", &id, "ho_")?;
    let part = sent.value.part.as_ref().map(|part| {
        part.iter()
            .map(|(asset, qty)| {
                let qty = i64::try_from(*qty).ok().filter(|qty| *qty <= hermod_core::realm::plan::AMOUNT_MAX);
                qty.map(|qty| (Arc::from(asset.as_str()), qty))
                    .ok_or_else(|| Invalid::new("part", "must be whole numbers of at most 2^53 - 1"))
            })
            .collect::<Result<BTreeMap<_, _>, _>>()
    });
    let part = part.transpose()?;
    let done = shell.app.commit_to(&caller, &ask, |_| Ok(Deed::Capture(number, part.clone()))).await?;
    told(&shell, &caller, &ask, &done, false)
}

/// What is on hold is free again.
#[utoipa::path(post, path = "/v1/realms/{realm}/holds/{id}/release", tag = "realm", request_body = EndBody,
    params(("realm" = String, Path, description = "The realm."), ("id" = String, Path, description = "The hold's id."),
        ("Idempotency-Key" = Option<String>, Header, description = "Instead of `key` in the body.")),
    responses((status = 200, body = RealmDocument),
        (status = "4XX", description = "The request is not acceptable; nothing was changed.", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn release(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(realm, id): Ids,
    sent: Sent<EndBody>,
) -> Result<Response, Problem> {
    let ask = sent.value.keyed.ask(&realm, "", &format!("release {id}"), &sent)?;
    no_part(&sent.value)?;
    let number = number_of("id", &id, "ho_")?;
    let done = shell.app.commit_to(&caller, &ask, |_| Ok(Deed::Release(number))).await?;
    told(&shell, &caller, &ask, &done, false)
}

/// What a play comes to over many runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutlookDocument {
    /// How often it was run, each time with what is now.
    runs: u64,
    /// How often it was done.
    done: u64,
    /// How often it was refused, by the reason.
    #[schema(value_type = Object)]
    refused: BTreeMap<String, u64>,
    /// What the player gains or loses, by asset.
    #[schema(value_type = Object)]
    gains: BTreeMap<String, SpreadDocument>,
}

/// How a gain is spread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SpreadDocument {
    /// On average.
    mean: f64,
    /// The least.
    min: i64,
    /// Half of the runs gain no more than this.
    p50: i64,
    /// Nine of ten.
    p90: i64,
    /// 99 of a hundred.
    p99: i64,
    /// The most.
    max: i64,
}

/// To the hundredth: an average is told to people.
fn mean(sum: i128, runs: u64) -> f64 {
    let hundredths = sum * 100 / i128::from(runs.max(1));
    let (sign, hundredths) = (if hundredths < 0 { "-" } else { "" }, hundredths.unsigned_abs());
    format!("{sign}{}.{:02}", hundredths / 100, hundredths % 100).parse().unwrap_or(0.0)
}

pub(super) fn outlook(outlook: &Outlook) -> OutlookDocument {
    let runs = outlook.runs;
    let gains = outlook.gains.iter().map(|(asset, spread)| {
        let document = SpreadDocument {
            mean: mean(spread.sum, runs),
            min: spread.counts.first_key_value().map_or(0, |(value, _)| *value),
            p50: spread.percentile(50, runs),
            p90: spread.percentile(90, runs),
            p99: spread.percentile(99, runs),
            max: spread.counts.last_key_value().map_or(0, |(value, _)| *value),
        };
        (asset.to_string(), document)
    });
    let refused: BTreeMap<_, _> = outlook.refused.iter().map(|(code, many)| (code.to_string(), *many)).collect();
    OutlookDocument { runs, done: runs - refused.values().sum::<u64>(), refused, gains: gains.collect() }
}

/// Runs a play many times on a copy of what is now, and tells what it comes to. Nothing is changed.
#[utoipa::path(post, path = "/v1/realms/{realm}/simulate", tag = "realm", request_body = SimulateBody,
    params(("realm" = String, Path, description = "The realm.")),
    responses((status = 200, body = OutlookDocument),
        (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn simulate(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(realm): Id,
    sent: Sent<SimulateBody>,
) -> Result<Response, Problem> {
    let body = sent.value;
    if !is_owner(&body.by) {
        return Err(Invalid::new("by", "must be an owner").into());
    }
    let ask = SimulateAsk { play: body.play, by: body.by.into(), args: raws(&body.args), n: body.n.unwrap_or(10_000) };
    let result = shell.app.simulate(&caller, &RealmId::new(realm)?, &ask).await?;
    Ok(answer(StatusCode::OK, &outlook(&result)))
}
