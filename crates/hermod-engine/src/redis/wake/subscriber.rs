//! A connection that is subscribed to channels.
//!
//! Each channel has a command of its own, many in one round trip: then every command has one answer, be it a refusal, and
//! the client counts right. A channel that the store gives up by itself, because its slot has moved, would be taken for an
//! answer: the connection is then not used any more.

use std::collections::HashSet;
use std::sync::Arc;

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::{Pipeline, PushInfo, PushKind, RedisError, Value, cmd};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Channel, Followed};
use crate::redis::address::Address;
use crate::redis::connection::Connection;
use crate::redis::{bad_reply, fitness};

/// So many channels are asked for in one go.
const CHANNELS_MAX: usize = 256;

pub(super) struct Subscriber {
    connection: MultiplexedConnection,
    seen: Arc<Seen>,
}

/// What was told unasked.
#[derive(Default)]
struct Seen {
    /// The channels whose end was asked for.
    leaving: Mutex<HashSet<Arc<str>>>,
    /// The connection is closed, or has lost a channel.
    lost: Notify,
}

impl Subscriber {
    /// Connects to a primary. What it publishes goes to `followed`.
    pub(super) async fn open(address: &Address, followed: &Arc<Followed>) -> Result<Subscriber, RedisError> {
        let seen = Arc::new(Seen::default());
        let (to, also) = (Arc::clone(followed), Arc::clone(&seen));
        let told = move |push: PushInfo| -> Result<(), ()> {
            match (push.kind, push.data.as_slice()) {
                (PushKind::SMessage, [Value::BulkString(channel), Value::BulkString(time)]) => to.hear(channel, time),
                (PushKind::SUnsubscribe, [Value::BulkString(channel), ..]) => also.left(channel),
                (PushKind::Disconnection, _) => also.lost.notify_one(),
                _ => {}
            }
            Ok(())
        };
        let connection = Connection::open_listening(address, followed.timeout, told).await?;
        let mut subscriber = Subscriber { connection, seen };
        subscriber.check().await?;
        Ok(subscriber)
    }

    /// Whether it answers, and is a primary.
    pub(super) async fn check(&mut self) -> Result<(), RedisError> {
        match fitness::is_primary(&mut Connection::Single(self.connection.clone())).await? {
            true => Ok(()),
            false => Err(fitness::is_replica()),
        }
    }

    /// Waits until the connection is of no more use.
    pub(super) async fn lost(&self) {
        self.seen.lost.notified().await;
    }

    /// Subscribes. Says of each channel whether it stands; an error means that the connection is of no more use.
    pub(super) async fn enter(&mut self, channels: &[Channel]) -> Result<Vec<Result<(), RedisError>>, RedisError> {
        let mut answers = Vec::with_capacity(channels.len());
        for some in channels.chunks(CHANNELS_MAX) {
            for answer in self.send("SSUBSCRIBE", some).await? {
                answers.push(match answer {
                    Value::Push { kind: PushKind::SSubscribe, .. } => Ok(()),
                    Value::ServerError(fault) => Err(fault.into()),
                    _ => return Err(bad_reply()),
                });
            }
        }
        if answers.len() == channels.len() { Ok(answers) } else { Err(bad_reply()) }
    }

    /// Unsubscribes. Where it is refused the slot is elsewhere, and the channel not subscribed to any more.
    pub(super) async fn leave(&mut self, channels: &[Channel]) -> Result<(), RedisError> {
        for some in channels.chunks(CHANNELS_MAX) {
            self.seen.leaving.lock().extend(some.iter().map(|channel| Arc::clone(&channel.name)));
            self.send("SUNSUBSCRIBE", some).await?;
            self.seen.leaving.lock().clear();
        }
        Ok(())
    }

    async fn send(&mut self, verb: &str, channels: &[Channel]) -> Result<Vec<Value>, RedisError> {
        let mut pipeline = Pipeline::with_capacity(channels.len());
        for channel in channels {
            pipeline.add_command(cmd(verb).arg(&*channel.name).to_owned());
        }
        self.connection.req_packed_commands(&pipeline, 0, channels.len()).await
    }
}

impl Seen {
    fn left(&self, channel: &[u8]) {
        let was_asked = str::from_utf8(channel).is_ok_and(|name| self.leaving.lock().remove(name));
        if !was_asked {
            self.lost.notify_one();
        }
    }
}
