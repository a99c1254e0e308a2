//! `hermod limit`: may this subject do this now?

mod batch;
mod tell;

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use hermod_client::{
    AcquireRequest, Attributes, CheckRequest, Page, RefundRequest, RefusedSubject, ReserveRequest, ResetRequest, SettleOutcome,
};
use serde_json::Value;

use crate::noun::{NounArgs, WriteArgs};
use crate::output::table;
use batch::BatchArgs;
use tell::Lease;

pub(crate) const HELP: &str = "\
Exit codes: 0 allowed, 1 refused, 2 error. A reservation that had expired counts as refused.

Examples:
  hermod limit check bot-7 tasks/create
  hermod limit check bot-7 llm/tokens --cost 1500 --attribute plan=free --explain
  hermod limit check bot-7 mail/send && ./send-mail
  hermod limit acquire bot-7 browser/open --lease tab-1 --ttl 30s
  hermod limit reserve bot-7 llm/tokens --cost 1500 --ttl 2m
  hermod limit commit rs_... --actual 1210
  hermod limit batch -f checks.ndjson --json";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Ask, and charge every rule if every one admits it.
    Check {
        #[command(flatten)]
        ask: AskArgs,
        #[command(flatten)]
        cost: CostArgs,
        /// Only look: nothing is charged.
        #[arg(long)]
        peek: bool,
        /// Charge also what does not fit, up to as much again as the limit.
        #[arg(long, conflicts_with = "peek")]
        force: bool,
        /// Show every rule that was considered, and why it does not apply.
        #[arg(long)]
        explain: bool,
    },
    /// Give back what was charged; never below nothing used.
    Refund {
        #[command(flatten)]
        ask: AskArgs,
        #[command(flatten)]
        cost: CostArgs,
    },
    /// Forget what a subject has used; counters that all subjects share stay.
    Reset(AskArgs),
    /// Take a lease under the rules of algorithm concurrency.
    Acquire {
        #[command(flatten)]
        ask: AskArgs,
        /// The lease's id; taking one twice with the same id is one lease. Made up if absent.
        #[arg(long, value_name = "ID")]
        lease: Option<String>,
        /// For how long; as long as the rule allows if absent.
        #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
        ttl: Option<Duration>,
    },
    /// Keep a lease for longer.
    Renew {
        #[command(flatten)]
        held: HeldArgs,
        /// For how long from now; as long as it was taken for if absent.
        #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
        ttl: Option<Duration>,
    },
    /// Give a lease back.
    Release(HeldArgs),
    /// Charge an estimate as a check does, to be settled later.
    Reserve {
        #[command(flatten)]
        ask: AskArgs,
        #[command(flatten)]
        cost: CostArgs,
        /// How long it may be settled, 24h at most; 5m if absent.
        #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
        ttl: Option<Duration>,
    },
    /// Settle a reservation to what was really used.
    Commit {
        #[command(flatten)]
        reserved: ReservedArgs,
        /// How much it took; as much as was estimated if absent.
        #[arg(long, value_name = "N")]
        actual: Option<u64>,
    },
    /// Settle a reservation to nothing: the estimate is given back.
    Cancel(ReservedArgs),
    /// Show who was refused most since the server was started.
    Refused {
        /// At most this many, 1-100.
        #[arg(long, value_name = "N", default_value_t = 10)]
        limit: u32,
    },
    /// Make many independent checks, one for each line of a file.
    #[command(after_help = batch::HELP)]
    Batch(BatchArgs),
}

/// Who does what.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// Who acts.
    subject: String,
    /// What it does.
    action: String,
    /// Something the rules' conditions may look at, as JSON or else as text; give it several times.
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = attribute)]
    attributes: Vec<(String, Value)>,
    #[command(flatten)]
    write: WriteArgs,
}

impl AskArgs {
    fn attributes(&self) -> Attributes {
        self.attributes.iter().cloned().collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// How much that takes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    cost: u64,
}

/// A lease that is held.
#[derive(Debug, Args)]
pub(crate) struct HeldArgs {
    /// Who holds it.
    subject: String,
    /// Its id.
    lease: String,
    #[command(flatten)]
    write: WriteArgs,
}

/// A reservation that was made.
#[derive(Debug, Args)]
pub(crate) struct ReservedArgs {
    /// Its id.
    reservation: String,
    #[command(flatten)]
    write: WriteArgs,
}

/// `plan=free`, `age=42`, `tags=["a"]`.
fn attribute(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("must be name=value")?;
    Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()))))
}

