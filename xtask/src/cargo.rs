//! Calls of cargo, at the root of the workspace.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root of the workspace: the folder above this package's.
pub(crate) fn root() -> PathBuf {
    // Asked of the running cargo first: a checkout may have been moved or copied since this program was compiled.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    package.parent().unwrap_or(&package).to_owned()
}

/// Runs cargo with its output shown as it comes, and fails if it does.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    eprintln!("\n$ cargo {}", args.join(" "));
    let status = command().args(args).status().context("running cargo")?;
    if !status.success() {
        bail!("`cargo {}` failed with {status}", args.join(" "));
    }
    Ok(())
}

/// What cargo knows about the packages of the workspace.
pub(crate) fn metadata() -> Result<serde_json::Value> {
    let output = command().args(["metadata", "--format-version", "1", "--no-deps"]).output().context("running cargo metadata")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("reading the output of cargo metadata")
}

/// The cargo that runs this program.
fn command() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(root());
    command
}
