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
mod tests {
    use super::*;

    fn micros(text: &str) -> Micros {
        Micros::new(u64::try_from(text.parse::<Timestamp>().unwrap().as_microsecond()).unwrap()).unwrap()
    }

    fn text(at: Micros) -> String {
        Timestamp::from_microsecond(i64::try_from(at.get()).unwrap()).unwrap().to_string()
    }

    fn runs(expression: &str, zone: &str, dst: Dst, after: &str, count: usize) -> Vec<String> {
        Cron::new(expression, zone, dst).unwrap().runs_after(micros(after)).take(count).map(text).collect()
    }

    #[test]
    fn clocks_that_go_forward_shift_or_skip_what_they_leave_out() {
        // In Berlin 02:00 became 03:00 on 29 March 2026, at 01:00 UTC.
        let berlin = |dst| runs("30 2 * * *", "Europe/Berlin", dst, "2026-03-28T00:00:00Z", 3);
        assert_eq!(berlin(Dst::Shift), ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
        assert_eq!(berlin(Dst::Skip), ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]);
        // Several times of one gap are one run, and 03:00 itself no second one.
        let several = runs("0,15,30 2,3 * * *", "Europe/Berlin", Dst::Shift, "2026-03-29T00:59:59Z", 3);
        assert_eq!(several, ["2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z", "2026-03-29T01:30:00Z"]);
        // In New York on 8 March 2026, at 07:00 UTC.
        let york = runs("30 2 * * *", "America/New_York", Dst::Shift, "2026-03-08T00:00:00Z", 2);
        assert_eq!(york, ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]);
        // Samoa left out a whole day, 30 December 2011.
        let samoa = runs("0 12 * * *", "Pacific/Apia", Dst::Skip, "2011-12-29T00:00:00Z", 3);
        assert_eq!(samoa, ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"]);
        let samoa = runs("0 12 * * *", "Pacific/Apia", Dst::Shift, "2011-12-29T23:00:00Z", 2);
        assert_eq!(samoa, ["2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]);
    }

    #[test]
    fn what_comes_twice_when_clocks_go_back_runs_once_at_the_first() {
        // In Berlin 03:00 became 02:00 on 25 October 2026, at 01:00 UTC.
        for after in ["2026-10-25T00:00:00Z", "2026-10-25T00:29:59.999999Z"] {
            let berlin = runs("30 2 * * *", "Europe/Berlin", Dst::Shift, after, 2);
            assert_eq!(berlin, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"], "{after}");
        }
        // From within the second pass the time is over.
        for after in ["2026-10-25T00:30:00Z", "2026-10-25T01:10:00Z", "2026-10-25T01:45:00Z"] {
            assert_eq!(runs("30 2 * * *", "Europe/Berlin", Dst::Skip, after, 1), ["2026-10-26T01:30:00Z"], "{after}");
        }
        let york = runs("30 1 * * *", "America/New_York", Dst::Shift, "2026-11-01T00:00:00Z", 2);
        assert_eq!(york, ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]);
    }

    #[test]
    fn what_recurs_in_real_time_runs_on_through_both_changes() {
        for (after, first) in [("2026-10-24T22:00:00Z", "2026-10-24T22:30:00Z"), ("2026-03-28T22:00:00Z", "2026-03-28T22:30:00Z")] {
            let cron = Cron::new("*/30 * * * *", "Europe/Berlin", Dst::Shift).unwrap();
            let runs: Vec<_> = cron.runs_after(micros(after)).take(20).collect();
            assert_eq!(text(runs[0]), first);
            assert!(runs.windows(2).all(|pair| pair[1].since(pair[0]).get() == 1_800_000_000), "{after}");
        }
        let hourly = runs("@hourly", "Europe/Berlin", Dst::Skip, "2026-10-25T00:10:00Z", 3);
        assert_eq!(hourly, ["2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"]);
    }

    #[test]
    fn the_calendar_is_kept() {
        let leap = runs("0 0 29 2 *", "UTC", Dst::Shift, "2096-03-01T00:00:00Z", 2);
        assert_eq!(leap, ["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"], "2100 has none");
        assert_eq!(runs("0 9 * * MON-FRI", "UTC", Dst::Shift, "2026-11-13T09:00:00Z", 1), ["2026-11-16T09:00:00Z"]);
        assert_eq!(runs("0 0 L * *", "UTC", Dst::Shift, "2026-02-01T00:00:00Z", 1), ["2026-02-28T00:00:00Z"]);
        assert_eq!(runs("0 0 * * FRI#1", "UTC", Dst::Shift, "2026-11-07T00:00:00Z", 1), ["2026-12-04T00:00:00Z"]);
        assert_eq!(runs("*/10 * * * * *", "UTC", Dst::Shift, "2026-01-01T00:00:05Z", 1), ["2026-01-01T00:00:10Z"]);
        assert_eq!(runs("@daily", "Asia/Kolkata", Dst::Shift, "2026-01-01T00:00:00Z", 1), ["2026-01-01T18:30:00Z"]);
        assert_eq!(runs("@weekly", "UTC", Dst::Shift, "2026-01-01T00:00:00Z", 1), ["2026-01-04T00:00:00Z"]);
        assert_eq!(runs("0 0 1 1 *", "UTC", Dst::Shift, "1970-01-01T00:00:00Z", 1), ["1971-01-01T00:00:00Z"], "strictly after");
        assert_eq!("0 0 1 1 *".parse::<Cron>().unwrap().next_after(Micros::MAX), None);
    }

    #[test]
    fn nothing_drifts_in_a_year_of_runs() {
        let cron = Cron::new("30 2 * * *", "Europe/Berlin", Dst::Shift).unwrap();
        let from = micros("2026-01-01T00:00:00Z");
        let runs: Vec<Micros> = cron.runs_after(from).take(365).collect();
        assert_eq!(text(runs[364]), "2026-12-31T01:30:00Z");
        // Whoever asks late, in the middle of nowhere, is told the same.
        for pair in runs.windows(2) {
            let late = pair[0].plus(Micros::saturating(pair[1].since(pair[0]).get() * 617 / 1_000));
            assert_eq!(cron.next_after(late), Some(pair[1]));
        }
    }

    #[test]
    fn a_bad_expression_is_told_with_its_place() {
        for (bad, told) in [
            ("0 25 * * *", "at character 3: the hours \"25\" must be of 0-23"),
            ("61 * * * *", "at character 1: the minutes"),
            ("0  0   32 * *", "at character 8: the days of the month \"32\""),
            ("0 0 0 * FOO 1", "at character 9: the months \"FOO\""),
            ("70 0 0 * * *", "at character 1: the seconds \"70\""),
            ("0 0 * * 8", "the days of the week \"8\""),
            ("*/0 * * * *", "the minutes \"*/0\""),
            (",, * * * *", "at character 1: the minutes \",,\""),
            ("0 0 , * ,", "at character 5: the days of the month \",\""),
            ("1,,2 * * * *", "the minutes"),
            ("5-1 * * * *", "the minutes \"5-1\""),
            ("* * * *", "it has 4"),
            ("0 0 0 1 1 * 2026", "it has 7"),
            ("", "it has 0"),
            ("@reboot", "must be one of @yearly"),
            ("0 0 30 2 *", "never comes"),
            ("0 0 31 4,6,9,11 *", "never comes"),
            ("ä * * * *", "ASCII"),
        ] {
            let fault = Cron::new(bad, "UTC", Dst::Shift).unwrap_err();
            assert_eq!(fault.field, "cron", "{bad}");
            assert!(fault.reason.contains(told), "{bad}: {}", fault.reason);
        }
        for zone in ["", "Mars/Olympus", "+02:00", "Europe/Berlin "] {
            assert_eq!(Cron::new("@daily", zone, Dst::Shift).unwrap_err().field, "zone", "{zone}");
        }
    }

    #[test]
    fn whatever_is_typed_is_read_or_refused() {
        let pieces = ["*", "0", "5", "12", "29", "31", "60", "7", "/", "-", ",", "#", "L", "W", "?", "+", "@", "SUN", "FEB", "X", " ", ""];
        let seed = crate::Seed::new(17);
        for round in 0..3_000 {
            let piece = |index| pieces[usize::try_from(seed.child(round).child(index).below(22)).unwrap()];
            let field = |at| [piece(at), if piece(at + 1).len() == 1 { "" } else { piece(at + 2) }, piece(at + 3)].concat();
            let expression = [0, 10, 20, 30, 40].map(|at| if piece(at + 5) < "5" { String::from("*") } else { field(at) }).join(" ");
            if let Ok(cron) = expression.parse::<Cron>() {
                let next = cron.next_after(micros("2026-01-01T00:00:00Z"));
                assert!(next.is_some(), "{expression:?}");
            }
        }
    }
}
