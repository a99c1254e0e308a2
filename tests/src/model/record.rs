//! What the model remembers of one rule and subject, in numbers wide enough for anything.

use hermod_core::Micros;
use hermod_core::limit::{Act, Algorithm, Mode, Per, Rule};

/// What was charged. It means nothing from `until` on.
#[derive(Clone, Debug)]
pub(super) struct Record {
    used: Used,
    pub(super) until: u128,
}

#[derive(Clone, Debug)]
enum Used {
    /// So many `parts / of` tokens at this time.
    Parts { parts: u128, of: u128, at: u128 },
    /// So many, the last at this time.
    Count { count: u128, at: u128 },
    /// So many each, the last of them at this time; and when that was true.
    Marks(Vec<(u128, u128)>, u128),
    /// This period's and the last one's.
    Two { this: u128, last: u128, at: u128 },
}

impl Used {
    fn tokens(&self) -> u128 {
        match self {
            Used::Parts { parts, of, .. } => parts.div_ceil(*of),
            Used::Count { count, .. } => *count,
            Used::Marks(marks, _) => marks.iter().map(|(_, count)| count).sum(),
            Used::Two { this, last, .. } => this + last,
        }
    }

    fn at(&self) -> u128 {
        match self {
            Used::Parts { at, .. } | Used::Count { at, .. } | Used::Two { at, .. } | Used::Marks(_, at) => *at,
        }
    }
}

impl Record {
    /// When it was last charged.
    pub(super) fn at(&self) -> u128 {
        self.used.at()
    }
}

/// A rule in wide numbers.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    rule: Rule,
    limit: u128,
    burst: u128,
    queue: u128,
    per: u128,
    tick: u128,
}

