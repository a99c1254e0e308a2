//! What the embedded engine does when nobody asks: flush, sweep, fold.
//!
//! Two threads, because folding waits for the disk and flushing must not wait for folding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Inner;
use super::journal::Folder;
use crate::clock;

/// Deferred changes are flushed this often: with the committer's own wait below a second. What changes
/// more often is written once.
const FLUSH_EVERY: Duration = Duration::from_millis(600);
/// So many changes of a partition are flushed while its lock is held.
const FLUSH_STEP: usize = 256;
/// So many records of a partition are looked at while its lock is held.
const SWEEP_STEP: usize = 256;
/// Flushing waits while the committer has this much to write.
const BACKLOG_MAX: usize = 4 << 20;
/// How long it waits then.
const BACKLOG_WAIT: Duration = Duration::from_millis(2);
/// Folding, and copying back the journal's write-ahead log, is considered this often.
const FOLD_EVERY: Duration = Duration::from_millis(500);
/// Below so many times what is folded at all, folding rests after each part for as long as the part took, so that commits find the
/// disk idle half of the time. With more to do than that it falls behind, and does not rest.
const REST_BELOW: u64 = 8;
/// The journal's write-ahead log is copied back beyond so many bytes. That waits for the disk too, and the commits beside
/// it take many times as long as others: a steady flow of small ones should meet it seldom.
const COPY_AT: u64 = 8 << 20;

/// The threads, and the word that ends them.
#[derive(Debug, Default)]
pub(super) struct Background {
    closed: Mutex<bool>,
    changed: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    is_closed: AtomicBool,
}

impl Background {
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Ends the threads and waits for them.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        *self.closed.lock() = true;
        self.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            let _ended = thread.join();
        }
    }

    /// Waits; `false` when it is time to end.
    fn pause(&self, span: Duration) -> bool {
        let mut closed = self.closed.lock();
        if !*closed {
            self.changed.wait_for(&mut closed, span);
        }
        !*closed
    }
}

pub(super) fn start(inner: &Arc<Inner>, folder: Folder, fold_at: u64) -> std::io::Result<()> {
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| thread::Builder::new().name(name.to_owned()).spawn(work);
    let engine = Arc::clone(inner);
    let flush = spawn("hermod-flush", Box::new(move || flush_and_sweep(&engine)))?;
    let engine = Arc::clone(inner);
    let fold = spawn("hermod-fold", Box::new(move || fold_and_checkpoint(&engine, folder, fold_at)))?;
    inner.background.threads.lock().extend([flush, fold]);
    Ok(())
}

fn flush_and_sweep(inner: &Inner) {
    loop {
        clock::hold_counter();
        let before = inner.clock.sweep_before();
        for shard in &inner.shards {
            if inner.background.is_closed() {
                return;
            }
            // While the journal cannot be written, changes stay marked in memory, where they are bounded.
            while inner.committer.ready().is_ok() && inner.flush(shard, FLUSH_STEP) == FLUSH_STEP {
                while inner.committer.backlog() >= BACKLOG_MAX && inner.committer.ready().is_ok() {
                    if !inner.background.pause(BACKLOG_WAIT) {
                        return;
                    }
                }
            }
            while before.is_some_and(|before| inner.sweep(shard, before, SWEEP_STEP) * 2 > SWEEP_STEP) {}
        }
        if !inner.background.pause(FLUSH_EVERY) {
            return;
        }
    }
}

fn fold_and_checkpoint(inner: &Inner, mut folder: Folder, fold_at: u64) {
    loop {
        if let Err(fault) = fold(inner, &mut folder, fold_at) {
            tracing::warn!(error = %fault, "folding the journal failed; it will be tried again");
        }
        if !inner.background.pause(FOLD_EVERY) {
            return;
        }
    }
}

fn fold(inner: &Inner, folder: &mut Folder, fold_at: u64) -> rusqlite::Result<()> {
    let before = folder.folded()?;
    let mut folded = before;
    inner.committer.folded(folded);
    // Not until nothing is left: where commits go on, a step would fold what came during the one before, without end.
    loop {
        let backlog = folder.backlog(folded)?;
        if backlog < fold_at || inner.background.is_closed() {
            break;
        }
        let is_calm = backlog < fold_at.saturating_mul(REST_BELOW);
        let rest = |took| if is_calm { inner.background.pause(took) } else { !inner.background.is_closed() };
        let through = folder.step(folded, rest)?;
        if through == folded {
            break;
        }
        folded = through;
        inner.committer.folded(folded);
    }
    let logged = inner.committer.logged();
    if folded > before || logged >= COPY_AT {
        let log_pages = folder.checkpoint()?;
        inner.committer.copied(logged, log_pages);
    }
    Ok(())
}
