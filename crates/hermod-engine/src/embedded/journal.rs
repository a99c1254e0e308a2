//! The journal: every change on disk, as a log of frames in SQLite, folded into a snapshot.
//!
//! Two files, because SQLite has one writer per file and folding must not stand in the way of
//! committing:
//!
//! - `journal.db` holds `frames(seq, frame)`. One fsync'd transaction appends one frame: all records
//!   changed by all operations of a batch. A log of blobs is nearly as fast as a bare file, and its
//!   torn writes and checksums are SQLite's to get right.
//! - `snapshot.db` holds `records(key, value)` and `folded_through`, the last frame it contains.
//!
//! On start the snapshot is read, then the frames after it; the last write of a record wins. Frames
//! that are folded are deleted by the committer, a few with each commit, so the file's pages are
//! used again and it does not grow.
//!
//! Frames are numbered without a gap, and the journal knows the last that was deleted. So a file that is
//! missing, or older than the other, is noticed: it is refused, as what it held was acknowledged.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use hermod_core::Partitions;
use hermod_core::record::{self, Damaged, Record};
use rusqlite::types::FromSqlError;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::error::OpenError;

/// The version of the files and of the frames in them.
pub(super) const FORMAT: u32 = 4;
/// The oldest that is read too. Who reads it writes today's, so from then on it says so: a release that does not know that
/// must not open it any more.
const FORMAT_OLDEST: u32 = 3;
/// Each frame opens with this byte.
const FRAME_VERSION: u8 = 1;
/// At most so many bytes of frames are folded in one step, and held in memory for it. The larger the step, the more of
/// them are about the same records, and of those only the last is written.
const FOLD_STEP_BYTES: usize = 64 << 20;
/// At most so many folded frames are deleted with one commit, and about so many bytes of them: to delete a large one all its
/// pages are read.
const TRIM_STEP: u64 = 64;
const TRIM_STEP_BYTES: u64 = 256 << 10;

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    db.busy_timeout(Duration::from_secs(10))?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", "full")?;
    // Copying the log back into the file is the folder's work, never a commit's.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(db)
}

