//! Work by name, side by side: none is begun twice at once, and one that hangs delays no other.

use std::collections::HashSet;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::task::JoinSet;

/// So many at once. What more there is waits: those that hang because the store does are soon answered that it does.
pub(super) const MOST: usize = 64;

#[derive(Debug)]
pub(super) struct Crew<N, T> {
    busy: HashSet<N>,
    tasks: JoinSet<(N, Option<T>)>,
}

impl<N, T> Default for Crew<N, T> {
    fn default() -> Crew<N, T> {
        Crew { busy: HashSet::new(), tasks: JoinSet::new() }
    }
}

impl<N: Clone + Eq + Hash + Send + 'static, T: Send + 'static> Crew<N, T> {
    /// Begins the work of this name, unless it is under way, or `most` others are.
    pub(super) fn begin<W: Future<Output = T> + Send + 'static>(&mut self, name: &N, most: usize, work: impl FnOnce() -> W) -> bool {
        if self.tasks.len() >= most || !self.busy.insert(name.clone()) {
            return false;
        }
        let (name, work) = (name.clone(), AssertUnwindSafe(work()).catch_unwind());
        self.tasks.spawn(async move { (name, work.await.ok()) });
        true
    }

    /// What ended, and how; nothing if it failed by a fault of ours. While nothing is under way it waits.
    pub(super) async fn ended(&mut self) -> (N, Option<T>) {
        match self.tasks.join_next().await {
            Some(Ok((name, done))) => {
                self.busy.remove(&name);
                (name, done)
            }
            // Nothing is under way, or the runtime ends.
            _ => std::future::pending().await,
        }
    }

    /// Whether the work of this name is under way.
    pub(super) fn is_busy(&self, name: &N) -> bool {
        self.busy.contains(name)
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_fails_by_a_fault_of_ours_can_be_begun_again() {
        let mut crew: Crew<&str, u8> = Crew::default();
        assert!(crew.begin(&"a", MOST, || async { panic!("a fault") }));
        assert!(!crew.begin(&"a", MOST, || async { 1 }), "it is under way");
        assert!(!crew.begin(&"b", 1, || async { 1 }), "there is too much");
        assert_eq!(crew.ended().await, ("a", None));
        assert!(crew.is_idle() && crew.begin(&"a", MOST, || async { 2 }));
        assert_eq!(crew.ended().await, ("a", Some(2)));
    }
}
