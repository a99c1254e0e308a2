//! `hermod rules`: limits on actions.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hermod_client::{Algorithm, Page, Rule, RuleDraft, Rules};

use crate::cli::{ClientArgs, PageArgs, WriteArgs};
use crate::output::{Output, or_dash, table};

#[derive(Debug, Args)]
#[command(after_help = "\
Rules of different names all apply; among rules of one name a subject's own wins.

Examples:
  hermod rules create --name burst --action tasks/create --limit 3 --per 10s
  hermod rules put vip-daily --name daily --action tasks/create --subject vip --limit 1000 --per day
  hermod rules list --json")]
pub(crate) struct RulesArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the rules.
    List(PageArgs),
    /// Show one rule.
    Get {
        /// The rule's id.
        id: String,
    },
    /// Make a rule.
    Create {
        /// The rule's id; the server makes one if absent.
        #[arg(long)]
        id: Option<String>,
        #[command(flatten)]
        rule: RuleArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Make a rule with this id, or replace the one that has it; what is used stays used.
    Put {
        /// The rule's id.
        id: String,
        #[command(flatten)]
        rule: RuleArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Remove a rule.
    Delete {
        /// The rule's id.
        id: String,
        #[command(flatten)]
        write: WriteArgs,
    },
}

#[derive(Debug, Args)]
struct RuleArgs {
    /// The action it limits: tasks/create.
    #[arg(long)]
    action: String,
    /// How many tokens per period.
    #[arg(long, value_name = "N")]
    limit: u64,
    /// The period: 30s, 5m, or second, minute, hour, day.
    #[arg(long, value_name = "DURATION")]
    per: String,
    /// The policy it belongs to.
    #[arg(long, default_value = "default")]
    name: String,
    /// Whom it is for; everyone if absent.
    #[arg(long)]
    subject: Option<String>,
    /// The most that can be taken at once; the limit if absent.
    #[arg(long, value_name = "N")]
    burst: Option<u64>,
    /// How it is counted; token_bucket if absent.
    #[arg(long)]
    algorithm: Option<String>,
    /// Answer only when the charge is on disk.
    #[arg(long)]
    durable: bool,
}

impl RuleArgs {
    fn draft(&self) -> RuleDraft {
        let mut draft = RuleDraft::new(&self.action, self.limit, &self.per).name(&self.name).durable(self.durable);
        draft.subject = self.subject.clone();
        draft.burst = self.burst;
        // The server knows its algorithms, and names them if this is none.
        draft.algorithm = self.algorithm.clone().map_or_else(Algorithm::default, Algorithm::from);
        draft
    }
}

pub(crate) async fn run(args: &RulesArgs) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    let rules = |write: &WriteArgs| with_key(client.rules(), write);
    match &args.verb {
        Verb::List(page) => {
            let page = match page.request() {
                Some(request) => client.rules().list(&request).await?,
                None => Page::whole(client.rules().list_all().await?),
            };
            out.page(&page, rows)?;
        }
        Verb::Get { id } => show(out, &client.rules().get(id).await?)?,
        Verb::Create { id, rule, write } => {
            let mut draft = rule.draft();
            draft.id = id.clone();
            show(out, &rules(write).create(&draft).await?)?;
        }
        Verb::Put { id, rule, write } => show(out, &rules(write).put(id, &rule.draft()).await?)?,
        Verb::Delete { id, write } => {
            rules(write).delete(id).await?;
            out.remark(&format!("Rule {id} is removed."))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn with_key<'a>(rules: Rules<'a>, write: &WriteArgs) -> Rules<'a> {
    match &write.idempotency_key {
        Some(key) => rules.idempotency_key(key),
        None => rules,
    }
}

fn show(out: Output, rule: &Rule) -> anyhow::Result<()> {
    out.answer(rule, |rule| rows(std::slice::from_ref(rule)))
}

fn rows(rules: &[Rule]) -> String {
    table(
        ["ID", "NAME", "ACTION", "SUBJECT", "LIMIT", "PER", "BURST", "DURABLE"],
        rules.iter().map(|rule| {
            [
                rule.id.clone(),
                rule.name.clone(),
                rule.action.clone(),
                or_dash(rule.subject.as_ref()),
                rule.limit.to_string(),
                rule.per.clone(),
                or_dash(rule.burst),
                if rule.durable { "yes".to_owned() } else { "no".to_owned() },
            ]
        }),
    )
}
