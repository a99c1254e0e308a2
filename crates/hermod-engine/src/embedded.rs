//! The embedded engine: partitions in memory, each with its own lock; every change on disk.
//!
//! An operation takes its partition's lock, changes memory, hands the changed records to the
//! committer and lets go. If it is durable, its answer waits for the disk, without a lock; also where it
//! changed nothing, for what the partition has on its way there. Deferred changes (limit counters) are
//! flushed in the background, well within a second.
//!
//! State in memory is the truth while running. Memory is bounded: at the bound operations that
//! would create something new are refused, and nothing is evicted.

mod background;
mod committer;
mod journal;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hermod_core::{Micros, Once, Operation, Outcome, Partitions, State, once};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::error::{EngineError, OpenError};
use crate::{Durability, Ran};
use background::Background;
use committer::{Committer, Ticket};
use journal::Files;

/// How an embedded engine is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of its files; created if missing.
    pub folder: PathBuf,
    /// How many partitions; must not change later.
    pub partitions: Partitions,
    /// The memory bound in bytes, about.
    pub memory_max: usize,
    /// Where time comes from.
    pub clock: Clock,
    /// Frames are folded into the snapshot beyond so many bytes.
    pub fold_at: u64,
}

impl Options {
    /// The usual bounds, for this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Options {
        Options { folder: folder.into(), partitions: Partitions::DEFAULT, memory_max: 1 << 30, clock: Clock::System, fold_at: 64 << 20 }
    }
}

/// How much is folded at once at the least and at the most.
const FOLD_PART: (usize, usize) = (4 << 10, 1 << 20);

/// How much is folded at once, where folding begins beyond so many bytes.
fn part_bytes(fold_at: u64) -> usize {
    usize::try_from(fold_at / 64).unwrap_or(usize::MAX).clamp(FOLD_PART.0, FOLD_PART.1)
}

/// State in this process, journaled to disk. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Embedded {
    inner: Arc<Owner>,
}

/// Closes the engine when the last handle is gone. The threads hold [`Inner`], never this.
#[derive(Debug)]
struct Owner(Arc<Inner>);

impl Deref for Owner {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A change on its way to the disk.
#[derive(Debug)]
pub(crate) struct Stored {
    inner: Arc<Owner>,
    ticket: Ticket,
}

impl Stored {
    /// Returns when it is there.
    pub(crate) async fn wait(self) -> Result<(), EngineError> {
        self.inner.committer.wait(self.ticket).await
    }
}

/// A partition and its lock, in lines of memory of their own: who works in the next one must not slow this one down.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<Part>);

impl Deref for Shard {
    type Target = Mutex<Part>;

