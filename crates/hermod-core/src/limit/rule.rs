//! A rule: a limit on an action, as people write it.

use serde::{Deserialize, Serialize};

use crate::id::{Invalid, Name, RuleId};
use crate::limit::meter::{Bucket, Estimate, Meter, Sliding, Window};
use crate::limit::pattern::Pattern;
use crate::limit::per::Per;
use crate::limit::when::When;
use crate::word::word_enum;

/// A limit on an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its identifier. The counters carry it, so an edited rule keeps what is used.
    pub id: RuleId,
    /// The policy it belongs to. Of one name the most specific rule applies; different names all do.
    #[serde(default = "Name::default_name")]
    pub name: Name,
    /// The actions it limits.
    pub action: Pattern,
    /// Whom it is for; everyone if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Pattern>,
    /// Applies only where this is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// How many per period; of leases, how many at once.
    pub limit: u64,
    /// The period; of leases, the longest one.
    pub per: Per,
    /// How it is counted.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// The most that can be taken at once from a bucket; `limit` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// How many beyond the burst of a leaky bucket are let in to wait their turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u64>,
    /// Two counters instead of a ring: less memory, and up to twice the limit in the worst case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approximate: bool,
    /// What one counter is for.
    #[serde(default)]
    pub scope: Scope,
    /// Whether it refuses.
    #[serde(default)]
    pub mode: Mode,
    /// Whether an answer waits until the charge is on disk.
    #[serde(default)]
    pub durable: bool,
    /// What to answer while the store cannot be reached; if absent, `closed` for a durable rule and
    /// `open` for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_store_error: Option<OnStoreError>,
    /// What becomes of an estimate that was reserved and never settled. Left out where it is the default,
    /// so that an older server can still read the rule.
    #[serde(default, skip_serializing_if = "OnExpiry::is_default")]
    pub on_expiry: OnExpiry,
    /// Grows with every change.
    #[serde(default)]
    pub version: u64,
}

/// How a rule is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Algorithm {
    /// A ring of counters: never more than the limit in any trailing period.
    #[default]
    SlidingWindow,
    /// Every charge with its own time: exact, for small limits.
    SlidingLog,
    /// One counter, back to zero at the turn of the period: up to twice the limit around it.
    FixedWindow,
    /// Tokens drip back evenly; up to `burst` at once.
    #[serde(alias = "gcra")]
    TokenBucket,
    /// The same, seen from the other side; with `queue`, what does not fit yet is let in to wait.
    LeakyBucket,
    /// So many leases at once.
    Concurrency,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::Concurrency,
    ];

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Algorithm::SlidingWindow => "sliding_window",
            Algorithm::SlidingLog => "sliding_log",
            Algorithm::FixedWindow => "fixed_window",
            Algorithm::TokenBucket => "token_bucket",
            Algorithm::LeakyBucket => "leaky_bucket",
            Algorithm::Concurrency => "concurrency",
        }
    }
}

word_enum! {
    /// What one counter is for.
    Scope, "scope", {
        /// Each subject has its own.
        #[default]
        Subject = "subject",
        /// All subjects share one.
        Global = "global",
    }
}

word_enum! {
    /// Whether a rule refuses.
    Mode, "mode", {
        /// It does, beyond its limit.
        #[default]
        Enforce = "enforce",
        /// It counts and reports, and never refuses.
        Shadow = "shadow",
        /// It always does: a ban.
        Block = "block",
    }
}

word_enum! {
    /// What to answer while the store cannot be reached.
    OnStoreError, "on_store_error", {
        /// Allowed.
        #[default]
        Open = "open",
        /// No answer: an error, never a refusal.
        Closed = "closed",
        /// What a limiter in the server's own memory says.
        Local = "local",
    }
}

word_enum! {
    /// What becomes of an estimate that was reserved and never settled.
    OnExpiry, "on_expiry", {
        /// It stays charged.
        #[default]
        Keep = "keep",
        /// It is given back.
        Refund = "refund",
    }
}

impl OnExpiry {
    fn is_default(&self) -> bool {
        *self == OnExpiry::default()
    }
}

impl std::str::FromStr for Algorithm {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Algorithm, Invalid> {
        if text == "gcra" {
            return Ok(Algorithm::TokenBucket);
        }
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == text).ok_or_else(|| {
            let words = Algorithm::ALL.map(Algorithm::as_str).join(", ");
            Invalid::new("algorithm", format!("must be one of: {words}, gcra"))
        })
    }
}

