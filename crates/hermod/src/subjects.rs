//! `hermod subjects`: what is known of a subject.

mod apply;
mod file;
mod form;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hermod_client::{Client, Profile, QuietHours, Time};

use crate::decks::quiet;
use crate::file::Item;
use crate::file::apply::FileArgs;
use crate::file::counted;
use crate::file::export::{Export, ExportArgs};
use crate::input::time;
use crate::noun::{NounArgs, TargetArgs, WriteArgs};
use crate::output::{Output, or_dash, table};
use form::Known;

pub(crate) const HELP: &str = "\
Examples:
  hermod subjects get ann
  hermod subjects put ann --tag vip --timezone Europe/Berlin --quiet 22:00-08:00 --opt-out ads
  hermod subjects put ann --mute-until 2030-01-31T09:00:00Z
  hermod subjects forget ann
  hermod subjects export ann ben -o subjects.yaml
  hermod subjects apply -f subjects.yaml --dry-run";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show what is known of a subject.
    Get {
        /// Who.
        subject: String,
    },
    /// Replace what is known of a subject.
    Put {
        /// Who.
        subject: String,
        #[command(flatten)]
        profile: ProfileArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Forget what is known of a subject; what it was sent is not forgotten.
    Forget(TargetArgs),
    /// Print what is known of some subjects as YAML, for `apply`. They are to be named: there is no list of all.
    Export {
        /// Who.
        #[arg(required = true, value_name = "SUBJECT")]
        subjects: Vec<String>,
        #[command(flatten)]
        to: ExportArgs,
    },
    /// Make what is known of subjects that of a YAML file.
    #[command(after_help = apply::HELP)]
    Apply(FileArgs),
}

/// A flag per field.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// What messages are addressed by; may be given several times.
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    tags: Vec<String>,
    /// What the conditions of messages ask for, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = attributes)]
    attributes: Option<serde_json::Value>,
    /// Of quiet hours and calendars; the deck's if absent.
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// When nothing is sent: 22:00-08:00; the deck's hours if absent.
    #[arg(long, value_name = "FROM-TO", value_parser = quiet)]
    quiet: Option<QuietHours>,
    /// Until when nothing is sent at all.
    #[arg(long, value_name = "TIME", value_parser = time)]
    mute_until: Option<std::time::SystemTime>,
    /// Messages with this tag are not sent; may be given several times.
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    opt_out: Vec<String>,
}

fn attributes(text: &str) -> Result<serde_json::Value, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|fault| fault.to_string())?;
    if value.is_object() { Ok(value) } else { Err("must be a JSON object".to_owned()) }
}

impl ProfileArgs {
    fn profile(&self) -> anyhow::Result<Profile> {
        let mut profile = Profile::default();
        profile.tags.clone_from(&self.tags);
        if let Some(attributes) = &self.attributes {
            profile.attributes = serde_json::from_value(attributes.clone())?;
        }
        profile.timezone.clone_from(&self.timezone);
        profile.quiet.clone_from(&self.quiet);
        profile.mute_until = self.mute_until.map(Time::from);
        profile.opt_out.clone_from(&self.opt_out);
        Ok(profile)
    }
}

pub(crate) async fn run(args: &NounArgs<Verb>) -> anyhow::Result<ExitCode> {
    let (client, out) = (args.client.client()?, args.client.output());
    match &args.verb {
        Verb::Get { subject } => out.answer(&client.subjects().get(subject).await?, show)?,
        Verb::Put { subject, profile, write } => {
            out.answer(&write.on(client.subjects()).put(subject, &profile.profile()?).await?, show)?;
        }
        Verb::Forget(TargetArgs { id, write }) => {
            write.on(client.subjects()).delete(id).await?;
            out.remark(&format!("What was known of {id} is forgotten."))?;
        }
        Verb::Export { subjects, to } => export(subjects, to, &client, out).await?,
        Verb::Apply(file) => return apply::run(file, &client, &args.client).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// Subjects in the form that `apply` reads.
async fn export(subjects: &[String], args: &ExportArgs, client: &Client, out: Output) -> anyhow::Result<()> {
    let mut list: Vec<Known> = Vec::new();
    for subject in subjects {
        // Who is named twice is there once.
        if list.iter().all(|known| known.subject != *subject) {
            list.push(Known { subject: subject.clone(), profile: client.subjects().get(subject).await? });
        }
    }
    let what = format!("What is known of {} is", counted(list.len(), Known::NOUN));
    Export { fields: Vec::new(), list: Some(("subjects", &list)), order: &[] }.write(args, out, &what)
}

fn show(profile: &Profile) -> String {
    let list = |list: &[String]| or_dash(Some(list.join(",")).filter(|text| !text.is_empty()));
    let attributes = serde_json::to_string(&profile.attributes).unwrap_or_default();
    table(
        ["TAGS", "ATTRIBUTES", "ZONE", "QUIET", "MUTED UNTIL", "OPT OUT"],
        [[
            list(&profile.tags),
            or_dash(Some(attributes).filter(|text| text != "{}")),
            or_dash(profile.timezone.clone()),
            or_dash(profile.quiet.as_ref().map(|quiet| format!("{}-{}", quiet.from, quiet.to))),
            or_dash(profile.mute_until.map(|until| until.to_string())),
            list(&profile.opt_out),
        ]],
    )
}