    fn deref(&self) -> &Mutex<Part> {
        &self.0
    }
}

/// A partition. Its state stands first, beside the lock.
#[derive(Debug)]
#[repr(C)]
struct Part {
    state: State,
    /// When the last operation was.
    last: Micros,
    /// The last batch that somebody waits for who changed something here.
    submitted: Ticket,
}

#[derive(Debug)]
struct Inner {
    partitions: Partitions,
    shards: Vec<Shard>,
    committer: Committer,
    background: Background,
    clock: Clock,
    memory_max: usize,
    memory_used: AtomicUsize,
    /// Held as long as the engine lives: two processes must not write one journal.
    _lock: File,
}

impl Embedded {
    /// Opens the folder and loads what is in it.
    pub fn open(options: Options) -> Result<Embedded, OpenError> {
        let lock = lock(&options.folder)?;
        let files = Files::new(&options.folder);
        files.prepare(options.partitions)?;
        let mut shards: Vec<State> = (0..options.partitions.count()).map(State::new).collect();
        let last = files.replay(|record| match shards.get_mut(usize::from(record.partition)) {
            Some(shard) => shard.load(record),
            None => Err(hermod_core::record::Damaged),
        })?;
        settle(&mut shards);
        let folder = files.folder(part_bytes(options.fold_at))?;
        let io = |source| OpenError::Folder { path: options.folder.clone(), source };
        let memory_used = shards.iter().map(State::bytes).sum();
        let committer = Committer::start(files.writer(last)?, 0).map_err(io)?;
        let inner = Arc::new(Inner {
            partitions: options.partitions,
            shards: shards
                .into_iter()
                .map(|state| Shard(Mutex::new(Part { state, last: Micros::ZERO, submitted: Ticket::default() })))
                .collect(),
            committer,
            background: Background::default(),
            clock: options.clock,
            memory_max: options.memory_max,
            memory_used: AtomicUsize::new(memory_used),
            _lock: lock,
        });
        background::start(&inner, folder, options.fold_at).map_err(io)?;
        Ok(Embedded { inner: Arc::new(Owner(inner)) })
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> Partitions {
        self.inner.partitions
    }

    /// Whether durable operations can be answered now.
    pub fn ready(&self) -> Result<(), EngineError> {
        self.inner.committer.ready()
    }

    /// Runs one operation; the answer of a durable one waits for the disk.
    pub async fn run<O: Operation>(&self, op: &O, once: Option<&Once>) -> Result<Ran<O::Answer>, EngineError> {
        let (ran, ticket) = self.inner.apply(op, once)?;
        if let Some(ticket) = ticket {
            self.inner.committer.wait(ticket).await?;
        }
        Ok(ran)
    }

    /// Runs one operation; its answer at once, and what that waits for.
    pub(crate) fn begin<O: Operation>(&self, op: &O, once: Option<&Once>) -> Result<(Outcome<O::Answer>, Option<Stored>), EngineError> {
        let (ran, ticket) = self.inner.apply(op, once)?;
        Ok((ran.outcome, ticket.map(|ticket| Stored { inner: Arc::clone(&self.inner), ticket })))
    }

    /// Runs one operation that is not durable, without waiting for anything but the lock.
    #[inline]
    pub fn run_deferred<O: Operation>(&self, op: &O) -> Result<Outcome<O::Answer>, EngineError> {
        self.inner.apply(op, None).map(|(ran, _)| ran.outcome)
    }

    /// About how much memory the state takes.
    pub fn memory_used(&self) -> usize {
        self.inner.memory_used.load(Ordering::Relaxed)
    }

    /// How many fsync'd commits there were since it was opened.
    pub fn commits(&self) -> u64 {
        self.inner.committer.commits()
    }

    /// How many records there are.
    pub fn records(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.lock().state.records()).sum()
    }

    /// Every record as Redis would hold it, with the time from which it means nothing any more.
    pub fn dump(&self) -> BTreeMap<String, (String, Micros)> {
        let mut out = BTreeMap::new();
        for shard in &self.inner.shards {
            shard.lock().state.dump(&mut out);
        }
        out
    }

    /// Looks at every record once and drops what ended before `before`; how many.
    pub fn sweep(&self, before: Micros) -> usize {
        let sweep = |shard: &Shard| self.inner.sweep(shard, before, usize::MAX);
        self.inner.shards.iter().map(sweep).sum()
    }

