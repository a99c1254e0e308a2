//! Picks: the operation on every engine, and the service at its boundary.

mod differential;
