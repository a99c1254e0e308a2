//! Which node of a cluster has which channels, and a listener for each of them.
//!
//! The cluster is asked at first, and again whenever a listener has lost its node or was refused a channel: a slot that
//! moves and a primary that falls are both noticed by whoever listens to them.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use ::redis::{Value, cmd};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::Followed;
use super::listener::{Listener, longer};
use crate::redis::address::Address;
use crate::redis::connection::Connection;
use crate::redis::link::{RETRY_FIRST, SLOTS, WATCH_EVERY};

/// A node, as the others call it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    host: String,
    port: u16,
}

impl Node {
    /// How it is reached.
    pub(super) fn address(&self, cluster: &Address) -> Option<Address> {
        cluster.of_node(&self.host, self.port)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Who has which slots, as one node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Route {
    /// The first and the last slot, and their primary.
    ranges: Vec<(u16, u16, Node)>,
    replicas: BTreeSet<Node>,
}

impl Route {
    /// The primary of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Node> {
        self.ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot)).map(|(.., node)| node)
    }

    fn primaries(&self) -> BTreeSet<&Node> {
        self.ranges.iter().map(|(.., node)| node).collect()
    }

    fn is_whole(&self) -> bool {
        self.ranges.iter().map(|(first, last, _)| usize::from(last.abs_diff(*first)) + 1).sum::<usize>() >= usize::from(SLOTS)
    }

    /// Reads the answer to `CLUSTER SLOTS` from a node on `host`.
    fn read(answer: Value, host: &str) -> Route {
        let mut route = Route::default();
        let Value::Array(ranges) = answer else { return route };
        for range in ranges {
            let Value::Array(parts) = range else { continue };
            let [Value::Int(first), Value::Int(last), primary, replicas @ ..] = parts.as_slice() else { continue };
            let (Ok(first), Ok(last), Some(primary)) = (u16::try_from(*first), u16::try_from(*last), read_node(primary, host)) else {
                continue;
            };
            route.ranges.push((first, last, primary));
            route.replicas.extend(replicas.iter().filter_map(|node| read_node(node, host)));
        }
        route
    }
}

/// Reads `[host, port, ...]`. Without a host it is that of the node that answers; `?` is one that nobody knows.
fn read_node(node: &Value, answering: &str) -> Option<Node> {
    let Value::Array(parts) = node else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        Value::Nil => String::new(),
        _ => return None,
    };
    let host = match host.as_str() {
        "?" => return None,
        "" | "0.0.0.0" | "::" => answering.to_owned(),
        _ => host,
    };
    Some(Node { host, port: u16::try_from(*port).ok()? })
}

/// Listens to all primaries of a cluster, for ever.
pub(super) async fn listen(followed: Arc<Followed>) {
    let (route, routes) = watch::channel(Route::default());
    let doubted = Arc::new(Notify::new());
    let mut listeners = Listeners::default();
    let (mut wait, mut turn, mut is_lost) = (RETRY_FIRST, 0, false);
    loop {
        let known = routes.borrow().clone();
        let is_whole = match ask(&followed, &known, turn).await {
            Some(found) => {
                let takes_over = std::mem::take(&mut is_lost) || !known.ranges.is_empty();
                let listener = |node: &Node| {
                    let (followed, routes, doubted) = (Arc::clone(&followed), routes.clone(), Arc::clone(&doubted));
                    Listener::to_a_node(followed, node.clone(), routes, doubted, takes_over)
                };
                listeners.match_to(&found, listener);
                followed.miss(&followed.channels(|slot| found.owner(slot).is_none()));
                let is_whole = found.is_whole();
                route.send_if_modified(|known| std::mem::replace(known, found) != *known);
                is_whole
            }
            None => {
                if !std::mem::replace(&mut is_lost, true) {
                    tracing::warn!(store = %followed.address, "wake-ups are not heard: no node answers; trying until one does");
                }
                false
            }
        };
        // Another node is asked next time: this one may be the last to know.
        turn += 1;
        if is_whole && timeout(WATCH_EVERY, doubted.notified()).await.is_err() {
            wait = RETRY_FIRST;
            doubted.notified().await;
        }
        sleep(wait).await;
        wait = longer(wait);
    }
}

/// Asks one node after the other: primaries, as they hear of a change first; those of the address only if no other
/// answers, as they may have left the cluster.
async fn ask(followed: &Followed, known: &Route, turn: usize) -> Option<Route> {
    let mut nodes: Vec<Node> = known.primaries().into_iter().cloned().collect();
    let start = turn % nodes.len().max(1);
    nodes.rotate_left(start);
    nodes.extend(known.replicas.iter().cloned());
    nodes.extend(followed.address.nodes().into_iter().map(|(host, port)| Node { host, port }));
    for node in nodes {
        let Some(address) = node.address(&followed.address) else { continue };
        let Ok(mut connection) = Connection::open(&address, followed.timeout).await else { continue };
        let Ok(answer) = connection.send(cmd("CLUSTER").arg("SLOTS")).await else { continue };
        let route = Route::read(answer, &node.host);
        if !route.ranges.is_empty() {
            return Some(route);
        }
    }
    None
}

/// The listeners that run. They end with it.
#[derive(Default)]
struct Listeners {
    tasks: JoinSet<()>,
    by_node: HashMap<Node, AbortHandle>,
}

impl Listeners {
    /// One for each primary, and no other.
    fn match_to(&mut self, route: &Route, listener: impl Fn(&Node) -> Option<Listener>) {
        let primaries = route.primaries();
        self.by_node.retain(|node, task| {
            let stays = primaries.contains(node);
            if !stays {
                task.abort();
            }
            stays
        });
        for node in primaries {
            if let Some(listener) = listener(node).filter(|_| !self.by_node.contains_key(node)) {
                self.by_node.insert(node.clone(), self.tasks.spawn(listener.listen()));
            }
        }
        while self.tasks.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: i64) -> Value {
        Value::Array(vec![Value::BulkString(host.into()), Value::Int(port), Value::BulkString(b"id".to_vec())])
    }

    #[test]
    fn a_route_is_read_from_what_a_node_says() {
        let range = |first, last, nodes: &[Value]| Value::Array([&[Value::Int(first), Value::Int(last)], nodes].concat());
        let answer = Value::Array(vec![
            range(0, 99, &[node("a", 1), node("b", 2)]),
            range(100, 16_383, &[node("", 3), node("?", 4)]),
            range(100, 200, &[]),
        ]);
        let route = Route::read(answer.clone(), "here");
        let owner = |slot| route.owner(slot).map(Node::to_string);
        assert_eq!([owner(99), owner(100), owner(16_383)], [Some("a:1".to_owned()), Some("here:3".to_owned()), Some("here:3".to_owned())]);
        assert_eq!(route.replicas, BTreeSet::from([Node { host: "b".to_owned(), port: 2 }]));
        assert!(route.is_whole());
        assert_eq!(Route::read(Value::Array(vec![range(1, 16_383, &[node("a", 1)])]), "here").owner(0), None);
        assert!(!Route::read(Value::Array(vec![range(1, 16_383, &[node("a", 1)])]), "here").is_whole());
    }
}
