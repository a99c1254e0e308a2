//! The real `hermod` binary, run as users run it.
//!
//! The binary is the one of the same build profile as the running test, or the one `HERMOD_BIN` names. Cargo
//! does not build it for a test of another package: `cargo xtask test` does, else `cargo build -p hermod`.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::process::Process;
use super::program::Program;
use super::{PATIENCE, folder, port};
use crate::until;

const LISTENING: &str = "listening on ";
const ADMIN_KEY: &str = "admin key: ";

/// How `hermod` is to be run. Made by [`Hermod::options`].
#[derive(Clone, Debug)]
pub struct HermodOptions {
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl HermodOptions {
    /// Appends arguments.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> HermodOptions {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> HermodOptions {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it in a fresh folder, and waits for nothing.
    pub fn start(self) -> Result<Hermod> {
        self.start_binary(binary()?)
    }

    fn start_binary(self, binary: PathBuf) -> Result<Hermod> {
        let folder = folder::fresh("hermod")?;
        let mut program = Program::at(binary, folder.path()).args(&self.args);
        for (name, value) in &self.env {
            program = program.env(name, value);
        }
        let process = program.start()?;
        Ok(Hermod { program, process, url: None, folder })
    }

    /// Starts it in a fresh folder and waits until it listens.
    pub fn listen(self) -> Result<Hermod> {
        let mut hermod = self.start()?;
        hermod.until_listening()?;
        Ok(hermod)
    }
}

/// A running, or ended, `hermod`.
// The process stands before the folder, as it must end first.
#[derive(Debug)]
pub struct Hermod {
    program: Program,
    process: Process,
    url: Option<String>,
    folder: TempDir,
}

impl Hermod {
    /// `hermod <command>`, to be completed: `Hermod::options("doctor").args([..]).start()`.
    pub fn options(command: &str) -> HermodOptions {
        HermodOptions { args: vec![command.to_owned()], env: Vec::new() }
    }

    /// `hermod serve` on a free port with its data in the guard's folder, and `args` appended. Waits until it listens.
    ///
    /// The port is chosen here and not by Hermod, so that it is the same after [`Hermod::restart`].
    pub fn serve<S: Into<String>>(args: impl IntoIterator<Item = S>) -> Result<Hermod> {
        let args: Vec<String> = args.into_iter().map(Into::into).collect();
        port::with_free_ports(|| {
            let listen = format!("127.0.0.1:{}", port::free_port()?);
            Hermod::options("serve").args(["--listen", &listen, "--data", "data"]).args(args.clone()).listen()
        })
    }

    /// `hermod dev` on a free port, and `args` appended. Waits until it listens.
    pub fn dev<S: Into<String>>(args: impl IntoIterator<Item = S>) -> Result<Hermod> {
        let args: Vec<String> = args.into_iter().map(Into::into).collect();
        port::with_free_ports(|| {
            let listen = format!("127.0.0.1:{}", port::free_port()?);
            Hermod::options("dev").args(["--listen", &listen]).args(args.clone()).listen()
        })
    }

    /// Where it listens, `http://127.0.0.1:<port>`.
    pub fn url(&self) -> Result<&str> {
        self.url.as_deref().context("hermod was not waited for to listen")
    }

    /// The admin key that the first start of `serve` printed.
    pub fn admin_key(&self) -> Result<String> {
        // Earlier starts are asked too: a later one does not print the key again.
        let find = || after(&self.process.log_of_all_starts(), ADMIN_KEY);
        until(PATIENCE, "hermod to print its admin key", || find().is_some()).with_context(|| self.process.log_tail())?;
        find().context("the key was just there")
    }

    /// The folder it runs in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// The lines it printed since its last start, on stdout and stderr.
    pub fn lines(&self) -> Vec<String> {
        self.process.log().lines().map(str::to_owned).collect()
    }

