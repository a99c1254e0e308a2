//! Quiet hours: a span of every day, in the subject's own time zone, in which nothing is sent.
//!
//! Each day's span runs from one instant to another, found by the zone's own rules. So a night with a change of clocks is an
//! hour longer or shorter, and an end that comes twice counts the first time.

use std::fmt;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::Invalid;
use crate::int::Micros;

/// A time zone of the IANA database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Zone {
    zone: TimeZone,
    name: std::sync::Arc<str>,
}

impl Zone {
    /// The one without changes of clocks.
    pub fn utc() -> Zone {
        Zone { zone: TimeZone::UTC, name: "UTC".into() }
    }

    /// The zone of this name.
    pub fn new(name: &str) -> Result<Zone, Invalid> {
        // An offset such as +02:00 would be a zone too, but one without its changes of clocks.
        let found = TimeZone::get(name)
            .map_err(|_| Invalid::new("timezone", "must name a time zone of the IANA database, such as Europe/Berlin or UTC"))?;
        let name = found.iana_name().unwrap_or(name).into();
        Ok(Zone { zone: found, name })
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    fn date(&self, now: Micros) -> Date {
        let timestamp = Timestamp::from_microsecond(i64::try_from(now.get()).unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX);
        timestamp.to_zoned(self.zone.clone()).date()
    }

    /// The last time that it was this minute of the day, and the next two times that it will be.
    pub(crate) fn turns(&self, now: Micros, minute: u16) -> [Micros; 3] {
        let today = self.date(now);
        let on = |days: i64| self.instant(today.checked_add(days.days()).unwrap_or(Date::MAX), minute);
        let first = if on(0) <= now { 0 } else { -1 };
        [on(first), on(first + 1), on(first + 2)]
    }

    /// When this local time comes; one that is left out when clocks go forward, as soon after as can be.
    fn instant(&self, date: Date, minute: u16) -> Micros {
        let part = |n: u16| i8::try_from(n).unwrap_or(0);
        let time = Time::new(part(minute / 60), part(minute % 60), 0, 0).unwrap_or(Time::midnight());
        let zoned = self.zone.to_ambiguous_zoned(date.to_datetime(time)).compatible();
        zoned.map_or(Micros::MAX, |zoned| Micros::saturating(u64::try_from(zoned.timestamp().as_microsecond()).unwrap_or(0)))
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.name)
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Zone, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Zone::new(&text).map_err(|fault| serde::de::Error::custom(fault.reason))
    }
}

/// Quiet hours, as `{"from": "22:00", "to": "08:00"}`: across midnight where `to` is not after `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Quiet {
    /// Minutes after midnight.
    from: u16,
    to: u16,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    from: String,
    to: String,
}

impl TryFrom<Form> for Quiet {
    type Error = String;

    fn try_from(form: Form) -> Result<Quiet, String> {
        Quiet::new(&form.from, &form.to).map_err(|fault| format!("{}: {}", fault.field, fault.reason))
    }
}

impl From<Quiet> for Form {
    fn from(quiet: Quiet) -> Form {
        let (from, to) = quiet.bounds();
        Form { from, to }
    }
}

/// What of quiet hours matters at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hush {
    /// It is quiet, until then.
    Quiet(Micros),
    /// It is not: since then, until then.
    Loud(Micros, Micros),
}

impl Quiet {
    /// From one time of day to another; the fault's field is `from` or `to`.
    pub fn new(from: &str, to: &str) -> Result<Quiet, Invalid> {
        let quiet = Quiet { from: minute("from", from)?, to: minute("to", to)? };
        if quiet.from == quiet.to {
            return Err(Invalid::new("to", "must differ from `from`; to send nothing at all, mute the subject"));
        }
        Ok(quiet)
    }

    /// Both ends as text.
    pub fn bounds(&self) -> (String, String) {
        let text = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
        (text(self.from), text(self.to))
    }

