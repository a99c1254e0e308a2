//! The one table of what can go wrong: every interface, and the documentation, read it.

use std::fmt;

use hermod_catalog::CatalogError;
use hermod_core::Invalid;
use hermod_core::realm::Fault;
use hermod_engine::EngineError;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:literal, $retryable:literal, $title:literal;)*) => {
        /// A stable code. What it means to a caller never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            /// Its text: `store_unavailable`.
            pub fn text(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }

            /// Its HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Code::$variant => $status,)* }
            }

            /// Whether the same request may succeed later.
            pub fn is_retryable(self) -> bool {
                match self { $(Code::$variant => $retryable,)* }
            }

            /// What it means, in one line.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }
        }
    };
}

codes! {
    /// The body does not parse.
    InvalidJson = "invalid_json", 400, false, "The body is not valid JSON";
    /// A field's value is not acceptable.
    InvalidField = "invalid_field", 400, false, "A field has a value that is not accepted";
    /// A field is there that nobody knows.
    UnknownField = "unknown_field", 400, false, "The body has a field that is not known";
    /// A field that is needed is not there.
    MissingField = "missing_field", 400, false, "The body lacks a field that is needed";
    /// No key, or one that is not known.
    Unauthorized = "unauthorized", 401, false, "A valid API key is needed";
    /// The key is known and may not do this.
    Forbidden = "forbidden", 403, false, "The API key may not do this";
    /// There is no such thing.
    NotFound = "not_found", 404, false, "There is no such thing";
    /// There is no such deck.
    DeckNotFound = "deck_not_found", 404, false, "There is no such deck";
    /// The deck has no such message.
    MessageNotFound = "message_not_found", 404, false, "The deck has no such message";
    /// There is no such realm.
    RealmNotFound = "realm_not_found", 404, false, "There is no such realm";
    /// It was there, and is not any more.
    Gone = "gone", 410, false, "It is gone";
    /// The path exists, the method does not.
    MethodNotAllowed = "method_not_allowed", 405, false, "This path does not take this method";
    /// The identifier is taken.
    AlreadyExists = "already_exists", 409, false, "It exists already";
    /// Another rule says the same for the same action, subject and name.
    DuplicateRule = "duplicate_rule", 409, false, "Another rule covers the same name, action, subject and condition";
    /// Deleting it would lock everybody out.
    LastKey = "last_key", 409, false, "The last key of its kind cannot be deleted";
    /// A subject has as many open reservations as it can have.
    TooManyReservations = "too_many_reservations", 409, false, "The subject has too many open reservations";
    /// The worker is not registered, or not any more.
    WorkerGone = "worker_gone", 409, false, "The worker must register again";
    /// A queue has as many workers as it can have.
    TooManyWorkers = "too_many_workers", 409, false, "The queue has too many workers";
    /// Its deliveries would be lost, or not be found.
    QueueNotEmpty = "queue_not_empty", 409, false, "The queue holds deliveries";
    /// More bytes than are accepted.
    BodyTooLarge = "body_too_large", 413, false, "The body is too large";
    /// More rules apply to one call than can be tested in one step.
    TooManyRules = "too_many_rules", 422, false, "Too many rules apply to this call";
    /// The space or the deck has as many of them as it may.
    TooManyDefinitions = "too_many_definitions", 422, false, "There are as many of these as there may be";
    /// A formula of a realm gave no number.
    PlayFailed = "play_failed", 422, false, "A formula of the realm gave no number";
    /// The idempotency key belongs to another request.
    IdempotencyConflict = "idempotency_conflict", 422, false, "The idempotency key was used for another request";
    /// A fault of ours.
    Internal = "internal", 500, false, "Something went wrong that should not have";
    /// Too much at once.
    Overloaded = "overloaded", 503, true, "The server is busy";
    /// The state store does not answer.
    StoreUnavailable = "store_unavailable", 503, true, "The store cannot be reached";
    /// The catalog does not answer.
    CatalogUnavailable = "catalog_unavailable", 503, true, "The catalog cannot be reached";
    /// It took too long.
    Timeout = "timeout", 504, true, "The request took too long";
    /// Nobody replied in time.
    ReplyTimeout = "reply_timeout", 504, true, "Nobody replied in time";
    /// The memory bound is reached.
    StoreFull = "store_full", 507, true, "The store is full";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// No answer could be given: why, in which field, and whether to ask again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind.
    pub code: Code,
    /// What is wrong, and what to do, for a person.
    pub detail: String,
    /// The field at fault, as the caller spelled it.
    pub field: Option<String>,
    /// All faults of a document that goes deep; none if there is no more to say than the above.
    pub faults: Vec<FieldFault>,
    /// What went wrong underneath: for the log, never for the caller.
    pub cause: Option<String>,
}

