//! realm: `POST /v1/realms/{realm}/commits`, `commits/{id}/revert`, `holds`, `holds/{id}/{capture,release}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use hermod_core::queue::delivery::Due;
use hermod_core::realm::args::is_owner;
use hermod_core::realm::commit::LEGS_MAX;
use hermod_core::realm::definition::{Merge, Overflow};
use hermod_core::realm::plan::AMOUNT_MAX;
use hermod_core::realm::{Condition, Deed, Lasting, Leg, Legs, Realm};
use hermod_core::{INT_MAX, Invalid, Micros, Name};
use serde::Deserialize;
use utoipa::ToSchema;

use super::Shell;
use super::enacted::{Keyed, RealmDocument, number_of, told};
use super::limit::span;
use super::problem::Document;
use super::sent::{Id, Ids, Sent};
use super::time::read_time;
use crate::app::Caller;
use crate::code::{Code, Problem};

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

fn leg(realm: &Realm, leg: &LegBody) -> Result<Leg, Invalid> {
    for (field, owner) in [("legs.from", &leg.from), ("legs.to", &leg.to)] {
        if !is_owner(owner) && !matches!(owner.as_str(), "@mint" | "@burn" | "@house" | "@escrow") {
            return Err(Invalid::new(field, "must be an owner, or one of @mint @burn @house @escrow"));
        }
    }
    if realm.asset(&leg.asset).is_none() {
        return Err(Invalid::new("legs.asset", format!("there is no asset {}", leg.asset.chars().take(64).collect::<String>())));
    }
    let qty = i64::try_from(leg.qty).ok().filter(|qty| leg.qty > 0 && *qty <= AMOUNT_MAX);
    let qty = qty.ok_or_else(|| Invalid::new("legs.qty", "must be between 1 and 2^53 - 1"))?;
    let event = leg.event.as_deref().unwrap_or("commit");
    Name::new(event).map_err(|fault| Invalid::new("legs.event", fault.reason))?;
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
        Name::new(code).map_err(|fault| Invalid::new("if.else", fault.reason))?;
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
    let number = u64::try_from(ask.once.number() & u128::from(INT_MAX)).unwrap_or(0);
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
                let qty = i64::try_from(*qty).ok().filter(|qty| *qty <= AMOUNT_MAX);
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