    /// Writes out what is deferred and stops the threads. Operations after it are refused.
    pub async fn close(&self) -> Result<(), EngineError> {
        let inner = Arc::clone(&self.inner.0);
        let closed = tokio::task::spawn_blocking(move || inner.close()).await;
        match closed {
            Ok(true) => Ok(()),
            Ok(false) => Err(EngineError::unavailable("the journal could not be written at the end")),
            Err(fault) => Err(EngineError::caused("closing failed", fault)),
        }
    }
}

impl Inner {
    /// Runs one operation; its answer, and the batch without which nobody may be told.
    #[inline]
    fn apply<O: Operation>(&self, op: &O, once: Option<&Once>) -> Result<(Ran<O::Answer>, Option<Ticket>), EngineError> {
        let is_durable = op.is_durable();
        if is_durable {
            self.committer.ready()?;
        }
        if self.background.is_closed() {
            return Err(EngineError::unavailable("the engine is closed"));
        }
        let shard = self.shards.get(usize::from(op.place().partition));
        let mut part = shard.expect("places are made by this engine's partitions").lock();
        let Part { state, last, submitted } = &mut *part;
        // Under the lock: who had to wait for it would come after others with an earlier time than theirs, and not see what they
        // left. So in a partition time never runs backwards, unless the system's clock does.
        let now = self.clock.after(*last, is_durable || op.tells_stored());
        *last = now;
        let footprint = |state: &State| if once.is_none() { O::footprint(state) } else { state.bytes() };
        let before = footprint(state);
        let is_full = self.memory_used.load(Ordering::Relaxed) >= self.memory_max;
        // Written only when it turns: another processor may have the line.
        if state.is_full != is_full {
            state.is_full = is_full;
        }
        let outcome = once::run(op, once, state, now).map_err(|_| EngineError::Full)?;
        let after = footprint(state);
        if after != before {
            self.memory_used.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
        if !is_durable && !op.tells_stored() {
            return Ok((Ran { outcome, durability: Durability::Deferred }, None));
        }
        let is_changed = state.has_urgent();
        if is_changed {
            *submitted = self.committer.submit(|frame| state.take_urgent(frame));
        }
        // Who changed nothing waits too: what the answer rests on may still be on its way to the disk, as what a replay repeats, or
        // the delivery that a push has found.
        let ticket = if is_changed { Some(*submitted) } else { self.committer.unless_stored(*submitted) };
        let is_stored = is_durable && (is_changed || matches!(outcome, Outcome::Replayed(_)));
        let durability = if is_stored { Durability::Disk } else { Durability::Deferred };
        Ok((Ran { outcome, durability }, ticket))
    }

    /// Sweeps a few records of one partition.
    fn sweep(&self, shard: &Shard, before: Micros, steps: usize) -> usize {
        let state = &mut shard.lock().state;
        let held = state.bytes();
        let mut gone = Vec::new();
        let dropped = state.sweep(before, steps, &mut gone);
        if dropped > 0 {
            self.memory_used.fetch_sub(held - state.bytes(), Ordering::Relaxed);
            self.committer.defer(|frame| frame.append(&mut gone));
        }
        dropped
    }

    /// Hands at most `max` deferred changes of one partition to the committer; how many.
    fn flush(&self, shard: &Shard, max: usize) -> usize {
        let state = &mut shard.lock().state;
        let (ended, mut done) = (self.clock.flush_before(), 0);
        self.committer.defer(|frame| done = state.flush(ended, max, frame));
        done
    }

    fn close(&self) -> bool {
        self.background.close();
        for shard in &self.shards {
            while self.flush(shard, 1024) > 0 {}
        }
        self.committer.close()
    }
}

/// Makes what follows from the records, on every processor: no partition needs another.
fn settle(shards: &mut [State]) {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let share = shards.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for some in shards.chunks_mut(share) {
            scope.spawn(|| some.iter_mut().for_each(State::loaded));
        }
    });
}

/// How often, and how far apart, a folder that is in use is tried: who had it may be about to let go, and a program that
/// is being started by it has it for a moment, too.
const LOCK_TRIES: u32 = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Makes a folder, if it is not there. It holds everything anyone did: nobody else may read it.
pub fn create_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Takes the folder for this process.
fn lock(folder: &Path) -> Result<File, OpenError> {
    let io = |source| OpenError::Folder { path: folder.to_owned(), source };
    create_private(folder).map_err(io)?;
    let file = File::options().create(true).truncate(false).write(true).open(folder.join("lock")).map_err(io)?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
    }
    Err(OpenError::Locked { path: folder.to_owned() })
}
