//! One nginx, with somebody's configuration.
//!
//! It runs in the foreground as a single process: the workers of a killed master would live on. Its folder holds
//! all it writes, so it needs no rights.

use std::fs;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::process::Process;
use super::program::Program;
use super::{PATIENCE, folder, port};

/// What a configuration file may not know: how it is run. The log tells when it listens.
const HOW: &str = "daemon off; master_process off; pid nginx.pid; error_log stderr notice;";
/// Debian's nginx keeps these where only root may write.
const KEEPS: [&str; 5] = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/// A running nginx.
// The process stands before the folder, as it must end first.
#[derive(Debug)]
pub struct Nginx {
    port: u16,
    process: Process,
    _folder: TempDir,
}

impl Nginx {
    /// Starts it with this configuration and the files that it includes, by name, and waits until it listens.
    ///
    /// The configuration must listen on one address, which becomes a free port of 127.0.0.1. What nginx would
    /// write elsewhere goes to the guard's folder.
    pub fn start(config: &str, includes: &[(&str, &str)]) -> Result<Nginx> {
        port::with_free_ports(|| {
            let (port, folder) = (port::free_port()?, folder::fresh_for_nobody("nginx")?);
            let config = at_home(&listening_on(config, port)?)?;
            for (name, text) in [("nginx.conf", config.as_str())].iter().chain(includes) {
                fs::write(folder.path().join(name), text).with_context(|| format!("writing {name}"))?;
            }
            let program = Program::new("nginx", folder.path())?.as_nobody().arg("-p").arg(folder.path());
            let mut process = program.args(["-c", "nginx.conf", "-e", "stderr", "-g", HOW]).start()?;
            // Printed once its sockets are open. A connection would not tell whose they are.
            process.until_ready(PATIENCE, |process| process.log().contains("getrlimit(RLIMIT_NOFILE)"))?;
            Ok(Nginx { port, process, _folder: folder })
        })
    }

    /// Where it listens, `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The last lines it printed, for error messages.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}

fn listening_on(config: &str, port: u16) -> Result<String> {
    let (before, rest) = config.split_once("listen ").context("the configuration listens nowhere")?;
    let (_, after) = rest.split_once(';').context("`listen` has no end")?;
    ensure!(!after.contains("listen "), "the configuration listens more than once");
    Ok(format!("{before}listen 127.0.0.1:{port};{after}"))
}

fn at_home(config: &str) -> Result<String> {
    let (before, after) = config.split_once("http {").context("the configuration has no http")?;
    let folders: String = KEEPS.iter().map(|kept| format!(" {kept}_temp_path {kept};")).collect();
    Ok(format!("{before}http {{ access_log off;{folders}{after}"))
}

#[cfg(test)]
mod tests {
    use super::super::procfs::is_alive;
    use super::*;

    #[test]
    fn serves_what_it_is_told_and_is_gone_with_its_guard() -> Result<()> {
        let config = "events {} http { server { listen 80; location / { include told.conf; } } }";
        let nginx = Nginx::start(config, &[("told.conf", "return 204;")])?;
        let (url, pid) = (nginx.url(), nginx.pid());
        let asked = std::process::Command::new("curl").args(["-s", "-w", "%{http_code}", &url]).output()?;
        assert_eq!(String::from_utf8_lossy(&asked.stdout), "204", "{}", nginx.log_tail());
        assert!(is_alive(pid));
        drop(nginx);
        assert!(!is_alive(pid));
        Ok(())
    }

    #[test]
    fn a_wrong_configuration_is_told() {
        let error = Nginx::start("events {} http { server { listen 80; no_such_word; } }", &[]).expect_err("it does not start");
        assert!(error.to_string().contains("no_such_word"), "{error:#}");
    }
}
