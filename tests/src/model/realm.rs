//! The books of a realm as plain lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermod_core::queue::delivery::Due;
use hermod_core::realm::apply::{Bound, Done, Seen, Which};
use hermod_core::realm::plan::{AMOUNT_MAX, Act, Balance, LIENS_MAX, Mark, Plan, Posting, Then};
use hermod_core::realm::survey::{Stand, Stood};
use hermod_core::realm::{Account, Applied, Ranked};
use hermod_core::{Micros, Outcome};

/// How long an answer is kept for its key.
const KEPT: u64 = 72 * 3_600_000_000;

/// One account.
#[derive(Clone, Debug, Default)]
struct Row {
    value: i64,
    since: u64,
    board: bool,
    liens: Vec<(u64, i64, u64)>,
}

/// The books of a realm.
#[derive(Clone, Debug, Default)]
pub struct Books {
    version: u64,
    rows: BTreeMap<(String, String), Row>,
    marks: BTreeMap<String, Mark>,
    /// Time and entry; the first is number 1.
    pub ledger: Vec<(u64, Box<[u8]>)>,
    /// What is scheduled.
    pub due: BTreeSet<(u64, Vec<u8>)>,
    kept: BTreeMap<String, (String, Applied, u64)>,
}

fn time(due: Due, now: u64) -> u64 {
    match due {
        Due::At(at) => at.get(),
        Due::In(span) => (now + span.get()).min(hermod_core::INT_MAX),
    }
}

impl Books {
    fn row(&self, account: &Account) -> Row {
        self.rows.get(&(account.asset.to_string(), account.owner.to_string())).cloned().unwrap_or_default()
    }

    /// What an account says.
    pub fn balance(&self, account: &Account, now: u64) -> Balance {
        let row = self.row(account);
        let live: Vec<_> = row.liens.iter().filter(|(.., until)| *until > now).collect();
        let next = live.iter().map(|(.., until)| *until).min().unwrap_or(0);
        Balance { value: row.value, held: live.iter().map(|(_, qty, _)| qty).sum(), next: Micros::saturating(next) }
    }

    /// All accounts as they stand, and their rows on these boards.
    pub fn accounts(&self, boards: &[Arc<str>]) -> Vec<Stood> {
        let stood = |((asset, owner), row): (&(String, String), &Row)| {
            let account = Account { asset: asset.as_str().into(), owner: owner.as_str().into() };
            let has_row = boards.contains(&account.asset) && row.value > 0 && !account.is_own();
            let liens = row.liens.iter().map(|(hold, qty, until)| (*hold, *qty, Micros::saturating(*until))).collect();
            Stood { account, says: Some(Stand { value: row.value, since: row.since, liens }), row: has_row.then_some(row.value) }
        };
        self.rows.iter().map(stood).collect()
    }

    /// The holds that have something of an account.
    pub fn live(&self, account: &Account, now: u64) -> Vec<u64> {
        self.row(account).liens.iter().filter(|(.., until)| *until > now).map(|(hold, ..)| *hold).collect()
    }

    /// What a mark says.
    pub fn mark(&self, name: &str, now: u64) -> Option<Mark> {
        self.marks.get(name).filter(|mark| mark.until.get() > now).cloned()
    }

    /// The version that was applied last.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The sum of all accounts of an asset.
    pub fn sum(&self, asset: &str) -> i64 {
        self.rows.iter().filter(|((of, _), _)| of == asset).map(|(_, row)| row.value).sum()
    }

    /// Does what a plan says, once for each key.
    pub fn apply(&mut self, plan: &Plan, once: Option<(&str, &str)>, now: u64) -> Outcome<Applied> {
        if let Some((key, body)) = once
            && let Some((kept, answer, _)) = self.kept.get(key).filter(|(.., until)| *until > now)
        {
            return if kept == body { Outcome::Replayed(answer.clone()) } else { Outcome::Conflict };
        }
        let answer = self.try_plan(plan, now);
        let is_kept = matches!(answer, Applied::Done(_) | Applied::Refused { .. } | Applied::Bound(_));
        if let Some((key, body)) = once.filter(|_| is_kept) {
            self.kept.insert(key.to_owned(), (body.to_owned(), answer.clone(), now + KEPT));
        }
        Outcome::Done(answer)
    }

