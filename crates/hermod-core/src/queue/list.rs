//! Looks at deliveries, a page at a time. Twin of `list.lua`.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::delivery::{Number, Token, known_by};
use super::line::{Queue, Slot};
use crate::id::{QueueId, Tag};
use crate::int::{INT_MAX, Micros};
use crate::key;
use crate::operation::{BadReply, Operation, Reply, ScriptCall};
use crate::partition::Place;
use crate::record;
use crate::script::Script;
use crate::state::{Full, State};

/// So many deliveries are on a page.
pub const LIST_MAX: usize = 200;
/// A page is not longer than about so many bytes.
const BYTES_MAX: usize = 1 << 20;

/// Which deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Those that wait, and can be claimed at `from` or later and before `until`; in that order.
    Waiting {
        /// The first time.
        from: Micros,
        /// The first time that is too late.
        until: Micros,
    },
    /// Those that are held, by the end of their leases.
    Held,
    /// Those that are dead, by when they died.
    Dead,
    /// Those of this tag, by number.
    Tag(Tag),
    /// The one of this number.
    Number(Number),
    /// The one of this key.
    Key {
        /// The key.
        key: String,
        /// To whom; empty: to nobody.
        to: String,
    },
}

/// Where a page begins: after this time and number.
pub type Page = (Micros, Number);

/// Looks at a page of deliveries.
#[derive(Clone, Debug)]
pub struct List {
    place: Place,
    queue: QueueId,
    filter: Filter,
    after: Option<Page>,
    limit: u16,
}

impl List {
    /// `limit` is held between 1 and [`LIST_MAX`].
    pub fn new(place: Place, queue: QueueId, filter: Filter, after: Option<Page>, limit: usize) -> List {
        let limit = u16::try_from(limit.clamp(1, LIST_MAX)).expect("it is at most two hundred");
        List { place, queue, filter, after, limit }
    }

    /// The first of a set, after where the page begins.
    fn of(&self, set: &BTreeSet<(Micros, Number)>, from: Micros, until: Micros) -> Vec<Page> {
        let begin = self.after.map_or(Bound::Included((from, 0)), Bound::Excluded);
        // One more than the page holds, to know whether there are any.
        let range = set.range((begin, Bound::Unbounded)).take_while(|(at, _)| *at < until);
        range.take(usize::from(self.limit) + 1).copied().collect()
    }

    fn found(&self, queue: &Queue) -> Vec<Page> {
        match &self.filter {
            Filter::Waiting { from, until } => {
                let mut both = self.of(&queue.due, *from, *until);
                both.extend(self.of(&queue.rest, *from, *until));
                both.sort_unstable();
                both
            }
            Filter::Held => self.of(&queue.held, Micros::ZERO, Micros::MAX),
            Filter::Dead => self.of(&queue.dead, Micros::ZERO, Micros::MAX),
            Filter::Tag(tag) => {
                let after = self.after.map_or(0, |(_, number)| number);
                let begin = Bound::Excluded((tag.as_str().into(), after));
                let tagged = queue.tags.range((begin, Bound::Unbounded)).take_while(|(other, _)| **other == *tag.as_str());
                tagged.take(usize::from(self.limit) + 1).map(|(_, number)| (Micros::ZERO, *number)).collect()
            }
            Filter::Number(number) => vec![(Micros::ZERO, *number)],
            Filter::Key { key, to } => {
                known_by(key, to).and_then(|key| queue.keyed(&key)).map(|number| (Micros::ZERO, number)).into_iter().collect()
            }
        }
    }

    fn list(&self, queue: &Queue, now: Micros) -> Listed {
        let mut listed = Listed { now, more: None, shown: Vec::new() };
        let (mut bytes, mut last) = (0, None);
        for page in self.found(queue) {
            if listed.shown.len() == usize::from(self.limit) || bytes >= BYTES_MAX {
                listed.more = last;
                break;
            }
            let Some(slot) = queue.slot(page.1) else { continue };
            last = Some(page);
            bytes += slot.body.len();
            listed.shown.push(Shown::new(page.1, slot, now));
        }
        listed
    }
}

/// What a delivery waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Its time.
    Scheduled,
    /// Somebody to claim it, or its recipient's turn.
    Ready,
    /// Its holder.
    Leased,
    /// Somebody to look at it: it has failed as often as it may.
    Dead,
}

/// A delivery as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its number.
    pub number: Number,
    /// What it waits for.
    pub status: Status,
    /// When it can be claimed, or could.
    pub at: Micros,
    /// How often it was attempted.
    pub attempts: u16,
    /// The last token that was given out.
    pub token: Token,
    /// The end of its lease; if it is dead, since when.
    pub until: Micros,
    /// As [`super::delivery::read_body`] reads it.
    pub body: Box<[u8]>,
}

