//! `hermod realms play|commit|revert|hold|held|capture|release`: what is done in a realm.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use hermod_client::{
    CaptureRequest, Client, CommitRequest, HoldRequest, Overflow, PlayRequest, RealmAnswer, RealmCondition, RealmHold, RealmLeg, RealmTerms,
};

use super::tell;
use super::words::{arg, args, leg, part};
use crate::input::time;
use crate::noun::WriteArgs;
use crate::output::{Output, table};

pub(super) const PLAY_HELP: &str = "\
An argument is NAME=VALUE; what it may be is for the play to say: `hermod realms get REALM` shows which there are.
Without --idempotency-key or --interaction each run of this command is another play.

Exit codes: 0 done, 1 refused, 2 error.

Examples:
  hermod realms play ajo gamble --by 111 amount=all
  hermod realms play ajo pay --by 111 to=222 amount=5 --idempotency-key order-17
  hermod realms play ajo gamble --by 111 amount=10 --dry-run --explain";

pub(super) const COMMIT_HELP: &str = "\
A leg is FROM->TO:ASSET:QTY; @mint, @burn, @house and @escrow are the realm's own. All legs are moved, or none.
Two holds that are captured in one commit are a trade.

Exit codes: 0 done, 1 refused, 2 error.

Examples:
  hermod realms commit ajo --leg '@mint->111:ajo:100'
  hermod realms commit ajo --leg '111->222:ajo:10' --leg '222->111:herb:1' --if \"balance('111','ajo') >= 10\"
  hermod realms commit ajo --capture ho_17 --capture ho_18";

pub(super) const HOLD_HELP: &str = "\
Exit codes: 0 done, 1 refused, 2 error.

Examples:
  hermod realms hold ajo --leg '111->222:ajo:10' --in 10m
  hermod realms capture ajo ho_17 --part ajo=3
  hermod realms release ajo ho_17";

/// What every change of a realm takes.
#[derive(Debug, Args)]
pub(crate) struct TermsArgs {
    /// The id of a Discord interaction, of which the idempotency key is made.
    #[arg(long, value_name = "ID", conflicts_with = "idempotency_key")]
    interaction: Option<String>,
    /// Where it happens, for the events.
    #[arg(long)]
    guild: Option<String>,
    /// For people; the ledger keeps it.
    #[arg(long)]
    note: Option<String>,
    /// Say what would be, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    write: WriteArgs,
}

impl TermsArgs {
    fn terms(&self) -> RealmTerms {
        let mut terms = RealmTerms::new();
        terms.key.clone_from(&self.write.idempotency_key);
        terms.interaction.clone_from(&self.interaction);
        terms.guild.clone_from(&self.guild);
        terms.note.clone_from(&self.note);
        terms.dry_run = self.dry_run;
        terms
    }
}

