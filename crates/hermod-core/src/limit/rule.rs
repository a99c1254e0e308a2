//! A rule: a limit on an action, as people write it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{Action, Invalid, Name, RuleId, Subject};
use crate::int::Micros;
use crate::limit::meter::Meter;

/// A limit on an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its identifier. The counters carry it, so an edited rule keeps what is used.
    pub id: RuleId,
    /// The policy it belongs to.
    #[serde(default = "Name::default_name")]
    pub name: Name,
    /// The action it limits.
    pub action: Action,
    /// Whom it is for; everyone if absent. A subject's own rule overrides everyone's of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// How many tokens per period.
    pub limit: u64,
    /// The period.
    pub per: Per,
    /// How it is counted.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// The most that can be taken at once; `limit` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Whether an answer waits until the charge is on disk.
    #[serde(default)]
    pub durable: bool,
    /// Grows with every change.
    #[serde(default)]
    pub version: u64,
}

impl Rule {
    /// What the engines compute with; also the check that the numbers fit together.
    pub fn meter(&self) -> Result<Meter, Invalid> {
        if self.limit == 0 {
            return Err(Invalid::new("limit", "must be at least 1"));
        }
        for (field, text) in [("action", Some(self.action.as_str())), ("subject", self.subject.as_ref().map(Subject::as_str))] {
            if text.is_some_and(|t| t.contains('*')) {
                return Err(Invalid::new(field, "globs are not supported yet; spell it out"));
            }
        }
        let meter = Meter::new(self.limit, self.per.span(), self.burst.unwrap_or(self.limit));
        // A burst that was not given is the limit.
        meter.map_err(|fault| if self.burst.is_none() && fault.field == "burst" { Invalid { field: "limit", ..fault } } else { fault })
    }
}

/// How a rule is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Algorithm {
    /// Tokens drip back evenly; up to `burst` at once.
    #[default]
    TokenBucket,
}

/// A rule's period: `30s`, `1h 30m`, or a unit (`second`, `minute`, `hour`, `day`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Per(Micros);

impl Per {
    /// The longest period: about a year.
    pub const MAX: Micros = Micros::saturating(366 * 86_400_000_000);

    /// A period of this length.
    pub fn new(span: Micros) -> Result<Per, Invalid> {
        if span == Micros::ZERO || span > Per::MAX {
            return Err(Invalid::new("per", "must be between 1us and 366days"));
        }
        Ok(Per(span))
    }

    /// Its length.
    pub fn span(self) -> Micros {
        self.0
    }
}

impl FromStr for Per {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Per, Invalid> {
        let spelled = match text {
            "second" => "1s",
            "minute" => "1m",
            "hour" => "1h",
            "day" => "1day",
            other => other,
        };
        let span = humantime::parse_duration(spelled)
            .ok()
            .and_then(Micros::from_duration)
            .ok_or_else(|| Invalid::new("per", "must be a duration such as \"30s\", \"5m\" or \"1h\", or second, minute, hour, day"))?;
        Per::new(span)
    }
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0.to_duration()).fmt(f)
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
            assert_eq!(per.span().get(), us, "{text}");
            assert_eq!(per.to_string().parse::<Per>().unwrap(), per);
        }
        for bad in ["", "0s", "10", "-1s", "ten", "2 years", "1ns"] {
            assert!(bad.parse::<Per>().is_err(), "{bad}");
        }
    }
}
