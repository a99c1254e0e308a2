//! queue: hold this until its time, then hand it to exactly one consumer, in order.
//!
//! A [`Queue`] is the definition a person writes: how long a delivery may be held, how often it is
//! tried, in which order, and who consumes it. A [`Schedule`] is a delivery that recurs.

pub mod backoff;
pub mod cron;
pub mod definition;
pub mod recurring;
pub mod webhook;

pub use backoff::Backoff;
pub use cron::{Cron, Dst};
pub use definition::{Mode, OnExhausted, OnFailure, Order, Overdue, PAYLOAD_MAX, Queue, span};
pub use recurring::Schedule;
pub use webhook::{Push, Secret, Webhook};
