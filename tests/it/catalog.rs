//! The catalog on all three databases.
