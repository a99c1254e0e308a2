//! The committer: one thread that makes changes durable, many at a time.
//!
//! Operations append their records to the open batch while they hold their partition's lock, so
//! the order of records in the journal is the order in which they happened. While one batch is
//! being fsync'd the next one fills; nobody waits for a disk while holding a lock.
//!
//! A commit that fails (a full disk) is tried again with the same batch until it succeeds. In the
//! meantime durable operations are refused before they change anything, and those that were in the
//! batch are told that their outcome is unknown; nothing is acknowledged that is not on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::journal::Writer;
use crate::error::EngineError;

/// How long deferred records may wait in the open batch for a durable one to go with.
const DEFERRED_WAIT: Duration = Duration::from_millis(200);
/// How long an idle committer waits between deleting a few folded frames and the next few.
const TRIM_WAIT: Duration = Duration::from_millis(5);
/// How long a failed commit waits before it is tried again.
const RETRY_WAIT: Duration = Duration::from_millis(100);
/// The write-ahead log is begun anew beyond so many pages (16 MiB).
const LOG_PAGES_MAX: u64 = 4_096;

/// What a commit writes beside its frame, about: the pages it begins in.
const COMMIT_BYTES: u64 = 8 << 10;

/// While more than so many bytes wait in the open batch, durable operations are refused: SQLite holds no frame of a gigabyte, and one that
/// cannot be written would hold up all others for good. In tests it is reached soon.
const FRAME_MAX: usize = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// The room of a larger frame is given back after it was written.
const FRAME_KEPT: usize = 1 << 20;

/// The batch that is being filled.
#[derive(Debug)]
struct Open {
    frame: Vec<u8>,
    number: u64,
    /// Operations that wait for it.
    waiting: usize,
    /// The committer is woken by the how many'th of them: it goes to sleep again for a crowd that is not complete, and that would
    /// cost more than what they wrote.
    wakes_at: usize,
    is_closing: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The last batch on disk.
    committed: u64,
    /// The batch after it cannot be written at the moment.
    is_failing: bool,
}

#[derive(Debug)]
struct Shared {
    open: Mutex<Open>,
    filled: Condvar,
    progress: watch::Sender<Progress>,
    folded: AtomicU64,
    log_pages: AtomicU64,
    /// About how many bytes went into the write-ahead log since it was last copied back.
    logged: AtomicU64,
    commits: AtomicU64,
    /// More waits in the open batch than should.
    is_behind: AtomicBool,
    #[cfg(test)]
    disk_full: AtomicBool,
}