impl Numbers {
    pub(super) fn of(rule: &Rule) -> Numbers {
        let limit = u128::from(rule.limit);
        let burst = u128::from(rule.burst.unwrap_or(rule.limit));
        let queue = u128::from(rule.queue.unwrap_or(0));
        let per = u128::from(rule.per.usual().get());
        let largest = match rule.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => 2 * burst + queue,
            Algorithm::SlidingWindow if rule.approximate => 2 * limit,
            _ => 0,
        };
        // A tick is the finest at which the largest product can be counted.
        let tick = [1, 1_000, 1_000_000].into_iter().find(|tick| largest * (per / tick) <= 1 << 52).unwrap_or(1_000_000);
        Numbers { rule: rule.clone(), limit, burst, queue, per, tick }
    }

    fn is_bucket(&self) -> bool {
        matches!(self.rule.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket)
    }

    /// The most at once.
    pub(super) fn most(&self) -> u128 {
        match self.rule.mode {
            Mode::Block => 0,
            _ if self.is_bucket() => self.burst + self.queue,
            _ => self.limit,
        }
    }

    /// Nothing takes longer than this to come back.
    pub(super) fn longest(&self) -> u128 {
        let drain = (2 * self.burst + self.queue) * self.per / self.limit;
        6 * self.per + 2 * drain + 8 * 31 * 86_400_000_000 * u128::from(matches!(self.rule.per, Per::Calendar(_))) + 4_000_000
    }

    /// How many of `tokens` would take no longer than from `now` to `end` to drain; none of another kind drain.
    pub(super) fn draining(&self, tokens: u128, now: u128, end: u128) -> u128 {
        if !self.is_bucket() {
            return tokens;
        }
        let (period, ticks) = (self.per / self.tick, end / self.tick - now / self.tick);
        let (mut least, mut most) = (0, tokens);
        while least < most {
            let middle = most - (most - least) / 2;
            if (middle * period).div_ceil(self.limit) <= ticks { least = middle } else { most = middle - 1 }
        }
        least
    }

    /// The turn of the window that `now` is in, and that of the next two.
    pub(super) fn turns(&self, now: u128) -> (u128, u128, u128) {
        match &self.rule.per {
            Per::Span(_) => {
                let start = now / self.per * self.per;
                (start, start + self.per, start + 2 * self.per)
            }
            Per::Calendar(calendar) => {
                let bounds = calendar.bounds(Micros::saturating(u64::try_from(now).unwrap_or(u64::MAX)));
                (bounds.start.get().into(), bounds.end.get().into(), bounds.next_end.get().into())
            }
        }
    }

    /// What is used at `now`, in this rule's own terms.
    pub(super) fn brought(&self, record: Option<&Record>, now: u128) -> Record {
        let used = record.filter(|record| record.until > now).map(|record| &record.used);
        if self.rule.mode == Mode::Block {
            return Record { used: Used::Count { count: 0, at: now }, until: now };
        }
        match self.rule.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => self.bucket(used, now),
            Algorithm::FixedWindow => self.window(used, now),
            Algorithm::SlidingWindow if self.rule.approximate => self.two(used, now),
            _ => self.marks(used, now),
        }
    }

    fn bucket(&self, used: Option<&Used>, now: u128) -> Record {
        let (period, time) = (self.per / self.tick, now / self.tick);
        let most = (2 * self.burst + self.queue) * period;
        let (mut parts, mut counts_from) = (0, time);
        if let Some(used) = used {
            // The same share of tokens in this rule's parts, rounded in nobody's favour: up.
            let owed = match used {
                Used::Parts { parts, of, .. } => (parts * period).div_ceil(*of),
                other => other.tokens() * period,
            };
            let owed = owed.min(most);
            let at = used.at().div_ceil(self.tick);
            if time > at {
                parts = owed.saturating_sub((time - at) * self.limit);
            } else if at - time <= most.div_ceil(self.limit) {
                (parts, counts_from) = (owed, at);
            }
        }
        self.bucket_record(parts, counts_from)
    }

    fn bucket_record(&self, parts: u128, time: u128) -> Record {
        let used = Used::Parts { parts, of: self.per / self.tick, at: time * self.tick };
        Record { used, until: (time + parts.div_ceil(self.limit)) * self.tick }
    }

    /// What is used at `now` without what is left of one token of a bucket that was as new at `ends`, right after it was taken.
    pub(super) fn without_one(&self, record: &Record, ends: u128, now: u128) -> Record {
        let view = self.brought(Some(record), now);
        let Used::Parts { parts, of, at } = view.used else { return view };
        let left = ((ends / self.tick - now / self.tick) * self.limit).min(of);
        self.bucket_record(parts.saturating_sub(left), at / self.tick)
    }

    fn window(&self, used: Option<&Used>, now: u128) -> Record {
        let (start, end, next) = self.turns(now);
        let (mut count, mut at, mut ends) = (0, now, end);
        if let Some(used) = used.filter(|used| used.at() >= start && used.at() < next) {
            (count, at) = (used.tokens(), now.max(used.at()));
            ends = if used.at() >= end { next } else { end };
        }
        Record { used: Used::Count { count, at }, until: if count > 0 { ends } else { now } }
    }

    fn width(&self) -> u128 {
        if self.rule.algorithm == Algorithm::SlidingLog { 1 } else { self.per.div_ceil(32) }
    }

    fn marks(&self, used: Option<&Used>, now: u128) -> Record {
        let marks = match used {
            Some(used) if used.at() > now + self.per + self.width() => Vec::new(),
            Some(Used::Marks(marks, _)) => marks.clone(),
            Some(other) => vec![(other.at(), other.tokens())],
            None => Vec::new(),
        };
        self.marks_record(marks.into_iter().filter(|(last, count)| last + self.per > now && *count > 0).collect(), now)
    }

    fn marks_record(&self, marks: Vec<(u128, u128)>, now: u128) -> Record {
        let until = marks.last().map_or(now, |(last, _)| last + self.per);
        let at = marks.last().map_or(now, |(last, _)| *last);
        Record { used: Used::Marks(marks, at), until }
    }

    fn two(&self, used: Option<&Used>, now: u128) -> Record {
        let (period, time) = (self.per / self.tick, now / self.tick);
        let (mut this, mut last, mut at) = (0, 0, time);
        if let Some(used) = used
            && used.at().div_ceil(self.tick) <= time + period
        {
            let then = used.at().div_ceil(self.tick);
            at = time.max(then);
            let (this_then, last_then) = match used {
                Used::Two { this, last, .. } => (*this, *last),
                other => (other.tokens(), 0),
            };
            let (this_then, last_then) = (this_then.min(2 * self.limit), last_then.min(2 * self.limit));
            match at / period - then / period {
                0 => (this, last) = (this_then, last_then),
                1 => last = this_then,
                _ => {}
            }
        }
        self.two_record(this, last, at, now)
    }

    fn two_record(&self, this: u128, last: u128, time: u128, now: u128) -> Record {
        let period = self.per / self.tick;
        let turn = time / period * period;
        let until = match (this, last) {
            (0, 0) => now,
            (0, _) => (turn + period) * self.tick,
            _ => (turn + 2 * period) * self.tick,
        };
        Record { used: Used::Two { this, last, at: time * self.tick }, until }
    }

    /// Whether `cost` would fit at `now`, if nothing happens until then.
    pub(super) fn fits(&self, record: Option<&Record>, cost: u128, now: u128) -> bool {
        let view = self.brought(record, now);
        if self.rule.mode == Mode::Block || cost > self.most() {
            return false;
        }
        match &view.used {
            Used::Parts { parts, of, .. } => parts + cost * of <= self.most() * of,
            _ => self.taken(&view) + cost <= self.limit,
        }
    }

    /// Whole tokens that count as used.
    fn taken(&self, view: &Record) -> u128 {
        match &view.used {
            Used::Two { this, last, at } => {
                let (period, time) = (self.per / self.tick, at / self.tick);
                this + (last * (period - time % period)).div_ceil(period)
            }
            other => other.tokens(),
        }
    }

    /// How many are left.
    pub(super) fn left(&self, view: &Record, _now: u128) -> u128 {
        match &view.used {
            _ if self.rule.mode == Mode::Block => 0,
            Used::Parts { parts, of, .. } => (self.burst * of).saturating_sub(*parts) / of,
            _ => self.limit.saturating_sub(self.taken(view)),
        }
    }

    /// How long what is let in must wait.
    pub(super) fn delay(&self, view: &Record, now: u128) -> u128 {
        match &view.used {
            Used::Parts { parts, of, at } if self.queue > 0 && *parts > self.burst * of => {
                (at + (parts - self.burst * of).div_ceil(self.limit) * self.tick).saturating_sub(now)
            }
            _ => 0,
        }
    }

    /// The record after a charge that fits, a forced one, or a refund.
    pub(super) fn acted(&self, view: &Record, act: Act, cost: u128, now: u128) -> Record {
        let gives_back = matches!(act, Act::Refund | Act::Undo);
        let forced = |count: u128, limit: u128| if act == Act::Force { cost.min((2 * limit).saturating_sub(count)) } else { cost };
        match &view.used {
            Used::Parts { parts, of, at } => {
                let most = (2 * self.burst + self.queue) * of;
                let parts = match act {
                    _ if gives_back => parts.saturating_sub(cost * of),
                    _ => (parts + cost * of).min(most),
                };
                self.bucket_record(parts, at / self.tick)
            }
            Used::Count { count, at } => {
                let count = if gives_back { count.saturating_sub(cost) } else { count + forced(*count, self.limit) };
                let (_, end, _) = self.turns(*at);
                Record { used: Used::Count { count, at: *at }, until: if count > 0 { end } else { now } }
            }
            Used::Two { this, last, at } => {
                let (this, last) = match act {
                    _ if gives_back => (this.saturating_sub(cost), last.saturating_sub(cost.saturating_sub(*this))),
                    _ => (this + forced(*this, self.limit), *last),
                };
                self.two_record(this, last, at / self.tick, now)
            }
            Used::Marks(marks, _) => {
                let mut marks = marks.clone();
                if gives_back {
                    // The oldest first; what is undone, the newest first.
                    let mut rest = cost;
                    if act == Act::Undo {
                        marks.reverse();
                    }
                    for (_, count) in &mut marks {
                        let back = rest.min(*count);
                        *count -= back;
                        rest -= back;
                    }
                    if act == Act::Undo {
                        marks.reverse();
                    }
                    marks.retain(|(_, count)| *count > 0);
                } else {
                    let added = forced(view.used.tokens(), self.limit);
                    let last = now / self.width() * self.width() + self.width() - 1;
                    match marks.last_mut() {
                        Some((newest, count)) if *newest >= last => *count += added,
                        _ if added == 0 => {}
                        _ => marks.push((last, added)),
                    }
                }
                self.marks_record(marks, now)
            }
        }
    }
}