impl Shown {
    fn new(number: Number, slot: &Slot, now: Micros) -> Shown {
        let until = slot.until().filter(|until| *until > now);
        let (status, until) = match (slot.died(), until) {
            (Some(died), _) => (Status::Dead, died),
            (None, Some(until)) => (Status::Leased, until),
            (None, None) if slot.at > now => (Status::Scheduled, Micros::ZERO),
            (None, None) => (Status::Ready, Micros::ZERO),
        };
        let token = Token(slot.tried.as_ref().map_or(0, |tried| tried.token));
        Shown { number, status, at: slot.at, attempts: slot.attempts(), token, until, body: slot.body.clone() }
    }
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The time of the answer.
    pub now: Micros,
    /// Where the next page begins, if there is one.
    pub more: Option<Page>,
    /// What is on it.
    pub shown: Vec<Shown>,
}

impl Operation for List {
    type Answer = Listed;

    const SCRIPT: Script = Script::long("queue/list");

    fn place(&self) -> &Place {
        &self.place
    }

    fn home(&self) -> &str {
        self.queue.as_str()
    }

    fn apply(&self, state: &mut State, now: Micros) -> Result<Listed, Full> {
        let queue = state.queues.get(&self.place, &self.queue);
        Ok(queue.map_or(Listed { now, more: None, shown: Vec::new() }, |queue| self.list(queue, now)))
    }

    fn call(&self, call: &mut ScriptCall, _about: Micros) {
        call.keys.push(key::queue(&self.place, &self.queue));
        let given = &mut call.given;
        let (kind, from, until, text) = match &self.filter {
            Filter::Waiting { from, until } => (0, *from, *until, String::new()),
            Filter::Held => (1, Micros::ZERO, Micros::MAX, String::new()),
            Filter::Dead => (2, Micros::ZERO, Micros::MAX, String::new()),
            Filter::Tag(tag) => (3, Micros::ZERO, Micros::MAX, tag.as_str().to_owned()),
            Filter::Number(_) => (4, Micros::ZERO, Micros::MAX, String::new()),
            Filter::Key { key, to } => (5, Micros::ZERO, Micros::MAX, known_by(key, to).map_or(String::new(), String::from)),
        };
        given.push(kind);
        record::put(given, [from.get(), until.get()]);
        let number = match self.filter {
            Filter::Number(number) => number,
            _ => self.after.map_or(0, |(_, number)| number),
        };
        given.push(u8::from(self.after.is_some()));
        record::put(given, [self.after.map_or(0, |(at, _)| at.get().min(INT_MAX))]);
        given.extend_from_slice(&number.to_be_bytes());
        given.extend_from_slice(&self.limit.to_le_bytes());
        given.extend_from_slice(&u16::try_from(text.len()).expect("keys and recipients are short").to_le_bytes());
        given.extend_from_slice(text.as_bytes());
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn is_kept(&self, _answer: &Listed) -> bool {
        false
    }

    fn note(&self, _about: Micros) -> Vec<u8> {
        Vec::new()
    }

    fn reply(&self, answer: &Listed) -> Reply {
        let mut out = vec![b'l'];
        let (at, number) = answer.more.unwrap_or_default();
        record::put(&mut out, [answer.now.get(), at.get(), number]);
        for shown in &answer.shown {
            out.push(match shown.status {
                Status::Scheduled => 0,
                Status::Ready => 1,
                Status::Leased => 2,
                Status::Dead => 3,
            });
            record::put(&mut out, [shown.number, shown.at.get(), shown.token.0, shown.until.get()]);
            out.extend_from_slice(&shown.attempts.to_le_bytes());
            out.extend_from_slice(&u32::try_from(shown.body.len()).expect("payloads are bounded").to_le_bytes());
            out.extend_from_slice(&shown.body);
        }
        Reply::new(out)
    }

    fn answer(&self, reply: &Reply, _note: Option<&[u8]>) -> Result<Listed, BadReply> {
        read(reply.as_bytes()).ok_or_else(|| reply.bad("is no page of deliveries"))
    }
}

fn read(mut rest: &[u8]) -> Option<Listed> {
    let [_word] = record::take(&mut rest)?;
    let now = record::take_micros(&mut rest)?;
    let more = (record::take_micros(&mut rest)?, record::take_number(&mut rest)?);
    let mut listed = Listed { now, more: Some(more).filter(|(_, number)| *number > 0), shown: Vec::new() };
    while !rest.is_empty() {
        let [status] = record::take(&mut rest)?;
        let status = match status {
            0 => Status::Scheduled,
            1 => Status::Ready,
            2 => Status::Leased,
            3 => Status::Dead,
            _ => return None,
        };
        let (number, at) = (record::take_number(&mut rest)?, record::take_micros(&mut rest)?);
        let (token, until) = (Token(record::take_number(&mut rest)?), record::take_micros(&mut rest)?);
        let attempts = u16::from_le_bytes(record::take(&mut rest)?);
        listed.shown.push(Shown { number, status, at, attempts, token, until, body: record::take_bytes(&mut rest)?.into() });
    }
    Some(listed)
}
