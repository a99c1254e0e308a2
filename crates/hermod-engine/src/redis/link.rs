//! The link to the store: connects, watches, connects again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, Notify, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::connection::Connection;
use super::fitness::{self, Unfit};
use super::{Options, not_connected};
use crate::error::{EngineError, OpenError};

/// How many connections share the load.
const LANES: usize = 2;
/// How many connections there are to wait for replicas on.
const DURABLE_LANES: usize = 8;
/// The link is looked at this often when nothing is wrong.
pub(super) const WATCH_EVERY: Duration = Duration::from_secs(1);
/// The wait after the first failed try; doubles up to [`WATCH_EVERY`].
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(20);

/// The connections of one successful try.
pub(super) struct Lanes {
    lanes: Vec<Connection>,
    /// Waiting for replicas holds up what is pipelined behind it, so here one call has a lane for itself.
    durable: Vec<Mutex<Connection>>,
    turn: AtomicUsize,
}

impl Lanes {
    /// The lane whose turn it is.
    pub(super) fn next(&self) -> Connection {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.lanes.len();
        self.lanes.get(turn).expect("a remainder is below the length").clone()
    }

    /// The lane to wait for replicas on, if it is free within `patience`. Slots that are neighbours share one, as
    /// they mostly share a node: a node without its replicas then holds up few others.
    pub(super) async fn durable(&self, key: &str, patience: Duration) -> Option<MutexGuard<'_, Connection>> {
        let lane = self.durable.get(usize::from(slot(key)) * self.durable.len() / usize::from(SLOTS))?;
        tokio::time::timeout(patience, lane.lock()).await.ok()
    }
}

/// How many slots a cluster has.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key: the CRC16 (XMODEM) of its tag. The client computes it too, and keeps it to itself.
pub(super) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag);
    let shift = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    tag.bytes().fold(0, |crc, byte| (0..8).fold(crc ^ (u16::from(byte) << 8), shift)) % SLOTS
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes").field("lanes", &self.lanes.len()).finish_non_exhaustive()
    }
}

/// What the watching task last found.
#[derive(Clone, Debug)]
enum Status {
    Ready(Arc<Lanes>),
    Down(String),
}

/// The link, and the task that watches it.
#[derive(Debug)]
pub(super) struct Link {
    status: watch::Receiver<Status>,
    doubted: Arc<Notify>,
    task: AbortHandle,
}

impl Link {
    /// Tries once, then watches in the background. Only a store that answers and is not fit is an error.
    pub(super) async fn open(options: &Options) -> Result<Link, OpenError> {
        let first = match connect(options).await {
            Ok(lanes) => Status::Ready(Arc::new(lanes)),
            Err(Unfit::Wrong(why)) => return Err(OpenError::Unfit(format!("{}: {why}", options.address))),
            Err(Unfit::Silent(fault)) => {
                tracing::warn!(store = %options.address, error = %fault, "the store cannot be reached yet; it will be tried until it can");
                Status::Down(fault.to_string())
            }
        };
        let (sender, status) = watch::channel(first);
        let doubted = Arc::new(Notify::new());
        let task = tokio::spawn(keep(options.clone(), sender, Arc::clone(&doubted))).abort_handle();
        Ok(Link { status, doubted, task })
    }

    pub(super) fn connection(&self) -> Result<Arc<Lanes>, EngineError> {
        match &*self.status.borrow() {
            Status::Ready(lanes) => Ok(Arc::clone(lanes)),
            Status::Down(why) => Err(EngineError::unavailable(why.clone())),
        }
    }

    /// An operation failed on the connection: have a look now.
    pub(super) fn doubt(&self) {
        self.doubted.notify_one();
    }

    pub(super) fn close(&self) {
        self.task.abort();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

/// The watching task.
async fn keep(options: Options, status: watch::Sender<Status>, doubted: Arc<Notify>) {
    let mut wait = RETRY_FIRST;
    // A cluster that has lost a part goes on with the rest, on the connections it has, until new ones reach all of it.
    let mut is_part = false;
    loop {
        let current = status.borrow().clone();
        if let Status::Ready(lanes) = current {
            if !is_part {
                let _looked = tokio::time::timeout(WATCH_EVERY, doubted.notified()).await;
            }
            if is_alive(&lanes, options.timeout / 4).await {
                (wait, is_part) = (RETRY_FIRST, false);
                continue;
            }
            if !is_part {
                tracing::warn!(store = %options.address, "the store is lost, or a part of it; connecting again");
            }
            // A connection can hang though the store is there: the client of a cluster may when nodes change their
            // parts. New ones then have an answer at once, and nobody is turned away meanwhile.
            if let Ok(Ok(lanes)) = tokio::time::timeout(options.timeout, connect(&options)).await {
                tracing::info!(store = %options.address, "the store is connected");
                status.send_replace(Status::Ready(Arc::new(lanes)));
                (wait, is_part) = (RETRY_FIRST, false);
                continue;
            }
            is_part = lanes.next().is_partly_alive().await;
            if !is_part {
                status.send_replace(Status::Down("the connection was lost".to_owned()));
            }
        }
        let why = match connect(&options).await {
            Ok(lanes) => {
                tracing::info!(store = %options.address, "the store is connected");
                status.send_replace(Status::Ready(Arc::new(lanes)));
                is_part = false;
                continue;
            }
            Err(Unfit::Wrong(why)) => {
                is_part = false;
                why
            }
            Err(Unfit::Silent(fault)) => fault.to_string(),
        };
        tracing::debug!(store = %options.address, why, "the store is not ready");
        if !is_part {
            status.send_replace(Status::Down(why));
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(WATCH_EVERY);
    }
}

/// Whether every lane answers in time, and still from a primary.
async fn is_alive(lanes: &Arc<Lanes>, patience: Duration) -> bool {
    let answers = async move |connection: &mut Connection| {
        let answer = tokio::time::timeout(patience, fitness::is_primary(connection)).await;
        matches!(answer, Ok(Ok(true)))
    };
    let mut all = JoinSet::new();
    for mut lane in lanes.lanes.clone() {
        all.spawn(async move { answers(&mut lane).await });
    }
    for position in 0..lanes.durable.len() {
        let lanes = Arc::clone(lanes);
        all.spawn(async move {
            // Behind those who wait for replicas on it: before them it would wait for the same.
            let Some(lane) = lanes.durable.get(position) else { return true };
            answers(&mut *lane.lock().await).await
        });
    }
    all.join_all().await.into_iter().all(|is_alive| is_alive)
}

async fn connect(options: &Options) -> Result<Lanes, Unfit> {
    let mut first = Connection::open(&options.address, options.timeout).await?;
    fitness::check(&mut first, options.partitions).await?;
    let durable = if options.replicas > 0 { DURABLE_LANES } else { 0 };
    let mut others = JoinSet::new();
    for _ in 1..LANES + durable {
        let (address, timeout) = (options.address.clone(), options.timeout);
        others.spawn(async move { Connection::open(&address, timeout).await });
    }
    let mut lanes = vec![first];
    while let Some(joined) = others.join_next().await {
        lanes.push(joined.unwrap_or_else(|_| Err(not_connected()))?);
    }
    let durable = lanes.split_off(LANES).into_iter().map(Mutex::new).collect();
    Ok(Lanes { lanes, durable, turn: AtomicUsize::new(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keys_slot_is_that_of_its_tag() {
        // The first is the check value of the CRC itself.
        for (key, expected) in [("123456789", 12_739), ("hm:meta", 4_985), ("hm:{123456789}:limit:r:{bot}", 12_739)] {
            assert_eq!(slot(key), expected, "{key}");
        }
    }
}
