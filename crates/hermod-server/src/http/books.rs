//! realm: `GET /v1/realms/{realm}/accounts/{owner}`, `boards/{asset}`, `ledger`, `holds/{id}`, `supply`, `audit`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use hermod_core::realm::entry::What;
use hermod_core::realm::{Account, Entry};
use hermod_core::{INT_MAX, Micros, Owner, RealmId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::Shell;
use super::enacted::{commit_id, hold_id, number_of};
use super::problem::Document;
use super::sent::{Id, Ids, answer, bad_query};
use super::time::Time;
use crate::app::{AuditFault, Caller, LedgerFrom};
use crate::code::{Code, Problem};

/// The longest page.
const PAGE_MAX: usize = 200;

/// What an owner has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RealmAccount)]
pub(crate) struct AccountDocument<'a> {
    owner: &'a str,
    /// By asset; those of which there is nothing are left out.
    #[schema(value_type = Object)]
    assets: BTreeMap<&'a str, HavingDocument>,
    /// When timers can be claimed again, and how often in a row they were.
    #[schema(value_type = Object)]
    timers: BTreeMap<&'a str, NumberDocument>,
    /// Effects that hold.
    #[schema(value_type = Object)]
    effects: BTreeMap<&'a str, NumberDocument>,
    /// Counters.
    #[schema(value_type = Object)]
    counters: BTreeMap<&'a str, NumberDocument>,
}

/// What there is of an asset.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HavingDocument {
    /// All of it.
    balance: i64,
    /// What is not on hold.
    available: i64,
}

/// A number that may end.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberDocument {
    /// The number.
    value: i64,
    /// When it ends, or can be claimed again; null: it does not end.
    until: Option<Time>,
}

/// A part of a leaderboard.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RealmBoard)]
pub(crate) struct BoardDocument<'a> {
    asset: &'a str,
    /// How many owners have something.
    total: u64,
    /// The rank of the owner it was asked for; null if they have nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    rank: Option<Option<u64>>,
    /// In order: who has the most first, among equals who got there first.
    items: Vec<RankDocument<'a>>,
}

/// One row of a leaderboard.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RankDocument<'a> {
    rank: u64,
    owner: &'a str,
    balance: i64,
}

/// What an owner has.
#[utoipa::path(get, path = "/v1/realms/{realm}/accounts/{owner}", tag = "realm",
    params(("realm" = String, Path, description = "The realm."), ("owner" = String, Path, description = "Whose.")),
    responses((status = 200, body = AccountDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn account(State(shell): State<Arc<Shell>>, caller: Caller, Ids(realm, owner): Ids) -> Result<Response, Problem> {
    let owner = Owner::new(owner)?;
    let found = shell.app.account(&caller, &RealmId::new(realm)?, owner.as_str()).await?;
    let assets = found.assets.iter().map(|(asset, is)| (&**asset, HavingDocument { balance: is.value, available: is.value - is.held }));
    let marks = |kind: &str| {
        let marks = found.marks.iter().filter(|mark| mark.kind == kind);
        marks.map(|mark| (&*mark.name, NumberDocument { value: mark.value, until: mark.until.map(Time) })).collect()
    };
    let (timers, effects, counters) = (marks("timer"), marks("effect"), marks("counter"));
    Ok(answer(StatusCode::OK, &AccountDocument { owner: owner.as_str(), assets: assets.collect(), timers, effects, counters }))
}

/// Which part of a leaderboard.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BoardQuery {
    limit: Option<usize>,
    from: Option<usize>,
    around: Option<String>,
}

pub(super) fn limited(limit: Option<usize>, default: usize) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(default);
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::new(Code::InvalidField, format!("limit must be between 1 and {PAGE_MAX}")).in_field("limit"))
}

/// Who leads: the first ones, or those around an owner.
#[utoipa::path(get, path = "/v1/realms/{realm}/boards/{asset}", tag = "realm",
    params(("realm" = String, Path, description = "The realm."), ("asset" = String, Path, description = "Of what."),
        ("limit" = Option<usize>, Query, description = "At most so many; 10 if absent, 200 at most."),
        ("from" = Option<usize>, Query, description = "From this rank on; 1 if absent."),
        ("around" = Option<String>, Query, description = "Those around this owner instead, and their rank.")),
    responses((status = 200, body = BoardDocument<'_>), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn board(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Ids(realm, asset): Ids,
    query: Result<Query<BoardQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|fault| bad_query(&fault, "limit", "limit and from (numbers) and around"))?;
    let (limit, from) = (limited(query.limit, 10)?, query.from.unwrap_or(1));
    if from == 0 || (query.from.is_some() && query.around.is_some()) {
        return Err(Problem::new(Code::InvalidField, "from counts from 1, and is not for around").in_field("from"));
    }
    if query.around.as_deref().is_some_and(str::is_empty) {
        return Err(Problem::new(Code::InvalidField, "around is an owner").in_field("around"));
    }
    let ranked = shell.app.board(&caller, &RealmId::new(realm)?, &asset, (query.around.as_deref(), from - 1), limit).await?;
    let rows = (ranked.first..).zip(&ranked.rows);
    let items = rows.map(|(rank, (owner, balance))| RankDocument { rank, owner, balance: *balance }).collect();
    let rank = query.around.is_some().then_some(ranked.rank);
    Ok(answer(StatusCode::OK, &BoardDocument { asset: &asset, total: ranked.total, rank, items }))
}

