//! `hermod decks pick|ack|nack|history`: which message a subject gets next, and what it got.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hermod_client::{Client, PickHistory, PickOutcome, PickRequest, PickStatus, Picked, SettledPick};

use crate::file::counted;
use crate::noun::{TargetArgs, WriteArgs};
use crate::output::{Output, or_dash, table};

/// For whom, and how.
#[derive(Debug, Args)]
pub(crate) struct PickArgs {
    /// The deck's name.
    deck: String,
    /// For whom.
    subject: String,
    /// It is to be acknowledged within this time; else it is given back.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    reserve: Option<Duration>,
    /// Say what would be picked, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// List what becomes of every message.
    #[arg(long)]
    explain: bool,
    /// Say what the next so many picks would be, 100 at most, and change nothing.
    #[arg(long, value_name = "N")]
    simulate: Option<u64>,
    #[command(flatten)]
    write: WriteArgs,
}

impl PickArgs {
    fn request(&self) -> PickRequest {
        let mut request = PickRequest::new(&self.subject);
        if let Some(ttl) = self.reserve {
            request = request.reserve(Some(ttl));
        }
        (request.dry_run, request.explain, request.simulate) = (self.dry_run, self.explain, self.simulate);
        request
    }

    /// Picks; a failure as an exit code if there is nothing.
    pub(super) async fn run(&self, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
        let picked = self.write.on(client.decks()).pick(&self.deck, &self.request()).await?;
        out.answer(&picked, tell)?;
        Ok(if picked.status == PickStatus::None { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Settles a reserved pick; a failure as an exit code if it was too late.
pub(super) async fn settle(args: &TargetArgs, ack: bool, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    let decks = args.write.on(client.decks());
    let settled = if ack { decks.ack(&args.id).await? } else { decks.nack(&args.id).await? };
    let wanted = if ack { PickOutcome::Acked } else { PickOutcome::Nacked };
    out.answer(&settled, told)?;
    Ok(if settled.outcome == wanted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Shows what a subject got.
pub(super) async fn history(deck: &str, subject: &str, limit: usize, client: &Client, out: Output) -> anyhow::Result<()> {
    out.answer(&client.decks().history(deck, subject, limit).await?, sent)
}

fn tell(picked: &Picked) -> String {
    let mut text = match (&picked.message, picked.status == PickStatus::Simulated) {
        (_, true) => {
            let mut text = table(["AT", "MESSAGE"], picked.picks.iter().map(|pick| [pick.at.to_string(), pick.id.clone()]));
            text.extend(picked.reason.as_ref().map(|reason| format!("\nthen none: {reason}")));
            text
        }
        (Some(message), _) => {
            let mut lines = vec![format!("{}  {}", message.id, message.body)];
            lines.extend(picked.pick.as_ref().map(|pick| format!("pick {pick}")));
            lines.extend(picked.expires_at.map(|at| format!("acknowledge it before {at}")));
            lines.join("\n")
        }
        (None, _) => {
            let reason = or_dash(picked.reason.as_ref().map(ToString::to_string));
            match picked.retry_at {
                Some(at) => format!("none: {reason}, ask again at {at}"),
                None => format!("none: {reason}"),
            }
        }
    };
    if !picked.candidates.is_empty() {
        let time = |time: Option<hermod_client::Time>| or_dash(time.map(|time| time.to_string()));
        let rows = picked.candidates.iter().map(|one| [one.id.clone(), one.verdict.clone(), time(one.until), time(one.last_sent_at)]);
        text.push_str("\n\n");
        text.push_str(&table(["MESSAGE", "VERDICT", "UNTIL", "LAST SENT"], rows));
        text.extend(
            picked.left_out.map(|count| format!("\n{} not listed", counted(usize::try_from(count).unwrap_or(usize::MAX), "message"))),
        );
    }
    text
}

fn told(settled: &SettledPick) -> String {
    if settled.settled { settled.outcome.to_string() } else { format!("{} before; nothing was changed", settled.outcome) }
}

fn sent(history: &PickHistory) -> String {
    let rows = history.items.iter().map(|item| [item.sent_at.to_string(), item.id.clone().unwrap_or_else(|| "(gone)".to_owned())]);
    let mut text = table(["SENT", "MESSAGE"], rows);
    text.push_str(&format!("\n\n{} picks in all, {} messages sent longer ago, {} not settled", history.picks, history.older, history.open));
    if let Some(until) = history.subject_cap_until {
        text.push_str(&format!("; the next one not before {until}"));
    }
    text
}
