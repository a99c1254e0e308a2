//! When a recurring delivery is due: a cron expression in a time zone.
//!
//! Every run is computed from the expression and the last instant alone, so nothing drifts. An
//! expression that names its hours (`30 2 * * *`) means the clock on the wall: it is searched on
//! local times, each of which then becomes one instant. Where clocks go back and the time comes
//! twice, that is the first; where they go forward and it is left out, [`Dst`] decides. One whose hours
//! are `*` or `*/n` means so much time in between, and runs on through a change of clocks.

use std::fmt;
use std::str::FromStr;

use croner::CronDateTime;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::{DateTime, date};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan, Zoned};

use crate::id::Invalid;
use crate::int::Micros;
use crate::word::word_enum;

/// The longest expression, in bytes.
const EXPRESSION_MAX: usize = 256;
/// The whole expressions that stand for others.
const NICKNAMES: [&str; 6] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@hourly"];
/// The fields, seconds first, and what each may hold.
const FIELDS: [(&str, &str); 6] = [
    ("seconds", "0-59"),
    ("minutes", "0-59"),
    ("hours", "0-23"),
    ("days of the month", "1-31, L or W"),
    ("months", "1-12 or JAN-DEC"),
    ("days of the week", "0-7 or SUN-SAT, # or L"),
];

word_enum! {
    /// What becomes of a run whose local time is left out because clocks go forward.
    Dst, "dst", {
        /// It runs at the first instant after the gap.
        #[default]
        Shift = "shift",
        /// It does not run.
        Skip = "skip",
    }
}

/// A cron expression in a time zone.
#[derive(Clone)]
pub struct Cron {
    expression: Box<str>,
    pattern: croner::Cron,
    /// Whether the hours are named, and the clock on the wall counts.
    is_wall: bool,
    zone: TimeZone,
    zone_name: Box<str>,
    dst: Dst,
}

impl Cron {
    /// Checks all three. Refused is also an expression that no day can match, such as the 30th of February.
    pub fn new(expression: &str, zone: &str, dst: Dst) -> Result<Cron, Invalid> {
        let pattern = parse(expression)?;
        // An offset such as +02:00 would be a zone too, but one without its changes of clocks.
        let found = TimeZone::get(zone)
            .map_err(|_| Invalid::new("zone", "must be a time zone of the IANA database, such as Europe/Berlin or UTC"))?;
        let zone_name = found.iana_name().unwrap_or(zone).into();
        let hours = expression.split_ascii_whitespace().rev().nth(3);
        let is_wall = hours.map_or(expression != "@hourly", |hours| !hours.starts_with('*'));
        let cron = Cron { expression: expression.into(), pattern, is_wall, zone: found, zone_name, dst };
        if !cron.has_a_day() {
            return Err(Invalid::new("cron", "never comes: no day is that day of that month"));
        }
        Ok(cron)
    }

    /// The first run after `now`. `None` only at the end of time.
    pub fn next_after(&self, now: Micros) -> Option<Micros> {
        let at = Timestamp::from_microsecond(i64::try_from(now.get()).ok()?).ok()?;
        let zoned = at.to_zoned(self.zone.clone());
        let next = if self.is_wall { self.next_on_the_wall(&zoned) } else { self.next_in_real_time(zoned, at) };
        next.and_then(|next| Micros::new(u64::try_from(next.as_microsecond()).ok()?))
    }

    /// All runs after `now`, in order.
    pub fn runs_after(&self, now: Micros) -> impl Iterator<Item = Micros> {
        std::iter::successors(self.next_after(now), |&last| self.next_after(last))
    }

    /// The expression.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The time zone's name.
    pub fn zone(&self) -> &str {
        &self.zone_name
    }

    /// What happens where local time is left out.
    pub fn dst(&self) -> Dst {
        self.dst
    }

    /// Whether any day matches. In 28 years every date falls on every day of the week; a search for
    /// what never comes would go on for thousands.
    fn has_a_day(&self) -> bool {
        let pattern = &self.pattern.pattern;
        let mut days = date(2000, 1, 1).series(1.day()).take_while(|day| day.year() < 2028);
        days.any(|day| {
            let (year, month) = (i32::from(day.year()), u32::from(day.month().unsigned_abs()));
            let weekday = day.at(0, 0, 0, 0).civil_weekday();
            pattern.month_match(month).unwrap_or(false)
                && pattern.day_match(year, month, u32::from(day.day().unsigned_abs()), weekday).unwrap_or(false)
        })
    }