pub(crate) async fn run(args: &NounArgs<Verb>) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    let limit = |write: &WriteArgs| write.on(client.limit());
    let is_yes = match &args.verb {
        Verb::Check { ask, cost: CostArgs { cost }, peek, force, explain } => {
            let mut request = CheckRequest::new(&ask.subject, &ask.action).cost(*cost).attributes(ask.attributes());
            (request.peek, request.force, request.explain) = (*peek, *force, *explain);
            let checked = limit(&ask.write).check(&request).await?;
            out.answer(&checked, |checked| tell::checked(checked, *cost, *peek))?;
            checked.allowed
        }
        Verb::Refund { ask, cost: CostArgs { cost } } => {
            let request = RefundRequest::new(&ask.subject, &ask.action).cost(*cost).attributes(ask.attributes());
            let refunded = limit(&ask.write).refund(&request).await?;
            out.answer(&refunded, |refunded| tell::refunded(refunded, *cost))?;
            true
        }
        Verb::Reset(ask) => {
            let request = ResetRequest::new(&ask.subject, &ask.action).attributes(ask.attributes());
            let forgotten = limit(&ask.write).reset(&request).await?;
            out.answer(&forgotten, |forgotten| tell::forgotten(forgotten, &ask.subject))?;
            true
        }
        Verb::Acquire { ask, lease, ttl } => {
            let mut request = AcquireRequest::new(&ask.subject, &ask.action).attributes(ask.attributes());
            (request.lease, request.ttl) = (lease.clone(), *ttl);
            let leased = limit(&ask.write).acquire(&request).await?;
            out.answer(&leased, |leased| tell::leased(leased, Lease::Acquired, SystemTime::now()))?;
            leased.allowed
        }
        Verb::Renew { held, ttl } => {
            let leased = limit(&held.write).renew(&held.subject, &held.lease, *ttl).await?;
            out.answer(&leased, |leased| tell::leased(leased, Lease::Renewed, SystemTime::now()))?;
            leased.allowed
        }
        Verb::Release(held) => {
            let leased = limit(&held.write).release(&held.subject, &held.lease).await?;
            out.answer(&leased, |leased| tell::leased(leased, Lease::Released, SystemTime::now()))?;
            leased.allowed
        }
        Verb::Reserve { ask, cost: CostArgs { cost }, ttl } => {
            let mut request = ReserveRequest::new(&ask.subject, &ask.action, *cost).attributes(ask.attributes());
            request.ttl = *ttl;
            let reserved = limit(&ask.write).reserve(&request).await?;
            out.answer(&reserved, |reserved| tell::reserved(reserved, *cost, SystemTime::now()))?;
            reserved.checked.allowed
        }
        Verb::Commit { reserved, actual } => {
            let settled = limit(&reserved.write).commit(&reserved.reservation, *actual).await?;
            out.answer(&settled, tell::settled)?;
            settled.outcome != SettleOutcome::Expired
        }
        Verb::Cancel(reserved) => {
            let settled = limit(&reserved.write).cancel(&reserved.reservation).await?;
            out.answer(&settled, tell::settled)?;
            settled.outcome != SettleOutcome::Expired
        }
        Verb::Refused { limit } => {
            out.page(&Page::whole(client.limit().refused(*limit).await?), refused)?;
            true
        }
        Verb::Batch(args) => return batch::run(args, &client, out).await,
    };
    Ok(if is_yes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn refused(subjects: &[RefusedSubject]) -> String {
    table(["SUBJECT", "REFUSED"], subjects.iter().map(|subject| [subject.subject.clone(), subject.refused.to_string()]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_attribute_is_json_or_else_text() {
        for (text, name, value) in [
            ("plan=free", "plan", json!("free")),
            ("age=42", "age", json!(42)),
            ("vip=true", "vip", json!(true)),
            ("id=\"42\"", "id", json!("42")),
            ("tags=[\"a\",\"b\"]", "tags", json!(["a", "b"])),
            ("sum=1=1", "sum", json!("1=1")),
            ("empty=", "empty", json!("")),
        ] {
            assert_eq!(attribute(text), Ok((name.to_owned(), value)), "{text}");
        }
        assert!(attribute("plan").is_err() && attribute("=free").is_err());
    }
}
