//! `cargo xtask tidy`: what a machine can check about the code.
//!
//! A rule is a function from what it looks at to its findings, each of which says what is wrong and what
//! to do. All rules run and all findings are shown; who has to fix ten things should not have to ask ten times.

mod edges;
mod files;
mod links;
mod lua;
mod tree;

use anyhow::{Result, bail};

use crate::cargo;

/// One thing that is wrong, as a line to print: `where: what, and what to do about it`.
pub(crate) type Finding = String;

/// Runs all rules.
pub(crate) fn run() -> Result<()> {
    let root = cargo::root();
    let tree = tree::read(&root)?;
    let mut findings = edges::check(&cargo::metadata()?)?;
    findings.extend(lua::check(&tree));
    findings.extend(files::check(&tree));
    findings.extend(links::check(&root, &tree));

    // Cargo shows its own findings; here it only counts that there are some.
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    for args in [&["fmt", "--all", "--check"][..], &clippy] {
        if let Err(error) = cargo::run(args) {
            findings.push(format!("{error:#}"));
        }
    }

    if findings.is_empty() {
        eprintln!("tidy");
        return Ok(());
    }
    eprintln!();
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    bail!("{} finding(s) are to be put right", findings.len());
}
