//! What does this earn, cost, drop or craft, and who leads?
//!
//! A *realm* is an economy that is data: its assets, timers, tables and plays are one document ([`definition`]).

pub mod definition;
pub mod world;

pub use definition::Definition;
pub use world::{Fault, Realm};
