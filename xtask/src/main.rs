//! The project's own commands: `cargo xtask test`, `cargo xtask tidy`, `cargo xtask bench`.
//!
//! They are Rust and not shell, so that they run wherever the project builds and need nothing but cargo.

mod cargo;
mod setup;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [filter]        install what the tests need, tidy, build, and run all tests (or those the filter names)
  tidy                 check formatting, lints and the rules of the code base
  bench <name> [args]  run a benchmark, optimised
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.split_first() {
        Some((&"test", rest)) => test::run(rest),
        Some((&"tidy", [])) => tidy::run(),
        Some((&"bench", rest)) if !rest.is_empty() => bench(rest),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &[&str]) -> Result<()> {
    // A benchmark may start the real server, which cargo does not build for it.
    cargo::run(&["build", "--release", "--package", "hermod"])?;
    cargo::run(&[&["run", "--release", "--package", "hermod-bench", "--"], args].concat())
}
