//! What changed, in order.
//!
//! A *log* for each space and partition: events numbered 1, 2, 3 and on, of which the newest [`KEEP`] are kept. An event is
//! written in the same atomic step as the change it is about, in the partition of whom it is about, so neither is ever
//! there without the other. A number that is kept says where a reader is: what follows it is what it has not seen.
//!
//! There is no order between partitions but that of the clock: a reader of all of them keeps one number for each.

pub mod log;
pub mod read;

pub use log::{Event, Happened, Kind};
pub use read::{ReadEvents, Recorded};

/// So many events are kept in each log, and up to [`TRIM`] more.
pub const KEEP: usize = 10_000;

/// What is too many goes with each so many'th event: to trim a stream costs more than to write to it.
pub const TRIM: u64 = 128;

/// So many are read at once at most.
pub const READ_MAX: usize = 200;
