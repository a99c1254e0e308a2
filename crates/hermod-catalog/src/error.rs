//! Why the catalog could not answer. One enum for all its calls.

use std::error::Error as StdError;

use hermod_core::realm::Fault;
use hermod_core::{Invalid, RuleId};

type Source = Box<dyn StdError + Send + Sync>;

/// Why a call of the catalog did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The database did not answer, or not in time.
    #[error("the catalog's database is not available")]
    Unavailable(#[source] Source),
    /// The database answered, but refused the statement. Repeating it will not help.
    #[error("the catalog's database refused a statement")]
    Refused(#[source] Source),
    /// There is one of that identifier already.
    #[error("a {what} {id:?} exists already")]
    Exists {
        /// A rule, a space, a queue, a message.
        what: &'static str,
        /// Its identifier.
        id: String,
    },
    /// Another rule has the same name, action, subject and condition: it would be unclear which one wins.
    #[error("rule {existing} has the same name, action, subject and when")]
    Duplicate {
        /// The rule that is there.
        existing: RuleId,
    },
    /// There is none of that identifier.
    #[error("there is no {what} {id:?}")]
    NotFound {
        /// A space, a queue, a deck.
        what: &'static str,
        /// The identifier asked for.
        id: String,
    },
    /// The space or the deck has as many of them as it may.
    #[error("a {whole} may have {max} {what}s at most")]
    TooMany {
        /// A space, a deck.
        whole: &'static str,
        /// A queue, a schedule, a deck, a message, a realm.
        what: &'static str,
        /// How many there may be.
        max: u64,
    },
    /// It is the last key that can make keys for all spaces.
    #[error("this is the last key with the scopes admin and spaces")]
    LastKey,
    /// The idempotency key was used for another request. Nothing was done.
    #[error("the idempotency key {key:?} was used for another request")]
    IdempotencyConflict {
        /// The caller's key.
        key: String,
    },
    /// A value was not accepted.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A definition was not accepted: all that is wrong with it.
    #[error("{}", first(.faults))]
    Faulty {
        /// At least one.
        faults: Vec<Fault>,
    },
    /// The catalog cannot be opened as it is configured.
    #[error("{reason}")]
    Configuration {
        /// What is wrong, and what would be right. Never holds a password.
        reason: String,
        /// What the database or the parser said.
        source: Option<Source>,
    },
    /// A stored definition cannot be understood: it was edited by hand, or written by a newer version.
    #[error("the stored {what} {id:?} cannot be read")]
    Corrupt {
        /// A rule, a space, an API key, a queue, a schedule, a deck, a message, a realm, a change.
        what: &'static str,
        /// Its identifier.
        id: String,
        /// What is wrong with it.
        source: Source,
    },
    /// The system gave no random bytes for a secret.
    #[error("the system gave no random bytes")]
    Chance(#[source] getrandom::Error),
}

/// One fault, and how many more there are.
fn first(faults: &[Fault]) -> String {
    let told = faults.first().map(|fault| format!("{}: {}", fault.path, fault.reason)).unwrap_or_default();
    match faults.len() {
        0 | 1 => told,
        count => format!("{told} (and {} more)", count - 1),
    }
}

impl CatalogError {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, CatalogError::Unavailable(_) | CatalogError::Chance(_))
    }

    pub(crate) fn space_not_found(space: &str) -> CatalogError {
        CatalogError::NotFound { what: "space", id: space.to_owned() }
    }

    pub(crate) fn configuration(reason: impl Into<String>) -> CatalogError {
        CatalogError::Configuration { reason: reason.into(), source: None }
    }

    pub(crate) fn corrupt(what: &'static str, id: impl Into<String>, source: impl Into<Source>) -> CatalogError {
        CatalogError::Corrupt { what, id: id.into(), source: source.into() }
    }
}

impl From<sqlx::Error> for CatalogError {
    fn from(fault: sqlx::Error) -> CatalogError {
        use sqlx::Error::{
            AnyDriverError, ColumnDecode, ColumnIndexOutOfBounds, ColumnNotFound, Decode, Encode, RowNotFound, TypeNotFound,
        };
        let is_permanent = match &fault {
            // Constraints are checked before each write, so a violation is a fault of ours or of a hand-edited row.
            sqlx::Error::Database(said) => said.is_unique_violation() || said.is_foreign_key_violation() || said.is_check_violation(),
            AnyDriverError(_) | ColumnDecode { .. } | ColumnIndexOutOfBounds { .. } | ColumnNotFound(_) => true,
            Decode(_) | Encode(_) | RowNotFound | TypeNotFound { .. } => true,
            _ => false,
        };
        if is_permanent { CatalogError::Refused(fault.into()) } else { CatalogError::Unavailable(fault.into()) }
    }
}

impl From<tokio::time::error::Elapsed> for CatalogError {
    fn from(late: tokio::time::error::Elapsed) -> CatalogError {
        CatalogError::Unavailable(late.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_retryable_and_sources_are_kept() {
        let down = CatalogError::from(sqlx::Error::PoolTimedOut);
        assert!(down.is_retryable());
        assert!(down.source().is_some());
        assert!(!CatalogError::from(sqlx::Error::RowNotFound).is_retryable());
        assert!(!CatalogError::configuration("x").is_retryable());
    }
}
