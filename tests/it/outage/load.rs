//! Parallel charges while something happens to the store, and the account of what was answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermod_engine::{Durability, EngineError};
use tokio::task::JoinHandle;

use super::charger::Charger;
use super::{REQUEST_MAX, until};

/// Each task asks this often: enough to be in the way of everything, little enough to leave room for others.
pub(super) const PACE: Duration = Duration::from_millis(10);

/// What came of the charges for one subject.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Answered with what was promised.
    pub(super) acknowledged: u64,
    /// Answered, but with less durability than was asked for.
    pub(super) weak: u64,
    /// Not answered: charged, or not.
    pub(super) unknown: u64,
}

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charge {
    Acknowledged,
    Weak,
    /// No answer, and a good reason to ask again. Anything worse must panic.
    Unknown,
}

/// Tasks that charge until they are told to stop.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    counted: Arc<Counted>,
    tasks: Vec<JoinHandle<BTreeMap<String, Account>>>,
}

#[derive(Default)]
struct Counted {
    answered: AtomicU64,
    unknown: AtomicU64,
    /// What each task has done, answered or not.
    rounds: Vec<AtomicU64>,
}

impl Load {
    /// One task for each of `subjects`, which need not differ.
    pub(super) fn start<F>(subjects: &[String], charge: impl Fn(String) -> F + Clone + Send + 'static) -> Load
    where
        F: Future<Output = Charge> + Send,
    {
        let rounds = subjects.iter().map(|_| AtomicU64::new(0)).collect();
        let (stop, counted) = (Arc::new(AtomicBool::new(false)), Arc::new(Counted { rounds, ..Counted::default() }));
        let task = |(number, subject): (usize, &String)| {
            let (stop, counted, charge, subject) = (Arc::clone(&stop), Arc::clone(&counted), charge.clone(), subject.clone());
            tokio::spawn(async move {
                let mut account = Account::default();
                while !stop.load(Ordering::SeqCst) {
                    let (own, all) = match charge(subject.clone()).await {
                        Charge::Acknowledged => (&mut account.acknowledged, &counted.answered),
                        Charge::Weak => (&mut account.weak, &counted.answered),
                        Charge::Unknown => (&mut account.unknown, &counted.unknown),
                    };
                    *own += 1;
                    all.fetch_add(1, Ordering::SeqCst);
                    counted.rounds[number].fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(PACE).await;
                }
                BTreeMap::from([(subject, account)])
            })
        };
        Load { tasks: subjects.iter().enumerate().map(task).collect(), stop, counted }
    }

    /// Waits until so many more charges were answered.
    pub(super) async fn until_answered(&self, more: u64, within: Duration) -> Result<()> {
        let before = self.answered();
        until(within, &format!("{more} more answers"), async || self.answered() >= before + more).await
    }

    /// Waits until so many more charges were not answered.
    pub(super) async fn until_unknown(&self, more: u64, within: Duration) -> Result<()> {
        let before = self.unknown();
        until(within, &format!("{more} more charges without an answer"), async || self.unknown() >= before + more).await
    }

    /// Waits until every task has done so many more.
    async fn until_rounds(&self, more: u64) -> Result<()> {
        let rounds = || -> Vec<u64> { self.counted.rounds.iter().map(|done| done.load(Ordering::SeqCst)).collect() };
        let before = rounds();
        let are_done = async || rounds().iter().zip(&before).all(|(now, before)| *now >= before + more);
        until(10 * REQUEST_MAX, &format!("{more} more rounds of every task"), are_done).await
    }

    /// Fails unless all is well again: once what was under way has ended, every charge is answered.
    pub(super) async fn ensure_well(&self) -> Result<()> {
        self.until_rounds(2).await?;
        let unknown = self.unknown();
        self.until_rounds(5).await?;
        ensure!(self.unknown() == unknown, "{} charges were not answered", self.unknown() - unknown);
        Ok(())
    }

    /// How many charges were answered so far.
    pub(super) fn answered(&self) -> u64 {
        self.counted.answered.load(Ordering::SeqCst)
    }

    /// How many charges were not answered so far.
    pub(super) fn unknown(&self) -> u64 {
        self.counted.unknown.load(Ordering::SeqCst)
    }

    /// Ends it; what came of the charges, by subject.
    pub(super) async fn stop(self) -> Result<BTreeMap<String, Account>> {
        self.stop.store(true, Ordering::SeqCst);
        let mut accounts: BTreeMap<String, Account> = BTreeMap::new();
        for task in self.tasks {
            for (subject, account) in task.await.context("a charge was answered wrongly")? {
                let sum = accounts.entry(subject).or_default();
                sum.acknowledged += account.acknowledged;
                sum.weak += account.weak;
                sum.unknown += account.unknown;
            }
        }
        Ok(accounts)
    }
}

/// Panics if an answer takes too long, whatever it be.
pub(super) async fn timely<T>(answer: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let answer = answer.await;
    assert!(began.elapsed() < REQUEST_MAX, "an answer took {:?}", began.elapsed());
    answer
}

/// Charges once. Panics unless it is answered, or could not be for a reason that passes.
pub(super) async fn charge(charger: &Charger, subject: &str, replicas: u32) -> Charge {
    match timely(charger.charge(subject)).await {
        Ok(ran) => match ran.durability {
            Durability::Replicas(reached) if reached >= replicas => Charge::Acknowledged,
            Durability::Memory if replicas == 0 => Charge::Acknowledged,
            _ => Charge::Weak,
        },
        Err(fault @ EngineError::Unavailable { .. }) => {
            assert!(fault.is_retryable());
            Charge::Unknown
        }
        Err(fault) => panic!("{subject}: {fault:?}"),
    }
}

/// Fails unless every acknowledged charge is still there.
pub(super) async fn ensure_kept(charger: &Charger, accounts: &BTreeMap<String, Account>) -> Result<()> {
    for (subject, account) in accounts {
        let used = charger.used(subject).await?;
        ensure!(used >= account.acknowledged, "{subject} has {used} used of {account:?}");
    }
    Ok(())
}

/// `prefix-0`, `prefix-1`, ...
pub(super) fn subjects(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}
