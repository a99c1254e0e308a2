//! The command line as a whole. What a command takes is defined beside the command.

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use hermod_client::{Client, PageRequest};

use crate::completion::CompletionArgs;
use crate::config::ConfigArgs;
use crate::dev::DevArgs;
use crate::doctor::DoctorArgs;
use crate::keys::KeysArgs;
use crate::limit::LimitArgs;
use crate::output::Output;
use crate::rules::RulesArgs;
use crate::spaces::SpacesArgs;

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
    Rules(RulesArgs),
    /// API keys.
    Keys(KeysArgs),
    /// Isolated tenants.
    Spaces(SpacesArgs),
    /// May a subject do this now?
    Limit(LimitArgs),
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
  hermod config > hermod.toml
  hermod config --config /etc/hermod.toml";

impl Cli {
    /// How this command reaches a server, if it does.
    pub(crate) fn client(&self) -> Option<&ClientArgs> {
        match self.command.as_ref()? {
            Command::Rules(args) => Some(&args.client),
            Command::Keys(args) => Some(&args.client),
            Command::Spaces(args) => Some(&args.client),
            Command::Limit(args) => Some(&args.client),
            _ => None,
        }
    }
}

/// How a client command reaches its server, and how it answers.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// The server's address.
    #[arg(long, global = true, value_name = "URL", env = "HERMOD_SERVER", default_value = "http://127.0.0.1:7700")]
    pub(crate) server: String,
    /// The API key. `hermod dev` needs none.
    #[arg(long, global = true, value_name = "KEY", env = "HERMOD_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
    /// Print JSON, for programs.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl ClientArgs {
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let client = Client::new(&self.server).context("--server")?;
        // An empty variable is how scripts say "none".
        Ok(match self.key.as_deref() {
            None | Some("") => client,
            Some(key) => client.with_key(key),
        })
    }

    pub(crate) fn output(&self) -> Output {
        Output::new(self.json)
    }
}

/// What every command that changes something takes.
#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// Makes it safe to run this again: the same key gives the same answer, once.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

/// Which part of a list; all of it if neither is given.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// At most this many.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
    /// Go on where an earlier page ended.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

impl PageArgs {
    /// The page that is wanted; none if it is the whole list.
    pub(crate) fn request(&self) -> Option<PageRequest> {
        if self.limit.is_none() && self.cursor.is_none() {
            return None;
        }
        let mut request = PageRequest::default();
        request.limit = self.limit;
        request.cursor = self.cursor.clone();
        Some(request)
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
}
