//! realm: whether the books add up.
//!
//! Each step of the store tells some accounts as they stand, and the number of the last commit at that moment. The ledger is replayed up
//! to that commit, and both must say the same: so it is exact also while others play. It holds a sum for each account, and of the
//! ledger no more than a page.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hermod_catalog::Scope;
use hermod_core::realm::chance;
use hermod_core::realm::commit::Standing;
use hermod_core::realm::entry::{Drawn, What};
use hermod_core::realm::ledger::LEDGER_MAX;
use hermod_core::realm::survey::{SURVEY_MAX, Stand, Stood};
use hermod_core::realm::{Account, Entry, Hold, ReadBoard, Realm, Survey, Surveyed};
use hermod_core::{Micros, Outcome, RealmId, SpaceId};

use super::{App, Caller, lost};
use crate::code::Problem;

/// So much that is wrong is told.
const FAULTS_MAX: usize = 100;

/// Whether the books add up.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// How many commits were read.
    pub commits: u64,
    /// How many accounts were computed again.
    pub accounts: usize,
    /// How many draws were made again.
    pub draws: usize,
    /// What is wrong; a hundred at most.
    pub faults: Vec<AuditFault>,
}

/// What is wrong with the books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditFault {
    /// What all accounts of an asset have does not add up to nothing, but to this.
    Sum(Arc<str>, i128),
    /// These commits are not in the ledger: the first and the last of them.
    Missing(u64, u64),
    /// An account does not say what the ledger does.
    Balance {
        /// Which.
        account: Account,
        /// What it comes to by the ledger.
        ledger: i64,
        /// What it says; none if that cannot be read.
        says: Option<i64>,
    },
    /// An account was changed last by another commit than the ledger says.
    Since {
        /// Which.
        account: Account,
        /// The last commit by the ledger.
        ledger: u64,
        /// The last by the account.
        says: u64,
    },
    /// A draw of a commit is not what it must be.
    Draw(u64, Drawn),
    /// An account is not on its board, or is there with another number.
    Row {
        /// Which.
        account: Account,
        /// What it has.
        has: i64,
        /// What the board says.
        shows: Option<i64>,
    },
    /// A board shows an owner who has something else, or nothing.
    Stray {
        /// Of which account.
        account: Account,
        /// What the board says.
        shows: i64,
        /// What there is by the ledger.
        ledger: i64,
    },
    /// Another number of owners is on a board than have something.
    Rows {
        /// The asset.
        asset: Arc<str>,
        /// How many are on the board.
        shows: u64,
        /// How many have something.
        owners: u64,
    },
    /// What an account has on hold is not what the hold says.
    Held {
        /// Which account.
        account: Account,
        /// By which hold.
        hold: u64,
        /// What the account says.
        says: i64,
        /// What the hold says; nothing if it is not open.
        open: i64,
    },
}

impl Audit {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }
}

impl App {
    /// Computes every account and every draw again from the ledger, and compares them with all that there is.
    pub async fn audit(&self, caller: &Caller, id: &RealmId) -> Result<Audit, Problem> {
        caller.need(Scope::RealmsRead)?;
        let realm = self.realm_of(&caller.space, id)?;
        let mut auditor = Auditor { app: self, space: &caller.space, realm: &realm, replay: Replay::new(&realm) };
        auditor.all().await?;
        auditor.unseen().await?;
        auditor.strays().await?;
        Ok(auditor.replay.done())
    }
}

/// Who reads, and what was found so far.
struct Auditor<'a> {
    app: &'a App,
    space: &'a SpaceId,
    realm: &'a Realm,
    replay: Replay,
}