/// The folder's two files.
#[derive(Clone, Debug)]
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    pub(super) fn new(folder: &Path) -> Files {
        Files { folder: folder.to_owned() }
    }

    fn fault(&self, source: rusqlite::Error) -> OpenError {
        OpenError::Journal { path: self.folder.clone(), source }
    }

    fn journal(&self) -> rusqlite::Result<Connection> {
        connect(&self.folder.join("journal.db"))
    }

    fn snapshot(&self) -> rusqlite::Result<Connection> {
        connect(&self.folder.join("snapshot.db"))
    }

    /// Creates what is missing and checks what is there.
    pub(super) fn prepare(&self, partitions: Partitions) -> Result<(), OpenError> {
        let create = || -> rusqlite::Result<Option<(String, String)>> {
            let journal = self.journal()?;
            journal.execute_batch(
                "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
                 CREATE TABLE IF NOT EXISTS frames (seq INTEGER PRIMARY KEY, frame BLOB NOT NULL);",
            )?;
            let snapshot = self.snapshot()?;
            snapshot.execute_batch(
                "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
                 CREATE TABLE IF NOT EXISTS folded (one INTEGER PRIMARY KEY CHECK (one = 1), through INTEGER NOT NULL);
                 INSERT INTO folded (one, through) VALUES (1, 0) ON CONFLICT DO NOTHING;",
            )?;
            let is_new: bool = journal.query_row("SELECT count(*) = 0 FROM meta", [], |row| row.get(0))?;
            if is_new && folded_through(&snapshot)? > 0 {
                return Ok(None);
            }
            let set = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
            journal.execute(set, params!["format", FORMAT.to_string()])?;
            journal.execute(set, params!["partitions", partitions.count().to_string()])?;
            let get = |name: &str| journal.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0));
            Ok(Some((get("format")?, get("partitions")?)))
        };
        let Some((format, stored)) = create().map_err(|source| self.fault(source))? else {
            return Err(OpenError::Damaged("journal.db is missing, and snapshot.db is not all there was".to_owned()));
        };
        if !format.parse().is_ok_and(|format: u32| (FORMAT_OLDEST..=FORMAT).contains(&format)) {
            return Err(OpenError::Format { found: format, known: FORMAT });
        }
        if stored != partitions.count().to_string() {
            return Err(OpenError::Partitions { stored, configured: partitions.count() });
        }
        let set = "UPDATE meta SET value = ?1 WHERE name = 'format' AND value <> ?1";
        self.journal().and_then(|journal| journal.execute(set, [FORMAT.to_string()])).map_err(|source| self.fault(source))?;
        Ok(())
    }

    /// Gives every record to `load`, oldest first; the number of the last frame.
    pub(super) fn replay(&self, mut load: impl FnMut(&Record<'_>) -> Result<(), Damaged>) -> Result<u64, OpenError> {
        let mut read = || -> Result<u64, Unread> {
            let (snapshot, journal) = (self.snapshot()?, self.journal()?);
            let folded = folded_through(&snapshot)?;
            if folded < trimmed_through(&journal)? {
                return Err(Unread::too_old(folded));
            }
            let mut select = snapshot.prepare("SELECT key, value FROM records")?;
            let mut rows = select.query([])?;
            let mut bytes = Vec::new();
            while let Some(row) = rows.next()? {
                let (key, value) = (row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
                bytes.clear();
                bytes.extend_from_slice(key);
                bytes.extend_from_slice(value);
                record::read(&bytes).try_for_each(|r| load(&r?))?;
            }
            let mut select = journal.prepare("SELECT seq, frame FROM frames WHERE seq > ?1 ORDER BY seq")?;
            let mut rows = select.query([folded])?;
            let mut last = folded;
            while let Some(row) = rows.next()? {
                let seq: u64 = row.get(0)?;
                if seq != last + 1 {
                    // Where it is the first after the snapshot, that is more likely to be another than a frame is to be lost.
                    let lost = Unread::Lost(format!("frame {} is missing from journal.db", last + 1));
                    return Err(if last == folded { Unread::too_old(folded) } else { lost });
                }
                last = seq;
                records(row.get_ref(1)?.as_blob()?).and_then(|frame| record::read(frame).try_for_each(|r| load(&r?)))?;
            }
            Ok(last)
        };
        read().map_err(|unread| match unread {
            Unread::Store(source) => self.fault(source),
            Unread::Lost(what) => OpenError::Damaged(what),
        })
    }

    /// The writing end, positioned after frame `last`.
    pub(super) fn writer(&self, last: u64) -> Result<Writer, OpenError> {
        let open = || {
            let journal = self.journal()?;
            let trimmed = journal.query_row("SELECT coalesce(min(seq), 1) - 1 FROM frames", [], |row| row.get(0))?;
            Ok(Writer { journal, last, trimmed })
        };
        open().map_err(|source| self.fault(source))
    }

    /// The folding end. About `part_bytes` are written at once: whoever waits for the disk meanwhile waits for these too.
    pub(super) fn folder(&self, part_bytes: usize) -> Result<Folder, OpenError> {
        let open = || Ok((self.journal()?, self.snapshot()?));
        let (journal, snapshot) = open().map_err(|source| self.fault(source))?;
        Ok(Folder { journal, snapshot, part_bytes })
    }
}

/// Why the files could not be read to their end.
enum Unread {
    /// SQLite could not.
    Store(rusqlite::Error),
    /// Something is not there, or is no longer what it was: what.
    Lost(String),
}

impl Unread {
    /// The snapshot lacks frames that the journal holds no longer.
    fn too_old(folded: u64) -> Unread {
        Unread::Lost(format!("snapshot.db is missing or too old: it ends with frame {folded}, and journal.db begins later"))
    }
}

impl From<rusqlite::Error> for Unread {
    fn from(source: rusqlite::Error) -> Unread {
        Unread::Store(source)
    }
}

impl From<FromSqlError> for Unread {
    fn from(source: FromSqlError) -> Unread {
        Unread::Store(source.into())
    }
}

impl From<Damaged> for Unread {
    fn from(damaged: Damaged) -> Unread {
        Unread::Lost(damaged.to_string())
    }
}

/// The last frame the snapshot contains.
fn folded_through(snapshot: &Connection) -> rusqlite::Result<u64> {
    snapshot.query_row("SELECT through FROM folded", [], |row| row.get(0))
}

/// The last frame that was deleted from the journal; 0: none was, or by a version that did not say so.
fn trimmed_through(journal: &Connection) -> rusqlite::Result<u64> {
    let get = "SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'trimmed'";
    Ok(journal.query_row(get, [], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// The last of the folded frames that are deleted with one commit; at least one, if there is any.
fn trim_through(tx: &Transaction<'_>, trimmed: u64, folded: u64) -> rusqlite::Result<u64> {
    let mut select = tx.prepare_cached("SELECT seq, length(frame) FROM frames WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3")?;
    let mut rows = select.query([trimmed, folded, TRIM_STEP])?;
    let (mut through, mut bytes) = (None, 0_u64);
    while let Some(row) = rows.next()? {
        bytes += row.get::<_, u64>(1)?;
        if through.is_some() && bytes > TRIM_STEP_BYTES {
            break;
        }
        through = Some(row.get(0)?);
    }
    // What is not there need not be looked for again.
    Ok(through.unwrap_or(folded))
}

/// A frame's records, without its version.
fn records(frame: &[u8]) -> Result<&[u8], Damaged> {
    match frame.split_first() {
        Some((&FRAME_VERSION, records)) => Ok(records),
        _ => Err(Damaged),
    }
}

/// Appends frames. Belongs to the committer.
#[derive(Debug)]
pub(super) struct Writer {
    journal: Connection,
    last: u64,
    trimmed: u64,
}

impl Writer {
    /// An empty frame, to be filled with records.
    pub(super) fn open_frame(frame: &mut Vec<u8>) {
        frame.clear();
        frame.push(FRAME_VERSION);
    }

    /// Whether nothing was put into the frame.
    pub(super) fn is_blank(frame: &[u8]) -> bool {
        frame.len() <= 1
    }

    /// Appends `frame` unless it is blank, and deletes a few frames up to `folded`; durable when it
    /// returns. The number of the last frame.
    pub(super) fn commit(&mut self, frame: &[u8], folded: u64) -> rusqlite::Result<u64> {
        let seq = if Writer::is_blank(frame) { self.last } else { self.last + 1 };
        let tx = self.journal.transaction()?;
        let trimmed = if folded > self.trimmed { trim_through(&tx, self.trimmed, folded)? } else { self.trimmed };
        if seq > self.last {
            tx.prepare_cached("INSERT INTO frames (seq, frame) VALUES (?1, ?2)")?.execute(params![seq, frame])?;
        }
        if trimmed > self.trimmed {
            tx.prepare_cached("DELETE FROM frames WHERE seq <= ?1")?.execute([trimmed])?;
            tx.prepare_cached("REPLACE INTO meta (name, value) VALUES ('trimmed', ?1)")?.execute([trimmed.to_string()])?;
        }
        tx.commit()?;
        self.trimmed = trimmed;
        self.last = seq;
        Ok(seq)
    }

    /// Whether there are folded frames left to delete.
    pub(super) fn has_to_trim(&self, folded: u64) -> bool {
        folded > self.trimmed
    }

    /// Lets the write-ahead log begin anew. Nearly all of it was copied back by then.
    pub(super) fn restart_log(&self) -> rusqlite::Result<()> {
        self.journal.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))
    }

    /// For tests: the disk is full from here on, or no longer.
    #[cfg(test)]
    pub(super) fn set_full(&self, full: bool) {
        let pages = if full { "SELECT page_count FROM pragma_page_count" } else { "SELECT 1073741823" };
        let pages: i64 = self.journal.query_row(pages, [], |row| row.get(0)).unwrap();
        self.journal.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    }
}

/// A record's key, and what it is now; nothing if it is gone.
type Latest<'a> = (&'a [u8], Option<&'a [u8]>);

/// How many of these make up so many bytes.
fn part_length(records: &[Latest<'_>], part_bytes: usize) -> usize {
    let mut bytes = 0;
    let of = |(key, value): &Latest<'_>| key.len() + value.map_or(0, <[u8]>::len);
    let is_over = |record| {
        bytes += of(record);
        bytes >= part_bytes
    };
    records.iter().position(is_over).map_or(records.len(), |last| last + 1)
}

/// Folds frames into the snapshot. Belongs to a thread of its own.
#[derive(Debug)]
pub(super) struct Folder {
    journal: Connection,
    snapshot: Connection,
    part_bytes: usize,
}

impl Folder {
    /// How many bytes of frames wait to be folded.
    pub(super) fn backlog(&self, folded: u64) -> rusqlite::Result<u64> {
        self.journal
            .prepare_cached("SELECT coalesce(sum(length(frame)), 0) FROM frames WHERE seq > ?1")?
            .query_row([folded], |row| row.get(0))
    }

    /// The last frame the snapshot contains.
    pub(super) fn folded(&self) -> rusqlite::Result<u64> {
        folded_through(&self.snapshot)
    }

    /// Folds the next frames; the last frame the snapshot contains then, on disk. They are written in parts; `rest` is told how long each
    /// took, and whether to go on. Where it ends before the last part nothing is lost: what the others wrote is in frames that are still there, which are
    /// read after the snapshot.
    pub(super) fn step(&mut self, folded: u64, rest: impl Fn(Duration) -> bool) -> rusqlite::Result<u64> {
        let frames = self.next_frames(folded)?;
        let Some((through, _)) = frames.last() else { return Ok(folded) };
        // The last write of a record wins; in the order of keys the B-tree is written once.
        let mut latest: HashMap<&[u8], Option<&[u8]>> = HashMap::new();
        for (_, frame) in &frames {
            latest.extend(records(frame).into_iter().flat_map(record::cut).flatten());
        }
        let mut latest: Vec<_> = latest.into_iter().collect();
        latest.sort_unstable();
        let mut latest = latest.as_slice();
        loop {
            let began = Instant::now();
            let (part, others) = latest.split_at(part_length(latest, self.part_bytes));
            self.put(part, others.is_empty().then_some(*through))?;
            let goes_on = rest(began.elapsed());
            if others.is_empty() {
                return Ok(*through);
            }
            if !goes_on {
                return Ok(folded);
            }
            latest = others;
        }
    }

    /// Writes records to the snapshot, and through which frame it is whole; on disk when it returns.
    fn put(&mut self, records: &[Latest<'_>], through: Option<u64>) -> rusqlite::Result<()> {
        let tx = self.snapshot.transaction()?;
        {
            let mut put = tx.prepare_cached("REPLACE INTO records (key, value) VALUES (?1, ?2)")?;
            let mut delete = tx.prepare_cached("DELETE FROM records WHERE key = ?1")?;
            for (key, value) in records {
                match value {
                    Some(value) => put.execute(params![key, value])?,
                    None => delete.execute([key])?,
                };
            }
        }
        if let Some(through) = through {
            tx.execute("UPDATE folded SET through = ?1", [through])?;
        }
        tx.commit()?;
        // Soon, so that it is little. What it does not copy, because somebody reads, the next one does.
        self.snapshot.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    }

    /// The next frames to fold, with their numbers.
    fn next_frames(&self, folded: u64) -> rusqlite::Result<Vec<(u64, Vec<u8>)>> {
        let mut select = self.journal.prepare_cached("SELECT seq, frame FROM frames WHERE seq > ?1 ORDER BY seq")?;
        let mut rows = select.query([folded])?;
        let (mut frames, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()?
            && bytes < FOLD_STEP_BYTES
        {
            let frame = row.get_ref(1)?.as_blob()?;
            // A damaged frame stays where it is: the next start will refuse it, loudly.
            if !records(frame).is_ok_and(|frame| record::cut(frame).all(|cut| cut.is_ok())) {
                break;
            }
            bytes += frame.len();
            frames.push((row.get(0)?, frame.to_owned()));
        }
        Ok(frames)
    }

    /// Copies the journal's write-ahead log back into its file; its size, in pages.
    pub(super) fn checkpoint(&self) -> rusqlite::Result<u64> {
        let pages: Option<i64> = self.journal.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1)).optional()?;
        Ok(pages.and_then(|n| u64::try_from(n).ok()).unwrap_or(0))
    }
}
