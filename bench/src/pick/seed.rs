//! The algorithm that picks replace, after its design: a sorted set of each user's messages by the second they were last sent, and
//! a bucket of two keys for each user and message.
//!
//! The same commands in the same order, each a round trip of its own on the caller's own connection. A pick: all the user was
//! sent (`ZRANGE`), and of the rest one at random; if there is none, from the one sent longest ago on. Whether it may be sent: when its bucket
//! was filled last (`GET`; if that is too long ago both keys are set anew), what is left of it (`GET`), one less (`DECR`). Then
//! its time (`ZADD`).
//!
//! Left out, in its favour: the messages are in memory, where it asks a database for them with each pick.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Client};

/// What a bucket holds, and for how many seconds.
const TOKENS: i64 = 1_000_000;
const INTERVAL: u64 = 1;

/// One caller, with a connection of its own.
pub(super) struct Seed {
    store: MultiplexedConnection,
    messages: Vec<String>,
    turn: u64,
}

fn now_seconds() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

impl Seed {
    pub(super) async fn open(url: &str, messages: usize) -> Result<Seed> {
        let store = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Seed { store, messages: (0..messages).map(|n| format!("{messages}-{n}")).collect(), turn: 0 })
    }

    pub(super) async fn pick(&mut self, user: &str) -> Result<()> {
        let set = format!("seed:{}:{user}", self.messages.len());
        let sent: Vec<String> = self.store.zrange(&set, 0, -1).await?;
        let known: BTreeSet<&String> = sent.iter().collect();
        let fresh: Vec<&String> = self.messages.iter().filter(|message| !known.contains(message)).collect();
        self.turn += 1;
        let at = hermod_core::Seed::new(self.turn).below(u64::try_from(fresh.len())?);
        if let Some(message) = fresh.get(usize::try_from(at)?).map(|message| (*message).clone())
            && self.may_send(user, &message).await?
        {
            return self.sent(&set, &message).await;
        }
        for message in sent {
            if self.may_send(user, &message).await? {
                return self.sent(&set, &message).await;
            }
        }
        anyhow::bail!("nothing was picked")
    }

    async fn sent(&mut self, set: &str, message: &str) -> Result<()> {
        let _: i64 = self.store.zadd(set, message, now_seconds()?).await?;
        Ok(())
    }

    async fn may_send(&mut self, user: &str, message: &str) -> Result<bool> {
        let (reset, tokens) = (format!("seed:{user}:{message}:last_reset"), format!("seed:{user}:{message}:tokens"));
        let last: Option<u64> = self.store.get(&reset).await?;
        if last.is_none_or(|last| now_seconds().is_ok_and(|now| now.saturating_sub(last) > INTERVAL)) {
            let _: () = self.store.set(&reset, now_seconds()?).await?;
            let _: () = self.store.set(&tokens, TOKENS).await?;
        }
        let left: Option<i64> = self.store.get(&tokens).await?;
        if left.context("it was filled")? <= 0 {
            return Ok(false);
        }
        let _: i64 = self.store.decr(&tokens, 1).await?;
        Ok(true)
    }
}
