//! The command line as a whole. What a command takes is defined beside the command.

use clap::{Parser, Subcommand};

use crate::completion::CompletionArgs;
use crate::config::ConfigArgs;
use crate::dev::DevArgs;
use crate::doctor::DoctorArgs;
use crate::noun::{ClientArgs, NounArgs};
use crate::{decks, events, keys, limit, queues, realms, rules, spaces, subjects};

/// The state engine behind bots, agents and notification services.
#[derive(Debug, Parser)]
#[command(
    name = "hermod",
    version,
    after_help = "\
Examples:
  hermod dev                             try it: open, on loopback, with demo content
  hermod serve                           the real thing: keys, and data in ./hermod-data
  hermod limit check bot-7 tasks/create  may bot-7 do that now?

Exit codes: 0 yes, 1 no (refused, or a fault found), 2 error."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a server.
    #[command(after_help = SERVE_HELP)]
    Serve(ConfigArgs),
    /// Run an open server for trying things out; its data goes when it ends.
    Dev(DevArgs),
    /// Print the effective configuration and where each value comes from.
    #[command(after_help = CONFIG_HELP)]
    Config(ConfigArgs),
    /// Check a configuration and say what is wrong with it.
    Doctor(DoctorArgs),
    /// Limits on actions.
    #[command(after_help = rules::HELP)]
    Rules(NounArgs<rules::Verb>),
    /// What is held until its time, and what recurs.
    #[command(after_help = queues::HELP)]
    Queues(NounArgs<queues::Verb>),
    /// Messages, of which each subject gets one at a time.
    #[command(after_help = decks::HELP)]
    Decks(NounArgs<decks::Verb>),
    /// Economies that are data.
    #[command(after_help = realms::HELP)]
    Realms(NounArgs<realms::Verb>),
    /// What is known of subjects: tags, time zone, quiet hours, mute.
    #[command(after_help = subjects::HELP)]
    Subjects(NounArgs<subjects::Verb>),
    /// What changed.
    #[command(after_help = events::HELP)]
    Events(NounArgs<events::Verb>),
    /// API keys.
    #[command(after_help = keys::HELP)]
    Keys(NounArgs<keys::Verb>),
    /// Isolated tenants.
    #[command(after_help = spaces::HELP)]
    Spaces(NounArgs<spaces::Verb>),
    /// May a subject do this now?
    #[command(after_help = limit::HELP)]
    Limit(NounArgs<limit::Verb>),
    /// Print a completion script for a shell.
    Completion(CompletionArgs),
}

const SERVE_HELP: &str = "\
Every setting has one name: --in-flight-max is HERMOD_IN_FLIGHT_MAX is in_flight_max in hermod.toml.
A flag wins over the environment, the environment over the file.

Examples:
  hermod serve
  hermod serve --listen 0.0.0.0:7700 --tls-cert cert.pem --tls-key key.pem
  hermod serve --store redis://localhost:6379 --catalog postgres://hermod@localhost/hermod";

const CONFIG_HELP: &str = "\
Passwords are not shown.

Examples:
  hermod config
  hermod config --config /etc/hermod.toml";

impl Cli {
    /// How this command reaches a server, if it does.
    pub(crate) fn client(&self) -> Option<&ClientArgs> {
        match self.command.as_ref()? {
            Command::Rules(args) => Some(&args.client),
            Command::Queues(args) => Some(&args.client),
            Command::Decks(args) => Some(&args.client),
            Command::Realms(args) => Some(&args.client),
            Command::Subjects(args) => Some(&args.client),
            Command::Events(args) => Some(&args.client),
            Command::Keys(args) => Some(&args.client),
            Command::Spaces(args) => Some(&args.client),
            Command::Limit(args) => Some(&args.client),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn client_arguments_stand_anywhere() {
        for line in ["hermod rules --json list", "hermod rules list --json", "hermod limit check bot-7 tasks/create --cost 2 --json"] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert!(cli.client().unwrap().json, "{line}");
        }
    }

    /// A flag is read as its variable is, which is the one that is empty in practice.
    #[test]
    fn what_is_empty_counts_as_not_given() {
        let cli = Cli::try_parse_from(["hermod", "rules", "list", "--server", ""]).unwrap();
        assert_eq!(cli.client().unwrap().server, "http://127.0.0.1:7700");
        assert!(Cli::try_parse_from(["hermod", "config", "--config", ""]).is_ok());
    }
}
