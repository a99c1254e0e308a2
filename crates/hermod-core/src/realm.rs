//! What does this earn, cost, drop or craft, and who leads?
//!
//! A *realm* is an economy that is data: its assets, timers, tables and plays are one document ([`definition`]).

pub mod apply;
pub mod args;
pub mod board;
pub mod chance;
pub mod commit;
pub mod definition;
pub mod due;
pub mod enact;
pub mod entry;
pub mod formula;
pub mod ledger;
pub mod plan;
mod play;
mod run;
pub mod survey;
mod timer;
pub mod told;
pub mod world;
mod zones;

pub use apply::{Applied, Apply, Books, Missing, Planned, Plans};
pub use board::{Ranked, ReadBoard};
pub use commit::{Commit, Condition, Deed, Hold, Lasting, Legs, Standing};
pub use definition::Definition;
pub use due::{ReadDue, Waiting};
pub use enact::{Call, Scheduled};
pub use entry::{Entry, Leg};
pub use ledger::{Commits, ReadLedger};
pub use plan::{Account, Plan};
pub use survey::{Survey, Surveyed};
pub use told::{Refusal, Told};
pub use world::{Fault, Realm};
pub use zones::Zones;
