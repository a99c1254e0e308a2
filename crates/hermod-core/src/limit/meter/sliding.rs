//! The sliding window: marks that leave it one by one.
//!
//! A mark stands for all charges of one sub-bucket, and counts in full until the last of them can
//! have left the window. So the limit is never exceeded in any trailing period; the price is that a
//! charge counts up to one sub-bucket longer than it must. In a log the sub-bucket is a microsecond,
//! and nothing is counted longer than it must be.
//!
//! Marks carry absolute times: an edit of the rule needs no conversion, and a clock that steps back
//! finds them still there. Marks from further ahead than a whole window are not believed.

use super::window::{check_limit, forced_max};
use super::{Act, Step};
use crate::id::Invalid;
use crate::int::Micros;
use crate::limit::tally::{Kind, Mark, Tally};

/// Sub-buckets in a ring: charges count at most 1/32 of the period too long.
const RING: u64 = 32;

/// Marks that leave the window one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sliding {
    limit: u64,
    period: u64,
    /// The length of a sub-bucket.
    width: u64,
}

impl Sliding {
    /// In sub-buckets: so many marks at most, whatever the limit.
    pub fn ring(limit: u64, per: Micros) -> Result<Sliding, Invalid> {
        check_limit(limit)?;
        Ok(Sliding { limit, period: per.get(), width: per.get().div_ceil(RING) })
    }

    /// Each charge by itself.
    pub fn log(limit: u64, per: Micros) -> Result<Sliding, Invalid> {
        check_limit(limit)?;
        Ok(Sliding { limit, period: per.get(), width: 1 })
    }

    pub(super) fn told(limit: u64, period: u64, width: u64) -> Sliding {
        Sliding { limit, period, width }
    }

    /// How many in any trailing period.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn given(&self) -> [u64; 5] {
        [self.limit, self.period, self.width, 0, 0]
    }

    pub(super) fn step(&self, act: Act, cost: u64, stored: Option<&Tally>, now: Micros) -> Step {
        let mut marks = self.live(stored, now.get());
        let used: u64 = marks.iter().map(|mark| mark.count).sum();
        let fits = cost <= self.limit && used <= self.limit - cost;
        let (mut is_refused, mut unit, mut amount) = (false, 1, used);
        match act {
            Act::Check | Act::Peek if !fits => {
                is_refused = true;
                unit = self.retry_at(&marks, used, cost).max(1);
            }
            Act::Peek => {}
            Act::Check | Act::Force => {
                let added = if act == Act::Check { cost } else { cost.min(forced_max(used, self.limit)) };
                self.charge(&mut marks, added, now.get());
                amount += added;
            }
            Act::Refund => amount -= give_back(marks.iter_mut(), cost),
            Act::Undo => amount -= give_back(marks.iter_mut().rev(), cost),
        }
        marks.retain(|mark| mark.count > 0);
        let newest = marks.last().map(|mark| mark.last);
        let until = newest.map_or(now, |last| Micros::saturating(last + self.period));
        let ts = Micros::saturating(newest.unwrap_or(now.get()));
        let marks = (!marks.is_empty()).then(|| Box::new(marks));
        Step { tally: Tally { amount, unit, ts, marks, kind: Kind::Sliding }, until, is_refused }
    }

    /// The marks that still count.
    fn live(&self, stored: Option<&Tally>, now: u64) -> Vec<Mark> {
        let Some(stored) = stored else { return Vec::new() };
        if stored.ts.get() > now + self.period + self.width {
            return Vec::new();
        }
        match &stored.marks {
            Some(marks) => marks.iter().filter(|mark| mark.last + self.period > now).copied().collect(),
            None => {
                let mark = Mark { last: stored.ts.get(), count: stored.tokens() };
                Some(mark).filter(|mark| mark.count > 0 && mark.last + self.period > now).into_iter().collect()
            }
        }
    }

    fn charge(&self, marks: &mut Vec<Mark>, count: u64, now: u64) {
        if count == 0 {
            return;
        }
        let last = now - now % self.width + self.width - 1;
        match marks.last_mut() {
            // Also where a clock stepped back, or the sub-buckets were longer: counted longer, never shorter.
            Some(newest) if newest.last >= last => newest.count += count,
            _ => marks.push(Mark { last, count }),
        }
    }

    /// When so many have left that `cost` fits. Zero where it never will.
    fn retry_at(&self, marks: &[Mark], used: u64, cost: u64) -> u64 {
        if cost > self.limit {
            return 0;
        }
        let mut short = (used + cost).saturating_sub(self.limit);
        for mark in marks {
            if mark.count >= short {
                return mark.last + self.period;
            }
            short -= mark.count;
        }
        0
    }
}

/// Takes charges back, mark by mark; how many. The oldest first, what remains counts no shorter than it
/// would have.
fn give_back<'a>(marks: impl Iterator<Item = &'a mut Mark>, cost: u64) -> u64 {
    let mut rest = cost;
    for mark in marks {
        let taken = mark.count.min(rest);
        mark.count -= taken;
        rest -= taken;
        if rest == 0 {
            break;
        }
    }
    cost - rest
}