/// The largest limit of a sliding log: every charge is kept, read and written with each check, which takes Redis about a
/// millisecond where it is as long as this.
pub const LOG_MAX: u64 = 10_000;

/// The most leases at once under one rule: all of a subject's are read and written with each.
pub const LEASES_MAX: u64 = 1_000;

impl Rule {
    /// A rule for everyone, of the default policy, counted in the default way.
    pub fn new(id: RuleId, action: Pattern, limit: u64, per: Per) -> Rule {
        Rule {
            id,
            name: Name::default_name(),
            action,
            subject: None,
            when: None,
            limit,
            per,
            algorithm: Algorithm::default(),
            burst: None,
            queue: None,
            approximate: false,
            scope: Scope::default(),
            mode: Mode::default(),
            durable: false,
            on_store_error: None,
            on_expiry: OnExpiry::default(),
            version: 0,
        }
    }

    /// What to answer while the store cannot be reached. What is paid for is not given away.
    pub fn on_store_error(&self) -> OnStoreError {
        self.on_store_error.unwrap_or(if self.durable { OnStoreError::Closed } else { OnStoreError::Open })
    }

    /// What the engines compute with; also the check that the fields fit together.
    pub fn meter(&self) -> Result<Meter, Invalid> {
        if self.limit == 0 {
            return Err(Invalid::new("limit", "must be at least 1; to forbid an action, use mode: block"));
        }
        self.check_options()?;
        if self.mode == Mode::Block {
            return Ok(Meter::Block);
        }
        let span = match &self.per {
            Per::Span(span) => *span,
            Per::Calendar(calendar) => {
                if self.algorithm != Algorithm::FixedWindow {
                    return Err(Invalid::new("algorithm", "must be fixed_window where per is a calendar window"));
                }
                return Window::calendar(self.limit, calendar.clone()).map(Meter::Window);
            }
        };
        match self.algorithm {
            Algorithm::FixedWindow => Window::every(self.limit, span).map(Meter::Window),
            Algorithm::SlidingWindow if self.approximate => Estimate::new(self.limit, span).map(Meter::Estimate),
            Algorithm::SlidingWindow => Sliding::ring(self.limit, span).map(Meter::Sliding),
            Algorithm::SlidingLog if self.limit > LOG_MAX => {
                Err(Invalid::new("limit", format!("must be at most {LOG_MAX} for a sliding_log; sliding_window has no such bound")))
            }
            Algorithm::SlidingLog => Sliding::log(self.limit, span).map(Meter::Sliding),
            Algorithm::Concurrency if self.limit > LEASES_MAX => {
                Err(Invalid::new("limit", format!("must be at most {LEASES_MAX} for concurrency")))
            }
            Algorithm::Concurrency => Ok(Meter::Leases { limit: self.limit, ttl_max: span }),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let bucket = Bucket::new(self.limit, span, self.burst.unwrap_or(self.limit), self.queue.unwrap_or(0));
                // A burst that was not given is the limit.
                let named = |fault: Invalid| match self.burst {
                    None if fault.field == "burst" => Invalid { field: "limit", ..fault },
                    _ => fault,
                };
                bucket.map(Meter::Bucket).map_err(named)
            }
        }
    }

    fn check_options(&self) -> Result<(), Invalid> {
        let is_bucket = matches!(self.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
        if self.burst.is_some() && !is_bucket {
            return Err(Invalid::new("burst", "is for token_bucket and leaky_bucket only"));
        }
        if self.queue.is_some() && self.algorithm != Algorithm::LeakyBucket {
            return Err(Invalid::new("queue", "is for leaky_bucket only"));
        }
        if self.approximate && self.algorithm != Algorithm::SlidingWindow {
            return Err(Invalid::new("approximate", "is for sliding_window only"));
        }
        if self.algorithm == Algorithm::Concurrency && self.on_expiry == OnExpiry::Refund {
            return Err(Invalid::new("on_expiry", "must not be refund where the algorithm is concurrency: a lease ends by itself"));
        }
        if self.algorithm == Algorithm::Concurrency && self.mode == Mode::Shadow {
            return Err(Invalid::new("mode", "must not be shadow where the algorithm is concurrency"));
        }
        if self.subject.as_ref().is_some_and(|subject| !subject.is_glob()) && self.scope == Scope::Global {
            return Err(Invalid::new("scope", "must be subject where the rule is for one subject"));
        }
        Ok(())
    }
}
