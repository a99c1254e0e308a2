//! The limiter that takes over while there are no answers.
//!
//! A token bucket for each subject, kept as the time at which it will be full again: one number, and
//! a subject whose bucket is full needs none. Memory is bounded: subjects beyond the bound share a
//! fixed number of buckets, so that a flood of new ones neither grows it nor frees anyone.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::limit::{Checked, Ruled};
use crate::time::Time;

/// The name it answers under.
const NAME: &str = "local";
/// Subjects with a bucket of their own.
const SUBJECTS_MAX: usize = 65_536;
/// Buckets that the others share.
const SHARED: u64 = 1_024;

#[derive(Debug)]
pub(super) struct Local {
    limit: u64,
    per: Duration,
    is_used: AtomicBool,
    table: Mutex<Option<Table>>,
}

/// What is known while it is in charge. Times are nanoseconds since it took over.
#[derive(Debug)]
struct Table {
    begun: Instant,
    hasher: RandomState,
    /// By the subject's hash, when its bucket is full again. Seeded, so that nobody can choose a collision.
    full_at: HashMap<u64, u128>,
    /// When to look again for buckets that are full.
    sweep_at: u128,
}

impl Local {
    pub(super) fn new(limit: u64, per: Duration) -> Local {
        let (limit, per) = (limit.max(1), per.max(Duration::from_millis(1)));
        Local { limit, per, is_used: AtomicBool::new(false), table: Mutex::new(None) }
    }

    /// Takes `cost` from the subject's bucket, or says when it could.
    pub(super) fn check(&self, subject: &str, cost: u64) -> Checked {
        let mut table = self.lock();
        self.is_used.store(true, Ordering::Relaxed);
        let table = table.get_or_insert_with(Table::new);
        let now = table.begun.elapsed().as_nanos();
        let key = table.key(subject, now, self.per);
        // Filled by one token in `drip`, it holds `limit`, so it may be full `hold` from now at the latest.
        let drip = (self.per.as_nanos() / u128::from(self.limit)).max(1);
        let hold = drip * u128::from(self.limit);
        let owed = table.full_at.get(&key).map_or(0, |full_at| full_at.saturating_sub(now));
        let wanted = owed.saturating_add(drip.saturating_mul(u128::from(cost)));
        let is_allowed = wanted <= hold;
        if is_allowed {
            table.full_at.insert(key, now + wanted);
        }
        let owed = if is_allowed { wanted } else { owed };
        let left = hold.saturating_sub(owed) / drip;
        let is_never = cost > self.limit;
        let retry = (!is_allowed && !is_never).then(|| wanted.saturating_sub(hold));
        self.answer(is_allowed, is_never, u64::try_from(left).unwrap_or(self.limit), owed, retry)
    }

    fn answer(&self, is_allowed: bool, is_never: bool, left: u64, reset: u128, retry: Option<u128>) -> Checked {
        let now = SystemTime::now();
        let after = |nanos: u128| Time::from(now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2)));
        let mut rule = Ruled::new(NAME, NAME, self.limit, after(reset));
        rule.window_ms = u64::try_from(self.per.as_millis()).unwrap_or(u64::MAX);
        rule.remaining = left;
        rule.retry_at = retry.map(after);
        let mut checked = Checked::new(is_allowed, Vec::new());
        checked.never = is_never;
        checked.retry_at = rule.retry_at;
        checked.bound_by = (!is_allowed).then(|| NAME.to_owned());
        checked.rules.push(rule);
        checked.degraded = true;
        checked.now = Some(Time::from(now));
        checked
    }

    /// There are answers for this subject again: it hands back, and forgets. Others may still be without.
    pub(super) fn hand_back(&self, subject: &str) {
        // Answers are the rule and failures the exception: only after one is the lock needed.
        if !self.is_used.load(Ordering::Relaxed) {
            return;
        }
        let mut table = self.lock();
        if let Some(known) = table.as_mut() {
            let own = known.hasher.hash_one(subject);
            known.full_at.remove(&own);
            known.sweep(known.begun.elapsed().as_nanos(), self.per);
            if known.full_at.is_empty() {
                *table = None;
                self.is_used.store(false, Ordering::Relaxed);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Table>> {
        // Nothing panics while it is held.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn new() -> Table {
        Table { begun: Instant::now(), hasher: RandomState::new(), full_at: HashMap::new(), sweep_at: 0 }
    }

    /// The bucket of a subject: its own, or one that it shares if there are too many.
    fn key(&mut self, subject: &str, now: u128, per: Duration) -> u64 {
        let own = self.hasher.hash_one(subject);
        if self.full_at.len() < SUBJECTS_MAX || self.full_at.contains_key(&own) {
            return own;
        }
        self.sweep(now, per);
        if self.full_at.len() < SUBJECTS_MAX { own } else { own % SHARED }
    }

    /// A full bucket is the same as none. Looking once per period is enough: none takes longer.
    fn sweep(&mut self, now: u128, per: Duration) {
        if now >= self.sweep_at {
            self.full_at.retain(|_, full_at| *full_at > now);
            self.sweep_at = now + per.as_nanos();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(limit: u64, per_s: u64) -> Local {
        Local::new(limit, Duration::from_secs(per_s))
    }

    #[tokio::test(start_paused = true)]
    async fn it_drips_and_says_when() {
        let local = local(3, 30);
        for (at_s, subject, cost, allowed, left, retry_s) in [
            (0, "a", 3, true, 0, None),
            (9, "a", 1, false, 0, Some(1)),
            (9, "b", 1, true, 2, None),
            (10, "a", 1, true, 0, None),
            (10, "a", 4, false, 0, None),
            (90, "a", 1, true, 2, None),
        ] {
            let now = local.lock().as_ref().map_or(0, |table| table.begun.elapsed().as_secs());
            tokio::time::advance(Duration::from_secs(at_s - now)).await;
            let checked = local.check(subject, cost);
            let wait = |time: Time| time.to_system_time().duration_since(checked.now.unwrap().to_system_time()).unwrap().as_secs();
            let seen = (checked.allowed, checked.rules[0].remaining, checked.retry_at.map(wait));
            assert_eq!(seen, (allowed, left, retry_s), "at {at_s} s, {subject} for {cost}");
            assert_eq!(checked.never, cost > 3);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_subjects_neither_grows_it_nor_frees_anyone() {
        let local = local(1, 60);
        let most = SUBJECTS_MAX + usize::try_from(SHARED).unwrap();
        let passed = (0..most * 2).filter(|n| local.check(&format!("s{n}"), 1).allowed).count();
        assert!(passed <= most, "{passed}");
        assert!(!local.check("s0", 1).allowed);
        let size = |local: &Local| local.lock().as_ref().map_or(0, |table| table.full_at.len());
        assert!(size(&local) <= most);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(local.check("new", 1).allowed);
        assert_eq!(size(&local), 1, "what is full is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_answered_again_begins_anew_and_nobody_else() {
        let local = local(1, 60);
        for subject in ["a", "b"] {
            assert!(local.check(subject, 1).allowed && !local.check(subject, 1).allowed);
        }
        local.hand_back("a");
        assert!(!local.check("b", 1).allowed, "nobody answered for this one");
        assert!(local.check("a", 1).allowed, "it begins anew");
        tokio::time::advance(Duration::from_secs(61)).await;
        local.hand_back("a");
        assert!(local.lock().is_none(), "nothing is kept when nothing is owed");
    }
}
