//! Packed DIDComm messages: whom they are for.
//!
//! A relay has no keys, so it reads what is not encrypted: which keys a message was packed for. All here is pure; what
//! becomes of the message is for [`App::relay`](crate::app::App::relay) to decide.

mod envelope;
mod identity;

pub(crate) use envelope::candidates;
