//! `hermod completion`: a script that lets a shell complete commands.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output::Output;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermod completion bash > ~/.local/share/bash-completion/completions/hermod
  hermod completion fish > ~/.config/fish/completions/hermod.fish")]
pub(crate) struct CompletionArgs {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &CompletionArgs) -> anyhow::Result<ExitCode> {
    // Into memory first: the generator panics when its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "hermod", &mut script);
    Output::new(false).text(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
