//! A Redis Cluster of three primaries with a replica each.
//!
//! It is put together with plain `CLUSTER` commands, every node meeting every other, because gossip alone
//! takes seconds to spread. Node `i` is the first primary of shard `i`, node `i + 3` its first replica; after a
//! failover the roles differ, so [`Cluster::primaries`] asks the cluster.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result};

use super::redis::Redis;
use super::shared::{Shared, shared};
use super::{PATIENCE, port};
use crate::until;

/// The first and the last slot of each shard.
const SHARDS: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];
/// How long a failover may take, on a busy machine: about twice the node timeout, and an election.
const FAILOVER: Duration = Duration::from_secs(60);

/// A running Redis Cluster.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Redis>,
}

impl Cluster {
    /// Starts six nodes and returns when every one of them sees a whole cluster.
    pub fn start() -> Result<Cluster> {
        port::with_free_ports(|| {
            let mut cluster = Cluster::launch()?;
            cluster.nodes.iter_mut().try_for_each(Redis::until_ready)?;
            cluster.join()?;
            cluster.settle()?;
            Ok(cluster)
        })
    }

    /// The one cluster of this test process, for tests that keep to their own space.
    pub fn shared() -> Result<&'static Cluster> {
        static SHARED: Shared<Cluster> = OnceLock::new();
        shared(&SHARED, Cluster::start)
    }

    /// `redis-cluster://127.0.0.1:<port>,127.0.0.1:<port>,...` with all six nodes.
    pub fn url(&self) -> String {
        let nodes: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis-cluster://{}", nodes.join(","))
    }

    /// `redis://127.0.0.1:<port>` of each node, as cluster clients want to be given them.
    pub fn node_urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    /// The ports of the nodes that are primaries now, in the order of their slots.
    pub fn primaries(&self) -> Result<Vec<u16>> {
        let views = self.nodes.iter().filter_map(|node| primaries_seen_by(node).ok());
        views.into_iter().next().context("no node of the cluster answers")
    }

    /// Kills the node that is now the primary of shard `shard` (0, 1 or 2) with SIGKILL, and returns its port.
    /// It does not wait for the failover; see [`Cluster::settle`].
    pub fn kill_primary(&mut self, shard: usize) -> Result<u16> {
        let port = *self.primaries()?.get(shard).with_context(|| format!("there is no shard {shard}"))?;
        self.kill(port)?;
        Ok(port)
    }

    /// Kills the node on `port` with SIGKILL.
    pub fn kill(&mut self, port: u16) -> Result<()> {
        self.node(port)?.stop()
    }

    /// Halts the node on `port` with SIGSTOP; see [`Redis::pause`].
    pub fn pause(&mut self, port: u16) -> Result<()> {
        self.node(port)?.pause()
    }

    /// Lets a paused node go on.
    pub fn resume(&mut self, port: u16) -> Result<()> {
        self.node(port)?.resume()
    }

    /// Starts a killed node again. It comes back as a replica if its shard has a new primary by then.
    pub fn restart(&mut self, port: u16) -> Result<()> {
        self.node(port)?.restart()?;
        self.settle()
    }

    /// Waits until all nodes that run, unpaused, agree on three primaries among them, call the cluster whole, and have their copies.
    pub fn settle(&mut self) -> Result<()> {
        let awake: Vec<&Redis> = self.nodes.iter_mut().filter_map(|node| node.is_awake().then_some(&*node)).collect();
        let ports: Vec<u16> = awake.iter().map(|node| node.port()).collect();
        until(FAILOVER, "the cluster to be whole", || {
            let views: Vec<Vec<u16>> = awake.iter().filter_map(|node| primaries_seen_by(node).ok()).collect();
            let Some(primaries) = views.first() else { return false };
            let agreed = views.len() == awake.len() && views.iter().all(|view| view == primaries);
            agreed
                && primaries.len() == SHARDS.len()
                && primaries.iter().all(|port| ports.contains(port))
                && awake.iter().all(|node| is_whole(node))
                && awake.iter().all(|node| primaries.contains(&node.port()) || node.has_copy())
        })
    }

    fn node(&mut self, port: u16) -> Result<&mut Redis> {
        self.nodes.iter_mut().find(|node| node.port() == port).with_context(|| format!("no node of the cluster has port {port}"))
    }

    fn launch() -> Result<Cluster> {
        let options = Redis::options().set("cluster-enabled", "yes").set("cluster-config-file", "nodes.conf");
        // A replica may take over however long it was cut off: what these tests look at is what Hermod makes of it.
        let options = options.set("cluster-node-timeout", "2000").set("cluster-replica-validity-factor", "0");
        let launch = |_| options.clone().launch(port::free_port()?);
        let nodes = (0..2 * SHARDS.len()).map(launch).collect::<Result<Vec<Redis>>>()?;
        Ok(Cluster { nodes })
    }

    /// Makes a cluster of the six single nodes.
    fn join(&mut self) -> Result<()> {
        let (primaries, replicas) = self.nodes.split_at(SHARDS.len());
        for (epoch, (node, (first, last))) in (1..).zip(primaries.iter().zip(SHARDS)) {
            // Two primaries of one epoch would have to settle first which of them steps back.
            node.ask::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &u32::to_string(&epoch)])?;
            node.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            for other in self.nodes.iter().skip(index + 1) {
                node.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()])?;
            }
        }
        for (replica, primary) in replicas.iter().zip(primaries) {
            let id: String = primary.ask(&["CLUSTER", "MYID"])?;
            // Refused until the replica has heard of its primary.
            let follows = || replica.ask::<()>(&["CLUSTER", "REPLICATE", &id]).is_ok();
            until(PATIENCE, format!("{} to follow {}", replica.url(), primary.url()), follows)?;
        }
        let complete = |node: &Redis| node.field(&["CLUSTER", "INFO"], "cluster_known_nodes").is_ok_and(|known| known == "6");
        until(PATIENCE, "all nodes to have met", || self.nodes.iter().all(complete))
    }
}

fn is_whole(node: &Redis) -> bool {
    node.field(&["CLUSTER", "INFO"], "cluster_state").is_ok_and(|state| state == "ok")
}

/// The ports of the primaries that hold slots, in the order of their slots, as `node` sees it.
fn primaries_seen_by(node: &Redis) -> Result<Vec<u16>> {
    let report: String = node.ask(&["CLUSTER", "NODES"])?;
    let mut found: Vec<(u16, u16)> = report.lines().filter_map(primary_of_line).collect();
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, port)| port).collect())
}

/// Reads `<id> <ip:port@bus> <flags> <primary> <ping> <pong> <epoch> <link> <slots>...`.
fn primary_of_line(line: &str) -> Option<(u16, u16)> {
    let mut words = line.split(' ');
    let address = words.nth(1)?;
    let is_primary = words.next()?.split(',').any(|flag| flag == "master");
    let first_slot = words.nth(5)?.split('-').next()?.parse().ok()?;
    let (_, port) = address.split('@').next()?.rsplit_once(':')?;
    is_primary.then_some((first_slot, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_primaries_of_a_report() {
        let primary = "07c3 127.0.0.1:30004@40004,host myself,master - 0 1426 4 connected 5461-10922";
        assert_eq!(primary_of_line(primary), Some((5461, 30004)));
        assert_eq!(primary_of_line("07c3 127.0.0.1:30004@40004 slave 67ed 0 1426 4 connected"), None);
        assert_eq!(primary_of_line("07c3 127.0.0.1:30004@40004 master,fail - 0 1426 4 disconnected"), None);
    }
}
