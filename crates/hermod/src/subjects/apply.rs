//! `hermod subjects apply`: makes what a server knows of subjects that of a file.

use std::process::ExitCode;

use hermod_client::{Client, ClientError, Profile};

use super::file::read;
use super::form::Known;
use crate::file::Written;
use crate::file::apply::{FileArgs, tell_faults};
use crate::file::diff::plan;
use crate::input;
use crate::noun::ClientArgs;

pub(super) const HELP: &str = "\
The file is what `hermod subjects export` prints: a list under `subjects:`, each with its name under
`subject:`. It is checked as a whole before anything is changed. What it says of a subject replaces all that
was known of it; subjects that are not in the file stay as they are. Applying it again changes nothing.

Exit codes: 0 applied (or nothing to do), 1 the file is faulty or not all could be applied, 2 error.

Examples:
  hermod subjects apply -f subjects.yaml --dry-run
  hermod subjects export ann ben --server http://a:7700 | hermod subjects apply -f - --server http://b:7700";

pub(super) async fn run(args: &FileArgs, client: &Client, asked: &ClientArgs) -> anyhow::Result<ExitCode> {
    let (name, text) = input::read(&args.file)?;
    let written = match read(&text) {
        Ok(written) => written,
        Err(faults) => return Ok(tell_faults(&faults, &name, asked.json)),
    };
    let there = there(client, &written).await?;
    let plan = plan(&written, &there, false, |_| false);
    let send = async |known: &Known| client.subjects().put(&known.subject, &known.profile).await.map(drop);
    args.carry_out(&name, &plan, asked, true, async |change| send(change.item()).await).await
}

/// What the server knows of them. A subject nobody told anything of is as one that is not there, unless the file says nothing of it, either.
async fn there(client: &Client, written: &[Written<Known>]) -> Result<Vec<Known>, ClientError> {
    let mut there = Vec::new();
    for Known { subject, profile: wanted } in written.iter().map(|written| &written.item) {
        let profile = client.subjects().get(subject).await?;
        if profile != Profile::default() || *wanted == Profile::default() {
            there.push(Known { subject: subject.clone(), profile });
        }
    }
    Ok(there)
}
