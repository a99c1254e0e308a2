//! The link to the store: connects, watches, connects again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::cluster::ClusterClientBuilder;
use ::redis::cluster_async::ClusterConnection;
use ::redis::cluster_routing::{MultipleNodeRoutingInfo, Route, RoutingInfo, SingleNodeRoutingInfo, Slot, SlotAddr};
use ::redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use ::redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisConnectionInfo, RedisError, Value, cmd};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::address::{Address, Kind};
use super::fitness::{self, Unfit};
use super::{Options, not_connected};
use crate::error::{EngineError, OpenError};

/// How many connections share the load.
const LANES: usize = 2;
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
    /// Waiting for replicas holds up what is pipelined behind it, so that has a lane of its own.
    durable: Connection,
    turn: AtomicUsize,
}

impl Lanes {
    pub(super) fn next(&self) -> Connection {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.lanes.len().max(1);
        self.lanes.get(turn).unwrap_or(&self.durable).clone()
    }

    pub(super) fn durable(&self) -> Connection {
        self.durable.clone()
    }
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
    loop {
        let current = status.borrow().clone();
        let found = match current {
            Status::Ready(lanes) => {
                let _looked = tokio::time::timeout(WATCH_EVERY, doubted.notified()).await;
                if is_alive(&lanes, &options).await {
                    wait = RETRY_FIRST;
                    continue;
                }
                tracing::warn!(store = %options.address, "the store is lost; connecting again");
                connect(&options).await
            }
            Status::Down(_) => {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(WATCH_EVERY);
                connect(&options).await
            }
        };
        match found {
            Ok(lanes) => {
                tracing::info!(store = %options.address, "the store is connected");
                status.send_replace(Status::Ready(Arc::new(lanes)));
            }
            Err(unfit) => {
                let why = match unfit {
                    Unfit::Wrong(why) => why,
                    Unfit::Silent(fault) => fault.to_string(),
                };
                tracing::debug!(store = %options.address, why, "the store is not ready");
                status.send_replace(Status::Down(why));
            }
        }
    }
}

/// Whether every lane answers, and still from a primary.
async fn is_alive(lanes: &Lanes, options: &Options) -> bool {
    for connection in lanes.lanes.iter().chain([&lanes.durable]) {
        let mut connection = connection.clone();
        let answer = tokio::time::timeout(options.timeout, connection.send_everywhere(cmd("ROLE"))).await;
        let Ok(Ok(roles)) = answer else { return false };
        let is_primary = |role: &Value| match role {
            Value::Array(parts) => matches!(parts.first(), Some(Value::BulkString(word)) if word == b"master"),
            _ => false,
        };
        if !roles.iter().all(is_primary) {
            return false;
        }
    }
    true
}

async fn connect(options: &Options) -> Result<Lanes, Unfit> {
    let mut lanes = Vec::with_capacity(LANES);
    for _ in 0..LANES {
        lanes.push(connect_one(&options.address, options.timeout).await?);
    }
    let mut durable = connect_one(&options.address, options.timeout).await?;
    fitness::check(&mut durable, options.partitions).await?;
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
