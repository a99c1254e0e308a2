//! The words of decks and messages.

use crate::word::words;

words! {
    /// How a deck chooses a message.
    Strategy {
        /// What was never sent at random, then what was sent longest ago.
        #[default]
        FreshLru = "fresh_lru",
        /// At random by weight, whatever was sent.
        Weighted = "weighted",
        /// The highest priority first; among equals as `fresh_lru`.
        Priority = "priority",
        /// In the order they were made; then what was sent longest ago.
        Sequence = "sequence",
    }
}

words! {
    /// How a cap counts.
    CapKind {
        /// Tokens drip back evenly.
        #[default]
        Bucket = "bucket",
        /// Never more in any span of this length.
        Rolling = "rolling",
        /// So many in each hour, day, week, month or year of the subject's own calendar.
        Calendar = "calendar",
    }
}
