//! A cap: so many per period, for one message or for all messages of a deck together.

use serde::{Deserialize, Serialize};

use super::quiet::Zone;
use crate::id::Invalid;
use crate::int::Micros;
use crate::limit::meter::{Bucket, Meter, Sliding, Window};
use crate::limit::per::{Calendar, Per};
use crate::word::word_enum;

/// The most tokens.
pub const TOKENS_MAX: u64 = 1_000_000;
/// Up to so many every send of a rolling cap is kept with its own time; beyond it they are counted in a ring.
const LOG_MAX: u64 = 64;

/// So many per period. It cannot be zero: what must not be sent is not active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Cap {
    tokens: u64,
    per: Box<str>,
    kind: CapKind,
}

word_enum! {
    /// How a cap counts.
    CapKind, "kind", {
        /// Tokens drip back evenly.
        #[default]
        Bucket = "bucket",
        /// Never more in any span of this length.
        Rolling = "rolling",
        /// So many in each hour, day, week, month or year of the subject's own calendar.
        Calendar = "calendar",
    }
}

/// As people write it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    tokens: u64,
    per: String,
    #[serde(default)]
    kind: CapKind,
}

impl TryFrom<Form> for Cap {
    type Error = String;

    fn try_from(form: Form) -> Result<Cap, String> {
        Cap::new(form.tokens, &form.per, form.kind).map_err(|fault| format!("{}: {}", fault.field, fault.reason))
    }
}

impl From<Cap> for Form {
    fn from(cap: Cap) -> Form {
        Form { tokens: cap.tokens, per: cap.per.into(), kind: cap.kind }
    }
}

impl Cap {
    /// `tokens` per `per`; the fault's field is `tokens`, `per` or `kind`.
    pub fn new(tokens: u64, per: &str, kind: CapKind) -> Result<Cap, Invalid> {
        if tokens == 0 {
            return Err(Invalid::new("tokens", "must be at least 1; what must not be sent is not active, and no cap is null"));
        }
        if tokens > TOKENS_MAX {
            return Err(Invalid::new("tokens", format!("must be at most {TOKENS_MAX}")));
        }
        let cap = Cap { tokens, per: per.into(), kind };
        cap.try_meter(&Zone::utc()).map_err(|fault| match fault.field {
            "limit" | "burst" => Invalid { field: "tokens", ..fault },
            _ => fault,
        })?;
        Ok(cap)
    }

    /// How many.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Per what, as it was written.
    pub fn per(&self) -> &str {
        &self.per
    }

    /// How it counts.
    pub fn kind(&self) -> CapKind {
        self.kind
    }

    /// What the engines compute with, for a subject in this zone.
    pub fn meter(&self, zone: &Zone) -> Meter {
        self.try_meter(zone).expect("it was tried when it was made, and a zone is one of the database's")
    }

    /// Whether its meter depends on the subject's zone.
    pub fn is_calendar(&self) -> bool {
        self.kind == CapKind::Calendar
    }

    fn try_meter(&self, zone: &Zone) -> Result<Meter, Invalid> {
        match self.kind {
            CapKind::Calendar => {
                let calendar = Calendar::new(&self.per, zone.as_str()).map_err(|_| {
                    Invalid::new("per", format!("must be one of {} where the kind is calendar", Calendar::units().join(", ")))
                })?;
                Window::calendar(self.tokens, calendar).map(Meter::Window)
            }
            CapKind::Bucket => Bucket::new(self.tokens, self.span()?, self.tokens, 0).map(Meter::Bucket),
            CapKind::Rolling if self.tokens <= LOG_MAX => Sliding::log(self.tokens, self.span()?).map(Meter::Sliding),
            CapKind::Rolling => Sliding::ring(self.tokens, self.span()?).map(Meter::Sliding),
        }
    }

    fn span(&self) -> Result<Micros, Invalid> {
        match self.per.parse()? {
            Per::Span(span) => Ok(span),
            Per::Calendar(_) => Err(Invalid::new("per", "must be a duration; for windows of the calendar, use kind: calendar")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_zero_is_refused() {
        let fault = Cap::new(0, "10m", CapKind::Bucket).unwrap_err();
        assert_eq!(fault.field, "tokens");
        assert!(fault.reason.contains("not active"), "{fault}");
    }

    #[test]
    fn a_cap_names_what_is_wrong() {
        for (tokens, per, kind, field) in [
            (1, "soon", CapKind::Bucket, "per"),
            (1, "10m", CapKind::Calendar, "per"),
            (1, "day@UTC", CapKind::Rolling, "per"),
            (TOKENS_MAX + 1, "1h", CapKind::Bucket, "tokens"),
            (1, "0s", CapKind::Rolling, "per"),
        ] {
            assert_eq!(Cap::new(tokens, per, kind).unwrap_err().field, field, "{tokens} {per}");
        }
        for (per, kind) in [("10m", CapKind::Bucket), ("day", CapKind::Calendar), ("day", CapKind::Rolling), ("1year", CapKind::Bucket)] {
            let cap = Cap::new(3, per, kind).unwrap();
            assert_eq!((cap.tokens(), cap.per(), cap.kind()), (3, per, kind));
        }
    }
}
