//! queue: `/v1/queues/{queue}/deliveries`, and relay, claim, ack, nack, extend, stream.

mod claim;
mod document;
mod edit;
mod list;
mod push;
mod relay;
mod reply;
mod stream;

pub(crate) use claim::{__path_ack, __path_claim, __path_extend, __path_nack, ack, claim, extend, nack};
pub(crate) use edit::{__path_cancel, __path_patch, __path_redrive, __path_remove, __path_shift, cancel, patch, redrive, remove, shift};
pub(crate) use list::{__path_attempts, __path_list, __path_read, __path_stats, attempts, list, read, stats};
pub(crate) use push::{__path_push, push};
pub(crate) use relay::{__path_relay, relay};
pub(crate) use stream::{__path_stream, stream};
