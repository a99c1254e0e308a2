//! What the embedded engine promises about its disk.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermod_core::event::ReadEvents;
use hermod_core::limit::meter::Bucket;
use hermod_core::limit::{Act, Check, Limited, Meter, Verdict};
use hermod_core::pick::{Candidate, Plan, Take};
use hermod_core::queue::claim::Failing;
use hermod_core::queue::edit::{Change, Edited};
use hermod_core::queue::push::{Push, Stored};
use hermod_core::queue::{Claim, Claimed, Delivery, Due, Edit, Fetch, Settle, SettleAct, Terms};
use hermod_core::realm::{self, Apply, ReadLedger};
use hermod_core::{
    DeckId, MessageId, Micros, Once, Operation, Outcome, Partitions, Place, QueueId, RealmId, Recipient, RuleId, SpaceId, Subject,
};

use super::journal::Files;
use super::{Embedded, Options};
use crate::clock::{Clock, ManualClock};
use crate::{Durability, EngineError, OpenError};

const START: Micros = Micros::saturating(1_700_000_000_000_000);
const HOUR: Micros = Micros::saturating(3_600_000_000);

fn options(folder: &tempfile::TempDir) -> Options {
    Options { clock: Clock::Manual(ManualClock::new(START)), ..Options::new(folder.path()) }
}

/// A check of 1 under a rule of `limit` a day.
fn check(subject: &str, limit: u64, durable: bool) -> Check {
    let space = SpaceId::default_space();
    let bucket = Bucket::new(limit, Micros::saturating(86_400_000_000), limit, 0).unwrap();
    let rule = Limited { durable, ..Limited::enforced(RuleId::new("r").unwrap(), Meter::Bucket(bucket)) };
    let place = Partitions::DEFAULT.place(&space, subject);
    Check::new(place, Some(Subject::new(subject).unwrap()), Act::Check, 1, Arc::new([Arc::new(rule)]))
}

async fn left(engine: &Embedded, op: &Check) -> (Verdict, u64) {
    match engine.run(op, None).await.unwrap().outcome {
        Outcome::Done(checked) => {
            let checked = checked.explained(op.rules());
            (checked.verdict(), checked.ruled().next().unwrap().1.left)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_closed_engine_reopens_with_everything() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    for i in 0..500 {
        assert_eq!(left(&engine, &check(&format!("s{i}"), 10, i % 2 == 0)).await, (Verdict::Allowed, 9));
    }
    let before = engine.dump();
    engine.close().await.unwrap();
    drop(engine);
    let engine = Embedded::open(options(&folder)).unwrap();
    assert_eq!(engine.dump(), before);
    assert_eq!(left(&engine, &check("s7", 10, false)).await, (Verdict::Allowed, 8));
}

#[tokio::test]
async fn one_folder_belongs_to_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    let fault = Embedded::open(options(&folder)).unwrap_err();
    assert!(matches!(fault, OpenError::Locked { .. }), "{fault}");
    drop(engine);
    Embedded::open(options(&folder)).unwrap();
}

#[tokio::test]
async fn another_number_of_partitions_is_refused_with_the_right_one() {
    let folder = tempfile::tempdir().unwrap();
    drop(Embedded::open(options(&folder)).unwrap());
    let fault = Embedded::open(Options { partitions: Partitions::new(8).unwrap(), ..options(&folder) }).unwrap_err();
    assert!(fault.to_string().contains("set partitions = 64"), "{fault}");
}

#[tokio::test]
async fn an_unknown_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(Embedded::open(options(&folder)).unwrap());
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    db.execute("UPDATE meta SET value = '99' WHERE name = 'format'", []).unwrap();
    let fault = Embedded::open(options(&folder)).unwrap_err();
    assert!(matches!(fault, OpenError::Format { .. }), "{fault}");
}

#[tokio::test]
async fn the_format_before_is_read_and_is_todays_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    drop(Embedded::open(options(&folder)).unwrap());
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    db.execute("UPDATE meta SET value = '3' WHERE name = 'format'", []).unwrap();
    drop(Embedded::open(options(&folder)).unwrap());
    let format: String = db.query_row("SELECT value FROM meta WHERE name = 'format'", [], |row| row.get(0)).unwrap();
    assert_eq!(format, super::journal::FORMAT.to_string());
}

#[tokio::test]
async fn a_damaged_frame_is_refused_and_not_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    left(&engine, &check("s", 10, true)).await;
    drop(engine);
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    db.execute("UPDATE frames SET frame = substr(frame, 1, length(frame) - 1)", []).unwrap();
    let fault = Embedded::open(options(&folder)).unwrap_err();
    assert!(matches!(fault, OpenError::Damaged(_)), "{fault}");
}

