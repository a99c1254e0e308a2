//! queue: hold this until its time, then hand it to exactly one consumer, in order.
//!
//! A delivery has a due time and perhaps a recipient. It can be claimed when it is due; deliveries of one
//! recipient are handed out in (due, insertion) order, one at a time. A claim is a lease with a token that
//! only grows: whoever holds an older one changes nothing.
//!
//! A [`Queue`] is the definition a person writes: how long a delivery may be held, how often it is tried, in
//! which order, and who consumes it. A [`Schedule`] is a delivery that recurs.

pub mod backoff;
pub mod binding;
pub mod claim;
pub mod cron;
pub mod definition;
pub mod delivery;
pub mod edit;
pub mod forget;
pub mod line;
pub mod list;
pub mod owners;
pub mod push;
pub mod recipient;
pub mod recurring;
pub mod reply;
pub mod settle;
pub mod stats;
mod tend;
pub mod webhook;
pub mod worker;
pub mod workers;

pub use crate::state::queues::Replied;
pub use backoff::Backoff;
pub use binding::Binding;
pub use claim::{Claim, Claimed, Failing, Handed};
pub use cron::{Cron, Dst};
pub use definition::{Mode, OnExhausted, OnFailure, Order, Overdue, PAYLOAD_MAX, Queue, span};
pub use delivery::{Delivery, DeliveryId, Due, IfExists, Number, Token};
pub use edit::{Change, Edit, Edited, Move};
pub use forget::{Forget, Forgotten};
pub use list::{Filter, List, Listed, Page, Shown, Status};
pub use owners::{Terms, Turnover, WEIGHT_MAX, Woken};
pub use push::{Pushed, Stored};
pub use recipient::{Explained, InFlight, Look};
pub use recurring::Schedule;
pub use reply::{Fetch, Fetched};
pub use settle::{Settle, SettleAct, Settled};
pub use stats::{Counts, Stats};
pub use webhook::{Push, Secret, Webhook};
pub use worker::{Act, Member, Staff, Staffed, Standing, Upkeep, Why};
pub use workers::{Roll, Rolled, Working};