/// Which part of a ledger.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LedgerQuery {
    limit: Option<usize>,
    cursor: Option<u64>,
}

/// One commit.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommitDocument {
    #[schema(example = "cm_17")]
    commit: String,
    seq: u64,
    at: Time,
    /// `play`, `commit`, `hold`, `capture`, `release` or `revert`.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    play: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// Its idempotency key, of which its draws were made.
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The commit that it undoes, or the hold that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<String>,
    #[schema(value_type = Vec<Object>)]
    legs: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    draws: Vec<Value>,
}

/// A page of a ledger.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RealmLedger)]
pub(crate) struct LedgerDocument {
    /// The newest first.
    items: Vec<CommitDocument>,
    /// Where the next page begins; null: this was the last.
    next: Option<String>,
}

fn commit(seq: u64, at: Micros, entry: &Entry) -> CommitDocument {
    let some = |text: &Arc<str>| Some(text.to_string()).filter(|text| !text.is_empty());
    let about = match entry.what {
        What::Play | What::Commit => None,
        What::Revert => Some(commit_id(entry.refers)),
        What::Hold | What::Capture | What::Release => Some(hold_id(entry.refers)),
    };
    let legs = entry.legs.iter().map(|leg| json!({"from": &*leg.from, "to": &*leg.to, "asset": &*leg.asset, "qty": leg.qty}));
    let draws = entry.draws.iter().map(|one| json!({"name": &*one.name, "from": one.from, "to": one.to, "value": one.value}));
    CommitDocument {
        commit: commit_id(seq),
        seq,
        at: Time::passed(at),
        kind: entry.what.as_str(),
        play: some(&entry.play),
        by: some(&entry.by),
        key: entry.key.to_string(),
        note: some(&entry.note),
        about,
        legs: legs.collect(),
        draws: draws.collect(),
    }
}

