//! One running child process: its log, its signals, its end.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::port::PortTaken;
use super::procfs::{self, Seen};
use crate::until;

/// How long killed processes may take to be gone.
const DYING: Duration = Duration::from_secs(20);
/// How much of a log an error shows. The reason often stands well before the last words.
const TAIL_LINES: usize = 60;

/// A child process, killed with all its descendants when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// Where in the log this process began, as a restarted server appends to the old one's.
    log_start: u64,
    ended: Option<ExitStatus>,
}

impl Process {
    pub(super) fn new(name: String, child: Child, log: PathBuf, log_start: u64) -> Process {
        Process { name, child, log, log_start, ended: None }
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap_or(None);
        }
        self.ended.is_none()
    }

    /// Waits for it to end by itself.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        let what = format!("the end of {} (process {})", self.name, self.pid());
        until(within, what, || !self.is_running()).with_context(|| self.log_tail())?;
        self.ended.context("an ended process has a status")
    }

    /// Sends it a signal, such as `TERM`, `STOP` or `CONT`.
    pub fn signal(&mut self, signal: &str) -> Result<()> {
        if !self.is_running() {
            bail!("{} has ended; it takes no {signal}", self.name);
        }
        // The process was not waited for, so its id cannot belong to another one.
        send(signal, &[self.pid()])
    }

    /// Kills it with SIGKILL, and what it started, and returns when all of them are gone.
    pub fn kill9(&mut self) -> Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        let orphans = procfs::descendants(self.pid());
        self.child.kill().with_context(|| format!("killing {}", self.name))?;
        self.ended = Some(self.child.wait().with_context(|| format!("waiting for {}", self.name))?);
        let alive: Vec<u32> = orphans.iter().filter(|orphan| orphan.is_alive()).map(|orphan| orphan.pid).collect();
        // They may end by themselves before the signal comes, so its failure means nothing.
        let _ = if alive.is_empty() { Ok(()) } else { send("KILL", &alive) };
        until(DYING, format!("the children of {} to be gone", self.name), || !orphans.iter().any(Seen::is_alive))
    }

    /// Waits until `ready`, and fails at once if the process ends before.
    pub fn until_ready(&mut self, within: Duration, mut ready: impl FnMut(&Process) -> bool) -> Result<()> {
        let what = format!("{} to be ready", self.name);
        let waited = until(within, what, || !self.is_running() || ready(self)).with_context(|| self.log_tail());
        match self.ended {
            None => waited,
            Some(status) => {
                let tail = self.log_tail();
                let told = format!("{} ended with {status} before it was ready:\n{tail}", self.name);
                if tail.contains("Address already in use") {
                    return Err(anyhow::Error::new(PortTaken).context(told));
                }
                bail!(told);
            }
        }
    }

    /// All that it printed so far, on stdout and stderr.
    pub fn log(&self) -> String {
        self.log_from(self.log_start)
    }

    /// The same, after all that earlier starts of the program printed in the same folder.
    pub(super) fn log_of_all_starts(&self) -> String {
        self.log_from(0)
    }

    fn log_from(&self, start: u64) -> String {
        let read = || {
            let mut file = fs::File::open(&self.log)?;
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            std::io::Result::Ok(bytes)
        };
        read().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last lines it printed, for error messages.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let skipped = lines.len().saturating_sub(TAIL_LINES);
        format!("{} printed:\n{}", self.name, lines.get(skipped..).unwrap_or_default().join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is nobody to tell, and the death signal still stands behind it.
        let _ = self.kill9();
    }
}

/// The shell's own `kill` is used because a minimal system has no other.
fn send(signal: &str, pids: &[u32]) -> Result<()> {
    let pids = pids.iter().map(u32::to_string);
    let status = Command::new("sh").args(["-c", r#"kill -s "$0" "$@""#, signal]).args(pids).status().context("running kill")?;
    if !status.success() {
        bail!("kill -s {signal} failed with {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::program::Program;
    use super::*;

    fn shell(folder: &tempfile::TempDir, script: &str) -> Process {
        Program::new("sh", folder.path()).expect("sh exists").args(["-c", script]).start().expect("it starts")
    }

    #[test]
    fn a_dropped_process_takes_its_children_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let process = shell(&folder, "sleep 600 & echo child $!; wait");
        let child = || process.log().strip_prefix("child ").and_then(|rest| rest.trim().parse::<u32>().ok());
        until(DYING, "the child", || child().is_some()).expect("it starts a child");
        let (parent, child) = (process.pid(), child().expect("a child"));
        assert!(procfs::is_alive(parent) && procfs::is_alive(child));
        drop(process);
        assert!(!procfs::is_alive(parent) && !procfs::is_alive(child));
    }

    #[test]
    fn an_early_end_is_reported_with_the_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut process = shell(&folder, "echo bind: Address already in use; exit 1");
        let error = process.until_ready(DYING, |_| false).expect_err("it never gets ready");
        assert!(error.is::<PortTaken>(), "{error:#}");
    }
}