/// One fault of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    /// The path of the field: `plays.gamble.need[1].if`; empty if it is the document as a whole.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub detail: String,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.detail),
            field => write!(f, "{field}: {}", self.detail),
        }
    }
}

impl Problem {
    /// A problem of this kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem { code, detail: detail.into(), field: None, faults: Vec::new(), cause: None }
    }

    /// Because of this.
    #[must_use]
    pub(crate) fn caused_by(mut self, fault: &dyn std::error::Error) -> Problem {
        let mut text = fault.to_string();
        let mut source = fault.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        self.cause = Some(text);
        self
    }

    /// In this field.
    #[must_use]
    pub fn in_field(mut self, field: impl Into<String>) -> Problem {
        self.field = Some(field.into());
        self
    }
}

impl From<Invalid> for Problem {
    fn from(fault: Invalid) -> Problem {
        Problem::new(Code::InvalidField, format!("{} {}", fault.field, fault.reason)).in_field(fault.field)
    }
}

/// The first is told as any fault of a field is; all of them stand beside it.
impl From<Vec<Fault>> for Problem {
    fn from(faults: Vec<Fault>) -> Problem {
        let faults: Vec<FieldFault> = faults.into_iter().map(|Fault { path, reason }| FieldFault { field: path, detail: reason }).collect();
        let Some(first) = faults.first() else { return Problem::new(Code::InvalidField, "The definition is not accepted.") };
        let problem = Problem::new(Code::InvalidField, first.to_string()).in_field(&first.field);
        Problem { faults, ..problem }
    }
}

impl From<EngineError> for Problem {
    fn from(fault: EngineError) -> Problem {
        let problem = match &fault {
            EngineError::Full => Problem::new(
                Code::StoreFull,
                "The store has reached its memory bound; nothing was changed. Raise memory_max, or wait until old state has expired.",
            ),
            EngineError::Unavailable { .. } => Problem::new(
                Code::StoreUnavailable,
                "The store does not answer. Ask again, with the same Idempotency-Key if the request must not count twice.",
            ),
            _ => Problem::new(Code::Internal, "The store gave an answer that is not understood; the log has the details."),
        };
        problem.caused_by(&fault)
    }
}

impl From<CatalogError> for Problem {
    fn from(fault: CatalogError) -> Problem {
        match fault {
            CatalogError::Invalid(invalid) => invalid.into(),
            CatalogError::Faulty { faults } => faults.into(),
            CatalogError::Exists { .. } => Problem::new(Code::AlreadyExists, format!("{fault}.")),
            CatalogError::Duplicate { .. } => Problem::new(Code::DuplicateRule, format!("{fault}.")),
            CatalogError::NotFound { what: "deck", .. } => Problem::new(Code::DeckNotFound, format!("{fault}.")),
            CatalogError::NotFound { .. } => Problem::new(Code::NotFound, format!("{fault}.")),
            CatalogError::TooMany { .. } => Problem::new(Code::TooManyDefinitions, format!("{fault}; delete one that is not needed.")),
            CatalogError::LastKey => {
                let why = "This is the last key with the scopes admin and spaces; without it nobody could make another. Make its successor first.";
                Problem::new(Code::LastKey, why)
            }
            CatalogError::IdempotencyConflict { .. } => conflict(),
            _ if fault.is_retryable() => Problem::new(
                Code::CatalogUnavailable,
                "The catalog's database does not answer; checks go on with the rules that are known.",
            )
            .caused_by(&fault),
            _ => Problem::new(Code::Internal, "The catalog failed; the log has the details.").caused_by(&fault),
        }
    }
}

/// The key of an idempotent request belongs to another one.
pub(crate) fn conflict() -> Problem {
    Problem::new(Code::IdempotencyConflict, "This Idempotency-Key was used with another body. Use a new key for a new request.")
        .in_field("Idempotency-Key")
}
