//! A program to be run as a child that cannot outlive this process.
//!
//! It is started as `setpriv --pdeathsig KILL -- sh -c '<check>' <pid> program ...`. `setpriv` changes the
//! user first and sets the death signal afterwards (a change of user clears it), and the signal stays set through
//! `exec`. The check closes the one gap: if this process died before the signal was set, the parent is already another one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::folder::NOBODY;
use super::process::Process;
use super::{keeper, procfs};

const EXEC_IF_PARENT_LIVES: &str = r#"test "$PPID" = "$0" || exit 125; exec "$@""#;

/// What to run, where, and as whom.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    folder: PathBuf,
    as_nobody: bool,
}

impl Program {
    /// The program `name`, to be run in `folder`, where it also has its `HOME`, its `TMPDIR` and its log.
    /// Fails if the program is not installed.
    pub fn new(name: &str, folder: &Path) -> Result<Program> {
        Ok(Program::at(find(name)?, folder))
    }

    /// The program at `path`, to be run in `folder`.
    pub fn at(path: PathBuf, folder: &Path) -> Program {
        Program { path, args: Vec::new(), env: Vec::new(), folder: folder.to_owned(), as_nobody: false }
    }

    /// Appends one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Program {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Appends arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Program {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Program {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs it as nobody if this process is root, for servers that refuse root.
    pub fn as_nobody(mut self) -> Program {
        self.as_nobody = true;
        self
    }

    /// Starts it. What it prints goes to `<folder>/<program>.log`, after what an earlier start printed.
    pub fn start(&self) -> Result<Process> {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned();
        let log_path = self.folder.join(format!("{name}.log"));
        let log =
            OpenOptions::new().create(true).append(true).open(&log_path).with_context(|| format!("opening {}", log_path.display()))?;
        let log_start = log.metadata()?.len();
        let child = keeper::spawn(self.command(log)?).with_context(|| format!("starting {name} under setpriv (of util-linux)"))?;
        Ok(Process::new(name, child, log_path, log_start))
    }

    /// Runs it to its end, and fails unless it succeeds within `within`.
    pub fn run(&self, within: Duration) -> Result<()> {
        let mut process = self.start()?;
        let status = process.wait(within)?;
        if !status.success() {
            bail!("{} failed with {status}:\n{}", process.name(), process.log_tail());
        }
        Ok(())
    }

    fn command(&self, log: File) -> Result<Command> {
        let mut command = Command::new("setpriv");
        if self.as_nobody && procfs::user() == 0 {
            command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".into()]);
        }
        command.args(["--pdeathsig", "KILL", "--", "sh", "-c", EXEC_IF_PARENT_LIVES]);
        command.arg(std::process::id().to_string()).arg(&self.path).args(&self.args);
        // MariaDB, for one, deletes what looks like its own in the common folder for temporary files, also another server's.
        command.env("HOME", &self.folder).env("TMPDIR", &self.folder).envs(self.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }
}

/// Finds a program on `PATH`, and where Debian keeps those it does not put there.
pub(super) fn find(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    folders.extend(postgres_folders());
    let found = folders.into_iter().map(|folder| folder.join(name)).find(|candidate| candidate.is_file());
    found.with_context(|| format!("{name} is not installed; `cargo xtask test` installs what the tests need"))
}

/// `/usr/lib/postgresql/<version>/bin`, newest version first.
fn postgres_folders() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> =
        versions.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin")))).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_to_do_about_a_missing_program() {
        let error = find("no-such-program").expect_err("it is not installed").to_string();
        assert!(error.contains("no-such-program") && error.contains("cargo xtask test"), "{error}");
    }

    #[test]
    fn a_failing_program_shows_what_it_printed() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = Program::new("sh", folder.path()).expect("sh exists").args(["-c", "echo so it goes; exit 3"]);
        let error = program.run(Duration::from_secs(30)).expect_err("it fails").to_string();
        assert!(error.contains("so it goes") && error.contains('3'), "{error}");
    }
}
