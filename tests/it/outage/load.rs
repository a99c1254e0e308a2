//! Parallel charges while something happens to the store, and the account of what was answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermod_core::limit::Checked;
use hermod_engine::{Durability, EngineError, Ran};
use tokio::task::{JoinHandle, JoinSet};

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
        self.until_rounds(2).await?;
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

/// Waits for a charge. Panics unless it is answered, or could not be for a reason that passes.
pub(super) async fn charge(asked: impl Future<Output = Result<Ran<Checked>, EngineError>>, replicas: u32) -> Charge {
    match timely(asked).await {
        Ok(ran) => match ran.durability {
            Durability::Replicas(reached) if reached >= replicas => Charge::Acknowledged,
            Durability::Memory if replicas == 0 => Charge::Acknowledged,
            _ => Charge::Weak,
        },
        Err(fault @ EngineError::Unavailable { .. }) => {
            assert!(fault.is_retryable());
            Charge::Unknown
        }
        Err(fault) => panic!("{fault:?}"),
    }
}

/// The subjects and idempotency keys of acknowledged charges. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledged(Arc<Mutex<Vec<(String, String)>>>);

impl Acknowledged {
    pub(super) fn add(&self, subject: String, key: String) {
        self.0.lock().expect("nobody panics with it").push((subject, key));
    }

    /// Fails unless every one of them is known, and there are some.
    pub(super) async fn ensure_known<F>(&self, is_known: impl Fn(String, String) -> F + Clone + Send + 'static) -> Result<()>
    where
        F: Future<Output = Result<bool>> + Send,
    {
        let all = self.0.lock().expect("nobody panics with it").clone();
        ensure!(all.len() >= 100, "only {} charges were acknowledged", all.len());
        let mut tasks = JoinSet::new();
        for part in all.chunks(all.len().div_ceil(32)) {
            let (part, is_known) = (part.to_vec(), is_known.clone());
            tasks.spawn(async move {
                for (subject, key) in part {
                    let is_known = is_known(subject.clone(), key.clone()).await?;
                    ensure!(is_known, "{subject} was charged under {key}, and nobody knows of it");
                }
                Ok(())
            });
        }
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        Ok(())
    }
}

/// `prefix-0`, `prefix-1`, ...
pub(super) fn subjects(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}
