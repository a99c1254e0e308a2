//! One PostgreSQL server.
//!
//! It does not wait for the disk (`fsync=off`): the machine does not lose power in a test, and a killed
//! process loses nothing it gave to the kernel. So what was committed survives [`Postgres::stop`]. Only
//! [`Postgres::start_durable`] waits for it.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::process::Process;
use super::program::{self, Program};
use super::shared::{Shared, shared};
use super::{PATIENCE, folder, port};

/// A running, or stopped, PostgreSQL server.
// The process stands before the folder, as it must end first.
#[derive(Debug)]
pub struct Postgres {
    port: u16,
    program: Program,
    process: Process,
    _folder: TempDir,
}

impl Postgres {
    /// Makes a new server and waits until it answers.
    pub fn start() -> Result<Postgres> {
        Postgres::launch(folder::fresh_for_nobody("postgres")?, &["-c", "fsync=off", "-c", "shared_buffers=32MB"])
    }

    /// Makes a new server in a folder of `parent` that waits for the disk with every commit, with the memory and the log of a
    /// server that is there to be fast.
    pub fn start_durable(parent: &Path) -> Result<Postgres> {
        let memory = ["-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB", "-c", "checkpoint_timeout=30min"];
        let disk = ["-c", "fsync=on", "-c", "synchronous_commit=on"];
        Postgres::launch(folder::for_nobody_in(parent, "postgres")?, &[disk.as_slice(), &memory].concat())
    }

    fn launch(folder: TempDir, settings: &[&str]) -> Result<Postgres> {
        let initdb = Program::new("initdb", folder.path())?.as_nobody();
        let initdb = initdb.args(["-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8"]);
        initdb.args(["--no-sync", "--no-locale", "--no-instructions"]).run(PATIENCE)?;
        let launched = port::with_free_ports(|| {
            let port = port::free_port()?;
            let program = server(&folder, port, settings)?;
            let mut process = program.start()?;
            until_ready(&mut process, port)?;
            Ok((port, program, process))
        });
        let (port, program, process) = launched?;
        Ok(Postgres { port, program, process, _folder: folder })
    }

    /// The one server of this test process, for tests that keep to their own database.
    pub fn shared() -> Result<&'static Postgres> {
        static SHARED: Shared<Postgres> = OnceLock::new();
        shared(&SHARED, Postgres::start)
    }

    /// The URL of the database that every server has.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The port, the same through all restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of the server's first process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Creates an empty database and returns its URL. `name` may hold letters, digits and `_`.
    pub fn database(&self, name: &str) -> Result<String> {
        ensure!(is_plain(name), "{name} is no plain name for a database");
        self.run(&format!("CREATE DATABASE {name}"))?;
        Ok(self.url_of(name))
    }

    /// Runs SQL in the database that every server has and returns the rows, one per line, columns parted by `|`.
    pub fn run(&self, sql: &str) -> Result<String> {
        run(self.port, sql)
    }

    /// Kills the server, all of its processes, with SIGKILL.
    pub fn stop(&mut self) -> Result<()> {
        self.process.kill9()
    }

    /// Starts the server again on the same port and data, after killing it if it still runs.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill9()?;
        self.process = self.program.start()?;
        until_ready(&mut self.process, self.port)
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

/// A name that needs no quotes in SQL, in any case.
pub(super) fn is_plain(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.len() <= 63 && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(fits)
}

/// The server itself rather than `pg_ctl`, which would put it out of reach of the death signal.
fn server(folder: &TempDir, port: u16, settings: &[&str]) -> Result<Program> {
    let program = Program::new("postgres", folder.path())?.as_nobody();
    let program = program.args(["-D", "data", "-h", "127.0.0.1", "-p", &port.to_string(), "-k", ""]);
    Ok(program.args(["-c", "max_connections=300"]).args(settings))
}

fn until_ready(process: &mut Process, port: u16) -> Result<()> {
    process.until_ready(PATIENCE, |_| run(port, "SELECT 1").is_ok())
}

fn run(port: u16, sql: &str) -> Result<String> {
    let mut psql = Command::new(program::find("psql")?);
    psql.args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres", "-d", "postgres"]);
    psql.args(["-p", &port.to_string(), "-c", sql]).env("PGCONNECT_TIMEOUT", "5");
    let output = psql.output().context("running psql")?;
    if !output.status.success() {
        bail!("psql failed at `{sql}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_name_needs_no_quotes() {
        assert!(is_plain("catalog_1f_2"));
        for name in ["", "1st", "a-b", "A", "a;drop"] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
