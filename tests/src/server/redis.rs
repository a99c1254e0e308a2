//! One Redis server.
//!
//! It keeps its state in memory only, so what was written is gone after [`Redis::restart`], unless it was
//! started with [`RedisOptions::appendonly`].

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::process::Process;
use super::program::Program;
use super::shared::{Shared, shared};
use super::{PATIENCE, folder, port};
use crate::until;

/// How long a single question to a server may take. A paused server does not answer at all.
const ANSWER: Duration = Duration::from_secs(5);

/// How a Redis server is to be run. Made by [`Redis::options`].
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    args: Vec<String>,
    replica: bool,
}

impl RedisOptions {
    /// Keeps an append-only file, so that the data is there again after a restart, and a `kill -9` loses nothing that was answered.
    pub fn appendonly(self) -> RedisOptions {
        // Without waiting for the disk, each command still goes to the kernel before it is answered. The usual
        // `everysec` would not do: while it waits for the disk it holds writes back for up to 2 s, yet answers them.
        self.set("appendonly", "yes").set("appendfsync", "no")
    }

    /// Bounds the memory, e.g. `("10mb", "allkeys-lru")`.
    pub fn maxmemory(self, bytes: &str, policy: &str) -> RedisOptions {
        self.set("maxmemory", bytes).set("maxmemory-policy", policy)
    }

    /// Follows the server on `port`. The start waits until the first copy is complete.
    pub fn replica_of(mut self, port: u16) -> RedisOptions {
        self.replica = true;
        self.set("replicaof", &format!("127.0.0.1 {port}"))
    }

    /// Any other setting, as in `redis.conf`.
    pub fn set(mut self, name: &str, value: &str) -> RedisOptions {
        self.args.push(format!("--{name}"));
        // Settings of several words are several arguments.
        self.args.extend(value.split(' ').map(str::to_owned));
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(self) -> Result<Redis> {
        port::with_free_ports(|| {
            let mut redis = self.clone().launch(port::free_port()?)?;
            redis.until_ready()?;
            Ok(redis)
        })
    }

    /// Starts the server on `port` and does not wait for it.
    pub(super) fn launch(self, port: u16) -> Result<Redis> {
        let folder = folder::fresh("redis")?;
        let defaults = RedisOptions::default().set("port", &port.to_string()).set("bind", "127.0.0.1").set("save", "");
        // Copies to replicas begin at once instead of waiting 5 s for more replicas to come.
        let defaults = defaults.set("appendonly", "no").set("repl-diskless-sync-delay", "0");
        let program = Program::new("redis-server", folder.path())?.args(&defaults.args).args(&self.args);
        let process = program.start()?;
        Ok(Redis { port, replica: self.replica, paused: false, program, process, _folder: folder })
    }
}

/// A running, or stopped, Redis server.
// The process stands before the folder: fields are dropped in order, and a server must end before its folder does.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    replica: bool,
    paused: bool,
    program: Program,
    process: Process,
    _folder: TempDir,
}

impl Redis {
    /// Starts a server with the usual settings.
    pub fn start() -> Result<Redis> {
        Redis::options().start()
    }

    /// The usual settings, to be changed.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// The one server of this test process, for tests that keep to their own space.
    pub fn shared() -> Result<&'static Redis> {
        static SHARED: Shared<Redis> = OnceLock::new();
        shared(&SHARED, Redis::start)
    }

    /// `redis://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port, the same through all restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of the server's process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether the process runs, be it paused.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Kills the server with SIGKILL.
    pub fn stop(&mut self) -> Result<()> {
        self.process.kill9()
    }

    /// Starts the server again on the same port and in the same folder, after killing it if it still runs.
    pub fn restart(&mut self) -> Result<()> {
        self.relaunch()?;
        self.until_ready()
    }

    /// Halts the process with SIGSTOP: connections stay open and nothing is answered.
    pub fn pause(&mut self) -> Result<()> {
        self.process.signal("STOP")?;
        self.paused = true;
        Ok(())
    }

    /// Lets a paused process go on.
    pub fn resume(&mut self) -> Result<()> {
        self.process.signal("CONT")?;
        self.paused = false;
        Ok(())
    }

    /// A blocking connection, whose commands fail when they are not answered within some seconds.
    pub fn connection(&self) -> Result<redis::Connection> {
        let client = redis::Client::open(self.url())?;
        let connection = client.get_connection_with_timeout(ANSWER).with_context(|| format!("connecting to {}", self.url()))?;
        connection.set_read_timeout(Some(ANSWER))?;
        Ok(connection)
    }

    /// Runs one command on a connection of its own: `ask(&["CONFIG", "GET", "maxmemory"])`.
    pub fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> Result<T> {
        let Some((name, args)) = command.split_first() else { bail!("a command has a name") };
        let answer = redis::cmd(name).arg(args).query(&mut self.connection()?);
        answer.with_context(|| format!("{} to {}", command.join(" "), self.url()))
    }

    /// One field of `INFO` or of a `CLUSTER INFO`-like report: `field(&["INFO"], "role")`.
    pub fn field(&self, command: &[&str], field: &str) -> Result<String> {
        let report: String = self.ask(command)?;
        let value = report.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.map(str::to_owned).with_context(|| format!("{} has no field {field}", command.join(" ")))
    }

    /// Starts the process anew and does not wait for it.
    pub(super) fn relaunch(&mut self) -> Result<()> {
        self.process.kill9()?;
        self.process = self.program.start()?;
        self.paused = false;
        Ok(())
    }

    /// Waits until the server answers `PING`, which it does not do while it loads its data. A replica must also have its copy.
    pub(super) fn until_ready(&mut self) -> Result<()> {
        let url = self.url();
        let answers = || {
            let mut connection = redis::Client::open(url.as_str())?.get_connection_with_timeout(ANSWER)?;
            connection.set_read_timeout(Some(ANSWER))?;
            redis::cmd("PING").query::<String>(&mut connection)
        };
        self.process.until_ready(PATIENCE, |_| answers().is_ok())?;
        if self.replica {
            until(PATIENCE, format!("{url} to have its copy"), || self.has_copy())?;
            until(PATIENCE, format!("{url} to follow its primary"), || self.follows().unwrap_or(false))?;
        }
        Ok(())
    }

    /// Whether its primary has heard from it. The link is up before: a primary that missed the first word of a replica sends it nothing
    /// until the next, a second later. What is published is copied too, and leaves nothing behind.
    fn follows(&self) -> Result<bool> {
        let port = self.field(&["INFO", "replication"], "master_port")?;
        let mut primary = redis::Client::open(format!("redis://127.0.0.1:{port}"))?.get_connection_with_timeout(ANSWER)?;
        redis::cmd("PUBLISH").arg("copied").arg("?").query::<i64>(&mut primary)?;
        Ok(redis::cmd("WAIT").arg(1).arg(100).query::<i64>(&mut primary)? > 0)
    }

    /// Whether it can be asked: it runs and is not paused.
    pub(super) fn is_awake(&mut self) -> bool {
        self.is_running() && !self.paused
    }

    /// Whether this replica's link to its primary is up.
    pub(super) fn has_copy(&self) -> bool {
        self.field(&["INFO", "replication"], "master_link_status").is_ok_and(|status| status == "up")
    }
}
