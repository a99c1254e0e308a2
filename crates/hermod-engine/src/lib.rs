//! Runs core operations: embedded in this process, or on Redis and Valkey.
//!
//! An engine gives an operation its partition, its time and its durability, and nothing else; what
//! an operation does is decided in `hermod-core` alone. Both engines answer the same.

pub mod clock;
pub mod embedded;
mod error;
mod follow;
pub mod redis;

use hermod_core::{Once, Operation, Outcome, Partitions};

pub use clock::Clock;
pub use embedded::Embedded;
pub use error::{EngineError, OpenError};
pub use follow::{Follow, Wake};
pub use redis::Redis;

/// One of the two engines.
#[derive(Clone, Debug)]
pub enum Engine {
    /// State in this process, journaled to disk.
    Embedded(Embedded),
    /// State on Redis or Valkey.
    Redis(Redis),
}

impl Engine {
    /// Runs one operation, at most once for each idempotency key.
    ///
    /// Dropping the future does not undo the operation; only its answer is lost.
    pub async fn run<O: Operation>(&self, op: &O, once: Option<&Once>) -> Result<Ran<O::Answer>, EngineError> {
        match self {
            Engine::Embedded(engine) => engine.run(op, once).await,
            Engine::Redis(engine) => engine.run(op, once).await,
        }
    }

    /// Runs one operation; what it answers as soon as that is known, and what must be waited for before anybody is told.
    /// Only what this server itself does next may follow from it earlier.
    pub async fn begin<O: Operation>(&self, op: &O) -> Result<(Outcome<O::Answer>, Pending), EngineError> {
        match self {
            Engine::Embedded(engine) => engine.begin(op, None).map(|(outcome, stored)| (outcome, Pending(stored))),
            Engine::Redis(engine) => Ok((engine.run(op, None).await?.outcome, Pending(None))),
        }
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> Partitions {
        match self {
            Engine::Embedded(engine) => engine.partitions(),
            Engine::Redis(engine) => engine.partitions(),
        }
    }

    /// Whether operations can be answered now; if not, why.
    pub fn ready(&self) -> Result<(), EngineError> {
        match self {
            Engine::Embedded(engine) => engine.ready(),
            Engine::Redis(engine) => engine.ready(),
        }
    }

    /// Writes out what is deferred and stops all work in the background.
    pub async fn close(&self) -> Result<(), EngineError> {
        match self {
            Engine::Embedded(engine) => engine.close().await,
            Engine::Redis(engine) => {
                engine.close();
                Ok(())
            }
        }
    }
}

/// What an answer waits for.
#[derive(Debug)]
#[must_use = "nobody may be told of what is not stored"]
pub struct Pending(Option<embedded::Stored>);

impl Pending {
    /// Returns when the operation is as durable as its answer says.
    pub async fn stored(self) -> Result<(), EngineError> {
        match self.0 {
            Some(stored) => stored.wait().await,
            None => Ok(()),
        }
    }
}

/// An answer, and how safe it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran<A> {
    /// What the operation answered.
    pub outcome: Outcome<A>,
    /// What the answer can survive.
    pub durability: Durability,
}

/// What an acknowledged change survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In memory; on disk within a second. A crash may forget the last second.
    Deferred,
    /// On this machine's disk.
    Disk,
    /// In Redis' memory, and as durable as that server is configured to be.
    Memory,
    /// In the memory of this many Redis replicas as well.
    Replicas(u32),
}
