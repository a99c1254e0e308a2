//! Temporary folders, and the removal of those that killed test processes left.
//!
//! All folders of one test process lie in `<tmp>/hermod-tests-<user>/run-<pid>-<random>/`, with a file
//! `lock` that the process holds locked while it lives. The kernel gives the lock up when the process
//! ends, however it ends, so the next test process knows which folders nobody needs and removes them.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use tempfile::TempDir;

use super::procfs;

/// Whom the servers run as that refuse root. The kernel's own number for "nobody".
pub(super) const NOBODY: u32 = 65_534;

struct Run {
    path: PathBuf,
    /// Held, never read.
    _lock: File,
}

static RUN: OnceLock<Result<Run, String>> = OnceLock::new();

/// A fresh folder, removed when the guard is dropped.
pub(super) fn fresh(name: &str) -> Result<TempDir> {
    let run = RUN.get_or_init(|| open_run().map_err(|error| format!("{error:#}")));
    let run = run.as_ref().map_err(|error| anyhow!("no temporary folder: {error}"))?;
    tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(&run.path).with_context(|| format!("a folder for {name}"))
}

/// A fresh folder that belongs to nobody, for a server that refuses to run as root. If the tests do
/// not run as root the folder stays theirs, as then the server runs as the same user.
pub(super) fn fresh_for_nobody(name: &str) -> Result<TempDir> {
    given_to_nobody(fresh(name)?)
}

/// The same in a folder of the caller's choice, for what must be on a certain disk.
pub(super) fn for_nobody_in(parent: &Path, name: &str) -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(parent);
    given_to_nobody(folder.with_context(|| format!("a folder for {name}"))?)
}

fn given_to_nobody(folder: TempDir) -> Result<TempDir> {
    if procfs::user() == 0 {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).with_context(|| format!("giving {} away", folder.path().display()))?;
    }
    Ok(folder)
}

/// Where all test processes of this user keep what they share.
pub(super) fn common_root() -> Result<PathBuf> {
    let root = std::env::temp_dir().join(format!("hermod-tests-{}", procfs::user()));
    fs::create_dir_all(&root).with_context(|| format!("creating {}", root.display()))?;
    open_to_all(&root)?;
    Ok(root)
}

fn open_run() -> Result<Run> {
    let root = common_root()?;
    // Held while sweeping and while the own folder is made, so nobody sweeps a folder before its lock is taken.
    let sweeping = File::create(root.join("sweep.lock"))?;
    sweeping.lock().context("waiting for other test processes")?;
    sweep(&root);
    let path = tempfile::Builder::new().prefix(&format!("run-{}-", std::process::id())).tempdir_in(&root)?.keep();
    open_to_all(&path)?;
    let lock = File::create(path.join("lock"))?;
    lock.lock().context("locking the folder of this run")?;
    Ok(Run { path, _lock: lock })
}

/// Servers that run as nobody must be able to walk through.
fn open_to_all(path: &Path) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o755)).with_context(|| format!("opening {}", path.display()))
}

/// Removes the folders of runs that are over. A folder that cannot be removed now is left to the next sweep.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let is_run = entry.file_name().to_str().is_some_and(|name| name.starts_with("run-"));
        if is_run && is_over(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A run without a lock file was half removed by an earlier sweep.
fn is_over(run: &Path) -> bool {
    match File::open(run.join("lock")) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_what_is_over_and_keeps_what_is_in_use() {
        let root = tempfile::tempdir().expect("a folder");
        let run = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir(&path).expect("a run");
            (path.clone(), File::create(path.join("lock")).expect("a lock"))
        };
        let (used, lock) = run("run-1-used");
        lock.lock().expect("locked");
        let (over, _) = run("run-2-over");
        let (other, _) = run("something-else");
        sweep(root.path());
        assert!(used.exists() && !over.exists() && other.exists());
    }
}