impl Auditor<'_> {
    /// Every account there is.
    async fn all(&mut self) -> Result<(), Problem> {
        let mut cursor = 0;
        loop {
            let place = self.app.engine.partitions().place(self.space, self.realm.id.as_str());
            let page = Survey::page(place, self.realm.id.clone(), Arc::clone(&self.replay.boards), cursor);
            let found = self.survey(&page).await?;
            self.replay_to(found.last).await?;
            self.replay.compare(self.realm, &found);
            cursor = found.next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Every account that the ledger knows and that was not come upon.
    async fn unseen(&mut self) -> Result<(), Problem> {
        let unseen = self.replay.books.iter().filter(|(_, sum)| !sum.is_seen && sum.value != 0);
        let unseen: Vec<Account> = unseen.map(|(account, _)| account.clone()).collect();
        for part in unseen.chunks(SURVEY_MAX) {
            let found = self.these(part.to_vec(), Vec::new()).await?;
            self.replay_to(found.last).await?;
            self.replay.compare(self.realm, &found);
        }
        Ok(())
    }

    /// Who is on a board that has too many or too few, and has something else. Who changes meanwhile is nobody's fault.
    async fn strays(&mut self) -> Result<(), Problem> {
        for asset in std::mem::take(&mut self.replay.uneven) {
            let mut from = 0;
            loop {
                let place = self.app.engine.partitions().place(self.space, self.realm.id.as_str());
                let read = ReadBoard::top(place, self.realm.id.clone(), Arc::clone(&asset), from, SURVEY_MAX);
                let before = self.replay.after;
                let Outcome::Done(page) = self.app.engine.run(&read, None).await?.outcome else { return Err(lost()) };
                self.replay_to(u64::MAX).await?;
                for (owner, shows) in &page.rows {
                    let account = Account { asset: Arc::clone(&asset), owner: Arc::clone(owner) };
                    let sum = self.replay.books.get(&account).copied().unwrap_or_default();
                    if sum.value != *shows && sum.since <= before {
                        self.replay.fault(AuditFault::Stray { account, shows: *shows, ledger: sum.value });
                    }
                }
                if page.rows.is_empty() || self.replay.audit.faults.len() >= FAULTS_MAX {
                    break;
                }
                from += page.rows.len();
            }
        }
        Ok(())
    }

    /// Takes in what the ledger has gained, up to this commit.
    async fn replay_to(&mut self, last: u64) -> Result<(), Problem> {
        while self.replay.after < last {
            let limit = usize::try_from(last - self.replay.after).unwrap_or(LEDGER_MAX).min(LEDGER_MAX);
            let commits = self.app.commits(self.space, &self.realm.id, self.replay.after, limit).await?;
            let mut holds = Vec::new();
            for (seq, _, entry) in commits.entries.iter().filter(|(seq, ..)| *seq <= last) {
                self.replay.take_in(self.realm, *seq, entry);
                if entry.what == What::Hold {
                    holds.push(entry.refers);
                }
            }
            self.check_holds(holds).await?;
            if commits.entries.is_empty() {
                // As far as it is known how far it should go.
                if last < u64::MAX {
                    self.replay.fault(AuditFault::Missing(self.replay.after + 1, last));
                    self.replay.after = last;
                }
                break;
            }
        }
        Ok(())
    }

    /// What is on hold by those of a page that are still open must be so on the accounts. What they are about only their marks say.
    async fn check_holds(&mut self, holds: Vec<u64>) -> Result<(), Problem> {
        if holds.is_empty() {
            return Ok(());
        }
        let marks = self.these(Vec::new(), holds).await?.holds;
        let about = |hold: Hold| hold.entry.legs.into_iter().map(|leg| account(&leg.asset, &leg.from)).collect::<BTreeSet<_>>();
        let open = marks.into_iter().filter_map(|(number, hold)| Some((number, hold.filter(|hold| hold.standing == Standing::Open)?)));
        for (number, accounts) in open.map(|(number, hold)| (number, about(hold))) {
            let found = self.these(accounts.into_iter().collect(), vec![number]).await?;
            let Some(Some(hold)) = found.holds.get(&number) else { continue };
            for stood in &found.accounts {
                let open = open_of(hold, &stood.account);
                // Where it has something on hold by it, that is compared with all other accounts.
                if open > 0 && says_of(stood, number, found.now) == 0 {
                    self.replay.fault(AuditFault::Held { account: stood.account.clone(), hold: number, says: 0, open });
                }
            }
        }
        Ok(())
    }

    async fn these(&self, accounts: Vec<Account>, holds: Vec<u64>) -> Result<Surveyed, Problem> {
        let place = self.app.engine.partitions().place(self.space, self.realm.id.as_str());
        self.survey(&Survey::these(place, self.realm.id.clone(), Arc::clone(&self.replay.boards), accounts, holds)).await
    }

    async fn survey(&self, survey: &Survey) -> Result<Surveyed, Problem> {
        let Outcome::Done(found) = self.app.engine.run(survey, None).await?.outcome else { return Err(lost()) };
        Ok(found)
    }
}

/// What an open hold sets aside of an account.
fn open_of(hold: &Hold, account: &Account) -> i64 {
    if hold.standing != Standing::Open {
        return 0;
    }
    let legs = hold.entry.legs.iter().filter(|leg| leg.asset == account.asset && leg.from == account.owner);
    legs.fold(0, |sum, leg| sum.saturating_add(leg.qty))
}

/// What an account says that a hold has of it.
fn says_of(stood: &Stood, hold: u64, now: Micros) -> i64 {
    let liens = stood.says.iter().flat_map(|says| &says.liens).filter(|(by, _, until)| *by == hold && *until > now);
    liens.fold(0, |sum, (_, qty, _)| sum.saturating_add(*qty))
}

/// The books as the ledger makes them.
#[derive(Debug, Default)]
struct Replay {
    /// The last commit that was taken in.
    after: u64,
    books: HashMap<Account, Sum>,
    /// The assets that have a board, and how many are to be on it.
    boards: Arc<[Arc<str>]>,
    owners: HashMap<Arc<str>, u64>,
    /// The boards that have another number of rows.
    uneven: Vec<Arc<str>>,
    /// By how much the accounts differ from the ledger: whatever moves from one to another adds up to nothing.
    differ: BTreeMap<Arc<str>, i128>,
    audit: Audit,
}

/// What an account comes to.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    value: i64,
    /// The commit that changed it last.
    since: u64,
    /// The account was compared.
    is_seen: bool,
}

