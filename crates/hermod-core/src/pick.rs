//! Which message should this subject get next?
//!
//! A *deck* is a set of messages. A pick is one choice among them for one subject, with caps on the message and on the
//! subject, recorded in the same atomic step.
//!
//! Ordering is done in Rust (`planner.rs`), safety in the operation (`take.rs` and its twin): it is given a short plan, and
//! takes the first message of it that is as it was when it was planned, and allowed.

mod bits;
pub mod cap;
pub mod deck;
pub mod history;
pub mod id;
pub mod message;
pub mod offer;
pub mod planner;
pub mod profile;
pub mod quiet;
pub mod reserved;
pub mod settle;
pub mod shelf;
pub mod subject;
pub mod take;

pub use cap::{Cap, CapKind};
pub use deck::{Deck, Strategy};
pub use history::{Given, History};
pub use id::PickId;
pub use message::{Audience, Message};
pub use offer::{Offer, Unfit};
pub use planner::{Ask, Planned, Reason, Refusal, Simulated, View};
pub use profile::Profile;
pub use quiet::{Quiet, Zone};
pub use reserved::Fate;
pub use settle::{Settle, Settled};
pub use shelf::Shelf;
pub use subject::{About, Known};
pub use take::{Candidate, Picked, Plan, Recalled, Take, Taken};

#[cfg(test)]
mod tests;
