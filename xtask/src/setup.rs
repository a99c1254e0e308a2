//! Installs the servers that the tests start, and nothing that is there already.
//!
//! Packages are Debian's (and Ubuntu's). Elsewhere, or without the right to install, the missing programs and the command
//! are printed and the tests do not begin: what needs a server fails, it is never skipped.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Each program, and the package that brings it.
const NEEDS: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("mariadbd", "mariadb-server"),
    ("mariadb-install-db", "mariadb-server"),
    ("mariadb", "mariadb-client"),
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("nginx", "nginx"),
    ("initdb", "postgresql"),
    ("postgres", "postgresql"),
    ("psql", "postgresql"),
    ("setpriv", "util-linux"),
    ("ps", "procps"),
    ("cc", "build-essential"),
];

/// Installs the packages given as arguments.
///
/// A package that brings a server would also start it. Debian asks `policy-rc.d` first, so one that forbids
/// it stands there meanwhile, unless the machine has its own. The traps remove it also when the user interrupts.
const INSTALL: &str = r#"
set -eu
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends "$@"
"#;

/// Makes sure that every program the tests start is installed.
pub(crate) fn run() -> Result<()> {
    let folders = folders();
    let programs = missing_programs(&folders);
    if programs.is_empty() {
        eprintln!("all servers for the tests are installed");
        return Ok(());
    }
    let packages = packages_of(&programs);
    let by_hand = format!("apt-get update && apt-get install -y --no-install-recommends {}", packages.join(" "));
    eprintln!("missing: {}", programs.join(", "));
    let Some(mut shell) = privileged_shell(&folders) else {
        bail!("{} must be installed first. On Debian or Ubuntu, as root:\n\n    {by_hand}\n", programs.join(", "));
    };
    eprintln!("$ {by_hand}");
    let status = shell.args(["-c", INSTALL, "install"]).args(&packages).status().context("running the installation")?;
    if !status.success() {
        bail!("the installation failed with {status}. By hand, as root:\n\n    {by_hand}\n");
    }
    // Asked anew, as PostgreSQL brings a folder of its own.
    let still = missing_programs(&self::folders());
    if !still.is_empty() {
        bail!("{} are installed, but bring no {}", packages.join(", "), still.join(", "));
    }
    Ok(())
}

fn missing_programs(folders: &[PathBuf]) -> Vec<&'static str> {
    NEEDS.iter().map(|(program, _)| *program).filter(|program| !is_in(folders, program)).collect()
}

fn packages_of(programs: &[&str]) -> Vec<&'static str> {
    let packages: BTreeSet<&str> = NEEDS.iter().filter(|(program, _)| programs.contains(program)).map(|(_, package)| *package).collect();
    packages.into_iter().collect()
}

fn is_in(folders: &[PathBuf], program: &str) -> bool {
    folders.iter().any(|folder| folder.join(program).is_file())
}

/// A shell that may install packages, or none: root's own, or one by a `sudo` that asks no password.
fn privileged_shell(folders: &[PathBuf]) -> Option<Command> {
    if !is_in(folders, "apt-get") {
        return None;
    }
    if succeeds(Command::new("sh").args(["-c", r#"test "$(id -u)" = 0"#])) {
        return Some(Command::new("sh"));
    }
    if succeeds(Command::new("sudo").args(["-n", "true"])) {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "sh"]);
        return Some(sudo);
    }
    None
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// `PATH`, and where Debian keeps the programs of servers.
fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let versions = fs::read_dir(Path::new("/usr/lib/postgresql")).into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_for_each_missing_package_once() {
        let empty = tempfile::tempdir().expect("a folder");
        let folders = [empty.path().to_owned()];
        fs::write(empty.path().join("redis-server"), "").expect("a program");
        let programs = missing_programs(&folders);
        assert!(!programs.contains(&"redis-server") && programs.contains(&"initdb"), "{programs:?}");
        let packages = packages_of(&["initdb", "psql", "mariadbd"]);
        assert_eq!(packages, ["mariadb-server", "postgresql"]);
    }

    #[test]
    fn without_apt_nothing_is_installed() {
        let empty = tempfile::tempdir().expect("a folder");
        assert!(privileged_shell(&[empty.path().to_owned()]).is_none());
    }
}
