//! The algorithm that sticky queues replace: sharding of recipients over the instances of a plugin, after its design.
//!
//! The same keys, the same commands in the same order, each a round trip of its own on a connection of whoever sends it, as a pool
//! gives it one; nothing is locked, as nothing is there. Of a route: whose it is (`HEXISTS`, `HGET`, or an
//! assignment of its own), whether that one is stale (`HGET`, and a reassignment of all it has), one more that is pending
//! (`HINCRBY`), and the message (`RPUSH`). An instance reads the list of its recipients (`HGET`) and looks at each of them, one after the
//! other (`LPOP`), over and over; of a message it notes when it was last heard of (`HSET`), and one less that is pending (`HGET`, `HSET`).
//!
//! Left out, all in its favour: the instance waits 0.2 s at each recipient for whom there is nothing (`BLPOP`), and sleeps for 0.2 s then.
//! Packing in base64, and finding the recipient in an envelope. A list of recipients is JSON, as there, read and written as a whole for each
//! that is assigned. Of two that are assigned to one instance at the same time one is lost from it, and no instance ever looks at that one's
//! messages: so that every message is handled, callers of this process take turns at a list. And an instance that begins counts as heard of.
//!
//! Its messages can also be taken by who is told where they are (`take`), which no instance is: what is left then are nine commands a message.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Client};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

const PENDING: &str = "uid_recip_key_pending_msg_count";
const TURN: &str = "round_robin_iterator";
const LISTS: &str = "uid_recip_keys_map";
const OWNERS: &str = "recip_key_uid_map";
const HEARD: &str = "uid_last_access_map";
const TOPIC: &str = "acapy_inbound";
const STALE_SECONDS: u64 = 15;

/// Who waits for a message to be handled, by its recipient: nobody else waits for one of that recipient.
pub(super) type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<String>>>>;

/// Whose turn it is at the list of an instance.
pub(super) type Turns = Arc<HashMap<String, tokio::sync::Mutex<()>>>;

/// One caller or instance, with a connection of its own.
#[derive(Clone, Debug)]
pub(super) struct Seed {
    store: MultiplexedConnection,
    turns: Turns,
}

fn now_seconds() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

impl Seed {
    pub(super) async fn open(url: &str, turns: Turns) -> Result<Seed> {
        Ok(Seed { store: Client::open(url)?.get_multiplexed_async_connection().await?, turns })
    }

    /// An instance begins.
    pub(super) async fn join(&mut self, uid: &str) -> Result<()> {
        let _: () = self.store.hset(LISTS, uid, "[]").await?;
        Ok(())
    }

    /// Makes these recipients known, in turns, as if each had been assigned when its first message came and that had been handled.
    pub(super) async fn know(&mut self, uids: &[String], recipients: impl Iterator<Item = String>) -> Result<()> {
        let mut lists: Vec<Vec<String>> = vec![Vec::new(); uids.len()];
        for (turn, to) in recipients.enumerate() {
            let turn = turn % uids.len();
            if let (Some(uid), Some(list)) = (uids.get(turn), lists.get_mut(turn)) {
                let _: () = self.store.hset(OWNERS, &to, uid).await?;
                let _: () = self.store.hset(PENDING, format!("{uid}_{to}"), 0).await?;
                list.push(to);
            }
        }
        for (uid, list) in uids.iter().zip(&lists) {
            self.keep_list(uid, list).await?;
        }
        Ok(())
    }

    /// `process_payload_recip_key`, and the message itself; who has to handle it.
    pub(super) async fn route(&mut self, to: &str, message: &str) -> Result<String> {
        let mut uid: String = match self.store.hexists(OWNERS, to).await? {
            true => self.store.hget(OWNERS, to).await?,
            false => self.assign(to).await?,
        };
        let heard: Option<u64> = self.store.hget(HEARD, &uid).await?;
        if let Some(heard) = heard
            && now_seconds()?.saturating_sub(heard) >= STALE_SECONDS
        {
            uid = self.leave_stale(uid, to).await?;
        }
        let _: i64 = self.store.hincr(PENDING, format!("{uid}_{to}"), 1).await?;
        let _: i64 = self.store.rpush(format!("{TOPIC}_{to}"), message).await?;
        Ok(uid)
    }

