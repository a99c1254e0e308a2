//! What is wrong with a file of rules, and where.

use hermod_client::ClientError;
use saphyr::Marker;
use serde::Serialize;

use super::file::Written;

/// A place in the file, as editors count: both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl From<&Marker> for Place {
    fn from(marker: &Marker) -> Place {
        Place { line: marker.line(), column: marker.col() + 1 }
    }
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Fault {
    #[serde(flatten)]
    pub(super) place: Place,
    /// The rule's id; its number in the file if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<String>,
    pub(super) detail: String,
}

impl Fault {
    /// A fault in the file as a whole.
    pub(super) fn new(place: Place, detail: impl Into<String>) -> Fault {
        Fault { place, rule: None, field: None, detail: detail.into() }
    }

    /// What the server has against a rule; none if the rule is not to blame.
    pub(super) fn refused(written: &Written, fault: &ClientError) -> Option<Fault> {
        let problem = fault.problem().filter(|_| is_of_the_rule(fault))?;
        Some(written.fault(problem.field.as_deref().unwrap_or("id"), problem.to_string()))
    }

    /// The fault in a line that editors can jump from.
    pub(super) fn line(&self, file: &str) -> String {
        let Place { line, column } = self.place;
        let rule = self.rule.as_ref().map(|rule| format!("rule {rule}: ")).unwrap_or_default();
        format!("{file}:{line}:{column}: {rule}{}", self.detail)
    }
}

/// Whether the rule is to blame: another rule, or this one changed, may well be taken.
pub(super) fn is_of_the_rule(fault: &ClientError) -> bool {
    fault.problem().is_some_and(|problem| matches!(problem.status, 400 | 409 | 413 | 422) && !problem.is_retryable())
}
