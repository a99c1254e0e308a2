//! `hermod spaces`: isolated tenants.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hermod_client::{Page, Space};

use crate::cli::{ClientArgs, PageArgs, WriteArgs};
use crate::output::table;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermod spaces create team
  hermod keys create team-admin --scope admin --space team")]
pub(crate) struct SpacesArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
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

pub(crate) async fn run(args: &SpacesArgs) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    match &args.verb {
        Verb::List(page) => {
            let page = match page.request() {
                Some(request) => client.spaces().list(&request).await?,
                None => Page::whole(client.spaces().list_all().await?),
            };
            out.page(&page, rows)?;
        }
        Verb::Create { space, write } => {
            let mut spaces = client.spaces();
            if let Some(key) = &write.idempotency_key {
                spaces = spaces.idempotency_key(key);
            }
            out.answer(&spaces.create(space).await?, |space| rows(std::slice::from_ref(space)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(spaces: &[Space]) -> String {
    table(["SPACE", "CREATED AT"], spaces.iter().map(|space| [space.space.clone(), space.created_at.to_string()]))
}