impl Replay {
    fn new(realm: &Realm) -> Replay {
        let boards = realm.definition.assets.iter().filter(|(_, asset)| asset.board);
        Replay { boards: boards.map(|(asset, _)| asset.as_str().into()).collect(), ..Replay::default() }
    }

    fn fault(&mut self, fault: AuditFault) {
        if self.audit.faults.len() < FAULTS_MAX && !self.audit.faults.contains(&fault) {
            self.audit.faults.push(fault);
        }
    }

    fn take_in(&mut self, realm: &Realm, seq: u64, entry: &Entry) {
        if seq > self.after + 1 {
            self.fault(AuditFault::Missing(self.after + 1, seq - 1));
        }
        self.after = seq;
        self.audit.commits += 1;
        for drawn in &entry.draws {
            self.audit.draws += 1;
            if chance::draw(&realm.seed, &entry.key, &drawn.name, drawn.from, drawn.to) != drawn.value {
                self.fault(AuditFault::Draw(seq, drawn.clone()));
            }
        }
        // A hold moves nothing yet.
        if matches!(entry.what, What::Hold | What::Release) {
            return;
        }
        let mut moved = BTreeMap::<Account, i64>::new();
        for (owner, delta, asset) in
            entry.legs.iter().flat_map(|leg| [(&leg.from, leg.qty.saturating_neg(), &leg.asset), (&leg.to, leg.qty, &leg.asset)])
        {
            let sum = moved.entry(account(asset, owner)).or_default();
            *sum = sum.saturating_add(delta);
        }
        for (account, delta) in moved.into_iter().filter(|(_, delta)| *delta != 0) {
            let has_row = |value: i64| value > 0 && !account.is_own() && self.boards.contains(&account.asset);
            let sum = self.books.get(&account).copied().unwrap_or_default();
            let value = sum.value.saturating_add(delta);
            if has_row(value) != has_row(sum.value) {
                let owners = self.owners.entry(Arc::clone(&account.asset)).or_default();
                *owners = if value > 0 { *owners + 1 } else { owners.saturating_sub(1) };
            }
            self.books.insert(account, Sum { value, since: seq, ..sum });
        }
    }

    /// Compares what stands there with what the ledger comes to at the same commit.
    fn compare(&mut self, realm: &Realm, found: &Surveyed) {
        for (asset, shows) in Arc::clone(&self.boards).iter().zip(&found.on_boards) {
            let owners = self.owners.get(asset).copied().unwrap_or(0);
            if *shows != owners && !self.uneven.contains(asset) {
                self.uneven.push(Arc::clone(asset));
                self.fault(AuditFault::Rows { asset: Arc::clone(asset), shows: *shows, owners });
            }
        }
        for stood in &found.accounts {
            let account = &stood.account;
            let sum = self.books.entry(account.clone()).or_default();
            if std::mem::replace(&mut sum.is_seen, true) {
                continue;
            }
            let sum = *sum;
            let Some(says) = &stood.says else {
                self.fault(AuditFault::Balance { account: account.clone(), ledger: sum.value, says: None });
                continue;
            };
            if says.value != sum.value {
                *self.differ.entry(Arc::clone(&account.asset)).or_default() += i128::from(says.value) - i128::from(sum.value);
                self.fault(AuditFault::Balance { account: account.clone(), ledger: sum.value, says: Some(says.value) });
            } else if says.value != 0 && says.since != sum.since {
                self.fault(AuditFault::Since { account: account.clone(), ledger: sum.since, says: says.since });
            }
            let is_shown = says.value > 0 && !account.is_own() && realm.asset(&account.asset).is_some_and(|asset| asset.board);
            if is_shown && stood.row != Some(says.value) {
                self.fault(AuditFault::Row { account: account.clone(), has: says.value, shows: stood.row });
            }
            self.compare_holds(stood, says, found);
        }
    }

    /// What is on hold must be so by an open hold.
    fn compare_holds(&mut self, stood: &Stood, stand: &Stand, found: &Surveyed) {
        for (number, _, until) in stand.liens.iter().filter(|(.., until)| *until > found.now) {
            let hold = found.holds.get(number).and_then(Option::as_ref).filter(|hold| hold.until == *until);
            let open = hold.map_or(0, |hold| open_of(hold, &stood.account));
            let says = says_of(stood, *number, found.now);
            if open != says {
                self.fault(AuditFault::Held { account: stood.account.clone(), hold: *number, says, open });
            }
        }
    }

    fn done(self) -> Audit {
        let mut audit = self.audit;
        audit.accounts = self.books.len();
        let sums = self.differ.into_iter().filter(|(_, sum)| *sum != 0).map(|(asset, sum)| AuditFault::Sum(asset, sum));
        audit.faults = sums.chain(std::mem::take(&mut audit.faults)).take(FAULTS_MAX).collect();
        audit
    }
}

fn account(asset: &Arc<str>, owner: &Arc<str>) -> Account {
    Account { asset: Arc::clone(asset), owner: Arc::clone(owner) }
}
