//! Which message should this subject get next?
//!
//! A *deck* is a set of messages. A pick is one choice among them for one subject, with caps on the message and on the
//! subject, recorded in the same atomic step.
//!
//! Ordering is done in Rust (`planner.rs`), safety in the operation (`take.rs` and its twin): it is given a short plan, and
//! takes the first message of it that is as it was when it was planned, and allowed.

pub mod cap;
pub mod deck;
pub mod message;
pub mod profile;
pub mod quiet;

pub use cap::{Cap, CapKind};
pub use deck::{Deck, Strategy};
pub use message::{Audience, Message};
pub use profile::Profile;
pub use quiet::{Quiet, Zone};