/// A folder whose snapshot holds 3 frames that are no longer in the journal, which holds `after` more.
async fn folded(after: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    for _ in 0..3 {
        left(&engine, &check("s", 10, true)).await;
    }
    engine.close().await.unwrap();
    drop(engine);
    assert_eq!(Files::new(folder.path()).folder(1 << 10).unwrap().step(0, |_| true).unwrap(), 3);
    let engine = Embedded::open(options(&folder)).unwrap();
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while db.query_row("SELECT count(*) FROM frames", [], |row| row.get::<_, u64>(0)).unwrap() > 0 {
        assert!(Instant::now() < deadline, "folded frames are not deleted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..after {
        left(&engine, &check("s", 10, true)).await;
    }
    engine.close().await.unwrap();
    folder
}

fn remove(folder: &Path, name: &str) {
    for end in ["", "-wal", "-shm"] {
        let _was_there = std::fs::remove_file(folder.join(format!("{name}{end}"))).is_ok();
    }
}

#[tokio::test]
async fn what_is_missing_is_refused_and_named() {
    type Harm = fn(&Path);
    let lose_frame: Harm = |folder| {
        let db = rusqlite::Connection::open(folder.join("journal.db")).unwrap();
        assert_eq!(db.execute("DELETE FROM frames WHERE seq = 5", []).unwrap(), 1);
    };
    let cases: [(usize, Harm, &str); 5] = [
        (3, |folder| remove(folder, "snapshot.db"), "snapshot.db is missing or too old"),
        (0, |folder| remove(folder, "snapshot.db"), "snapshot.db is missing or too old"),
        (3, lose_frame, "frame 5 is missing from journal.db"),
        (3, |folder| remove(folder, "journal.db"), "journal.db is missing"),
        (0, |folder| remove(folder, "journal.db"), "journal.db is missing"),
    ];
    for (after, harm, told) in cases {
        let folder = folded(after).await;
        drop(Embedded::open(options(&folder)).unwrap());
        harm(folder.path());
        // However often it is tried.
        for _ in 0..2 {
            let fault = Embedded::open(options(&folder)).unwrap_err();
            assert!(matches!(fault, OpenError::Damaged(_)) && fault.to_string().contains(told), "{after} {fault}");
        }
    }
}

#[tokio::test]
async fn a_full_memory_refuses_what_is_new_and_goes_on_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(Options { memory_max: 20_000, ..options(&folder) }).unwrap();
    let mut admitted = 0;
    let fault = loop {
        match engine.run(&check(&format!("s{admitted}"), 10, false), None).await {
            Ok(_) => admitted += 1,
            Err(fault) => break fault,
        }
        assert!(admitted < 10_000, "the bound was never reached");
    };
    assert!(matches!(fault, EngineError::Full), "{fault}");
    assert!(engine.memory_used() < 21_000);
    assert_eq!(left(&engine, &check("s0", 10, false)).await, (Verdict::Allowed, 8));
    // What has ended makes room again.
    assert_eq!(engine.sweep(START.plus(Micros::saturating(2 * 86_400_000_000))), admitted);
    assert_eq!(engine.memory_used(), 0);
    assert_eq!(left(&engine, &check("new", 10, false)).await, (Verdict::Allowed, 9));
}

#[tokio::test]
async fn a_full_disk_refuses_durable_changes_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    let durable = check("s", 1_000, true);
    assert_eq!(left(&engine, &durable).await.1, 999);
    engine.inner.committer.set_disk_full(true);
    // Frames fit into pages that are there, for a while.
    let mut acknowledged = 1;
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Ok(ran) = engine.run(&durable, None).await {
        assert_eq!(ran.durability, Durability::Disk);
        acknowledged += 1;
        assert!(Instant::now() < deadline && acknowledged < 900, "the disk was never full");
    }
    let refused = engine.run(&durable, None).await.unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
    assert!(engine.ready().is_err());
    // What need not be durable is still answered.
    assert_eq!(left(&engine, &check("other", 10, false)).await.1, 9);
    engine.inner.committer.set_disk_full(false);
    while engine.ready().is_err() {
        assert!(Instant::now() < deadline, "the engine did not recover");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The one whose outcome was unknown took effect; those refused at once did not.
    let (_, now_left) = left(&engine, &durable).await;
    assert_eq!(now_left, 1_000 - (acknowledged + 1) - 1);
    engine.close().await.unwrap();
    drop(engine);
    let engine = Embedded::open(options(&folder)).unwrap();
    assert_eq!(left(&engine, &durable).await.1, now_left - 1);
}

