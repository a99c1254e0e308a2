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

words! {
    /// What becomes of a delivery of the same key that is not finished.
    IfExists {
        /// It stays as it is; also one that was finished in the last three days counts.
        #[default]
        Keep = "keep",
        /// It is made anew, under the same id.
        Replace = "replace",
        /// The same, but its time is put off and never brought forward.
        Debounce = "debounce",
    }
}

words! {
    /// Where a delivery is in its life.
    DeliveryState {
        /// Its time has not come.
        #[default]
        Scheduled = "scheduled",
        /// It can be claimed.
        Ready = "ready",
        /// Somebody holds it.
        Leased = "leased",
        /// It failed as often as it may, and is kept.
        Dead = "dead",
        /// It was finished.
        Done = "done",
    }
}

words! {
    /// What became of a delivery that was pushed.
    PushOutcome {
        /// It is there.
        #[default]
        Added = "added",
        /// One of its key was there, and stays as it is.
        Kept = "kept",
        /// One of its key was there, and was made anew.
        Replaced = "replaced",
        /// One of its key was finished before.
        Finished = "finished",
    }
}

words! {
    /// What became of a delivery that was held.
    HeldOutcome {
        /// It is finished.
        #[default]
        Done = "done",
        /// The token is not, or no longer, that of its holder. Nothing was changed.
        Stale = "stale",
        /// It is held for longer.
        Extended = "extended",
        /// It will be tried again.
        Retry = "retry",
        /// That was its last attempt; it is kept.
        Dead = "dead",
        /// That was its last attempt; it is forgotten.
        Dropped = "dropped",
    }
}

words! {
    /// What became of a change.
    EditOutcome {
        /// It was made. Nothing else has changed anything.
        #[default]
        Done = "done",
        /// Somebody holds the delivery.
        Leased = "leased",
        /// It was finished, cancelled, or never was.
        Gone = "gone",
        /// It is dead, and this is for those that are not.
        Dead = "dead",
        /// It is not dead, and this is for those that are.
        Alive = "alive",
    }
}

words! {
    /// How a worker stands.
    WorkerState {
        /// It takes on recipients.
        #[default]
        Live = "live",
        /// It takes on nobody new.
        Draining = "draining",
        /// It left, or was not heard of for too long.
        Gone = "gone",
    }
}

words! {
    /// Whether a recipient has a worker.
    RecipientState {
        /// It has.
        #[default]
        Owned = "owned",
        /// There is something for it, and nobody to have it.
        Parked = "parked",
        /// There is nothing for it.
        Idle = "idle",
        /// Its queue is shared: any consumer has any delivery.
        Free = "free",
    }
}

words! {
    /// Why a recipient has another worker, or why a worker is gone.
    OwnerReason {
        /// It had none before.
        #[default]
        First = "first",
        /// It was parked, and a worker came.
        Adopted = "adopted",
        /// The worker was not heard of for too long.
        Silent = "silent",
        /// The worker closed its stream and did not come back.
        Closed = "closed",
        /// The worker left.
        Left = "left",
        /// The worker drains.
        Drained = "drained",
        /// It was pinned.
        Pinned = "pinned",
        /// The worker was gone when the recipient was next addressed.
        Gone = "gone",
    }
}
