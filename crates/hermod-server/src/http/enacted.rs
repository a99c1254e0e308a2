//! realm: what every change of a realm takes, and what it is answered with.

use axum::http::StatusCode;
use axum::response::Response;
use hermod_core::realm::entry::What;
use hermod_core::realm::formula::Datum;
use hermod_core::realm::told::Returned;
use hermod_core::realm::{Account, Leg, Realm, Refusal};
use hermod_core::{INT_MAX, Invalid, Once, RealmId};
use hermod_engine::Durability;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::Shell;
use super::limit::durability;
use super::realm_events::{EventDocument, events_of};
use super::sent::{Sent, answer};
use super::time::Time;
use crate::app::{Caller, EnactAsk, RealmAnswer};
use crate::code::{Code, Problem};

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
    let number = number.and_then(|digits| digits.parse().ok()).filter(|number| *number <= INT_MAX);
    number.ok_or_else(|| Invalid::new(field, format!("must be an id such as {prefix}17")))
}

impl Keyed {
    /// The key and what it is bound to: what is done, and the body.
    pub(super) fn ask<T>(&self, realm: &str, by: &str, operation: &str, sent: &Sent<T>) -> Result<EnactAsk, Problem> {
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

pub(super) fn told(shell: &Shell, caller: &Caller, ask: &EnactAsk, done: &RealmAnswer, explain: bool) -> Result<Response, Problem> {
    let realm = shell.app.realm_of(&caller.space, &ask.realm)?;
    Ok(answer(StatusCode::OK, &document(&realm, done, explain, ask.is_dry)))
}
