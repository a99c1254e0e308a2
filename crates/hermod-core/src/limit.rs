//! limit: may this subject do this action now?
//!
//! A [`Rule`] is the definition a person writes. It is compiled into a [`Meter`], the few integers
//! both engines compute with. A [`Check`] tests all matching meters and charges them only if every
//! one admits.

pub mod check;
pub mod meter;
pub mod rule;

pub use check::{Check, Checked, Limited, Retry, Ruled, Told, Verdict};
pub use meter::{Level, Meter};
pub use rule::{Algorithm, Per, Rule};
