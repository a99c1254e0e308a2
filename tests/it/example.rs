//! An example as its reader runs it: a binary that cargo does not build for a test of another package. `cargo xtask test`
//! does, else `cargo build -p hermod-example-<name>`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_tests::server::{Process, Program};
use serde_json::Value;

/// The commands of a text that call an example.
pub(crate) fn curls(text: &str) -> Vec<&str> {
    let blocks = text.split("```shell\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::trim).filter(|block| block.starts_with("curl ")).collect()
}

/// Where the example of this package was built.
pub(crate) fn binary(name: &str, package: &str) -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let found = this.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("the example is not built; run `cargo build -p {package}`"))
}

/// A running example, killed when dropped.
pub(crate) struct Example {
    address: String,
    // The process stands before the folder, as it must end first.
    process: Process,
    _folder: tempfile::TempDir,
}

impl Example {
    /// Starts the one of this name, which tells where it listens.
    pub(crate) fn start(name: &str, args: &[&str]) -> Result<Example> {
        let folder = tempfile::tempdir()?;
        let program = Program::at(binary(name, &format!("hermod-example-{name}"))?, folder.path());
        let mut process = program.args(["--listen", "127.0.0.1:0"]).args(args).start()?;
        let (mut address, opening) = (None, format!("{name}: http://"));
        process.until_ready(Duration::from_secs(60), |process| {
            let log = process.log();
            let told = log.split_once(&opening).and_then(|(_, rest)| rest.split_once('\n'));
            address = told.map(|(address, _)| address.trim().to_owned());
            address.is_some()
        })?;
        Ok(Example { address: address.context("it told where it listens")?, process, _folder: folder })
    }

    /// Runs a command as it is printed, but for the address.
    pub(crate) fn run(&self, command: &str) -> Result<Answer> {
        let command = command.replace("localhost:8080", &self.address);
        let done = Command::new("sh").args(["-c", &format!("{command} --silent --show-error --include")]).output()?;
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        let told = || format!("{command}\n{printed}{}\n{}", String::from_utf8_lossy(&done.stderr), self.process.log_tail());
        ensure!(done.status.success(), told());
        let (head, body) = printed.split_once("\r\n\r\n").with_context(told)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).with_context(told)?;
        Ok(Answer { status, head: head.to_lowercase(), body: serde_json::from_str(body).with_context(told)? })
    }
}

/// What it answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }
}