/// A batch an operation waits for; by default one before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// Hands records to the committing thread.
#[derive(Debug)]
pub(super) struct Committer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Committer {
    pub(super) fn start(writer: Writer, folded: u64) -> std::io::Result<Committer> {
        let mut frame = Vec::new();
        Writer::open_frame(&mut frame);
        let shared = Arc::new(Shared {
            open: Mutex::new(Open { frame, number: 1, waiting: 0, wakes_at: 1, is_closing: false }),
            filled: Condvar::new(),
            progress: watch::Sender::new(Progress::default()),
            folded: AtomicU64::new(folded),
            log_pages: AtomicU64::new(0),
            logged: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            is_behind: AtomicBool::new(false),
            #[cfg(test)]
            disk_full: AtomicBool::new(false),
        });
        let thread = thread::Builder::new().name("hermod-commit".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || commit_all(&shared, writer)
        })?;
        Ok(Committer { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Appends records that somebody waits for. Call it under the lock of their partition.
    pub(super) fn submit(&self, fill: impl FnOnce(&mut Vec<u8>)) -> Ticket {
        let mut open = self.shared.open.lock();
        fill(&mut open.frame);
        if open.frame.len() > FRAME_MAX {
            self.shared.is_behind.store(true, Ordering::Relaxed);
        }
        open.waiting += 1;
        let (ticket, is_awaited) = (Ticket(open.number), open.waiting == open.wakes_at);
        drop(open);
        if is_awaited {
            self.shared.filled.notify_one();
        }
        ticket
    }

    /// Appends records that nobody waits for.
    pub(super) fn defer(&self, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut open = self.shared.open.lock();
        fill(&mut open.frame);
        let is_much = open.frame.len() >= FRAME_KEPT;
        drop(open);
        // Nobody waits for it, but much of it should not wait for others.
        if is_much {
            self.shared.filled.notify_one();
        }
    }

    /// Refuses at once when durable changes cannot be made at the moment.
    pub(super) fn ready(&self) -> Result<(), EngineError> {
        if self.shared.progress.borrow().is_failing {
            return Err(EngineError::unavailable("the journal cannot be written; the log says why"));
        }
        if self.shared.is_behind.load(Ordering::Relaxed) {
            return Err(EngineError::unavailable("the disk is too slow for what is to be written"));
        }
        Ok(())
    }

    /// The batch, if it is not on disk yet.
    pub(super) fn unless_stored(&self, ticket: Ticket) -> Option<Ticket> {
        (self.shared.progress.borrow().committed < ticket.0).then_some(ticket)
    }

    /// Returns when the batch is on disk, or cannot be put there at the moment.
    pub(super) async fn wait(&self, ticket: Ticket) -> Result<(), EngineError> {
        let mut progress = self.shared.progress.subscribe();
        let seen = progress.wait_for(|p| p.committed >= ticket.0 || p.is_failing).await;
        match seen.map(|p| p.committed >= ticket.0) {
            Ok(true) => Ok(()),
            Ok(false) => Err(EngineError::unavailable("the journal cannot be written; the log says why")),
            Err(_) => Err(EngineError::unavailable("the engine is closed")),
        }
    }

    /// How many commits there were: one fsync each.
    pub(super) fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    /// How many bytes wait in the open batch.
    pub(super) fn backlog(&self) -> usize {
        self.shared.open.lock().frame.len()
    }

    /// Frames up to `folded` are in the snapshot and may go.
    pub(super) fn folded(&self, folded: u64) {
        self.shared.folded.store(folded, Ordering::Release);
    }

    /// About how many bytes went into the write-ahead log since it was last copied back.
    pub(super) fn logged(&self) -> u64 {
        self.shared.logged.load(Ordering::Relaxed)
    }

    /// The write-ahead log was copied back, `logged` bytes of it, and has so many pages.
    pub(super) fn copied(&self, logged: u64, log_pages: u64) {
        self.shared.logged.fetch_sub(logged, Ordering::Relaxed);
        self.shared.log_pages.store(log_pages, Ordering::Release);
    }

    /// Commits what is there and ends the thread. `false` if the journal could not be written.
    pub(super) fn close(&self) -> bool {
        self.shared.open.lock().is_closing = true;
        self.shared.filled.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            let _ended = thread.join();
        }
        !self.shared.progress.borrow().is_failing
    }

    #[cfg(test)]
    pub(super) fn set_disk_full(&self, full: bool) {
        self.shared.disk_full.store(full, Ordering::SeqCst);
    }
}

/// The committing thread.
fn commit_all(shared: &Shared, mut writer: Writer) {
    let mut frame = Vec::new();
    let mut gather = Gather::default();
    loop {
        if frame.capacity() > FRAME_KEPT {
            frame = Vec::new();
        }
        Writer::open_frame(&mut frame);
        let folded = shared.folded.load(Ordering::Acquire);
        let (number, waiting, is_closing) = {
            let mut open = shared.open.lock();
            if open.waiting == 0 && !open.is_closing {
                let wait = if writer.has_to_trim(folded) { TRIM_WAIT } else { DEFERRED_WAIT };
                shared.filled.wait_for(&mut open, wait);
            }
            gather.wait(shared, &mut open);
            std::mem::swap(&mut open.frame, &mut frame);
            shared.is_behind.store(false, Ordering::Relaxed);
            let number = open.number;
            open.number += 1;
            (number, std::mem::take(&mut open.waiting), open.is_closing)
        };
        let is_idle = Writer::is_blank(&frame) && !writer.has_to_trim(folded);
        if !is_idle && !commit_one(shared, &mut writer, &frame, folded) {
            return;
        }
        gather.committed(waiting);
        shared.progress.send_modify(|p| p.committed = number);
        if shared.log_pages.swap(0, Ordering::AcqRel) > LOG_PAGES_MAX
            && let Err(fault) = writer.restart_log()
        {
            tracing::debug!(error = %fault, "the write-ahead log could not begin anew; it will be tried again");
        }
        if is_closing && Writer::is_blank(&shared.open.lock().frame) {
            return;
        }
    }
}

/// Writes one frame, however long it takes. `false` if the engine was closed before it could.
fn commit_one(shared: &Shared, writer: &mut Writer, frame: &[u8], folded: u64) -> bool {
    let mut is_failing = false;
    loop {
        #[cfg(test)]
        writer.set_full(shared.disk_full.load(Ordering::SeqCst));
        match writer.commit(frame, folded) {
            Ok(_) => {
                shared.commits.fetch_add(1, Ordering::Relaxed);
                let bytes = u64::try_from(frame.len()).unwrap_or(u64::MAX);
                shared.logged.fetch_add(bytes.saturating_add(COMMIT_BYTES), Ordering::Relaxed);
                if is_failing {
                    tracing::info!("the journal can be written again; nothing was lost");
                    shared.progress.send_modify(|p| p.is_failing = false);
                }
                return true;
            }
            Err(fault) => {
                if !is_failing {
                    is_failing = true;
                    tracing::error!(error = %fault, "the journal cannot be written; durable operations are refused until it can");
                    shared.progress.send_modify(|p| p.is_failing = true);
                }
                let mut open = shared.open.lock();
                if open.is_closing {
                    return false;
                }
                shared.filled.wait_for(&mut open, RETRY_WAIT);
            }
        }
    }
}

/// Waits a moment for those who were just answered to come back with their next operation.
///
/// Without it two crowds alternate: a large one fills its batch while a small one is being written,
/// and the mean batch is half of what it could be. The wait ends as soon as as many have come as
/// were answered last time, and is never longer than a fraction of what a commit takes. It counts from
/// the answer: who comes alone, later, does not wait for others that will not come.
#[derive(Debug, Default)]
struct Gather {
    crowd: usize,
    began: Option<Instant>,
    answered: Option<Instant>,
    commit_time: Duration,
}

impl Gather {
    fn wait(&mut self, shared: &Shared, open: &mut parking_lot::MutexGuard<'_, Open>) {
        if open.waiting > 0
            && let Some(answered) = self.answered
        {
            let deadline = answered + (self.commit_time / 2).min(Duration::from_millis(1));
            open.wakes_at = self.crowd;
            while open.waiting < self.crowd && !open.is_closing {
                if shared.filled.wait_until(open, deadline).timed_out() {
                    break;
                }
            }
            open.wakes_at = 1;
        }
        self.began = Some(Instant::now());
    }

    fn committed(&mut self, waiting: usize) {
        let now = Instant::now();
        let took = self.began.map_or(Duration::ZERO, |at| now - at);
        self.answered = Some(now);
        self.commit_time = (self.commit_time * 7 + took) / 8;
        // A crowd that shrank is forgotten in a few rounds, one that grew is known at once.
        self.crowd = waiting.max(self.crowd - self.crowd.div_ceil(8));
    }
}
