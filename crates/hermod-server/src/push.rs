//! Push: one delivery is sent to one webhook, as Standard Webhooks has it.
//!
//! A [`Sender`] knows nothing of queues. Whoever claims deliveries asks [`Sender::ready_at`] and
//! [`Sender::room`] whether it is worth claiming, calls [`Sender::send`], and acts on what is [`Sent`].
//!
//! Three things stand between a delivery and the network, each in a file of its own:
//! - `guard`: which addresses may be connected to. It judges the address that is connected to, not
//!   the name, so a name that changes its mind between two look-ups gains nothing;
//! - `lane`: so many exchanges at once with one endpoint, and none for a while with one that fails. A slow
//!   endpoint uses up its own places only;
//! - `signature`: what tells the receiver who sent it.
//!
//! A redirect is a failure: following it would send what was meant for one address to another, chosen by
//! whoever answers.

mod answer;
mod circuit;
mod connect;
mod fault;
mod guard;
mod lane;
mod link;
mod log;
mod resolve;
mod sender;
mod signature;
mod target;
mod tls;

use std::time::Duration;

use hermod_core::Micros;

pub use guard::{BadNets, Guard, Private};
pub use log::Attempt;
pub use sender::Sender;
pub use signature::{BadSecret, Secret, Signed, TOLERANCE, Unverified, sign, verify};
pub use target::{BadTarget, Target};

/// Where deliveries go.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Whose it is. Endpoints of two spaces share neither places nor failures, even with one URL: the one
    /// must not be able to make the other wait.
    pub space: String,
    /// Its URL.
    pub url: Target,
    /// What requests are signed with: one secret, or the new and the old one while they rotate.
    pub secrets: Vec<Secret>,
    /// How long one exchange may take, from the look-up of the name to the end of the answer.
    pub timeout: Duration,
    /// How many exchanges may be under way at once; zero counts as one.
    pub concurrency: usize,
}

/// One attempt at one delivery.
#[derive(Clone, Copy, Debug)]
pub struct Parcel<'a> {
    /// The delivery's id, the same on every attempt: receivers know repetitions by it.
    pub id: &'a str,
    /// When this attempt is made.
    pub at: Micros,
    /// The payload, sent and signed byte for byte.
    pub body: &'a [u8],
    /// Whether the payload is JSON; bytes otherwise.
    pub is_json: bool,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// How long it is still held: from then on another may send it.
    pub held_for: Duration,
    /// The queue it comes from; attempts are logged under it.
    pub queue: &'a str,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The receiver has it.
    Accepted {
        /// 200 to 299.
        status: u16,
    },
    /// The receiver does not have it, or did not say so in time.
    Refused {
        /// What it answered, if it did.
        status: Option<u16>,
        /// A few words that may be shown to whoever set the endpoint up.
        why: String,
        /// What the receiver asked for with 429 or 503; a day at most.
        retry_after: Option<Duration>,
    },
    /// 410: the receiver wants nothing more, the endpoint is to be disabled.
    Gone,
    /// Nothing was sent, so this is no attempt: the endpoint rests after failures, or all its places are
    /// taken.
    Held {
        /// A few words that may be shown.
        why: &'static str,
        /// When it is worth asking again.
        retry_after: Duration,
    },
}
