//! What HTTP promises to callers, good and bad.
