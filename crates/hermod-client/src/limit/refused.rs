//! Who is refused most.

use serde::{Deserialize, Serialize};

/// A subject that is refused often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RefusedSubject {
    /// Who.
    pub subject: String,
    /// How often since the server was started; perhaps too high, never too low.
    pub refused: u64,
}

/// The answer's document.
#[derive(Deserialize)]
pub(super) struct Refused {
    pub(super) items: Vec<RefusedSubject>,
}