#[tokio::test]
async fn a_key_replays_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let once = Once::new("k-1", b"body").unwrap();
    let op = check("s", 10, true);
    let engine = Embedded::open(options(&folder)).unwrap();
    let Outcome::Done(first) = engine.run(&op, Some(&once)).await.unwrap().outcome else { panic!("not done") };
    drop(engine);
    let engine = Embedded::open(options(&folder)).unwrap();
    let Outcome::Replayed(again) = engine.run(&op, Some(&once)).await.unwrap().outcome else { panic!("not replayed") };
    assert_eq!((again.now, again.heads), (first.now, first.heads));
    let other = Once::new("k-1", b"another body").unwrap();
    assert_eq!(engine.run(&op, Some(&other)).await.unwrap().outcome, Outcome::Conflict);
    assert_eq!(left(&engine, &op).await.1, 8, "a replay and a conflict charge nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overwriting_one_record_keeps_the_files_small() {
    let folder = tempfile::tempdir().unwrap();
    let fold_at = 64 << 10;
    let engine = Embedded::open(Options { fold_at, ..options(&folder) }).unwrap();
    let size = || -> u64 { std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).sum() };
    let op = check("s", 1 << 20, true);
    let mut charged = 0u64;
    let mut sizes = Vec::new();
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    for _ in 0..8 {
        for _ in 0..2_000 {
            engine.run(&op, None).await.unwrap();
            charged += 1;
        }
        // Deleting follows folding, a little behind: wait until it has caught up. What is too little to be folded stays.
        let deadline = Instant::now() + Duration::from_secs(30);
        let kept = || -> u64 { db.query_row("SELECT coalesce(sum(length(frame)), 0) FROM frames", [], |row| row.get(0)).unwrap() };
        while kept() >= fold_at {
            assert!(Instant::now() < deadline, "{} bytes of folded frames are not deleted", kept());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        sizes.push(size());
    }
    // Each commit wrote at least two pages of 4 KiB: 128 MiB went through.
    assert!(sizes[7] < 48 << 20, "the files grow: {sizes:?}");
    drop(engine);
    let engine = Embedded::open(options(&folder)).unwrap();
    assert_eq!(left(&engine, &op).await.1, (1 << 20) - charged - 1);
}

async fn done<O: Operation>(engine: &Embedded, op: &O) -> O::Answer {
    match engine.run(op, None).await.unwrap().outcome {
        Outcome::Done(answer) => answer,
        _ => panic!("not done"),
    }
}

const FAILING: Failing = Failing { max_attempts: 3, drops: false, drop_after: None };

fn place() -> Place {
    Partitions::DEFAULT.place(&SpaceId::default_space(), "q")
}

/// A push of one delivery that is known by this key.
fn push_keyed(key: &str) -> Push {
    let one = Delivery { key: Some(key.into()), ..Delivery::new(Due::In(Micros::ZERO), true, "1") };
    Push::new(place(), QueueId::new("q").unwrap(), Terms::default(), FAILING, vec![one])
}

/// A journal that cannot be written to until it is let go.
fn stall(folder: &tempfile::TempDir) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    db
}

/// Does `first`, then asks `then` while that is on its way to the disk: its answer, which came only when the first was there.
async fn told_after<F: Operation, T: Operation>(engine: &Embedded, folder: &tempfile::TempDir, first: &F, then: &T) -> T::Answer {
    let stalled = stall(folder);
    let (mut doing, mut asking) = (Box::pin(engine.run(first, None)), Box::pin(engine.run(then, None)));
    assert!(tokio::time::timeout(Duration::ZERO, &mut doing).await.is_err(), "the journal was not held up");
    let early = tokio::time::timeout(Duration::from_millis(50), &mut asking).await.is_ok();
    assert!(!early, "told what a crash could still undo");
    stalled.execute_batch("COMMIT").unwrap();
    doing.await.unwrap();
    match asking.await.unwrap().outcome {
        Outcome::Done(answer) => answer,
        _ => panic!("not done"),
    }
}

#[tokio::test]
async fn a_push_that_found_another_is_answered_when_that_one_is_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    let again = told_after(&engine, &folder, &push_keyed("k"), &push_keyed("k")).await;
    assert_eq!(again.stored[0].0, Stored::Kept);
    // At rest nothing is waited for.
    let commits = engine.commits();
    let _stalled = stall(&folder);
    assert_eq!(done(&engine, &push_keyed("k")).await.stored[0].0, Stored::Kept);
    assert_eq!(engine.commits(), commits);
}

