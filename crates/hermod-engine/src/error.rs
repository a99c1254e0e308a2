//! Why no answer could be given, and why an engine could not be opened.

use std::path::PathBuf;
use std::sync::Arc;

use hermod_core::BadReply;

type Source = Arc<dyn std::error::Error + Send + Sync>;

/// No answer could be given. A refusal is not an error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store cannot be reached, or cannot write. Whether the operation took effect is unknown
    /// if it was under way; an idempotency key makes asking again safe.
    #[error("the store is unavailable: {what}")]
    Unavailable {
        /// What is wrong, for the operator's log; not for callers.
        what: String,
        /// Where it came from.
        #[source]
        source: Option<Source>,
    },
    /// The memory bound is reached and the operation would need more. Nothing was changed.
    #[error("the store is full")]
    Full,
    /// The store could not run the operation: a bug here, or someone else's data.
    #[error("the operation failed in the store")]
    Script(#[source] Source),
    /// The store answered something that no operation answers.
    #[error("the store gave an answer that is not understood")]
    BadReply(#[from] BadReply),
}

impl EngineError {
    pub(crate) fn unavailable(what: impl Into<String>) -> EngineError {
        EngineError::Unavailable { what: what.into(), source: None }
    }

    pub(crate) fn caused(what: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> EngineError {
        EngineError::Unavailable { what: what.into(), source: Some(Arc::new(source)) }
    }

    pub(crate) fn failed(why: String) -> EngineError {
        EngineError::Script(Box::<dyn std::error::Error + Send + Sync>::from(why).into())
    }

    /// Whether asking again later may be answered.
    pub fn is_retryable(&self) -> bool {
        match self {
            EngineError::Unavailable { .. } | EngineError::Full => true,
            EngineError::Script(_) | EngineError::BadReply(_) => false,
        }
    }
}

/// An engine could not be opened. Each says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the folder.
    #[error("{} is in use by another hermod process; stop it, or choose another folder with --data", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The folder or a file in it cannot be used.
    #[error("{} cannot be opened: {source}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The journal cannot be read or written.
    #[error("the journal in {} cannot be opened: {source}", path.display())]
    Journal {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The data was written by a version this one does not know.
    #[error("the data has format {found}, and this version of hermod reads format {known}; use the version that wrote it")]
    Format {
        /// What the data says.
        found: String,
        /// What this version reads.
        known: u32,
    },
    /// The data was created with another number of partitions.
    #[error("the data was created with {stored} partitions, and {configured} are configured; set partitions = {stored}")]
    Partitions {
        /// What the data says.
        stored: String,
        /// What the configuration says.
        configured: u16,
    },
    /// Something of the data is missing, or cannot be read: what.
    #[error("the data is damaged: {0}; restore a copy of the folder")]
    Damaged(String),
    /// The address of the store cannot be understood.
    #[error("store: {0}")]
    Address(String),
    /// The store was reached, and is not fit for use.
    #[error("{0}")]
    Unfit(String),
    /// The store was not reached.
    #[error("{0}")]
    Unreachable(EngineError),
}
