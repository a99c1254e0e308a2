//! Following a queue: hearing when a delivery can be claimed earlier than was known, without asking for it.
//!
//! A signal is a hint. It may come twice and it may come for nothing, as somebody else may be quicker; where one may have
//! been lost, the follower is told to look. What can be claimed is known to the engine alone.

use std::sync::Arc;

use hermod_core::{Micros, QueueId, SpaceId};

use crate::Engine;
use crate::redis::Follower;

impl Engine {
    /// Follows the wake-ups of a queue in all its partitions.
    ///
    /// Embedded it never yields: all changes are made by this process, whose answers say when to look next.
    pub fn follow(&self, space: &SpaceId, queue: &QueueId) -> Follow {
        match self {
            Engine::Embedded(_) => Follow { follower: None },
            Engine::Redis(engine) => Follow { follower: Some(engine.follow(space, queue)) },
        }
    }
}

/// The wake-ups of one queue. Dropping it ends it.
///
/// Followers of one queue share what it costs, and none holds up another: who is slow is told once for each partition,
/// with the earliest time.
#[derive(Debug)]
pub struct Follow {
    follower: Option<Follower>,
}

impl Follow {
    /// Waits for the next wake-up. Dropping the future loses none. After the engine was closed there is none.
    pub async fn next(&mut self) -> Wake {
        match &mut self.follower {
            Some(follower) => follower.next().await,
            None => std::future::pending().await,
        }
    }
}

/// What a follower is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A delivery of this partition can be claimed at this time.
    At {
        /// The partition.
        partition: u16,
        /// The time.
        time: Micros,
        /// The worker whose it is, if the queue is sticky; empty otherwise.
        owner: Arc<str>,
    },
    /// There is a reply to a delivery. Where one may be lost, whoever waits looks by themselves.
    Replied {
        /// The partition.
        partition: u16,
        /// The delivery's number there.
        number: u64,
    },
    /// Signals may have been lost: look at everything. Comes first of all when the subscription stands, then after every
    /// reconnection. Of a cluster that lacks a part it comes for the rest, and again for that part.
    Look,
}