#[tokio::test]
async fn a_cancel_that_found_nothing_is_answered_when_the_one_before_is_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    let number = done(&engine, &push_keyed("k")).await.stored[0].1;
    let cancel = Edit::new(place(), QueueId::new("q").unwrap(), Terms::default(), Change::Cancel, vec![number]);
    assert_eq!(told_after(&engine, &folder, &cancel, &cancel).await.edited, [Edited::Gone]);
}

/// Who has read an event asks for those after it, so its number must not be another's after a crash.
#[tokio::test]
async fn an_event_is_told_when_it_is_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    let candidate = Candidate { ordinal: 0, id: MessageId::new("m").unwrap(), seq: 0, meter: 0 };
    let plan = Plan { until: Micros::MAX, number: 1, candidates: vec![candidate], ..Plan::default() };
    let take = Take::plan(place(), Subject::new("ann").unwrap(), DeckId::new("d").unwrap(), 1, Arc::new(plan));
    let told = told_after(&engine, &folder, &take, &ReadEvents::new(place(), 0, 10)).await;
    assert_eq!((told.last, told.events.len()), (1, 1));
}

#[tokio::test]
async fn a_commit_of_a_realm_is_told_when_it_is_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    let realm = RealmId::new("r").unwrap();
    let plan = realm::Plan { act: realm::plan::Act::Apply, ..realm::Plan::look([], []) };
    let commit = Apply::new(place(), realm.clone(), Arc::new(plan));
    assert_eq!(told_after(&engine, &folder, &commit, &ReadLedger::after(place(), realm, 0, 10)).await.last, 1);
}

/// A push of one delivery with this payload, whose holder's reply is kept for an hour.
fn push_of(payload: String) -> Push {
    let one = Delivery { reply: Some(HOUR), ..Delivery::new(Due::In(Micros::ZERO), true, payload) };
    Push::new(place(), QueueId::new("q").unwrap(), Terms::default(), FAILING, vec![one])
}

fn claim(count: usize) -> Claim {
    Claim::new(place(), QueueId::new("q").unwrap(), Terms::default(), count, HOUR, FAILING)
}

/// The ack of what was handed out first.
fn ack(claimed: &Claimed) -> Settle {
    let held = claimed.handed.iter().take(1).map(|handed| (handed.number, handed.token)).collect();
    Settle::new(place(), QueueId::new("q").unwrap(), Terms::default(), SettleAct::Ack, &FAILING, held)
}

#[tokio::test]
async fn what_makes_room_is_done_in_a_full_memory_also_with_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(Options { memory_max: 20_000, ..options(&folder) }).unwrap();
    let push = push_of(format!("\"{}\"", "x".repeat(1_000)));
    while engine.run(&push, None).await.is_ok() {}
    let claimed = done(&engine, &claim(1)).await;
    let once = Once::new("k", b"body").unwrap();
    for is_replayed in [false, true] {
        let outcome = engine.run(&ack(&claimed), Some(&once)).await.unwrap().outcome;
        assert_eq!(matches!(outcome, Outcome::Replayed(_)), is_replayed, "{outcome:?}");
    }
    assert!(engine.memory_used() < 20_000);
    done(&engine, &push).await;
}

/// A frame that SQLite cannot hold would never be written, and nothing after it.
#[tokio::test]
async fn a_journal_that_is_far_behind_takes_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    let push = push_of(format!("\"{}\"", "x".repeat(100_000)));
    let stalled = stall(&folder);
    let mut pushed = 0;
    let fault = loop {
        match engine.begin(&push, None) {
            Ok(_) => pushed += 1,
            Err(fault) => break fault,
        }
        assert!(pushed < 100, "it takes without end");
    };
    assert!(fault.is_retryable() && engine.ready().is_err(), "{fault}");
    // What need not be durable is still answered.
    assert_eq!(left(&engine, &check("other", 10, false)).await.1, 9);
    stalled.execute_batch("COMMIT").unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while engine.ready().is_err() {
        assert!(Instant::now() < deadline, "the engine did not recover");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    done(&engine, &push).await;
    let before = engine.dump();
    engine.close().await.unwrap();
    drop(engine);
    assert!(Embedded::open(options(&folder)).unwrap().dump() == before, "something is lost");
}

