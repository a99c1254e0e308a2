//! What is wrong with a file, and where.

use hermod_client::ClientError;
use saphyr::Marker;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A place in the file, as editors count: both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    /// Where a file begins.
    pub(crate) const START: Place = Place { line: 1, column: 1 };
}

impl From<&Marker> for Place {
    fn from(marker: &Marker) -> Place {
        Place { line: marker.line(), column: marker.col() + 1 }
    }
}

/// Which item a fault is in: what it is called, and its id; its number in the file if it has none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Of {
    pub(crate) noun: &'static str,
    pub(crate) name: String,
}

/// As a field: `"rule": "burst"`.
impl Serialize for Of {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.noun, &self.name)?;
        map.end()
    }
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Fault {
    #[serde(flatten)]
    pub(crate) place: Place,
    #[serde(flatten)]
    pub(crate) of: Option<Of>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    pub(crate) detail: String,
}

impl Fault {
    /// A fault in the file as a whole.
    pub(crate) fn new(place: Place, detail: impl Into<String>) -> Fault {
        Fault { place, of: None, field: None, detail: detail.into() }
    }

    /// The fault in a line that editors can jump from.
    pub(crate) fn line(&self, file: &str) -> String {
        let Place { line, column } = self.place;
        let of = self.of.as_ref().map(|of| format!("{} {}: ", of.noun, of.name)).unwrap_or_default();
        format!("{file}:{line}:{column}: {of}{}", self.detail)
    }
}

/// Whether the item is to blame: another one, or this one changed, may well be taken.
pub(crate) fn is_of_the_item(fault: &ClientError) -> bool {
    fault.problem().is_some_and(|problem| matches!(problem.status, 400 | 409 | 413 | 422) && !problem.is_retryable())
}
