//! One connection to the store, be it a node, what sentinels call the primary, or a cluster.

use std::time::Duration;

use ::redis::aio::{AsyncPushSender, ConnectionLike, MultiplexedConnection};
use ::redis::cluster::ClusterClientBuilder;
use ::redis::cluster_async::ClusterConnection;
use ::redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, Route, RoutingInfo, SingleNodeRoutingInfo, Slot, SlotAddr};
use ::redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use ::redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisError, Value, cmd};

use super::address::{Address, Kind};
use super::not_connected;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to one node, or to all nodes of a cluster. Cheap to clone; clones are pipelined.
#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

fn config(timeout: Duration) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_TIMEOUT)).set_response_timeout(Some(timeout))
}

async fn in_time<T>(connect: impl Future<Output = Result<T, RedisError>>) -> Result<T, RedisError> {
    tokio::time::timeout(CONNECT_TIMEOUT * 2, connect).await.unwrap_or_else(|_| Err(not_connected()))
}

async fn to_one_node(kind: &Kind, config: &AsyncConnectionConfig) -> Result<MultiplexedConnection, RedisError> {
    match kind {
        Kind::Single(info) => Client::open(info.as_ref().clone())?.get_multiplexed_async_connection_with_config(config).await,
        Kind::Sentinel { sentinels, service, login } => {
            let node = SentinelNodeConnectionInfo::default().set_redis_connection_info(login.clone());
            let mut client = SentinelClient::build(sentinels.clone(), service.clone(), Some(node), SentinelServerType::Master)?;
            client.get_async_connection_with_config(config).await
        }
        Kind::Cluster(_) => Err(RedisError::from((ErrorKind::InvalidClientConfig, "a cluster is not one node"))),
    }
}

impl Connection {
    /// Connects. An answer on it may take as long as `timeout`.
    pub(super) async fn open(address: &Address, timeout: Duration) -> Result<Connection, RedisError> {
        let config = config(timeout);
        let connect = async {
            match &address.kind {
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
                kind => to_one_node(kind, &config).await.map(Connection::Single),
            }
        };
        in_time(connect).await
    }

    /// Connects to one node, or to what sentinels call the primary. `told` gets what the store says unasked.
    pub(super) async fn open_listening(
        address: &Address,
        timeout: Duration,
        told: impl AsyncPushSender,
    ) -> Result<MultiplexedConnection, RedisError> {
        let config = config(timeout).set_push_sender(told);
        in_time(to_one_node(&address.for_listening().kind, &config)).await
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Connection::Cluster(_))
    }

    /// Sends one command to the node it is for.
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
    pub(super) async fn is_partly_alive(&mut self) -> bool {
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
