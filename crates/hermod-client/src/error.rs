//! Why no answer was had.
//!
//! One enum for all calls. It keeps apart what a caller handles differently: the server said no
//! ([`ClientError::Problem`]), nobody was there, nobody was quick enough, somebody else answered,
//! and the call could not even be made.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Why a call gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server could not answer, and said why.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// No connection, or it broke before the answer was complete.
    #[error("the server cannot be reached")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// No answer in time.
    #[error("the server did not answer in time")]
    Timeout,
    /// An answer that is not Hermod's: another program, a proxy, or a version too far away.
    #[error("the answer (status {status}) is not one of Hermod's: {detail}")]
    BadAnswer {
        /// The HTTP status.
        status: u16,
        /// What was wrong with it.
        detail: String,
        /// How long the answer asked to wait.
        retry_after: Option<Duration>,
    },
    /// The call could not be made as asked; nothing was sent.
    #[error("{what}: {reason}")]
    Invalid {
        /// What was wrong.
        what: &'static str,
        /// Why, and what would be right.
        reason: String,
    },
}

impl ClientError {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            ClientError::Problem(problem) => problem.is_retryable(),
            ClientError::Unreachable(_) | ClientError::Timeout => true,
            ClientError::BadAnswer { status, .. } => is_retryable_status(*status),
            ClientError::Invalid { .. } => false,
        }
    }

    /// Whether the call certainly had no effect: it never reached the server, or was turned away.
    pub(crate) fn changed_nothing(&self) -> bool {
        match self {
            ClientError::Problem(problem) => problem.code == "overloaded",
            ClientError::Unreachable(source) => source.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect),
            _ => false,
        }
    }

    /// How long the server asked to wait before the next try.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ClientError::Problem(problem) => problem.retry_after,
            ClientError::BadAnswer { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether a worker of a sticky queue must register again: it was not heard of for too long, it left, or another has
    /// registered under its name.
    pub fn is_worker_gone(&self) -> bool {
        self.problem().is_some_and(|problem| problem.code == "worker_gone")
    }

    /// The server's problem document, if it gave one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            ClientError::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    pub(crate) fn invalid(what: &'static str, reason: impl Into<String>) -> ClientError {
        ClientError::Invalid { what, reason: reason.into() }
    }
}

/// A problem document (RFC 9457), as the server sends it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Problem {
    /// The address of the problem's description.
    #[serde(rename = "type", default = "blank")]
    pub kind: String,
    /// The kind of problem in a few words.
    #[serde(default)]
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, and what to do.
    #[serde(default)]
    pub detail: String,
    /// The stable code of the problem, for programs.
    pub code: String,
    /// The field of the request that was at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Whether the same call may succeed later. Judged by the status if the server did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// When it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// Names this call in the server's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What else the server said; depends on the code.
    #[serde(flatten)]
    pub more: serde_json::Map<String, serde_json::Value>,
    /// The `Retry-After` that came with it.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// A problem, for those who answer checks themselves.
    pub fn new(status: u16, code: impl Into<String>, detail: impl Into<String>) -> Problem {
        Problem {
            kind: blank(),
            title: String::new(),
            status,
            detail: detail.into(),
            code: code.into(),
            field: None,
            retryable: None,
            retry_at: None,
            request_id: None,
            more: serde_json::Map::new(),
            retry_after: None,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.retryable.unwrap_or_else(|| is_retryable_status(self.status))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.detail.is_empty() { &self.title } else { &self.detail };
        write!(f, "{text} ({})", self.code)
    }
}

fn blank() -> String {
    "about:blank".to_owned()
}

/// The statuses by which servers and proxies say "later".
fn is_retryable_status(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 502 | 503 | 504)
}
