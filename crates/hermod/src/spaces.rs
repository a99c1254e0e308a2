//! `hermod spaces`: isolated tenants.

use std::process::ExitCode;

use clap::Subcommand;
use hermod_client::Space;

use crate::noun::{NounArgs, PageArgs, WriteArgs};
use crate::output::table;

pub(crate) const HELP: &str = "\
Examples:
  hermod spaces create team
  hermod keys create team-admin --scope admin --space team";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the spaces.
    List(PageArgs),
    /// Make a space.
    Create {
        /// Its name.
        space: String,
        #[command(flatten)]
        write: WriteArgs,
    },
}

pub(crate) async fn run(args: &NounArgs<Verb>) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    match &args.verb {
        Verb::List(page) => page.list(client.spaces(), out, rows).await?,
        Verb::Create { space, write } => {
            let space = write.on(client.spaces()).create(space).await?;
            out.one(&space, rows)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(spaces: &[Space]) -> String {
    table(["SPACE", "CREATED AT"], spaces.iter().map(|space| [space.space.clone(), space.created_at.to_string()]))
}
