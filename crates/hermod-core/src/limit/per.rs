//! A rule's period: a span of time, or a window of the calendar in a time zone.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::Invalid;
use crate::int::Micros;

/// A rule's period: `30s`, `1h 30m`, a unit (`second`, `minute`, `hour`, `day`), or a calendar window
/// (`day@Europe/Berlin`, `week@UTC`, `month@America/New_York`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Per {
    /// Always as long.
    Span(Micros),
    /// From one turn of the calendar to the next, however long that is.
    Calendar(Calendar),
}

/// Windows of a calendar in a time zone.
#[derive(Clone, Debug)]
pub struct Calendar {
    unit: Unit,
    zone: TimeZone,
    name: Box<str>,
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Calendar) -> bool {
        self.unit == other.unit && self.name == other.name
    }
}

impl Eq for Calendar {}

/// What a calendar window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Hour,
    Day,
    Week,
    Month,
    Year,
}

const UNITS: [(Unit, &str, u64); 5] = [
    (Unit::Hour, "hour", 3_600),
    (Unit::Day, "day", 86_400),
    (Unit::Week, "week", 7 * 86_400),
    (Unit::Month, "month", 30 * 86_400),
    (Unit::Year, "year", 365 * 86_400),
];

/// One window and the end of the next: all a twin needs to know of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// When the window begins.
    pub start: Micros,
    /// When it ends, and the next one begins.
    pub end: Micros,
    /// When the next one ends.
    pub next_end: Micros,
}

impl Per {
    /// The longest span: about a year.
    pub const MAX: Micros = Micros::saturating(366 * 86_400_000_000);

    /// A period of this length.
    pub fn span(span: Micros) -> Result<Per, Invalid> {
        if span == Micros::ZERO || span > Per::MAX {
            return Err(Invalid::new("per", "must be between 1us and 366days"));
        }
        Ok(Per::Span(span))
    }

    /// Its usual length: of a calendar window that of one without a change of clocks.
    pub fn usual(&self) -> Micros {
        match self {
            Per::Span(span) => *span,
            Per::Calendar(calendar) => {
                let seconds = UNITS.iter().find(|(unit, ..)| *unit == calendar.unit).map_or(0, |(.., seconds)| *seconds);
                Micros::saturating(seconds * 1_000_000)
            }
        }
    }
}

impl Calendar {
    /// The windows of this unit (`hour`, `day`, `week`, `month`, `year`) in this time zone.
    pub fn new(unit: &str, zone: &str) -> Result<Calendar, Invalid> {
        calendar(unit, zone)
    }

    /// The words of all units.
    pub fn units() -> [&'static str; 5] {
        UNITS.map(|(_, word, _)| word)
    }

    /// The window that `now` is in, and the end of the next.
    pub fn bounds(&self, now: Micros) -> Bounds {
        let zoned = timestamp(now).to_zoned(self.zone.clone());
        let start = self.floor(zoned.datetime());
        // Where clocks go back an hour, local time passes the same turn twice: hours are walked in real time.
        if self.unit == Unit::Hour {
            return self.hour(now);
        }
        let span = match self.unit {
            Unit::Hour | Unit::Day => 1.day(),
            Unit::Week => 1.week(),
            Unit::Month => 1.month(),
            Unit::Year => 1.year(),
        };
        let at = |turn: DateTime| self.instant(turn);
        Bounds { start: at(start), end: at(plus(start, span)), next_end: at(plus(plus(start, span), span)) }
    }

    fn floor(&self, local: DateTime) -> DateTime {
        let date = local.date();
        let date = match self.unit {
            Unit::Hour | Unit::Day => date,
            Unit::Week => {
                let back = i64::from(date.weekday().to_monday_zero_offset());
                date.checked_sub(Span::new().days(back)).unwrap_or(date)
            }
            Unit::Month => date.first_of_month(),
            Unit::Year => date.first_of_year(),
        };
        date.at(0, 0, 0, 0)
    }

    /// Hours are counted from the zone's full hours; zones off by half an hour have theirs.
    fn hour(&self, now: Micros) -> Bounds {
        const HOUR: i64 = 3_600_000_000;
        let offset = i64::from(self.zone.to_offset(timestamp(now)).seconds()) * 1_000_000;
        let now = i64::try_from(now.get()).unwrap_or(i64::MAX);
        let start = (now + offset).div_euclid(HOUR) * HOUR - offset;
        Bounds { start: micros(start), end: micros(start + HOUR), next_end: micros(start + 2 * HOUR) }
    }

    /// When this local time comes; one that is left out when clocks go forward, as soon after as can be.
    fn instant(&self, local: DateTime) -> Micros {
        let zoned = self.zone.to_ambiguous_zoned(local).compatible();
        zoned.map_or(Micros::MAX, |zoned| micros(zoned.timestamp().as_microsecond()))
    }
}

