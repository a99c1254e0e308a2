//! Push: one delivery is sent to one webhook, as Standard Webhooks has it.

mod signature;

pub use signature::{BadSecret, Secret, Signed, TOLERANCE, Unverified, sign, verify};
