//! The last attempts of each queue, for whoever asks why nothing arrives.
//!
//! In memory and bounded: it explains, it proves nothing. Neither body nor secret is ever in it.

use std::collections::{HashMap, VecDeque};

use hermod_core::Micros;
use parking_lot::Mutex;

/// So many attempts are kept for each queue.
const ATTEMPTS_MAX: usize = 100;
/// So many queues are followed; beyond that the one that was quiet longest is forgotten.
const QUEUES_MAX: usize = 1_000;

/// One attempt at one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The delivery's id.
    pub id: String,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// When it was made.
    pub at: Micros,
    /// What the receiver answered, if it did.
    pub status: Option<u16>,
    /// Why it counts as failed; `None` if it does not.
    pub why: Option<String>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// The attempts of all queues, by space and queue.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<HashMap<(String, String), Attempts>>);

#[derive(Debug, Default)]
struct Attempts {
    /// Oldest first.
    all: VecDeque<Attempt>,
    latest: Micros,
}

impl Log {
    pub(super) fn add(&self, space: &str, queue: &str, attempt: Attempt) {
        let key = (space.to_owned(), queue.to_owned());
        let mut queues = self.0.lock();
        if !queues.contains_key(&key) && queues.len() >= QUEUES_MAX {
            let quiet = queues.iter().min_by_key(|(_, attempts)| attempts.latest).map(|(key, _)| key.clone());
            quiet.and_then(|key| queues.remove(&key));
        }
        let attempts = queues.entry(key).or_default();
        if attempts.all.len() >= ATTEMPTS_MAX {
            attempts.all.pop_front();
        }
        attempts.latest = attempts.latest.max(attempt.at);
        attempts.all.push_back(attempt);
    }

    /// The attempts of one queue, newest first.
    pub(super) fn of(&self, space: &str, queue: &str) -> Vec<Attempt> {
        let queues = self.0.lock();
        let attempts = queues.get(&(space.to_owned(), queue.to_owned()));
        attempts.map(|attempts| attempts.all.iter().rev().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn forget(&self, space: &str, queue: &str) {
        self.0.lock().remove(&(space.to_owned(), queue.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(n: u32) -> Attempt {
        let at = Micros::saturating(u64::from(n));
        Attempt { id: format!("dl_{n}"), attempt: 1, at, status: Some(200), why: None, took_ms: 3 }
    }

    #[test]
    fn the_last_hundred_of_each_queue_are_kept() {
        let log = Log::default();
        for n in 0..250 {
            log.add("default", "mail", attempt(n));
        }
        log.add("other", "mail", attempt(7));
        let kept = log.of("default", "mail");
        assert_eq!((kept.len(), kept[0].id.as_str(), kept[99].id.as_str()), (100, "dl_249", "dl_150"));
        assert_eq!(log.of("other", "mail").len(), 1);
        log.forget("default", "mail");
        assert!(log.of("default", "mail").is_empty());
    }

    #[test]
    fn the_quietest_queue_makes_way() {
        let log = Log::default();
        for n in 0..1_010 {
            log.add("default", &format!("queue-{n}"), attempt(n));
            log.add("default", "busy", attempt(n));
        }
        assert_eq!(log.0.lock().len(), QUEUES_MAX);
        assert_eq!(log.of("default", "busy").len(), 100);
        assert!(log.of("default", "queue-0").is_empty() && !log.of("default", "queue-1009").is_empty());
    }
}
