//! `hermod doctor`: is this configuration going to work?

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::config::{ConfigArgs, load};
use crate::output::{Output, verdict};
use crate::server;

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 all is well, 1 something is wrong, 2 the configuration cannot be read.

Examples:
  hermod doctor
  hermod doctor --store redis://localhost:6379")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let effective = load(&args.config)?;
    effective.warn();
    let findings = server::doctor(&effective.config).await;
    let out = Output::new(args.json);
    let all = json!({ "items": findings.iter().map(|f| json!({ "ok": f.ok, "what": f.what, "advice": f.advice })).collect::<Vec<_>>() });
    out.answer(&all, |_| {
        let lines = findings.iter().map(|finding| {
            let word = if finding.ok { verdict(true, "ok    ") } else { verdict(false, "wrong ") };
            match &finding.advice {
                Some(advice) => format!("{word} {}\n       {advice}\n", finding.what),
                None => format!("{word} {}\n", finding.what),
            }
        });
        lines.collect()
    })?;
    Ok(if findings.iter().all(|finding| finding.ok) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
