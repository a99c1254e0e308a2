//! `hermod rules apply`: makes the server's rules those of a file.

use std::process::ExitCode;

use hermod_client::{Client, ClientError, Rule};

use super::diff::{conflicts, plan};
use super::file::read;
use super::form::draft;
use crate::file::apply::{ApplyArgs, gone, tell_faults};
use crate::file::diff::Change;
use crate::input;
use crate::noun::ClientArgs;

pub(super) const HELP: &str = "\
The file is what `hermod rules export` prints: a list under `rules:`, each rule with an id. It is
checked as a whole before anything is changed. Applying it again changes nothing.

Exit codes: 0 applied (or nothing to do), 1 the file is faulty or not all could be applied, 2 error.

Examples:
  hermod rules apply -f rules.yaml --dry-run
  hermod rules apply -f rules.yaml --prune --yes
  hermod rules export --server http://a:7700 | hermod rules apply -f - --server http://b:7700";

pub(super) async fn run(args: &ApplyArgs, client: &Client, asked: &ClientArgs) -> anyhow::Result<ExitCode> {
    let (name, text) = input::read(&args.from.file)?;
    let written = match read(&text) {
        Ok(written) => written,
        Err(faults) => return Ok(tell_faults(&faults, &name, asked.json)),
    };
    let there = client.rules().list_all().await?;
    let faults = conflicts(&written, &there, args.prune);
    if !faults.is_empty() {
        return Ok(tell_faults(&faults, &name, asked.json));
    }
    let plan = plan(&written, &there, args.prune);
    args.carry_out(&name, &plan, asked, async |change| send(client, change).await).await
}

async fn send(client: &Client, change: &Change<'_, Rule>) -> Result<(), ClientError> {
    match change {
        Change::Create(written) | Change::Edit(written, _) => client.rules().put(&written.item.id, &draft(&written.item)).await.map(drop),
        Change::Delete(rule) => gone(client.rules().delete(&rule.id).await),
    }
}
