//! `hermod realms apply`: makes a realm of the server the one of a file.

use std::process::ExitCode;

use clap::Args;
use hermod_client::{Client, ClientError};

use super::file::read;
use super::form::Economy;
use crate::file::apply::{FileArgs, tell_faults};
use crate::file::diff::plan;
use crate::input;
use crate::noun::ClientArgs;

pub(super) const HELP: &str = "\
The file is what `hermod realms export` prints: `realm:` with its name, and its definition. It is checked
as a whole before anything is changed, and all that is wrong is told at once. It replaces the definition
that is there; what is owned stays, so no asset can be left out. Applying it again changes nothing.

Exit codes: 0 applied (or nothing to do), 1 the file is faulty or could not be applied, 2 error.

Examples:
  hermod realms apply -f ajo.yaml --dry-run
  hermod realms apply -f ajo.yaml --realm ajo-test";

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    from: FileArgs,
    /// The realm's name, whatever the file says.
    #[arg(long, value_name = "REALM")]
    realm: Option<String>,
}

impl ApplyArgs {
    pub(super) async fn run(&self, client: &Client, asked: &ClientArgs) -> anyhow::Result<ExitCode> {
        let (name, text) = input::read(&self.from.file)?;
        let written = match read(&text, self.realm.as_deref()) {
            Ok(written) => [written],
            Err(faults) => return Ok(tell_faults(&faults, &name, asked.json)),
        };
        let [only] = &written;
        if self.from.dry_run {
            // The server knows what is settled by the realm that is there.
            if let Err(fault) = client.realms().dry_run(&only.item.realm, &only.item.definition).await {
                let faults = only.refused(&fault);
                return if faults.is_empty() { Err(fault.into()) } else { Ok(tell_faults(&faults, &name, asked.json)) };
            }
            if !asked.json {
                super::odds::print(&only.item)?;
            }
        }
        let there = there(client, &only.item.realm).await?;
        let plan = plan(&written, &there, false, |_| false);
        let Economy { realm, definition } = &only.item;
        self.from.carry_out(&name, &plan, asked, true, async |_| client.realms().put(realm, definition).await.map(drop)).await
    }
}

/// The realm of the server; nothing if there is none.
async fn there(client: &Client, realm: &str) -> Result<Vec<Economy>, ClientError> {
    match client.realms().get(realm).await {
        Err(ClientError::Problem(problem)) if problem.status == 404 => Ok(Vec::new()),
        known => Ok(vec![known?.into()]),
    }
}
