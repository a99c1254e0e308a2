//! Times as they are sent: RFC 3339, UTC, milliseconds.

use hermod_core::{Invalid, Micros};
use serde::{Serialize, Serializer};
use utoipa::{PartialSchema, ToSchema};

/// A point in time. Rounded up to the millisecond, so that "ask again at" is never too early.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Micros);

impl Time {
    /// A moment that has come: rounded down, so that it is not in the future.
    pub(super) fn passed(at: Micros) -> Time {
        Time(Micros::saturating(at.get() - at.get() % 1000))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = rfc3339(self.0.get().div_ceil(1000));
        serializer.serialize_str(std::str::from_utf8(&text).unwrap_or(""))
    }
}

/// Reads a time as RFC 3339.
pub(super) fn read_time(field: &'static str, text: &str) -> Result<Micros, Invalid> {
    let bad = || Invalid::new(field, "must be a time such as \"2026-01-31T09:00:00Z\"");
    let time: jiff::Timestamp = text.parse().map_err(|_| bad())?;
    // What was before the epoch has come long ago.
    Micros::new(u64::try_from(time.as_microsecond()).unwrap_or(0)).ok_or_else(bad)
}

/// By hand, because every answer holds a few: a general printer takes several times as long. Held at
/// the end of the year 9999, where the format ends.
fn rfc3339(ms: u64) -> [u8; 24] {
    let ms = ms.min(253_402_300_799_999);
    let (days, in_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = civil(days);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let fields = [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, in_day / 3_600_000),
        (14..16, in_day / 60_000 % 60),
        (17..19, in_day / 1000 % 60),
        (20..23, in_day % 1000),
    ];
    for (place, value) in fields {
        let mut rest = value;
        for digit in text.get_mut(place).unwrap_or_default().iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
    }
    text
}

/// The date so many days after 1970-01-01, counted in years that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, in_era) = (days / 146_097, days % 146_097);
    let year_of_era = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

impl PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::DateTime)))
            .into()
    }
}

impl ToSchema for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_the_millisecond() {
        let text = |us| serde_json::to_string(&Time(Micros::saturating(us))).unwrap();
        assert_eq!(text(1_700_000_000_000_000), "\"2023-11-14T22:13:20.000Z\"");
        assert_eq!(text(1_700_000_000_000_001), "\"2023-11-14T22:13:20.001Z\"");
    }

    #[test]
    fn every_day_until_2255_agrees_with_the_general_printer() {
        for day in 0..104_300 {
            let ms = day * 86_400_000 + day * 7_919 % 86_400_000;
            let theirs = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
            assert_eq!(std::str::from_utf8(&rfc3339(ms)).unwrap(), format!("{theirs:.3}"));
        }
        assert_eq!(&rfc3339(u64::MAX), b"9999-12-31T23:59:59.999Z");
    }
}
