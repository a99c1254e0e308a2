//! `hermod events`: what changed.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use hermod_client::{Client, Event, EventPage, EventType, EventsRequest, Followed};

use crate::noun::NounArgs;
use crate::output::{Output, or_dash, table};
use crate::signals::Signals;

pub(crate) const HELP: &str = "\
Types: message.picked, message.acked, message.nacked, message.expired.

Examples:
  hermod events list --subject user-7
  hermod events tail --type message.picked
  hermod events tail --json | jq .subject";

/// A server that is away is asked again after so long.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List what changed, the oldest first.
    List {
        #[command(flatten)]
        which: Which,
        /// At most this many; all that are kept if absent.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Go on where an earlier list ended.
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
    },
    /// Follow what changes, until interrupted.
    Tail {
        #[command(flatten)]
        which: Which,
        /// Begin after this event instead of now.
        #[arg(long, value_name = "CURSOR", default_value = "now")]
        after: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Only of this type.
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only about this subject.
    #[arg(long)]
    subject: Option<String>,
}

impl Which {
    fn request(&self, after: Option<&str>) -> EventsRequest {
        let mut request = EventsRequest::new();
        request.kind = self.kind.clone().map(EventType::from);
        request.subject = self.subject.clone();
        request.after = after.map(str::to_owned);
        request
    }
}

pub(crate) async fn run(args: &NounArgs<Verb>) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    match &args.verb {
        Verb::List { which, limit, after } => {
            let page = list(&client, which.request(after.as_deref()), *limit).await?;
            out.answer(&page, |page| rows(&page.items))?;
            if page.gap {
                out.remark("\nSome events after that are not kept any more.")?;
            }
            if page.more {
                out.remark(&format!("\nMore with --after {}", page.next))?;
            }
        }
        Verb::Tail { which, after } => {
            let mut signals = Signals::listen()?;
            let follows = tail(&client, which.request(Some(after)), out);
            // It ends by a signal, when nobody reads it, or with a fault.
            if let Some(ended) = signals.unless_asked(follows).await {
                return ended.map(|()| ExitCode::SUCCESS);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One page, or all of them as one.
async fn list(client: &Client, mut request: EventsRequest, limit: Option<u32>) -> anyhow::Result<EventPage> {
    request.limit = Some(limit.unwrap_or(1_000));
    let mut all = client.events().list(&request).await?;
    while limit.is_none() && all.more {
        request.after = Some(all.next.clone());
        let page = client.events().list(&request).await?;
        all.items.extend(page.items);
        (all.next, all.gap, all.more) = (page.next, all.gap || page.gap, page.more);
    }
    Ok(all)
}

/// Prints events for as long as somebody reads them.
async fn tail(client: &Client, request: EventsRequest, out: Output) -> anyhow::Result<()> {
    let mut stream = client.events().follow(&request).await?;
    loop {
        match stream.next().await {
            Ok(Some(Followed::Event(event))) => {
                if !out.is_read(&line(&event, out)?)? {
                    return Ok(());
                }
            }
            Ok(Some(_)) => out.remark("Some events are not kept any more.")?,
            // It goes on where it broke off.
            Ok(None) | Err(_) => {
                let last = stream.last_id().map(str::to_owned);
                eprintln!("The stream has ended; waiting for the server.");
                stream = loop {
                    tokio::time::sleep(AGAIN).await;
                    match client.events().resume(&request, last.as_deref()).await {
                        Ok(stream) => break stream,
                        Err(fault) if fault.is_retryable() => {}
                        Err(fault) => return Err(fault.into()),
                    }
                };
            }
        }
    }
}

fn line(event: &Event, out: Output) -> anyhow::Result<String> {
    if out.is_json() {
        return Ok(serde_json::to_string(event)?);
    }
    let [time, kind, subject, deck, message] = cells(event);
    Ok(format!("{time}  {kind:<15}  {subject}  {deck}  {message}"))
}

fn rows(events: &[Event]) -> String {
    table(["TIME", "TYPE", "SUBJECT", "DECK", "MESSAGE"], events.iter().map(cells))
}

fn cells(event: &Event) -> [String; 5] {
    let (deck, message) = (or_dash(event.deck.as_deref()), or_dash(event.message.as_deref()));
    [event.time.to_string(), event.kind.as_str().to_owned(), event.subject.clone(), deck, message]
}
