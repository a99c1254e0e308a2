//! `hermod queues relay`: a packed DIDComm message, for whom it names.

use clap::Args;
use hermod_client::{Client, Relayed};

use crate::input;
use crate::noun::WriteArgs;
use crate::output::{Output, table};

pub(super) const HELP: &str = "\
The message is pushed as it is, to the recipient that its envelope names: a DID, and for a bare key its did:key.

Examples:
  hermod queues relay inbox message.json
  curl -s https://example.com/packed | hermod queues relay inbox -";

#[derive(Debug, Args)]
pub(crate) struct RelayArgs {
    /// The queue's name.
    queue: String,
    /// The message, one to a file; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: String,
    #[command(flatten)]
    write: WriteArgs,
}

pub(super) async fn run(args: &RelayArgs, client: &Client, out: Output) -> anyhow::Result<()> {
    let (_, message) = input::read(&args.file)?;
    let relayed = args.write.on(client.queues()).relay(&args.queue, message).await?;
    out.one(&relayed, rows)
}

fn rows(relayed: &[Relayed]) -> String {
    table(["ID", "TO"], relayed.iter().map(|one| [one.pushed.id.clone(), one.to.clone()]))
}
