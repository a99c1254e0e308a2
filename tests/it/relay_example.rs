//! The relay example loses nothing and keeps the order when a worker dies, on both engines and on a server of its own or a given one.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use hermod_tests::server::{Hermod, Redis};

use crate::example::binary;

const README: &str = include_str!("../../examples/relay/README.md");
const SOURCE: &str = include_str!("../../examples/relay/src/main.rs");

/// Runs it to its end; what it said.
fn run(args: &[&str], env: &[(&str, &str)]) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let done = Command::new(binary("relay-to-workers", "hermod-example-relay")?)
        .args(args)
        .envs(env.iter().copied())
        .current_dir(folder.path())
        .output()?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    ensure!(done.status.success(), "{:?}\n{said}{}", done.status, String::from_utf8_lossy(&done.stderr));
    ensure!(folder.path().read_dir()?.next().is_none(), "it leaves nothing behind");
    Ok(said)
}

fn all_is_told(said: &str, messages: u64) -> Result<()> {
    let summary = format!("all {messages} messages were processed, in order for each recipient");
    let killed = said.lines().find_map(|line| line.split_once(" was killed while it had message ")).context("who was killed")?.0;
    let why = format!("{killed} closed its stream and did not come back");
    for told in ["went on with that message", &why, "it had none before", &summary] {
        ensure!(said.contains(told), "{told}:\n{said}");
    }
    let processed = said.lines().filter_map(|line| line.split_once(" processed ")?.1.parse::<u64>().ok());
    ensure!(processed.sum::<u64>() == messages, "{said}");
    Ok(())
}

#[test]
fn nothing_is_lost_on_the_embedded_store() -> Result<()> {
    all_is_told(&run(&[], &[])?, 600)
}

#[test]
fn nothing_is_lost_on_redis() -> Result<()> {
    let redis = Redis::start()?;
    all_is_told(&run(&["--store", &redis.url(), "--recipients", "100", "--messages", "8"], &[])?, 800)
}

#[test]
fn a_given_server_is_used_again_and_again() -> Result<()> {
    let hermod = Hermod::serve(["--store", "embedded"])?;
    let (url, key) = (hermod.url()?, hermod.admin_key()?);
    for _ in 0..2 {
        let said = run(&["--recipients", "12", "--messages", "10"], &[("HERMOD_URL", url), ("HERMOD_KEY", &key)])?;
        all_is_told(&said, 120)?;
    }
    Ok(())
}

#[test]
fn the_readme_shows_what_is_said() -> Result<()> {
    let shown = README.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).context("what it says")?;
    all_is_told(shown, 600)
}

#[test]
fn the_example_is_short() {
    let lines = SOURCE.lines().count();
    assert!(lines < 200, "{lines} lines are more than an example should have");
}
