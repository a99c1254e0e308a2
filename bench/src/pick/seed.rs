//! The algorithm that picks replace, after its design: a sorted set of each user's messages by the second they were last sent, and
//! a bucket of two keys for each user and message.
//!
//! The same commands in the same order, each a round trip of its own on the caller's own connection. A pick: all the user was
//! sent (`ZRANGE`), and of the rest one at random; if there is none, from the one sent longest ago on. Whether it may be sent: when its bucket
//! was filled last (`GET`; if that is too long ago both keys are set anew), what is left of it (`GET`), one less (`DECR`). Then
//! its time (`ZADD`).
//!
//! With a database it reads the user's messages from it before each pick, over the caller's own connection, as it does; without one they are
//! in memory, in its favour.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Client};
use sqlx::{Connection, Executor, PgConnection};

/// What a bucket holds, and for how many seconds: more than is ever taken, or what is taken once in a run.
const AMPLE: (i64, u64) = (1_000_000, 1);
const CAPPED: (i64, u64) = (1, 3_600);

/// As it keeps them: who has them is the target.
const SCHEMA: &str = "
CREATE TABLE message (id text NOT NULL, author text NOT NULL, target text NOT NULL, body text NOT NULL, active boolean NOT NULL,
                      tokens bigint NOT NULL, seconds bigint NOT NULL, PRIMARY KEY (target, id))";
const ADD: &str = "INSERT INTO message SELECT unnest($1::text[]), 'author', $2, 'a tip of the day', true, $3, $4";
const READ: &str = "SELECT id, body, tokens, seconds FROM message WHERE target = $1 AND active";

/// Makes the table.
pub(super) async fn prepare(database: &str) -> Result<()> {
    PgConnection::connect(database).await?.execute(SCHEMA).await?;
    Ok(())
}

/// One caller, with connections of its own.
pub(super) struct Seed {
    store: MultiplexedConnection,
    database: Option<PgConnection>,
    messages: Vec<String>,
    /// So many of them, the first, are at their cap.
    capped: usize,
    turn: u64,
}

fn now_seconds() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// The two keys of a bucket.
fn bucket(user: &str, message: &str) -> (String, String) {
    (format!("seed:{user}:{message}:last_reset"), format!("seed:{user}:{message}:tokens"))
}

impl Seed {
    pub(super) async fn open(url: &str, database: Option<&str>, messages: usize, capped: usize) -> Result<Seed> {
        let store = Client::open(url)?.get_multiplexed_async_connection().await?;
        let database = match database {
            Some(database) => Some(PgConnection::connect(database).await?),
            None => None,
        };
        Ok(Seed { store, database, messages: (0..messages).map(|n| format!("{messages}-{capped}-{n}")).collect(), capped, turn: 0 })
    }

    fn set_of(&self, user: &str) -> String {
        format!("seed:{}-{}:{user}", self.messages.len(), self.capped)
    }

    /// The user was sent every message once: as it is after the first days.
    pub(super) async fn fill(&mut self, user: &str) -> Result<()> {
        let (set, now) = (self.set_of(user), now_seconds()?);
        if let Some(database) = &mut self.database {
            let (tokens, seconds) = AMPLE;
            let add = sqlx::query(ADD).bind(&self.messages).bind(user).bind(tokens).bind(i64::try_from(seconds)?);
            add.execute(database).await?;
        }
        let rows: Vec<(u64, &String)> = self.messages.iter().map(|message| (now - 60, message)).collect();
        let _: i64 = self.store.zadd_multiple(&set, &rows).await?;
        for message in self.messages.iter().take(self.capped) {
            let (reset, tokens) = bucket(user, message);
            let _: () = self.store.mset(&[(reset, now.to_string()), (tokens, "0".to_owned())]).await?;
        }
        Ok(())
    }

    pub(super) async fn pick(&mut self, user: &str) -> Result<()> {
        let set = self.set_of(user);
        if let Some(database) = &mut self.database {
            let read: Vec<(String, String, i64, i64)> = sqlx::query_as(READ).bind(user).fetch_all(database).await?;
            self.messages = read.into_iter().map(|(id, ..)| id).collect();
        }
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
        let (reset, tokens) = bucket(user, message);
        let is_capped = self.messages.iter().take(self.capped).any(|one| one == message);
        let (fill, interval) = if is_capped { CAPPED } else { AMPLE };
        let last: Option<u64> = self.store.get(&reset).await?;
        if last.is_none_or(|last| now_seconds().is_ok_and(|now| now.saturating_sub(last) > interval)) {
            let _: () = self.store.set(&reset, now_seconds()?).await?;
            let _: () = self.store.set(&tokens, fill).await?;
        }
        let left: Option<i64> = self.store.get(&tokens).await?;
        if left.context("it was filled")? <= 0 {
            return Ok(false);
        }
        let _: i64 = self.store.decr(&tokens, 1).await?;
        Ok(true)
    }
}