    /// Waits until a line holding `text` is printed, and returns the line. Fails if it ends without one.
    pub fn wait_line(&mut self, text: &str) -> Result<String> {
        let find = |process: &Process| {
            let log = process.log();
            // The last line may be half written.
            let whole = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            whole.map(str::trim_end).find(|line| line.contains(text)).map(str::to_owned)
        };
        let what = format!("hermod to print `{text}`");
        // Asked before the log is read: what an ended process printed is all there.
        let waited = until(PATIENCE, what, || !self.process.is_running() || find(&self.process).is_some());
        match (waited, find(&self.process)) {
            (_, Some(line)) => Ok(line),
            (Err(error), None) => Err(error.context(self.process.log_tail())),
            (Ok(()), None) => bail!("hermod ended without printing `{text}`; {}", self.process.log_tail()),
        }
    }

    /// Kills it with SIGKILL.
    pub fn kill9(&mut self) -> Result<()> {
        self.process.kill9()
    }

    /// Asks it to end with SIGTERM and waits until it did.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.process.signal("TERM")?;
        self.wait(PATIENCE)
    }

    /// Waits for it to end by itself.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        self.process.wait(within)
    }

    /// Starts it again with the same arguments in the same folder, after killing it if it still runs, and waits until it listens.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill9()?;
        self.process = self.program.start()?;
        self.until_listening()
    }

    fn until_listening(&mut self) -> Result<()> {
        let mut url = None;
        self.process.until_ready(PATIENCE, |process| {
            url = after(&process.log(), LISTENING);
            url.is_some()
        })?;
        self.url = url;
        Ok(())
    }
}

/// The word that follows `label` in a whole line of `log`.
fn after(log: &str, label: &str) -> Option<String> {
    let (_, rest) = log.split_once(label)?;
    let (line, _) = rest.split_once('\n')?;
    line.split_whitespace().next().map(str::to_owned)
}

/// Tests run from `target/<profile>/deps/`, benchmarks from `target/<profile>/`.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HERMOD_BIN") {
        return Ok(PathBuf::from(path));
    }
    let this = std::env::current_exe().context("finding the running program")?;
    let candidates = this.ancestors().skip(1).take(2).map(|folder| folder.join("hermod"));
    let found = candidates.into_iter().find(|candidate| candidate.is_file());
    found.context("the hermod binary is not built; run `cargo build -p hermod`, or set HERMOD_BIN")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints what `hermod serve` prints: the key at its first start only, and one more line when it is asked to end.
    const STAND_IN: &str = r#"
        trap 'echo goodbye; exit 0' TERM
        test -e data || echo "admin key: hk_secret"
        touch data
        echo "listening on http://127.0.0.1:4242 $1"
        while :; do sleep 0.01; done
    "#;

    #[test]
    fn lines_signals_and_restarts_reach_the_process() -> Result<()> {
        let options = Hermod::options("-c").args([STAND_IN, "hermod", "open"]);
        let mut hermod = options.start_binary(PathBuf::from("/bin/sh"))?;
        hermod.until_listening()?;
        assert_eq!(hermod.url()?, "http://127.0.0.1:4242");
        assert!(hermod.wait_line("listening")?.ends_with("open"));
        hermod.kill9()?;
        assert!(!hermod.is_running());
        hermod.restart()?;
        assert_eq!(hermod.lines().len(), 1, "the second start prints no key");
        assert_eq!(hermod.admin_key()?, "hk_secret");
        assert!(hermod.terminate()?.success());
        assert_eq!(hermod.wait_line("goodbye")?, "goodbye");
        assert!(hermod.wait_line("never said").is_err(), "an ended process is not waited for");
        Ok(())
    }

    #[test]
    fn a_half_written_line_says_nothing() {
        assert_eq!(after("starting\nlistening on http://127.0.0.1:80", LISTENING), None);
        let whole = "starting\nlistening on http://127.0.0.1:8080 (open)\nadmin key: hk_1\n";
        assert_eq!(after(whole, LISTENING).as_deref(), Some("http://127.0.0.1:8080"));
        assert_eq!(after(whole, ADMIN_KEY).as_deref(), Some("hk_1"));
    }
}