    fn try_plan(&mut self, plan: &Plan, now: u64) -> Applied {
        let at = Micros::saturating(now);
        if plan.act != Act::Read && plan.version < self.version {
            return Applied::Outdated(self.version);
        }
        let balances: Vec<_> = plan.postings.iter().map(|one| self.balance(&one.account, now)).collect();
        let marks: Vec<_> = plan.markings.iter().map(|one| self.mark(&one.name, now)).collect();
        let mut same = plan.act != Act::Read && at >= plan.from && at < plan.until;
        for (one, is) in plan.postings.iter().zip(&balances) {
            same &= one.expect.is_none_or(|expect| expect == (is.value, is.held));
        }
        let head = |mark: &Mark| (mark.value, mark.until, mark.at);
        for (one, is) in plan.markings.iter().zip(&marks) {
            same &= one.expect.as_ref().is_none_or(|expect| expect.as_ref().map(head) == is.as_ref().map(head));
        }
        if !same {
            return Applied::Seen(Box::new(Seen { now: at, balances, marks }));
        }
        if let Some(done) = &plan.done
            && !self.due.iter().any(|(_, what)| what[..] == done[..])
        {
            return Applied::Gone;
        }
        let refused = match plan.act {
            Act::Refuse => Some(Applied::Refused { now: at, told: plan.told.clone() }),
            _ => self.bound(plan, now).map(|(code, what)| Applied::Bound(Box::new(Bound { now: at, code, what }))),
        };
        if let Some(done) = &plan.done {
            self.due.retain(|(_, what)| what[..] != done[..]);
        }
        if let Some(refused) = refused {
            return refused;
        }
        self.version = self.version.max(plan.version);
        self.ledger.push((now, plan.entry.clone()));
        let seq = u64::try_from(self.ledger.len()).expect("a ledger is short");
        let balances = plan.postings.iter().map(|one| (one.account.clone(), self.post(one, seq, now))).collect();
        for one in &plan.markings {
            match &one.then {
                Then::Stay => {}
                Then::Forget => drop(self.marks.remove(&*one.name)),
                Then::Write { value, until, at, payload } => {
                    let mark = Mark {
                        value: *value,
                        until: Micros::saturating(time(*until, now)),
                        at: Micros::saturating(time(*at, now)),
                        payload: payload.clone(),
                    };
                    self.marks.insert(one.name.to_string(), mark);
                }
            }
        }
        for (due, what) in &plan.later {
            self.due.insert((time(*due, now), [&seq.to_be_bytes()[..], what].concat()));
        }
        let (entry, told) = (plan.entry.clone(), plan.told.clone());
        Applied::Done(Box::new(Done { now: at, seq, balances, entry, told }))
    }

    fn post(&mut self, one: &Posting, seq: u64, now: u64) -> i64 {
        let mut row = self.row(&one.account);
        let is_touched = one.delta != 0 || one.lien.is_some() || !one.drops.is_empty();
        row.value += one.delta;
        if !is_touched {
            return row.value;
        }
        row.liens.retain(|(hold, _, until)| *until > now && !one.drops.contains(hold));
        row.liens.extend(one.lien.map(|lien| (lien.hold, lien.qty, time(lien.until, now))));
        if one.delta != 0 {
            (row.since, row.board) = (seq, one.board);
        }
        let (value, key) = (row.value, (one.account.asset.to_string(), one.account.owner.to_string()));
        if row.value == 0 && row.liens.is_empty() {
            self.rows.remove(&key);
        } else {
            self.rows.insert(key, row);
        }
        value
    }

    fn bound(&self, plan: &Plan, now: u64) -> Option<(Arc<str>, Which)> {
        for one in &plan.postings {
            let (row, account, delta) = (self.row(&one.account), one.account.clone(), one.delta);
            let live: Vec<_> = row.liens.iter().filter(|(hold, _, until)| *until > now && !one.drops.contains(hold)).collect();
            let held: i64 = live.iter().map(|(_, qty, _)| qty).sum();
            let (hold, value) = (one.lien.map_or(0, |lien| lien.qty), row.value);
            let takes = delta < 0 || hold > 0;
            if takes && one.bounds.is_some_and(|(floor, _)| value + delta - held - hold < floor) {
                return Some((Arc::clone(&one.short), Which::Short { account, value, held, delta: delta - hold }));
            }
            let max = one.bounds.map_or(AMOUNT_MAX, |(_, max)| max);
            if delta > 0 && value + delta > max {
                return Some((Arc::clone(&one.full), Which::Full { account, value, max, delta }));
            }
            if value + delta < -AMOUNT_MAX || (hold > 0 && live.len() >= LIENS_MAX) {
                return Some(("busy".into(), Which::Full { account, value, max: AMOUNT_MAX, delta }));
            }
        }
        plan.markings.iter().find_map(|one| {
            let (code, mark) = (one.ready.clone()?, self.mark(&one.name, now)?);
            let is_early = mark.at.get() > now;
            is_early.then(|| (code, Which::Early { mark: Arc::clone(&one.name), at: mark.at }))
        })
    }

    /// A part of the board of an asset: from a rank on, or around an owner.
    pub fn board(&self, asset: &str, around: Option<&str>, from: usize, limit: usize) -> Ranked {
        let of = self.rows.iter().filter(|((of, _), row)| of == asset && row.board && row.value > 0);
        let mut rows: Vec<_> = of.map(|((_, owner), row)| (-row.value, row.since, std::cmp::Reverse(owner.as_bytes()))).collect();
        rows.sort();
        let number = |length: usize| u64::try_from(length).expect("a board is short");
        let rank = around.map(|owner| rows.iter().position(|(.., other)| other.0 == owner.as_bytes()));
        let first = match rank {
            Some(None) => return Ranked { total: number(rows.len()), rank: None, first: 1, rows: Vec::new() },
            Some(Some(rank)) => rank.saturating_sub(limit / 2),
            None => from,
        };
        let shown = rows.iter().skip(first).take(limit);
        let shown = shown.map(|(value, _, owner)| (String::from_utf8_lossy(owner.0).as_ref().into(), -value)).collect();
        Ranked { total: number(rows.len()), rank: rank.flatten().map(|rank| number(rank) + 1), first: number(first) + 1, rows: shown }
    }
}
