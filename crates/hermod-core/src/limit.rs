//! limit: may this subject do this action now?
//!
//! A [`Rule`] is the definition a person writes. An [`Index`] finds those that match a call. Each is
//! compiled into a [`Meter`], the few integers both engines compute with. A [`Check`] tests all
//! matching meters and charges them only if every one admits.

mod charge;
pub mod check;
pub mod index;
pub mod lease;
pub mod limited;
pub mod meter;
pub mod packed;
pub mod pattern;
pub mod per;
pub mod records;
pub mod reservation_id;
pub mod reservations;
pub mod reserve;
pub mod reset;
pub mod rule;
pub mod settle;
pub mod tally;
pub mod when;

pub use check::{Check, Checked, Explained, Verdict};
pub use index::{Attribute, Attributes, Considered, Facts, Index, Why, no_rules};
pub use lease::{Lease, LeaseAct, Leased};
pub use limited::{Limited, Rules};
pub use meter::{Act, Meter, Retry, Ruled};
pub use pattern::Pattern;
pub use per::Per;
pub use reservation_id::ReservationId;
pub use reservations::Fate;
pub use reserve::{Reserve, Reserved};
pub use reset::{Reset, ResetAnswer};
pub use rule::{Algorithm, Mode, OnExpiry, OnStoreError, Rule, Scope};
pub use settle::{Owed, Settle, Settled};
pub use when::When;
