//! Every Hermod operation, twice: natively on in-memory state, and as a Lua script for Redis.
//!
//! This crate is pure. It has no I/O, no clock and no source of chance; time and seeds are inputs
//! (law 2). That is what makes the two engines comparable: the same operations with the same
//! `now` give the same answers and leave the same state (law 3).
//!
//! One folder per capability; the native operation and its Lua twin are neighbours with the same
//! name. Whoever changes one changes the other in the same commit.

pub mod chance;
pub mod event;
pub mod id;
pub mod int;
pub mod key;
pub mod limit;
pub mod once;
pub mod operation;
pub mod partition;
pub mod pick;
pub mod queue;
pub mod realm;
pub mod record;
pub mod script;
pub mod state;
mod word;

pub use chance::Seed;
pub use id::{Action, DeckId, Invalid, MessageId, Name, Owner, QueueId, RealmId, Recipient, RuleId, SpaceId, Subject, Tag, WorkerId};
pub use int::{INT_MAX, Micros};
pub use once::{Once, Outcome};
pub use operation::{BadReply, Operation, Reply, ScriptCall};
pub use partition::{Home, Partitions, Place, Placed, Places};
pub use script::Script;
pub use state::{Full, State};
