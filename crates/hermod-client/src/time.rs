//! A point in time, as the API writes it: RFC 3339 UTC with milliseconds.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(SystemTime);

impl Time {
    /// The same point for the standard library.
    pub fn to_system_time(self) -> SystemTime {
        self.0
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Time {
        Time(time)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis(self.0).fmt(f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Time, D::Error> {
        let text = Cow::<'de, str>::deserialize(d)?;
        humantime::parse_rfc3339(&text).map(Time).map_err(|fault| serde::de::Error::custom(format!("{text:?} is not a time: {fault}")))
    }
}

/// A point in time to the microsecond, for what must not be a moment too early.
pub(crate) fn exact<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(&humantime::format_rfc3339_micros(time.0)),
        None => serializer.serialize_none(),
    }
}

/// A span as the API writes it: `1m 30s`.
pub(crate) fn span<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => serializer.collect_str(&humantime::format_duration(*span)),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back_as_written() {
        let text = "\"2026-02-03T04:05:06.789Z\"";
        let time: Time = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&time).unwrap(), text);
        assert!(serde_json::from_str::<Time>("\"soon\"").is_err());
    }
}
