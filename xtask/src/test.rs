//! `cargo xtask test`: from a fresh clone to the verdict of all tests.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::{cargo, setup, tidy};

/// Runs all steps in order, stops at the first that fails, and tells what each took.
pub(crate) fn run(filter: &[&str]) -> Result<()> {
    let tests = || cargo::run(&[&["test", "--workspace"], filter].concat());
    // The binaries come before the tests, because cargo does not build them for the tests of another package.
    let built = ["hermod", "hermod-example-todo", "hermod-example-echo", "hermod-example-relay", "hermod-example-iduna"];
    let build = || cargo::run(&[&["build"], built.map(|package| ["--package", package]).as_flattened()].concat());
    let steps: [(&str, &dyn Fn() -> Result<()>); 4] = [("set-up", &setup::run), ("tidy", &tidy::run), ("build", &build), ("tests", &tests)];

    let mut times = Vec::new();
    let mut outcome = Ok(());
    for (name, step) in steps {
        let start = Instant::now();
        outcome = step();
        times.push((name, start.elapsed()));
        if outcome.is_err() {
            break;
        }
    }
    eprint!("\n{}", table(&times, outcome.is_ok()));
    outcome
}

fn table(times: &[(&str, Duration)], passed: bool) -> String {
    let mut text = String::new();
    for (index, (name, time)) in times.iter().enumerate() {
        let failed = !passed && index + 1 == times.len();
        text += &format!("{name:8} {:7.1} s  {}\n", time.as_secs_f64(), if failed { "FAILED" } else { "ok" });
    }
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    text + &format!("{:8} {:7.1} s\n", "total", total.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_marks_the_step_that_failed() {
        let times = [("set-up", Duration::from_millis(500)), ("tidy", Duration::from_secs(9))];
        assert_eq!(table(&times, false), "set-up       0.5 s  ok\ntidy         9.0 s  FAILED\ntotal        9.5 s\n");
        assert!(!table(&times, true).contains("FAILED"));
    }
}
