//! The one binary: `hermod serve`, `hermod dev`, and the client's commands.
//!
//! Glue only: arguments in, words out. What a server does is in `hermod-server`, how it is asked in
//! `hermod-client`. Each command has a file of its own with a `run` that gives the exit code: 0 is
//! yes, 1 is no (refused, or the doctor found a fault), 2 is an error.

mod cli;
mod completion;
mod config;
mod decks;
mod dev;
mod doctor;
mod error;
mod events;
mod file;
mod input;
mod keys;
mod limit;
mod noun;
mod output;
mod queues;
mod realms;
mod redact;
mod rules;
mod serve;
mod settings;
mod signals;
mod spaces;
mod subjects;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};
// The single place that says where the server comes from.
use hermod_server as server;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(fault) => return error::report(&anyhow::Error::new(fault).context("cannot start"), cli.client()),
    };
    let done = runtime.block_on(run(&cli));
    // What still runs in the background must not hold up a second Ctrl-C.
    runtime.shutdown_background();
    done.unwrap_or_else(|fault| error::report(&fault, cli.client()))
}

async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        None => {
            // Nobody may be there to read it, and there is nothing else to do.
            let _said = Cli::command().print_help();
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Serve(args)) => serve::run(args).await,
        Some(Command::Dev(args)) => dev::run(args).await,
        Some(Command::Config(args)) => config::run(args),
        Some(Command::Doctor(args)) => doctor::run(args).await,
        Some(Command::Rules(args)) => rules::run(args).await,
        Some(Command::Queues(args)) => queues::run(args).await,
        Some(Command::Decks(args)) => decks::run(args).await,
        Some(Command::Realms(args)) => realms::run(args).await,
        Some(Command::Subjects(args)) => subjects::run(args).await,
        Some(Command::Events(args)) => events::run(args).await,
        Some(Command::Keys(args)) => keys::run(args).await,
        Some(Command::Spaces(args)) => spaces::run(args).await,
        Some(Command::Limit(args)) => limit::run(args).await,
        Some(Command::Completion(args)) => completion::run(args),
    }
}
