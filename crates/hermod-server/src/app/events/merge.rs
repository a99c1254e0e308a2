//! The logs of all partitions as one, in the order of time.
//!
//! Of each log a little is read ahead, more each time it runs out. The earliest of what was read ahead is told, as long as
//! every log either has something read ahead or nothing left. Where a clock stepped back within a log, the log's own order
//! holds. What comes next follows from the cursor alone, so it is the same however events are cut into pages.

use std::collections::VecDeque;

use hermod_core::event::{Event, READ_MAX, Recorded};
use hermod_core::{Micros, SpaceId};

use super::{App, Cursor, EventsAsk};
use crate::code::Problem;

/// So many are read ahead of each log at first.
const AHEAD: usize = 16;
/// So many are looked at for one page; whoever wants only a few of them asks again.
const SEEN_MAX: usize = 50_000;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// Each with the cursor after it.
    pub(super) events: Vec<(String, Event)>,
    /// Some were not kept.
    pub(super) gap: bool,
    /// There is more.
    pub(super) more: bool,
}

/// One log.
#[derive(Debug)]
struct Log {
    partition: u16,
    /// It was read so far; none: not at all.
    at: Option<u64>,
    ahead: VecDeque<(u64, Option<Event>)>,
    /// How many to read next.
    reads: usize,
    /// There was no more when it was read.
    is_over: bool,
}

impl Log {
    /// Takes in what was read; whether something is missing.
    fn take(&mut self, recorded: Recorded, cursor: &mut Cursor) -> bool {
        let at = self.at.unwrap_or(0);
        if recorded.is_gap(at) {
            // It goes on with the oldest there is: of a log that is not the one that was read, with all of it.
            let before = recorded.first.saturating_sub(1);
            let is_lost = self.at.is_some();
            let is_another = at > recorded.last;
            self.at = Some(before);
            cursor.set(self.partition, before);
            if is_another && recorded.last > 0 {
                return is_lost;
            }
            self.fill(recorded);
            return is_lost;
        }
        self.at = Some(at);
        cursor.set(self.partition, at);
        self.fill(recorded);
        false
    }

    fn fill(&mut self, recorded: Recorded) {
        self.reads = (self.reads * 2).min(READ_MAX);
        self.ahead = recorded.events.into();
        if let Some((number, _)) = self.ahead.back() {
            self.at = Some(*number);
        }
        self.is_over = self.ahead.is_empty() || self.at >= Some(recorded.last);
    }

    /// When what comes next is told.
    fn next_at(&self) -> Option<Micros> {
        self.ahead.front().map(|(_, event)| event.as_ref().map_or(Micros::ZERO, |event| event.at))
    }
}

impl App {
    /// The next events, after which the cursor is moved there.
    pub(super) async fn merge_logs(&self, space: &SpaceId, cursor: &mut Cursor, ask: &EventsAsk) -> Result<Merged, Problem> {
        let only = ask.subject.as_ref().map(|subject| self.engine.partitions().place(space, subject.as_str()).partition);
        let partitions = (0..self.engine.partitions().count()).filter(|partition| only.is_none_or(|only| *partition == only));
        let log = |partition| {
            let (at, reads) = (cursor.get(partition), if only.is_some() { READ_MAX } else { AHEAD });
            Log { partition, at, ahead: VecDeque::new(), reads, is_over: false }
        };
        let mut logs: Vec<Log> = partitions.map(log).collect();
        let (mut merged, mut seen) = (Merged::default(), 0);
        loop {
            let is_wanted = |log: &Log| log.ahead.is_empty() && !log.is_over;
            let wanted: Vec<_> =
                logs.iter().filter(|log| is_wanted(log)).map(|log| (log.partition, log.at.unwrap_or(0), log.reads)).collect();
            if !wanted.is_empty() {
                let read = self.read_logs(space, &wanted).await?;
                for (log, recorded) in logs.iter_mut().filter(|log| is_wanted(log)).zip(read) {
                    merged.gap |= log.take(recorded, cursor);
                }
                continue;
            }
            // Until one has to be read on.
            loop {
                let next = logs.iter_mut().filter_map(|log| Some((log.next_at()?, log))).min_by_key(|(at, log)| (*at, log.partition));
                let Some((_, log)) = next else { return Ok(merged) };
                if merged.events.len() >= ask.limit || seen >= SEEN_MAX {
                    merged.more = true;
                    return Ok(merged);
                }
                let Some((number, event)) = log.ahead.pop_front() else { break };
                seen += 1;
                let runs_out = is_wanted(log);
                cursor.set(log.partition, number);
                if let Some(event) = event.filter(|event| ask.matches(event)) {
                    merged.events.push((cursor.to_string(), event));
                }
                if runs_out {
                    break;
                }
            }
        }
    }
}