/// The commits of a realm, the newest first.
#[utoipa::path(get, path = "/v1/realms/{realm}/ledger", tag = "realm",
    params(("realm" = String, Path, description = "The realm."),
        ("limit" = Option<usize>, Query, description = "At most so many; 50 if absent, 200 at most."),
        ("cursor" = Option<u64>, Query, description = "What `next` of the last page said.")),
    responses((status = 200, body = LedgerDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn ledger(
    State(shell): State<Arc<Shell>>,
    caller: Caller,
    Id(realm): Id,
    query: Result<Query<LedgerQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|fault| bad_query(&fault, "limit", "limit and cursor (numbers)"))?;
    let limit = limited(query.limit, 50)?;
    let commits =
        shell.app.ledger(&caller, &RealmId::new(realm)?, LedgerFrom::Before(query.cursor.unwrap_or(0).min(INT_MAX)), limit).await?;
    let next = commits.entries.last().map(|(seq, ..)| *seq).filter(|seq| *seq > 1).map(|seq| seq.to_string());
    let items = commits.entries.iter().map(|(seq, at, entry)| commit(*seq, *at, entry)).collect();
    Ok(answer(StatusCode::OK, &LedgerDocument { items, next }))
}

/// A hold.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RealmHold)]
pub(crate) struct HoldDocument {
    #[schema(example = "ho_17")]
    hold: String,
    /// `open`, `captured`, `released` or `expired`.
    status: &'static str,
    /// When it ends, or would have.
    until: Time,
    #[schema(value_type = Vec<Object>)]
    legs: Vec<Value>,
}

/// What became of a hold.
#[utoipa::path(get, path = "/v1/realms/{realm}/holds/{id}", tag = "realm",
    params(("realm" = String, Path, description = "The realm."), ("id" = String, Path, description = "The hold's id.")),
    responses((status = 200, body = HoldDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn hold(State(shell): State<Arc<Shell>>, caller: Caller, Ids(realm, id): Ids) -> Result<Response, Problem> {
    let number = number_of("id", &id, "ho_")?;
    let found = shell.app.hold(&caller, &RealmId::new(realm)?, number).await?;
    let legs =
        found.entry.legs.iter().map(|leg| json!({"from": &*leg.from, "to": &*leg.to, "asset": &*leg.asset, "qty": leg.qty})).collect();
    Ok(answer(StatusCode::OK, &HoldDocument { hold: id, status: found.standing.as_str(), until: Time(found.until), legs }))
}

/// What there is of an asset, and where it came from and went to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RealmSupply)]
pub(crate) struct SupplyDocument {
    asset: String,
    /// Minted, less burnt.
    supply: i64,
    minted: i64,
    burnt: i64,
    /// What of it the realm itself has.
    house: i64,
    /// What each play minted.
    #[schema(value_type = Object)]
    faucets: BTreeMap<String, i64>,
    /// What each play burnt.
    #[schema(value_type = Object)]
    sinks: BTreeMap<String, i64>,
}

/// The supply of every asset.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SuppliesDocument {
    items: Vec<SupplyDocument>,
}

/// What there is of each asset, its faucets and sinks.
#[utoipa::path(get, path = "/v1/realms/{realm}/supply", tag = "realm", params(("realm" = String, Path, description = "The realm.")),
    responses((status = 200, body = SuppliesDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn supply(State(shell): State<Arc<Shell>>, caller: Caller, Id(realm): Id) -> Result<Response, Problem> {
    let supplies = shell.app.supply(&caller, &RealmId::new(realm)?).await?;
    let items = supplies.into_iter().map(|one| {
        let faucets = one.plays.iter().filter(|(_, minted, _)| *minted != 0).map(|(play, minted, _)| (play.to_string(), *minted));
        let sinks = one.plays.iter().filter(|(.., burnt)| *burnt != 0).map(|(play, _, burnt)| (play.to_string(), *burnt));
        SupplyDocument {
            asset: one.asset.to_string(),
            supply: one.minted - one.burnt,
            minted: one.minted,
            burnt: one.burnt,
            house: one.house,
            faucets: faucets.collect(),
            sinks: sinks.collect(),
        }
    });
    Ok(answer(StatusCode::OK, &SuppliesDocument { items: items.collect() }))
}

/// Whether the books add up.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RealmAudit)]
pub(crate) struct AuditDocument {
    /// Nothing is wrong.
    clean: bool,
    /// How many commits were read.
    commits: u64,
    /// How many accounts were computed again.
    accounts: usize,
    /// How many draws were made again.
    draws: usize,
    /// What is wrong, in words; at most a hundred.
    faults: Vec<String>,
}

/// Computes every account and every draw again from the ledger, and compares them with all accounts, leaderboards and holds that there
/// are.
#[utoipa::path(get, path = "/v1/realms/{realm}/audit", tag = "realm", params(("realm" = String, Path, description = "The realm.")),
    responses((status = 200, body = AuditDocument), (status = "4XX", body = Document<'_>, content_type = "application/problem+json")))]
pub(crate) async fn audit(State(shell): State<Arc<Shell>>, caller: Caller, Id(realm): Id) -> Result<Response, Problem> {
    let audit = shell.app.audit(&caller, &RealmId::new(realm)?).await?;
    let faults = audit.faults.iter().map(told).collect();
    let document = AuditDocument { clean: audit.is_clean(), commits: audit.commits, accounts: audit.accounts, draws: audit.draws, faults };
    Ok(answer(StatusCode::OK, &document))
}

/// What is wrong, in words.
fn told(fault: &AuditFault) -> String {
    let of = |account: &Account| format!("{} of {}", account.asset, account.owner);
    match fault {
        AuditFault::Sum(asset, sum) => format!("all accounts of {asset} add up to {sum}, and not to 0"),
        AuditFault::Missing(first, last) if first == last => format!("{} is not in the ledger", commit_id(*first)),
        AuditFault::Missing(first, last) => format!("{} to {} are not in the ledger", commit_id(*first), commit_id(*last)),
        AuditFault::Balance { account, ledger, says: Some(says) } => {
            format!("{} has {says} of {}, and {ledger} by the ledger", account.owner, account.asset)
        }
        AuditFault::Balance { account, ledger, says: None } => {
            format!("the {} cannot be read; by the ledger there are {ledger}", of(account))
        }
        AuditFault::Since { account, ledger, says } => {
            format!("the {} was changed last by {}, and by {} by the ledger", of(account), commit_id(*says), commit_id(*ledger))
        }
        AuditFault::Draw(seq, drawn) => format!("{} drew {} as {}, which it does not come to", commit_id(*seq), drawn.value, drawn.name),
        AuditFault::Row { account, has, shows: None } => {
            format!("{} has {has} of {}, and is not on the board with it", account.owner, account.asset)
        }
        AuditFault::Row { account, has, shows: Some(shows) } => {
            format!("{} has {has} of {}, and {shows} on the board", account.owner, account.asset)
        }
        AuditFault::Stray { account, shows, ledger } => {
            format!("{} is on the board of {} with {shows}, and has {ledger} by the ledger", account.owner, account.asset)
        }
        AuditFault::Rows { asset, shows, owners } => {
            format!("{shows} owners are on the board of {asset}, and {owners} have any by the ledger")
        }
        AuditFault::Held { account, hold, says, open } => {
            format!("{says} {} are on hold by {}, and {open} by the hold itself", of(account), hold_id(*hold))
        }
    }
}
