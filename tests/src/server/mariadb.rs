//! One MariaDB server, which speaks for MySQL as well.
//!
//! The log goes to the kernel at each commit and to the disk once a second, so what was committed survives
//! [`MariaDb::stop`].

use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::postgres::is_plain;
use super::process::Process;
use super::program::{self, Program};
use super::shared::{Shared, shared};
use super::{PATIENCE, folder, port};

/// The default log file of 96 MB would be written for each server anew.
const LOG_FILE_SIZE: &str = "--innodb-log-file-size=8M";

/// A running, or stopped, MariaDB server.
// The process stands before the folder, as it must end first.
#[derive(Debug)]
pub struct MariaDb {
    port: u16,
    program: Program,
    process: Process,
    _folder: TempDir,
}

impl MariaDb {
    /// Makes a new server and waits until it answers.
    pub fn start() -> Result<MariaDb> {
        let folder = folder::fresh_for_nobody("mariadb")?;
        let data = format!("--datadir={}", folder.path().join("data").display());
        let install = Program::new("mariadb-install-db", folder.path())?.as_nobody();
        let install = install.args(["--no-defaults", &data, LOG_FILE_SIZE, "--auth-root-authentication-method=normal"]);
        // A machine that cannot look up its own name is refused otherwise.
        install.args(["--skip-test-db", "--force"]).run(PATIENCE)?;
        let launched = port::with_free_ports(|| {
            let port = port::free_port()?;
            let program = server(&folder, &data, port)?;
            let mut process = program.start()?;
            until_ready(&mut process, port)?;
            Ok((port, program, process))
        });
        let (port, program, process) = launched?;
        Ok(MariaDb { port, program, process, _folder: folder })
    }

    /// The one server of this test process, for tests that keep to their own database.
    pub fn shared() -> Result<&'static MariaDb> {
        static SHARED: Shared<MariaDb> = OnceLock::new();
        shared(&SHARED, MariaDb::start)
    }

    /// The URL of the database that every server has.
    pub fn url(&self) -> String {
        self.url_of("mysql")
    }

    /// The port, the same through all restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of the server's process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Creates an empty database and returns its URL. `name` may hold letters, digits and `_`.
    pub fn database(&self, name: &str) -> Result<String> {
        ensure!(is_plain(name), "{name} is no plain name for a database");
        self.run(&format!("CREATE DATABASE {name}"))?;
        Ok(self.url_of(name))
    }

    /// Runs SQL and returns the rows, one per line, columns parted by tabs.
    pub fn run(&self, sql: &str) -> Result<String> {
        run(self.port, sql)
    }

    /// Kills the server with SIGKILL.
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
        format!("mysql://root@127.0.0.1:{}/{database}", self.port)
    }
}

fn server(folder: &TempDir, data: &str, port: u16) -> Result<Program> {
    let program = Program::new("mariadbd", folder.path())?.as_nobody();
    // The socket's name is relative to the data, as a whole path may be longer than a socket's name can be.
    let program = program.args(["--no-defaults", data, "--bind-address=127.0.0.1", "--socket=s.sock", "--pid-file=server.pid"]);
    let program = program.arg(format!("--port={port}")).args([LOG_FILE_SIZE, "--innodb-flush-log-at-trx-commit=2"]);
    Ok(program.args(["--innodb-buffer-pool-size=32M", "--max-connections=300"]))
}

fn until_ready(process: &mut Process, port: u16) -> Result<()> {
    process.until_ready(PATIENCE, |_| run(port, "SELECT 1").is_ok())
}

fn run(port: u16, sql: &str) -> Result<String> {
    let mut client = Command::new(program::find("mariadb")?);
    client.args(["--no-defaults", "--batch", "--skip-column-names", "--connect-timeout=5", "--protocol=tcp"]);
    client.args(["--host=127.0.0.1", "--user=root", &format!("--port={port}"), "--execute", sql]);
    let output = client.output().context("running mariadb")?;
    if !output.status.success() {
        bail!("mariadb failed at `{sql}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