fn timestamp(now: Micros) -> Timestamp {
    Timestamp::from_microsecond(i64::try_from(now.get()).unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX)
}

fn micros(us: i64) -> Micros {
    Micros::saturating(u64::try_from(us).unwrap_or(0))
}

fn plus(turn: DateTime, span: Span) -> DateTime {
    turn.checked_add(span).unwrap_or(DateTime::MAX)
}

impl FromStr for Per {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Per, Invalid> {
        if let Some((unit, zone)) = text.split_once('@') {
            return calendar(unit, zone).map(Per::Calendar);
        }
        let spelled = match text {
            "second" => "1s",
            "minute" => "1m",
            "hour" => "1h",
            "day" => "1day",
            other => other,
        };
        let span = humantime::parse_duration(spelled).ok().and_then(Micros::from_duration).ok_or_else(|| {
            let what = "must be a duration such as \"30s\", \"5m\" or \"1h\", one of second, minute, hour, day, \
                        or a calendar window such as \"day@Europe/Berlin\"";
            Invalid::new("per", what)
        })?;
        Per::span(span)
    }
}

fn calendar(unit: &str, zone: &str) -> Result<Calendar, Invalid> {
    let known = UNITS.iter().find(|(_, word, _)| *word == unit);
    let Some((unit, ..)) = known else {
        let words = UNITS.map(|(_, word, _)| word).join(", ");
        return Err(Invalid::new("per", format!("must name one of {words} before the @")));
    };
    // An offset such as +02:00 would be a zone too, but one without its changes of clocks.
    let found = TimeZone::get(zone)
        .map_err(|_| Invalid::new("per", "must name a time zone of the IANA database after the @, such as Europe/Berlin or UTC"))?;
    let name = found.iana_name().unwrap_or(zone).into();
    Ok(Calendar { unit: *unit, zone: found, name })
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Per::Span(span) => humantime::format_duration(span.to_duration()).fmt(f),
            Per::Calendar(calendar) => {
                let word = UNITS.iter().find(|(unit, ..)| *unit == calendar.unit).map_or("", |(_, word, _)| word);
                write!(f, "{word}@{}", calendar.name)
            }
        }
    }
}

impl Serialize for Per {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Per {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Per, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(|fault: Invalid| serde::de::Error::custom(fault.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_read_back_as_written() {
        for (text, us) in [("30s", 30_000_000), ("day", 86_400_000_000), ("1h 30m", 5_400_000_000), ("250ms", 250_000)] {
            let per: Per = text.parse().unwrap();
            assert_eq!(per.usual().get(), us, "{text}");
            assert_eq!(per.to_string().parse::<Per>().unwrap(), per);
        }
        for bad in ["", "0s", "10", "-1s", "ten", "2 years", "1ns", "day@", "day@Nowhere/Else", "decade@UTC", "@UTC"] {
            assert!(bad.parse::<Per>().is_err(), "{bad}");
        }
        assert_eq!("day@Europe/Berlin".parse::<Per>().unwrap().to_string(), "day@Europe/Berlin");
    }

    fn window(per: &str, at: &str) -> (String, String, String) {
        let Ok(Per::Calendar(calendar)) = per.parse() else { panic!("{per}") };
        let now: Timestamp = at.parse().unwrap();
        let bounds = calendar.bounds(micros(now.as_microsecond()));
        let text = |m: Micros| timestamp(m).to_string();
        (text(bounds.start), text(bounds.end), text(bounds.next_end))
    }

    #[test]
    fn calendar_day_across_dst() {
        let berlin = |at: &str| window("day@Europe/Berlin", at);
        let (start, end, next) = berlin("2026-03-29T10:00:00Z");
        // The day on which clocks go forward has 23 hours, the next one 24.
        assert_eq!([start.as_str(), &end, &next], ["2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z"]);
        let (start, end, _) = berlin("2026-10-25T10:00:00Z");
        assert_eq!([start.as_str(), &end], ["2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"], "25 hours");
    }

    #[test]
    fn windows_begin_where_people_expect() {
        assert_eq!(window("month@UTC", "2024-02-29T23:59:59Z").1, "2024-03-01T00:00:00Z");
        assert_eq!(window("week@UTC", "2026-11-15T12:00:00Z").0, "2026-11-09T00:00:00Z", "a Monday");
        assert_eq!(window("year@America/New_York", "2026-01-01T04:59:59Z").1, "2026-01-01T05:00:00Z");
        assert_eq!(window("hour@Asia/Kolkata", "2026-01-01T00:10:00Z").0, "2025-12-31T23:30:00Z");
        // Midnight does not exist on this day in Santiago: the day begins at one.
        assert_eq!(window("day@America/Santiago", "2026-09-06T12:00:00Z").0, "2026-09-06T04:00:00Z");
    }
}
