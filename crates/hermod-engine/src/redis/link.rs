//! The link to the store: connects, watches, connects again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::cluster::ClusterClientBuilder;
use ::redis::cluster_async::ClusterConnection;
use ::redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, Route, RoutingInfo, SingleNodeRoutingInfo, Slot, SlotAddr};
use ::redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use ::redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisConnectionInfo, RedisError, Value, cmd};
use tokio::sync::{Mutex, MutexGuard, Notify, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::address::{Address, Kind};
use super::fitness::{self, Unfit};
use super::{Options, not_connected};
use crate::error::{EngineError, OpenError};

/// How many connections share the load.
const LANES: usize = 2;
/// How many connections there are to wait for replicas on.
const DURABLE_LANES: usize = 8;
/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The link is looked at this often when nothing is wrong.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// The wait after the first failed try; doubles up to [`WATCH_EVERY`].
const RETRY_FIRST: Duration = Duration::from_millis(20);

/// A connection to one node, or to all nodes of a cluster. Cheap to clone; clones are pipelined.
#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    pub(super) async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        match self {
            Connection::Single(connection) => connection.req_packed_command(command).await?.extract_error(),
            Connection::Cluster(connection) => connection.req_packed_command(command).await?.extract_error(),
        }
    }

    /// Sends commands back to back to the node of `key`.
    pub(super) async fn send_all(&mut self, pipeline: Pipeline, key: &str) -> Result<Vec<Value>, RedisError> {
        let count = pipeline.len();
        match self {
            Connection::Single(connection) => connection.req_packed_commands(&pipeline, 0, count).await,
            Connection::Cluster(connection) => {
                let route = SingleNodeRoutingInfo::SpecificNode(Route::with_slot(Slot::for_key(key), SlotAddr::Master));
                connection.route_pipeline(pipeline, 0, count, route).await
            }
        }
    }

    /// Sends a command to every primary; one answer each.
    pub(super) async fn send_everywhere(&mut self, command: Cmd) -> Result<Vec<Value>, RedisError> {
        match self {
            Connection::Single(_) => Ok(vec![self.send(&command).await?]),
            Connection::Cluster(connection) => {
                let everywhere = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                match connection.route_command(command, everywhere).await?.extract_error()? {
                    Value::Map(answers) => Ok(answers.into_iter().map(|(_, answer)| answer).collect()),
                    other => Ok(vec![other]),
                }
            }
        }
    }

    /// Whether it is a cluster of which some primary answers.
    async fn is_partly_alive(&mut self) -> bool {
        let Connection::Cluster(connection) = self else { return false };
        let anywhere = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, Some(ResponsePolicy::OneSucceeded)));
        connection.route_command(cmd("PING"), anywhere).await.is_ok_and(|answer| answer.extract_error().is_ok())
    }

    /// All keys that match a glob, on all primaries.
    pub(super) async fn keys(&mut self, glob: &str) -> Result<Vec<String>, RedisError> {
        let answers = self.send_everywhere(cmd("KEYS").arg(glob).to_owned()).await?;
        let mut keys = Vec::new();
        for answer in answers {
            keys.extend(::redis::from_redis_value::<Vec<String>>(answer)?);
        }
        Ok(keys)
    }
}

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
const SLOTS: u16 = 16_384;

/// The slot of a key: the CRC16 (XMODEM) of its tag. The client computes it too, and keeps it to itself.
fn slot(key: &str) -> u16 {
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
            if is_alive(&lanes, &options).await {
                (wait, is_part) = (RETRY_FIRST, false);
                continue;
            }
            if !is_part {
                tracing::warn!(store = %options.address, "the store is lost, or a part of it; connecting again");
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

/// Whether every lane answers, and still from a primary.
async fn is_alive(lanes: &Lanes, options: &Options) -> bool {
    for connection in &lanes.lanes {
        if !is_primary(connection.clone(), options).await {
            return false;
        }
    }
    for lane in &lanes.durable {
        let connection = lane.lock().await.clone();
        if !is_primary(connection, options).await {
            return false;
        }
    }
    true
}

async fn is_primary(mut connection: Connection, options: &Options) -> bool {
    let is_primary = |role: &Value| match role {
        Value::Array(parts) => matches!(parts.first(), Some(Value::BulkString(word)) if word == b"master"),
        _ => false,
    };
    let answer = tokio::time::timeout(options.timeout, connection.send_everywhere(cmd("ROLE"))).await;
    matches!(answer, Ok(Ok(roles)) if roles.iter().all(is_primary))
}

async fn connect(options: &Options) -> Result<Lanes, Unfit> {
    let mut first = connect_one(&options.address, options.timeout).await?;
    fitness::check(&mut first, options.partitions).await?;
    let durable = if options.replicas > 0 { DURABLE_LANES } else { 0 };
    let mut others = JoinSet::new();
    for _ in 1..LANES + durable {
        let (address, timeout) = (options.address.clone(), options.timeout);
        others.spawn(async move { connect_one(&address, timeout).await });
    }
    let mut lanes = vec![first];
    while let Some(joined) = others.join_next().await {
        lanes.push(joined.unwrap_or_else(|_| Err(not_connected()))?);
    }
    let durable = lanes.split_off(LANES).into_iter().map(Mutex::new).collect();
    Ok(Lanes { lanes, durable, turn: AtomicUsize::new(0) })
}

async fn connect_one(address: &Address, timeout: Duration) -> Result<Connection, RedisError> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_TIMEOUT)).set_response_timeout(Some(timeout));
    let connect = async {
        match &address.kind {
            Kind::Single(info) => {
                let client = Client::open(info.as_ref().clone())?;
                client.get_multiplexed_async_connection_with_config(&config).await.map(Connection::Single)
            }
            Kind::Sentinel { sentinels, service, user, password } => {
                let mut login = RedisConnectionInfo::default();
                if let Some(user) = user {
                    login = login.set_username(user);
                }
                if let Some(password) = password {
                    login = login.set_password(password);
                }
                let node = SentinelNodeConnectionInfo::default().set_redis_connection_info(login);
                let mut client = SentinelClient::build(sentinels.clone(), service.clone(), Some(node), SentinelServerType::Master)?;
                client.get_async_connection_with_config(&config).await.map(Connection::Single)
            }
            Kind::Cluster(nodes) => {
                // Few and short retries: a caller is waiting, and is told when it takes too long.
                let client = ClusterClientBuilder::new(nodes.clone())
                    .connection_timeout(CONNECT_TIMEOUT)
                    .response_timeout(timeout)
                    .overall_response_timeout(Some(timeout))
                    .retries(8)
                    .min_retry_wait(20)
                    .max_retry_wait(200)
                    .build()?;
                client.get_async_connection().await.map(Connection::Cluster)
            }
        }
    };
    tokio::time::timeout(CONNECT_TIMEOUT * 2, connect).await.unwrap_or_else(|_| Err(not_connected()))
}
