//! What the tests and the benchmarks of Hermod stand on: real servers, and the few words to use them.
//!
//! [`server`] starts Redis, Redis Cluster, Redis Sentinel, PostgreSQL, MariaDB and Hermod itself, each
//! as a guard that ends its processes when it is dropped. There are no stand-ins for these servers: a
//! test that needs one fails when it cannot be had. [`until`] is how a test waits, [`request()`] how it asks over HTTP, [`unique`] how tests
//! that share a server keep out of each other's way. [`table`] runs tables a person can read on every
//! [`Lane`], and [`model`] is the slow, obvious third opinion; [`history`] holds engines against each other,
//! and [`ledger`] what was done to a queue against what must never be.

pub mod history;
pub mod lane;
pub mod ledger;
pub mod model;
mod request;
pub mod server;
pub mod table;
mod unique;
mod until;

pub use lane::{EngineLane, HttpLane, Lane, Store};
pub use request::request;
pub use unique::unique;
pub use until::until;
