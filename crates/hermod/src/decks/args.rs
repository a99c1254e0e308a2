//! Decks and messages as flags.

use std::time::SystemTime;

use anyhow::Context;
use clap::Args;
use hermod_client::{Cap, CapKind, DeckDraft, MessageDraft, QuietHours, Strategy, To};

use crate::input::time;

/// A flag per field. Words are plain text here: the server knows its own, and names them if one is wrong.
#[derive(Debug, Args)]
pub(crate) struct DeckArgs {
    /// fresh_lru (never sent at random, then longest ago; the default), weighted, priority or sequence.
    #[arg(long)]
    strategy: Option<String>,
    /// How many messages one subject gets, as 1/10m (the default) or 3/day/calendar; none for no bound.
    #[arg(long, value_name = "CAP", value_parser = cap_or_none)]
    subject_cap: Option<CapArg>,
    /// When nothing is sent: 22:00-08:00.
    #[arg(long, value_name = "FROM-TO", value_parser = quiet)]
    quiet_hours: Option<QuietHours>,
    /// The time zone of subjects that do not say theirs; UTC if absent.
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// How many sends of a subject are remembered exactly; 512 if absent.
    #[arg(long, value_name = "N")]
    history_max: Option<u32>,
}

impl DeckArgs {
    pub(super) fn draft(&self) -> DeckDraft {
        let mut draft = DeckDraft::new();
        draft.strategy = self.strategy.clone().map(Strategy::from);
        draft.subject_cap = self.subject_cap.clone().map(|cap| cap.0);
        draft.quiet_hours = self.quiet_hours.clone();
        draft.timezone = self.timezone.clone();
        draft.history_max = self.history_max;
        draft
    }
}

/// A cap, or that there is none.
#[derive(Clone, Debug)]
struct CapArg(Option<Cap>);

fn cap_or_none(text: &str) -> Result<CapArg, String> {
    if text == "none" { Ok(CapArg(None)) } else { cap(text).map(|cap| CapArg(Some(cap))) }
}

/// Reads `3/day/calendar`.
fn cap(text: &str) -> Result<Cap, String> {
    let wrong = || "must be TOKENS/PER or TOKENS/PER/KIND, such as 1/10m or 3/day/calendar".to_owned();
    let (tokens, per) = text.split_once('/').ok_or_else(wrong)?;
    let tokens = tokens.parse().map_err(|_| wrong())?;
    Ok(match per.split_once('/') {
        Some((per, kind)) => Cap::new(tokens, per).kind(CapKind::from(kind.to_owned())),
        None => Cap::new(tokens, per),
    })
}

pub(crate) fn quiet(text: &str) -> Result<QuietHours, &'static str> {
    let (from, to) = text.split_once('-').ok_or("must be such as 22:00-08:00")?;
    Ok(QuietHours::new(from, to))
}

/// A message. What is left out has its default, also where the message is there already.
#[derive(Debug, Args)]
pub(crate) struct MessageArgs {
    /// What is said, as JSON.
    #[arg(value_name = "JSON")]
    body: String,
    /// Only for this subject; give it several times or with commas.
    #[arg(long, value_name = "SUBJECT", value_delimiter = ',', conflicts_with = "to_tags")]
    to: Vec<String>,
    /// Only for subjects with one of these tags; give it several times or with commas.
    #[arg(long = "to-tag", value_name = "TAG", value_delimiter = ',')]
    to_tags: Vec<String>,
    /// Only for subjects of which this CEL expression is true.
    #[arg(long, value_name = "CEL")]
    when: Option<String>,
    /// How likely it is beside others; 1 if absent.
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// What goes first, where the deck goes by priority; 0 if absent.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Save it, but do not send it. Who got it keeps having got it.
    #[arg(long)]
    inactive: bool,
    /// From when on it is sent: 2030-01-31T09:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    starts_at: Option<SystemTime>,
    /// From when on it is not.
    #[arg(long, value_name = "TIME", value_parser = time)]
    ends_at: Option<SystemTime>,
    /// How often one subject gets it: 1/30days, 3/day/calendar; no bound of its own if absent.
    #[arg(long, value_name = "CAP", value_parser = cap)]
    cap: Option<Cap>,
    /// What a subject can opt out of; give it several times or with commas.
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    tags: Vec<String>,
    /// Send it in quiet hours and to the muted, too.
    #[arg(long)]
    critical: bool,
}

impl MessageArgs {
    pub(super) fn draft(&self) -> anyhow::Result<MessageDraft> {
        let body: serde_json::Value =
            serde_json::from_str(&self.body).context("the body is not JSON; a text needs quotes of its own: '\"hello\"'")?;
        let mut draft = MessageDraft::new(body);
        draft.to = match (self.to.is_empty(), self.to_tags.is_empty()) {
            (false, _) => Some(To::Subjects(self.to.clone())),
            (true, false) => Some(To::Tags(self.to_tags.clone())),
            (true, true) => None,
        };
        draft.when = self.when.clone();
        (draft.weight, draft.priority) = (self.weight, self.priority);
        draft.active = !self.inactive;
        draft.starts_at = self.starts_at.map(Into::into);
        draft.ends_at = self.ends_at.map(Into::into);
        draft.cap = self.cap.clone();
        draft.tags = self.tags.clone();
        draft.critical = self.critical;
        Ok(draft)
    }
}