    /// An instance: looks for messages and handles them, until it is stopped.
    async fn serve(mut self, uid: String, waiting: Waiting, stopped: Arc<AtomicBool>) -> Result<()> {
        // While others were measured it was idle, and would be taken for gone, with all it has moved elsewhere, one command after the other.
        let _: () = self.store.hset(HEARD, &uid, now_seconds()?).await?;
        while !stopped.load(Ordering::Relaxed) {
            for to in self.list(&uid).await? {
                if let Some(message) = self.take(&uid, &to).await?
                    && let Some(waiter) = waiting.lock().expect("nobody fell over").remove(&to)
                {
                    // Who asked may be gone.
                    let _gone = waiter.send(message);
                }
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// A message of this recipient, if there is one, is taken; one less is pending.
    pub(super) async fn take(&mut self, uid: &str, to: &str) -> Result<Option<String>> {
        let popped: Option<String> = self.store.lpop(format!("{TOPIC}_{to}"), None).await?;
        let Some(message) = popped else { return Ok(None) };
        let _: () = self.store.hset(HEARD, uid, now_seconds()?).await?;
        let name = format!("{uid}_{to}");
        let pending: Option<i64> = self.store.hget(PENDING, &name).await?;
        if let Some(pending) = pending.filter(|pending| *pending >= 1) {
            let _: () = self.store.hset(PENDING, &name, pending - 1).await?;
        }
        Ok(Some(message))
    }

    async fn list(&mut self, uid: &str) -> Result<Vec<String>> {
        let list: Option<String> = self.store.hget(LISTS, uid).await?;
        Ok(list.map(|list| serde_json::from_str(&list)).transpose()?.unwrap_or_default())
    }

    async fn keep_list(&mut self, uid: &str, list: &[String]) -> Result<()> {
        let _: () = self.store.hset(LISTS, uid, serde_json::to_string(list)?).await?;
        Ok(())
    }

    /// `get_new_valid_uid`.
    async fn next(&mut self, but: Option<&str>) -> Result<String> {
        if self.store.get::<_, Option<u64>>(TURN).await?.is_none() {
            let _: () = self.store.set(TURN, 0).await?;
        }
        let turn: usize = self.store.get(TURN).await?;
        let mut all: Vec<String> = self.store.hkeys(LISTS).await?;
        all.retain(|uid| Some(uid.as_str()) != but);
        ensure!(!all.is_empty(), "there is an instance");
        let chosen = all.get(turn).or_else(|| all.first()).cloned().context("there is an instance")?;
        let next = if turn + 1 < all.len() { turn + 1 } else { 0 };
        let _: () = self.store.set(TURN, next).await?;
        Ok(chosen)
    }

    /// `assign_recip_key_to_new_uid`.
    async fn assign(&mut self, to: &str) -> Result<String> {
        let uid = self.next(None).await?;
        let _: () = self.store.hset(OWNERS, to, &uid).await?;
        let turns = Arc::clone(&self.turns);
        let _turn = turns.get(&uid).context("it is one of the instances")?.lock().await;
        let mut list = self.list(&uid).await?;
        if !list.iter().any(|known| known == to) {
            list.push(to.to_owned());
            self.keep_list(&uid, &list).await?;
        }
        let _: () = self.store.hset(PENDING, format!("{uid}_{to}"), 0).await?;
        Ok(uid)
    }

    /// A stale instance loses all it has if anything of it is pending; who has this one then.
    async fn leave_stale(&mut self, stale: String, to: &str) -> Result<String> {
        let list = self.list(&stale).await?;
        let mut is_pending = false;
        for one in &list {
            let pending: Option<i64> = self.store.hget(PENDING, format!("{stale}_{one}")).await?;
            is_pending = pending.is_some_and(|pending| pending >= 1);
            if is_pending {
                break;
            }
        }
        if !is_pending {
            return Ok(stale);
        }
        let mut owner = stale.clone();
        for one in &list {
            let new = self.reassign(&stale, one).await?;
            if one == to {
                owner = new;
            }
        }
        if self.list(&stale).await?.is_empty() {
            let _: () = self.store.hdel(LISTS, &stale).await?;
        }
        Ok(owner)
    }

    /// `reassign_recip_key_to_uid`.
    async fn reassign(&mut self, stale: &str, to: &str) -> Result<String> {
        let uid = self.next(Some(stale)).await?;
        let mut old = self.list(stale).await?;
        let mut new = self.list(&uid).await?;
        old.retain(|one| one != to);
        self.keep_list(stale, &old).await?;
        let pending: Option<i64> = self.store.hget(PENDING, format!("{stale}_{to}")).await?;
        let _: () = self.store.hdel(PENDING, format!("{stale}_{to}")).await?;
        let _: () = self.store.hset(OWNERS, to, &uid).await?;
        new.push(to.to_owned());
        self.keep_list(&uid, &new).await?;
        if let Some(pending) = pending.filter(|pending| *pending >= 1) {
            let _: () = self.store.hset(PENDING, format!("{uid}_{to}"), pending).await?;
        }
        Ok(uid)
    }
}

/// The instances, at work until they are stopped.
pub(super) struct Instances {
    all: JoinSet<Result<()>>,
    stopped: Arc<AtomicBool>,
    pub(super) waiting: Waiting,
}

impl Instances {
    /// Each has a connection of its own.
    pub(super) fn start(seeds: &[(String, Seed)]) -> Instances {
        let (mut all, stopped, waiting) = (JoinSet::new(), Arc::<AtomicBool>::default(), Waiting::default());
        for (uid, seed) in seeds {
            all.spawn(seed.clone().serve(uid.clone(), Arc::clone(&waiting), Arc::clone(&stopped)));
        }
        Instances { all, stopped, waiting }
    }

    pub(super) async fn stop(mut self) -> Result<()> {
        self.stopped.store(true, Ordering::Relaxed);
        while let Some(ended) = self.all.join_next().await {
            ended??;
        }
        Ok(())
    }
}
