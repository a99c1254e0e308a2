//! `hermod realms events`: what changed for whom, listed and followed.

use std::time::Duration;

use clap::Args;
use hermod_client::{Client, RealmEvent, RealmEventPage, RealmEventsRequest, RealmFollowed, RealmStream};

use crate::output::{Output, or_dash, table};
use crate::signals::Signals;

pub(super) const HELP: &str = "\
A reader that keeps the number it came to misses nothing and reads nothing twice.

Examples:
  hermod realms events ajo
  hermod realms events ajo --stream currency --after 17 --json
  hermod realms events ajo --follow";

/// A server that is away is asked again after so long.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// The realm's name.
    realm: String,
    /// Only changes of currencies (currency) or of items (inventory).
    #[arg(long)]
    stream: Option<String>,
    /// Those of commits after this number; from the first on if absent, and with --follow from now on.
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// Of at most so many commits, 200 at most; 50 if absent.
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    limit: Option<u32>,
    /// Go on with what changes, until interrupted.
    #[arg(long)]
    follow: bool,
}

impl EventsArgs {
    pub(super) async fn run(&self, client: &Client, out: Output) -> anyhow::Result<()> {
        let mut request = RealmEventsRequest::default();
        (request.after, request.limit) = (self.after, self.limit);
        request.stream = self.stream.clone().map(RealmStream::from);
        if self.follow {
            request.now = self.after.is_none();
            let mut signals = Signals::listen()?;
            // It ends by a signal, when nobody reads it, or with a fault.
            return signals.unless_asked(tail(client, &self.realm, request, out)).await.unwrap_or(Ok(()));
        }
        let page = client.realms().events(&self.realm, &request).await?;
        out.answer(&page, rows)?;
        if page.more { out.remark(&format!("\nMore with --after {}", page.after)) } else { Ok(()) }
    }
}

/// Prints events for as long as somebody reads them.
async fn tail(client: &Client, realm: &str, request: RealmEventsRequest, out: Output) -> anyhow::Result<()> {
    let mut stream = client.realms().follow(realm, &request).await?;
    loop {
        match stream.next().await {
            Ok(Some(RealmFollowed::Event(event))) => {
                let line = if out.is_json() { serde_json::to_string(&event)? } else { cells(&event).join("  ") };
                if !out.is_read(&line)? {
                    return Ok(());
                }
            }
            Ok(Some(_)) => out.remark("The store has lost some commits, and goes on before them.")?,
            // It goes on where it broke off.
            Ok(None) | Err(_) => {
                let last = stream.last_id().map(str::to_owned);
                eprintln!("The stream has ended; waiting for the server.");
                stream = loop {
                    tokio::time::sleep(AGAIN).await;
                    match client.realms().resume(realm, &request, last.as_deref()).await {
                        Ok(stream) => break stream,
                        Err(fault) if fault.is_retryable() => {}
                        Err(fault) => return Err(fault.into()),
                    }
                };
            }
        }
    }
}

fn rows(page: &RealmEventPage) -> String {
    table(["ID", "AT", "TYPE", "USER", "GUILD", "CHANGE", "OF"], page.items.iter().map(cells))
}

fn cells(event: &RealmEvent) -> [String; 7] {
    let change = or_dash(event.amount.or(event.quantity).map(|change| format!("{change:+}")));
    let of = or_dash(event.asset.as_ref().or(event.item.as_ref()));
    [event.id.clone(), event.at.to_string(), event.kind.clone(), event.user_id.clone(), event.guild_id.clone(), change, of]
}