#[derive(Debug, Args)]
pub(crate) struct PlayArgs {
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
    /// Show what was drawn and what moved, too.
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    terms: TermsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CommitArgs {
    /// The realm's name.
    realm: String,
    /// What moves, as FROM->TO:ASSET:QTY; give it several times.
    #[arg(long = "leg", value_name = "LEG", value_parser = leg, required_unless_present = "capture")]
    legs: Vec<RealmLeg>,
    /// What must be true, as a formula; give it several times.
    #[arg(long = "if", value_name = "FORMULA")]
    conditions: Vec<String>,
    /// A hold that is captured in the same step; give it several times.
    #[arg(long, value_name = "HOLD")]
    capture: Vec<String>,
    /// What becomes of what there is no room for: reject (the default), clamp or burn.
    #[arg(long)]
    overflow: Option<String>,
    /// The type of the events; commit if absent.
    #[arg(long, value_name = "TYPE")]
    event: Option<String>,
    #[command(flatten)]
    terms: TermsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HoldArgs {
    /// The realm's name.
    realm: String,
    /// What is set aside and for whom, as FROM->TO:ASSET:QTY; give it several times.
    #[arg(long = "leg", value_name = "LEG", value_parser = leg, required = true)]
    legs: Vec<RealmLeg>,
    /// For how long, 30 days at most.
    #[arg(long = "in", value_name = "DURATION", value_parser = humantime::parse_duration, required_unless_present = "until")]
    span: Option<Duration>,
    /// Until when: 2030-01-31T09:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "span")]
    until: Option<SystemTime>,
    #[command(flatten)]
    terms: TermsArgs,
}

/// Something of a realm by its id, which is to end.
#[derive(Debug, Args)]
pub(crate) struct EndArgs {
    /// The realm's name.
    realm: String,
    /// The id: ho_17 of a hold, cm_17 of a commit.
    id: String,
    #[command(flatten)]
    terms: TermsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    #[command(flatten)]
    end: EndArgs,
    /// Only so much of an asset, as ASSET=QTY; give it several times. What is not taken is free again.
    #[arg(long = "part", value_name = "ASSET=QTY", value_parser = part)]
    parts: Vec<(String, u64)>,
}

impl PlayArgs {
    pub(super) async fn run(&self, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
        let mut request = PlayRequest::new(&self.by).terms(self.terms.terms());
        (request.args, request.explain) = (args(&self.args)?, self.explain);
        told(&client.realms().play(&self.realm, &self.play, &request).await?, self.explain, out)
    }
}

impl CommitArgs {
    pub(super) async fn run(&self, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
        let legs = self.legs.iter().cloned().map(|mut leg| {
            leg.overflow = self.overflow.clone().map(Overflow::from);
            leg.event.clone_from(&self.event);
            leg
        });
        let mut request = CommitRequest::new(legs).terms(self.terms.terms());
        request.conditions = self.conditions.iter().map(RealmCondition::new).collect();
        request.capture.clone_from(&self.capture);
        told(&client.realms().commit(&self.realm, &request).await?, false, out)
    }
}

impl HoldArgs {
    pub(super) async fn run(&self, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
        let mut request = HoldRequest::new(self.legs.iter().cloned(), Duration::ZERO).terms(self.terms.terms());
        (request.span, request.at) = (self.span, self.until.map(Into::into));
        told(&client.realms().hold(&self.realm, &request).await?, false, out)
    }
}

impl CaptureArgs {
    pub(super) async fn run(&self, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
        let EndArgs { realm, id, terms } = &self.end;
        let whole = CaptureRequest::whole().terms(terms.terms());
        let request = self.parts.iter().fold(whole, |request, (asset, qty)| request.part(asset, *qty));
        told(&client.realms().capture(realm, id, &request).await?, false, out)
    }
}

impl EndArgs {
    /// What is on hold is free again.
    pub(super) async fn release(&self, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
        told(&client.realms().release(&self.realm, &self.id, &self.terms.terms()).await?, false, out)
    }

    /// Undoes a commit.
    pub(super) async fn revert(&self, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
        told(&client.realms().revert(&self.realm, &self.id, &self.terms.terms()).await?, false, out)
    }
}

/// Shows what became of a hold.
pub(super) async fn held(realm: &str, hold: &str, client: &Client, out: Output) -> anyhow::Result<()> {
    out.answer(&client.realms().hold_state(realm, hold).await?, |hold: &RealmHold| {
        let rows = hold.legs.iter().map(|leg| [leg.from.clone(), leg.to.clone(), leg.asset.clone(), leg.qty.to_string()]);
        format!("{} is {}, until {}\n\n{}", hold.hold, hold.status, hold.until, table(["FROM", "TO", "ASSET", "QTY"], rows))
    })
}

/// Prints an answer; a failure as an exit code if it is a refusal.
fn told(answer: &RealmAnswer, explain: bool, out: Output) -> anyhow::Result<ExitCode> {
    out.answer(answer, |answer| tell::answered(answer, explain))?;
    Ok(if answer.is_done() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