    fn next_on_the_wall(&self, now: &Zoned) -> Option<Timestamp> {
        let mut local = now.datetime();
        loop {
            local = self.pattern.find_next_occurrence(&local, false).ok()?;
            match self.instant(local) {
                // After clocks went back, times of the first pass come by again.
                Some(instant) if instant > now.timestamp() => return Some(instant),
                _ => {}
            }
        }
    }

    fn next_in_real_time(&self, mut from: Zoned, now: Timestamp) -> Option<Timestamp> {
        loop {
            from = self.pattern.find_next_occurrence(&from, false).ok()?;
            if from.timestamp() > now {
                return Some(from.timestamp());
            }
        }
    }

    /// When this local time comes; `None` if it is left out and skipped.
    fn instant(&self, local: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        match (ambiguous.offset(), self.dst) {
            (AmbiguousOffset::Gap { .. }, Dst::Skip) => None,
            // Seen with the offset after the gap, the time lies before it; the change comes next.
            (AmbiguousOffset::Gap { after, .. }, Dst::Shift) => {
                let before = after.to_timestamp(local).ok()?;
                self.zone.following(before).next().map(|change| change.timestamp())
            }
            (AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. }, _) => ambiguous.earlier().ok(),
        }
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({:?}, {}, {})", self.expression, self.zone_name, self.dst.as_str())
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Cron) -> bool {
        (&self.expression, &self.zone_name, self.dst) == (&other.expression, &other.zone_name, other.dst)
    }
}

impl Eq for Cron {}

fn parse(expression: &str) -> Result<croner::Cron, Invalid> {
    let fault = |what: String| Err(Invalid::new("cron", what));
    if expression.len() > EXPRESSION_MAX || !expression.is_ascii() {
        return fault(format!("must be at most {EXPRESSION_MAX} ASCII characters"));
    }
    if expression.starts_with('@') {
        return match NICKNAMES.contains(&expression) {
            true => read(expression).or_else(|_| fault(String::from("is not understood"))),
            false => fault(format!("must be one of {} if it begins with @", NICKNAMES.join(", "))),
        };
    }
    let fields: Vec<&str> = expression.split_ascii_whitespace().collect();
    let Some(names) = FIELDS.len().checked_sub(fields.len()).filter(|missing| *missing <= 1).and_then(|missing| FIELDS.get(missing..))
    else {
        return fault(format!(
            "must have 5 fields (minutes, hours, days of the month, months, days of the week), or 6 with seconds first; it has {}",
            fields.len()
        ));
    };
    let error = match read(expression) {
        Ok(pattern) => return Ok(pattern),
        Err(error) => error,
    };
    // The parser does not say where; each field by itself does.
    for (number, (field, (name, holds))) in fields.iter().zip(names).enumerate() {
        let alone: Vec<&str> = (0..fields.len()).map(|other| if other == number { *field } else { "*" }).collect();
        if read(&alone.join(" ")).is_err() {
            let at = place(expression, number);
            let field: String = field.chars().take(32).collect();
            return fault(format!("cannot be read at character {at}: the {name} {field:?} must be of {holds}, in lists, ranges and steps"));
        }
    }
    fault(format!("cannot be read: {error}"))
}

fn read(expression: &str) -> Result<croner::Cron, CronError> {
    let cron = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build().parse(expression)?;
    // The parser takes a list of nothing, and would search for it second by second.
    let times = [&cron.pattern.seconds, &cron.pattern.minutes, &cron.pattern.hours, &cron.pattern.months];
    let has_hole = |field: &str| field.split(',').any(str::is_empty);
    if times.into_iter().any(|field| field.values().is_empty()) || expression.split_ascii_whitespace().any(has_hole) {
        return Err(CronError::InvalidPattern(String::from("a list has a place with nothing in it")));
    }
    Ok(cron)
}

/// At which character the field of this number begins, counted from 1.
fn place(expression: &str, number: usize) -> usize {
    let starts = expression.bytes().scan(true, |was_space, byte| {
        let is_start = *was_space && !byte.is_ascii_whitespace();
        *was_space = byte.is_ascii_whitespace();
        Some(is_start)
    });
    starts.enumerate().filter(|(_, is_start)| *is_start).nth(number).map_or(1, |(at, _)| at + 1)
}

impl FromStr for Cron {
    type Err = Invalid;

    /// An expression in UTC.
    fn from_str(expression: &str) -> Result<Cron, Invalid> {
        Cron::new(expression, "UTC", Dst::default())
    }
}

#[cfg(test)]
mod tests;
