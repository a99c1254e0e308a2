//! `hermod limit`: may this subject do this now?

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use hermod_client::{CheckRequest, Checked, Time};

use crate::cli::{ClientArgs, WriteArgs};
use crate::output::{or_dash, table, verdict};

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 allowed, 1 refused, 2 error.

Examples:
  hermod limit check bot-7 tasks/create
  hermod limit check bot-7 llm/tokens --cost 1500 --json
  hermod limit check bot-7 mail/send && ./send-mail")]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Ask, and take the tokens if every rule admits it.
    Check {
        /// Who acts.
        subject: String,
        /// What it does.
        action: String,
        /// How many tokens that takes.
        #[arg(long, value_name = "N", default_value_t = 1)]
        cost: u64,
        #[command(flatten)]
        write: WriteArgs,
    },
}

pub(crate) async fn run(args: &LimitArgs) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    let Verb::Check { subject, action, cost, write } = &args.verb;
    let mut limit = client.limit();
    if let Some(key) = &write.idempotency_key {
        limit = limit.idempotency_key(key);
    }
    let checked = limit.check(&CheckRequest::new(subject, action).cost(*cost)).await?;
    out.answer(&checked, |checked| tell(checked, *cost, SystemTime::now()))?;
    Ok(if checked.allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The answer in a sentence, then the rules behind it.
fn tell(checked: &Checked, cost: u64, now: SystemTime) -> String {
    let mut text = match (checked.allowed, checked.never, checked.retry_at) {
        (true, _, _) if checked.rules.is_empty() => verdict(true, "allowed: no rule limits this"),
        (true, _, _) => verdict(true, "allowed"),
        (false, true, _) => verdict(false, &format!("refused by {}: a cost of {cost} never fits", bound_by(checked))),
        (false, false, Some(at)) => verdict(false, &format!("refused by {} until {at}{}", bound_by(checked), distance(at, now))),
        (false, false, None) => verdict(false, &format!("refused by {}", bound_by(checked))),
    };
    if checked.replayed {
        text += "\nThis is the answer given earlier for the same idempotency key.";
    }
    if checked.degraded {
        text += "\nThe answer is degraded: not all rules could be read.";
    }
    if !checked.rules.is_empty() {
        text += "\n\n";
        text += &rows(checked);
    }
    text
}

fn bound_by(checked: &Checked) -> &str {
    checked.bound_by.as_deref().unwrap_or("a rule")
}

/// How far away a time is by this machine's clock; nothing if that clock has passed it already.
fn distance(at: Time, now: SystemTime) -> String {
    let Ok(wait) = at.to_system_time().duration_since(now) else { return String::new() };
    let wait = humantime::format_duration(Duration::from_secs(wait.as_secs().max(1))).to_string();
    // Two units are exact enough for a person.
    format!(" (in about {})", wait.split(' ').take(2).collect::<Vec<_>>().join(" "))
}

fn rows(checked: &Checked) -> String {
    table(
        ["RULE", "ID", "LIMIT", "BURST", "REMAINING", "RESET AT", "RETRY AT"],
        checked.rules.iter().map(|rule| {
            [
                rule.name.clone(),
                rule.id.clone(),
                rule.limit.to_string(),
                rule.burst.to_string(),
                rule.remaining.to_string(),
                rule.reset_at.to_string(),
                or_dash(rule.retry_at),
            ]
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Checked {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_refusal_says_by_whom_and_until_when() {
        let refused = checked(r#"{"allowed":false,"rules":[],"bound_by":"burst","retry_at":"2026-02-03T04:05:16.000Z","durability":null}"#);
        let retry_at = refused.retry_at.unwrap().to_system_time();
        for (ago_s, told) in [(10, " (in about 10s)"), (0, " (in about 1s)"), (90_061, " (in about 1day 1h)")] {
            let text = tell(&refused, 1, retry_at - Duration::from_secs(ago_s));
            assert_eq!(text, format!("refused by burst until 2026-02-03T04:05:16.000Z{told}"));
        }
        assert_eq!(tell(&refused, 1, retry_at + Duration::from_secs(1)), "refused by burst until 2026-02-03T04:05:16.000Z");
        let never = checked(r#"{"allowed":false,"never":true,"rules":[],"bound_by":"burst"}"#);
        assert_eq!(tell(&never, 9, retry_at), "refused by burst: a cost of 9 never fits");
    }
}
