//! `hermod realms account|board|ledger|supply|audit|simulate`: what the books of a realm say, and what a play comes to.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hermod_client::{
    BoardRequest, Client, RealmAccount, RealmAudit, RealmBoard, RealmCommit, RealmOutlook, RealmSupply, Retry, SimulateRequest,
};

use super::words::{arg, args, leg_text};
use crate::noun::PageArgs;
use crate::output::{Output, or_dash, table, verdict};

/// How long an audit may take for this command; the server has a bound of its own.
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) const SIMULATE_HELP: &str = "\
Every run begins with what is now, and none changes anything.

Examples:
  hermod realms simulate ajo gamble --by 111 amount=100
  hermod realms simulate ajo farm --by 111 -n 100000";

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// The realm's name.
    realm: String,
    /// The play's name.
    play: String,
    /// Who plays.
    #[arg(long, value_name = "OWNER")]
    by: String,
    /// What the play is given.
    #[arg(value_name = "NAME=VALUE", value_parser = arg)]
    args: Vec<(String, String)>,
    /// How often, 100,000 at most; 10,000 if absent.
    #[arg(short, value_name = "N")]
    n: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct BoardArgs {
    /// The realm's name.
    realm: String,
    /// Of which asset; it must have a board.
    asset: String,
    /// Those around this owner instead of the first ones.
    #[arg(long, value_name = "OWNER", conflicts_with = "from")]
    around: Option<String>,
    /// At most so many, 200 at most.
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: u32,
    /// From this rank on.
    #[arg(long, value_name = "RANK")]
    from: Option<u64>,
}

impl SimulateArgs {
    pub(super) async fn run(&self, client: &Client, out: Output) -> anyhow::Result<()> {
        let mut request = SimulateRequest::new(&self.play, &self.by);
        (request.args, request.n) = (args(&self.args)?, self.n);
        out.answer(&client.realms().simulate(&self.realm, &request).await?, outlook)
    }
}

impl BoardArgs {
    pub(super) async fn run(&self, client: &Client, out: Output) -> anyhow::Result<()> {
        let mut request = BoardRequest::top(self.limit);
        (request.from, request.around) = (self.from, self.around.clone());
        let board = client.realms().board(&self.realm, &self.asset, &request).await?;
        out.answer(&board, |board| ranks(board, self.around.as_deref()))
    }
}

pub(super) async fn account(realm: &str, owner: &str, client: &Client, out: Output) -> anyhow::Result<()> {
    out.answer(&client.realms().account(realm, owner).await?, having)
}

/// One page: a ledger is never trimmed, so all of it may be much.
pub(super) async fn ledger(realm: &str, page: &PageArgs, client: &Client, out: Output) -> anyhow::Result<()> {
    out.page(&client.realms().ledger(realm, &page.request()).await?, commits)
}

pub(super) async fn supply(realm: &str, client: &Client, out: Output) -> anyhow::Result<()> {
    out.answer(&client.realms().supply(realm).await?, supplies)
}

/// Has the books computed again; a failure as an exit code if they do not add up.
pub(super) async fn audit(realm: &str, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    if !out.is_json() && io::stderr().is_terminal() {
        eprintln!("Computing every account and every draw of {realm} again.");
    }
    // One that takes too long would do so again.
    let client = client.clone().with_deadline(PATIENCE).with_try_timeout(PATIENCE).with_retry(Retry::never());
    let audit = client.realms().audit(realm).await?;
    out.answer(&audit, audited)?;
    Ok(if audit.clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn outlook(outlook: &RealmOutlook) -> String {
    let mut text = format!("{} runs, {} done", outlook.runs, outlook.done);
    for (code, many) in &outlook.refused {
        text += &format!(", {many} refused: {code}");
    }
    if !outlook.gains.is_empty() {
        let rows = outlook.gains.iter().map(|(asset, gain)| {
            let [min, p50, p90, p99, max] = [gain.min, gain.p50, gain.p90, gain.p99, gain.max].map(|number| number.to_string());
            [asset.clone(), format!("{:.2}", gain.mean), min, p50, p90, p99, max]
        });
        text += &format!("\n\n{}", table(["GAIN", "MEAN", "MIN", "P50", "P90", "P99", "MAX"], rows));
    }
    text
}

fn having(account: &RealmAccount) -> String {
    let mut parts = Vec::new();
    if account.assets.is_empty() {
        parts.push(format!("{} has nothing", account.owner));
    } else {
        let rows = account.assets.iter().map(|(asset, is)| [asset.clone(), is.balance.to_string(), is.available.to_string()]);
        parts.push(table(["ASSET", "BALANCE", "AVAILABLE"], rows));
    }
    let kinds = [("timer", &account.timers), ("effect", &account.effects), ("counter", &account.counters)];
    let marks: Vec<_> = kinds
        .into_iter()
        .flat_map(|(kind, marks)| {
            marks.iter().map(move |(name, is)| [kind.to_owned(), name.clone(), is.value.to_string(), or_dash(is.until)])
        })
        .collect();
    if !marks.is_empty() {
        parts.push(table(["KIND", "NAME", "VALUE", "UNTIL"], marks));
    }
    parts.join("\n\n")
}

fn ranks(board: &RealmBoard, around: Option<&str>) -> String {
    let rows = board.items.iter().map(|row| [row.rank.to_string(), row.owner.clone(), row.balance.to_string()]);
    let mut text = table(["RANK", "OWNER", "BALANCE"], rows);
    text += &match (around, board.rank.flatten()) {
        (Some(owner), Some(rank)) => format!("\n\n{owner} has rank {rank} of {}", board.total),
        (Some(owner), None) => format!("\n\n{owner} has no rank; {} do", board.total),
        (None, _) => format!("\n\n{} in all", board.total),
    };
    text
}

fn commits(commits: &[RealmCommit]) -> String {
    table(
        ["COMMIT", "AT", "WHAT", "BY", "LEGS"],
        commits.iter().map(|commit| {
            let what = commit.play.as_ref().unwrap_or(&commit.kind);
            let what = commit.about.as_ref().map_or_else(|| what.clone(), |about| format!("{what} {about}"));
            let legs = commit.legs.iter().map(leg_text).collect::<Vec<_>>().join(" ");
            let legs = or_dash(Some(legs).filter(|legs| !legs.is_empty()));
            [commit.commit.clone(), commit.at.to_string(), what, or_dash(commit.by.as_ref()), legs]
        }),
    )
}

fn supplies(supply: &RealmSupply) -> String {
    let by = |plays: &BTreeMap<String, i64>| {
        let parts = plays.iter().map(|(play, qty)| format!("{play}={qty}")).collect::<Vec<_>>().join(" ");
        or_dash(Some(parts).filter(|parts| !parts.is_empty()))
    };
    table(
        ["ASSET", "SUPPLY", "MINTED", "BURNT", "HOUSE", "FAUCETS", "SINKS"],
        supply.items.iter().map(|one| {
            let [supply, minted, burnt, house] = [one.supply, one.minted, one.burnt, one.house].map(|number| number.to_string());
            [one.asset.clone(), supply, minted, burnt, house, by(&one.faucets), by(&one.sinks)]
        }),
    )
}

fn audited(audit: &RealmAudit) -> String {
    let RealmAudit { commits, accounts, draws, .. } = audit;
    let word = if audit.clean { "clean" } else { "not clean" };
    let mut text = verdict(audit.clean, &format!("{word}: {commits} commits, {accounts} accounts and {draws} draws computed again"));
    for fault in &audit.faults {
        text += &format!("\n{fault}");
    }
    text
}
