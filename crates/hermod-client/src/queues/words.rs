//! The words of a queue.

use crate::word::words;

words! {
    /// Who may have a delivery.
    QueueMode {
        /// Any consumer.
        #[default]
        Shared = "shared",
        /// The recipient's worker.
        Sticky = "sticky",
    }
}

words! {
    /// What is kept in order.
    QueueOrder {
        /// The deliveries of one recipient.
        #[default]
        Recipient = "recipient",
        /// All deliveries of the queue.
        Total = "total",
    }
}

words! {
    /// What becomes of a delivery after its last attempt.
    OnExhausted {
        /// It is kept, to be looked at and tried again by hand.
        #[default]
        Dead = "dead",
        /// It is forgotten.
        Drop = "drop",
    }
}

words! {
    /// What the recipient's next deliveries do while one waits to be tried again.
    OnFailure {
        /// They wait too.
        #[default]
        Block = "block",
        /// They pass.
        Skip = "skip",
    }
}

words! {
    /// What becomes of a run whose local time is left out because clocks go forward.
    Dst {
        /// It runs right after.
        #[default]
        Shift = "shift",
        /// It does not run.
        Skip = "skip",
    }
}