    /// Whether it is quiet at `now` in this zone, and when that holds.
    pub fn at(&self, zone: &Zone, now: Micros) -> Hush {
        let today = zone.date(now);
        let day = |n: i64| today.checked_add(n.days()).unwrap_or(today);
        let ends_next_day = i64::from(self.to <= self.from);
        let (mut last, mut next) = (Micros::ZERO, Micros::MAX);
        for n in -1..=2 {
            let (start, end) = (zone.instant(day(n), self.from), zone.instant(day(n + ends_next_day), self.to));
            if start <= now && now < end {
                return Hush::Quiet(end);
            }
            if start > now && start < end {
                next = next.min(start);
            }
            if end <= now && start < end {
                last = last.max(end);
            }
        }
        Hush::Loud(last, next)
    }
}

impl fmt::Display for Quiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.bounds();
        write!(f, "{from}-{to}")
    }
}

fn minute(field: &'static str, text: &str) -> Result<u16, Invalid> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|_| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit()));
    let parts = text.split_once(':').and_then(|(hour, minute)| Some((number(hour)?, number(minute)?)));
    match parts {
        Some((hour @ 0..24, minute @ 0..60)) => Ok(hour * 60 + minute),
        _ => Err(Invalid::new(field, "must be a time of day such as \"22:00\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Micros {
        let timestamp: Timestamp = text.parse().unwrap();
        Micros::new(u64::try_from(timestamp.as_microsecond()).unwrap()).unwrap()
    }

    #[test]
    fn quiet_hours_wrap_midnight_and_dst() {
        let berlin = Zone::new("Europe/Berlin").unwrap();
        let night = Quiet::new("22:00", "08:00").unwrap();
        let day = Quiet::new("12:00", "13:30").unwrap();
        let early = Quiet::new("01:00", "02:30").unwrap();
        for (quiet, now, expected) in [
            // Winter: an hour ahead of UTC.
            (night, "2026-01-10T20:59:59Z", Hush::Loud(at("2026-01-10T07:00:00Z"), at("2026-01-10T21:00:00Z"))),
            (night, "2026-01-10T21:00:00Z", Hush::Quiet(at("2026-01-11T07:00:00Z"))),
            (night, "2026-01-11T06:59:59Z", Hush::Quiet(at("2026-01-11T07:00:00Z"))),
            (night, "2026-01-11T07:00:00Z", Hush::Loud(at("2026-01-11T07:00:00Z"), at("2026-01-11T21:00:00Z"))),
            // The night of the change to summer is an hour shorter, that of the change to winter an hour longer.
            (night, "2026-03-28T21:00:00Z", Hush::Quiet(at("2026-03-29T06:00:00Z"))),
            (night, "2026-10-24T20:00:00Z", Hush::Quiet(at("2026-10-25T07:00:00Z"))),
            (day, "2026-07-01T10:00:00Z", Hush::Quiet(at("2026-07-01T11:30:00Z"))),
            (day, "2026-07-01T11:30:00Z", Hush::Loud(at("2026-07-01T11:30:00Z"), at("2026-07-02T10:00:00Z"))),
            // 02:30 does not come on this day: clocks go from 02:00 to 03:00.
            (early, "2026-03-29T00:59:00Z", Hush::Quiet(at("2026-03-29T01:30:00Z"))),
            // 02:30 comes twice on this one, and counts the first time.
            (early, "2026-10-25T00:29:00Z", Hush::Quiet(at("2026-10-25T00:30:00Z"))),
            (early, "2026-10-25T01:15:00Z", Hush::Loud(at("2026-10-25T00:30:00Z"), at("2026-10-26T00:00:00Z"))),
        ] {
            assert_eq!(quiet.at(&berlin, at(now)), expected, "{quiet} at {now}");
        }
    }

    #[test]
    fn times_of_day_are_checked() {
        for (from, to, field) in [
            ("22", "08:00", "from"),
            ("22:00", "24:00", "to"),
            ("22:00", "22:00", "to"),
            ("2:00", "3:00", "from"),
            ("02:60", "03:00", "from"),
        ] {
            assert_eq!(Quiet::new(from, to).unwrap_err().field, field, "{from} {to}");
        }
        assert_eq!(Quiet::new("00:00", "23:59").unwrap().to_string(), "00:00-23:59");
        assert!(Zone::new("+02:00").is_err() && Zone::new("Nowhere/Here").is_err());
    }
}
