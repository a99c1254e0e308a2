//! The words of a rule.

use crate::word::words;

words! {
    /// How a rule is counted.
    Algorithm {
        /// A ring of counters: never more than the limit in any trailing period.
        #[default]
        SlidingWindow = "sliding_window",
        /// Every charge with its own time: exact, for small limits.
        SlidingLog = "sliding_log",
        /// One counter, back to zero at the turn of the period: up to twice the limit around it.
        FixedWindow = "fixed_window",
        /// Tokens drip back evenly; up to `burst` at once.
        TokenBucket = "token_bucket",
        /// The same, seen from the other side; with `queue`, what does not fit yet is let in to wait.
        LeakyBucket = "leaky_bucket",
        /// So many leases at once.
        Concurrency = "concurrency",
    }
}

words! {
    /// What one counter of a rule is for.
    RuleScope {
        /// Each subject has its own.
        #[default]
        Subject = "subject",
        /// All subjects share one.
        Global = "global",
    }
}

words! {
    /// Whether a rule refuses.
    RuleMode {
        /// It does, beyond its limit.
        #[default]
        Enforce = "enforce",
        /// It counts and reports, and never refuses.
        Shadow = "shadow",
        /// It always does: a ban.
        Block = "block",
    }
}

words! {
    /// What the server answers while its store cannot be reached.
    OnStoreError {
        /// Allowed.
        #[default]
        Open = "open",
        /// An error, never a refusal.
        Closed = "closed",
        /// What a limiter in the server's own memory says.
        Local = "local",
    }
}

words! {
    /// What becomes of an estimate that was reserved and never settled.
    OnExpiry {
        /// It stays charged.
        #[default]
        Keep = "keep",
        /// It is given back.
        Refund = "refund",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_as_written() {
        for text in ["sliding_window", "sliding_log", "fixed_window", "token_bucket", "leaky_bucket", "concurrency", "moon"] {
            assert_eq!(String::from(Algorithm::from(text.to_owned())), text);
        }
        assert_eq!(Algorithm::from("leaky_bucket".to_owned()), Algorithm::LeakyBucket);
        assert_eq!(Algorithm::from("moon".to_owned()), Algorithm::Other("moon".to_owned()));
        assert_eq!(Algorithm::default().to_string(), "sliding_window");
    }
}
