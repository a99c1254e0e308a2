//! A Redis primary with a replica, watched by sentinels that fail over quickly.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::process::Process;
use super::program::Program;
use super::redis::Redis;
use super::{PATIENCE, folder, port};
use crate::until;

/// The name under which the sentinels watch the primary.
const NAME: &str = "mymaster";
/// Sentinels tell each other of themselves every 2 s and ask their servers every 10 s. That makes sense in a data
/// centre; here everybody waits for it. A stall of the machine is no reason to look away for 30 s either.
const HASTE: &[&str] =
    &["info-period", "500", "ask-period", "200", "publish-period", "200", "tilt-trigger", "15000", "tilt-period", "2000"];

/// A primary, a replica and sentinels.
#[derive(Debug)]
pub struct Sentinel {
    sentinels: Vec<Watcher>,
    servers: [Redis; 2],
}

// The process stands before the folder, as it must end first.
#[derive(Debug)]
struct Watcher {
    port: u16,
    _process: Process,
    _folder: TempDir,
}

impl Sentinel {
    /// Starts a primary, a replica and three sentinels, of which two must agree.
    pub fn start() -> Result<Sentinel> {
        Sentinel::start_with(3)
    }

    /// The same with another number of sentinels, of which more than half must agree.
    pub fn start_with(sentinels: usize) -> Result<Sentinel> {
        let primary = Redis::start()?;
        let replica = Redis::options().replica_of(primary.port()).start()?;
        let quorum = sentinels / 2 + 1;
        let watch = |_| port::with_free_ports(|| Watcher::start(primary.port(), quorum));
        let watchers = (0..sentinels).map(watch).collect::<Result<Vec<Watcher>>>()?;
        let sentinel = Sentinel { sentinels: watchers, servers: [primary, replica] };
        let others = (sentinels - 1).to_string();
        until(PATIENCE, "the sentinels to know everybody", || {
            sentinel.sentinels.iter().all(|watcher| {
                let sees = |field, value: &str| watcher.sees(field).is_ok_and(|seen| seen == value);
                sees("num-slaves", "1") && sees("num-other-sentinels", &others) && sees("flags", "master")
            })
        })?;
        Ok(sentinel)
    }

    /// `redis-sentinel://127.0.0.1:<port>,.../mymaster` with all sentinels.
    pub fn url(&self) -> String {
        let sentinels: Vec<String> = self.sentinels.iter().map(|watcher| format!("127.0.0.1:{}", watcher.port)).collect();
        format!("redis-sentinel://{}/{NAME}", sentinels.join(","))
    }

    /// The port of the server that the first sentinel calls the primary.
    pub fn primary(&self) -> Result<u16> {
        self.sentinels.first().context("there is a sentinel")?.primary()
    }

    /// Kills the present primary with SIGKILL and returns its port. It does not wait for the failover; see
    /// [`Sentinel::settle`].
    pub fn kill_primary(&mut self) -> Result<u16> {
        let port = self.primary()?;
        self.server(port)?.stop()?;
        Ok(port)
    }

    /// Waits until all sentinels name one primary that runs and takes writes.
    pub fn settle(&mut self) -> Result<()> {
        let running: Vec<&Redis> = self.servers.iter_mut().filter_map(|server| server.is_running().then_some(&*server)).collect();
        let is_primary = |server: &Redis| server.field(&["INFO", "replication"], "role").is_ok_and(|role| role == "master");
        until(PATIENCE, "the sentinels to agree on a primary", || {
            running.iter().any(|server| {
                let named = |watcher: &Watcher| watcher.primary().is_ok_and(|port| port == server.port());
                self.sentinels.iter().all(named) && is_primary(server)
            })
        })
    }

    /// Starts a killed server again and waits until it follows the present primary.
    pub fn restart(&mut self, port: u16) -> Result<()> {
        let server = self.server(port)?;
        server.restart()?;
        until(PATIENCE, format!("{} to follow the primary", server.url()), || server.has_copy())
    }

    fn server(&mut self, port: u16) -> Result<&mut Redis> {
        self.servers.iter_mut().find(|server| server.port() == port).with_context(|| format!("no server has port {port}"))
    }
}

impl Watcher {
    fn start(primary: u16, quorum: usize) -> Result<Watcher> {
        let (port, folder) = (port::free_port()?, folder::fresh("sentinel")?);
        let path = folder.path().join("sentinel.conf");
        // A sentinel keeps what it learns in its configuration file, so it cannot do without one.
        let config = format!(
            "port {port}\nbind 127.0.0.1\n\
             sentinel monitor {NAME} 127.0.0.1 {primary} {quorum}\n\
             sentinel down-after-milliseconds {NAME} 1000\n\
             sentinel failover-timeout {NAME} 5000\n"
        );
        fs::write(&path, config).with_context(|| format!("writing {}", path.display()))?;
        let mut process = Program::new("redis-server", folder.path())?.arg(&path).arg("--sentinel").start()?;
        process.until_ready(PATIENCE, |_| ask::<String>(port, &["PING"]).is_ok())?;
        ask::<()>(port, &[&["SENTINEL", "DEBUG"], HASTE].concat())?;
        Ok(Watcher { port, _process: process, _folder: folder })
    }

    fn primary(&self) -> Result<u16> {
        let (_, port): (String, u16) = ask(self.port, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
        Ok(port)
    }

    /// One field of what this sentinel knows about the primary.
    fn sees(&self, field: &str) -> Result<String> {
        let known: Vec<(String, String)> = ask(self.port, &["SENTINEL", "MASTER", NAME])?;
        let found = known.into_iter().find(|(name, _)| name == field);
        found.map(|(_, value)| value).with_context(|| format!("the sentinel tells no {field}"))
    }
}

fn ask<T: redis::FromRedisValue>(port: u16, command: &[&str]) -> Result<T> {
    let timeout = Duration::from_secs(5);
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let mut connection = client.get_connection_with_timeout(timeout)?;
    connection.set_read_timeout(Some(timeout))?;
    let (name, args) = command.split_first().context("a command has a name")?;
    Ok(redis::cmd(name).arg(args).query(&mut connection)?)
}