#[tokio::test]
async fn a_reply_that_was_fetched_is_gone_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    let number = done(&engine, &push_of("1".to_owned())).await.stored[0].1;
    let claimed = done(&engine, &claim(1)).await;
    done(&engine, &ack(&claimed).reply_with(true, b"2".to_vec())).await;
    let fetch = Fetch::new(place(), QueueId::new("q").unwrap(), number);
    assert!(done(&engine, &fetch).await.reply.is_some());
    engine.close().await.unwrap();
    drop(engine);
    let engine = Embedded::open(options(&folder)).unwrap();
    assert!(done(&engine, &fetch).await.reply.is_none(), "it was handed out twice");
}

/// Folding writes a large step in parts. One that ended after some of them has left records in the snapshot that are newer than
/// it says; the frames that follow make them what they are.
#[tokio::test]
async fn folding_that_was_cut_short_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (queue, place) = (QueueId::new("q").unwrap(), Partitions::DEFAULT.place(&SpaceId::default_space(), "q"));
    let failing = Failing { max_attempts: 3, drops: false, drop_after: None };
    let push = |n: usize| {
        let mut one = Delivery::new(Due::In(Micros::ZERO), true, format!("\"{}\"", "x".repeat(n % 700)));
        one.to = Some(Recipient::new(format!("r{}", n % 23)).unwrap());
        Push::new(place.clone(), queue.clone(), Terms::default(), failing, vec![one])
    };
    let claim = Claim::new(place.clone(), queue.clone(), Terms::default(), 15, Micros::saturating(3_600_000_000), failing);
    let files = Files::new(folder.path());
    let mut dump = None;
    for cut_at in [usize::MAX, 1, 2, 4, 6, usize::MAX, 3, 5] {
        let engine = Embedded::open(options(&folder)).unwrap();
        assert!(dump.is_none_or(|dump| dump == engine.dump()), "another state after folding ended with part {cut_at}");
        for n in 0..60 {
            done(&engine, &push(n)).await;
        }
        for n in 0..4 {
            let held: Vec<_> = done(&engine, &claim).await.handed.iter().map(|handed| (handed.number, handed.token)).collect();
            let act = if n == 3 { SettleAct::GiveBack } else { SettleAct::Ack };
            done(&engine, &Settle::new(place.clone(), queue.clone(), Terms::default(), act, &failing, held)).await;
        }
        dump = Some(engine.dump());
        engine.close().await.unwrap();
        drop(engine);
        let mut fold = files.folder(1 << 10).unwrap();
        let (before, parts) = (fold.folded().unwrap(), std::cell::Cell::new(0));
        let goes_on = |_| {
            parts.set(parts.get() + 1);
            parts.get() < cut_at
        };
        let through = fold.step(before, goes_on).unwrap();
        assert_eq!(through > before, cut_at == usize::MAX, "it took {} parts", parts.get());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deferred_changes_are_on_disk_within_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(options(&folder)).unwrap();
    left(&engine, &check("s", 10, false)).await;
    let asked = Instant::now();
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    loop {
        let frames: i64 = db.query_row("SELECT count(*) FROM frames", [], |row| row.get(0)).unwrap();
        if frames > 0 {
            break;
        }
        assert!(asked.elapsed() < Duration::from_secs(1), "not on disk after {:?}", asked.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Who waits for a partition's lock must not come after others with an earlier time than theirs.
#[test]
fn time_never_runs_backwards_in_a_partition() {
    const THREADS: usize = 4;
    const PUSHES: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(Options { clock: Clock::System, ..options(&folder) }).unwrap();
    let place = Partitions::DEFAULT.place(&SpaceId::default_space(), "q");
    let failing = Failing { max_attempts: 1, drops: false, drop_after: None };
    let push = || {
        let one = Delivery::new(Due::In(Micros::ZERO), true, "1");
        let op = Push::new(place.clone(), QueueId::new("q").unwrap(), Terms::default(), failing, vec![one]);
        match engine.inner.apply(&op, None).unwrap().0.outcome {
            Outcome::Done(pushed) => (pushed.stored[0].1, pushed.now),
            other => panic!("{other:?}"),
        }
    };
    let mut pushed: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| (0..PUSHES).map(|_| push()).collect::<Vec<_>>())).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    // Numbers are given out in the order in which the operations took place.
    pushed.sort_unstable_by_key(|(number, _)| *number);
    let back = pushed.windows(2).filter(|two| two[1].1 < two[0].1).count();
    assert_eq!((pushed.len(), back), (THREADS * PUSHES, 0), "times that are earlier than the one before");
}
