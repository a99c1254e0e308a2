//! What became of every candidate, and what a subject was sent: for people who ask why.

use std::sync::Arc;

use hermod_catalog::Scope;
use hermod_core::pick::offer::{Hushed, unfit};
use hermod_core::pick::{Fate, Message, Unfit, View};
use hermod_core::{DeckId, Micros, Subject};

use super::super::{App, Caller};
use crate::code::Problem;

/// So many candidates are told of.
const CONSIDERED_MAX: usize = 1_000;

/// What became of one message.
#[derive(Clone, Debug)]
pub struct Looked {
    /// The message.
    pub message: Arc<Message>,
    /// What became of it.
    pub verdict: Verdict,
    /// When the subject got it last, if it is known.
    pub sent_at: Option<Micros>,
}

/// What became of the candidates of a pick.
#[derive(Clone, Debug)]
pub struct Considered {
    /// Those that name the subject, then the others in the order of the deck.
    pub told: Vec<Looked>,
    /// How many more there are.
    pub left_out: usize,
}

/// What became of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It could be sent.
    Allowed,
    /// It is not for the subject.
    Unfit(Unfit),
    /// It was sent as often as it may be, until then.
    MessageCap(Micros),
    /// The subject got as many as it may, until then.
    SubjectCap(Micros),
    /// Only critical messages are sent, until then.
    Hushed(Hushed, Micros),
}

impl Verdict {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Allowed => "allowed",
            Verdict::Unfit(Unfit::Inactive) => "inactive",
            Verdict::Unfit(Unfit::NotYet(_)) => "not_started",
            Verdict::Unfit(Unfit::Over) => "ended",
            Verdict::Unfit(Unfit::NotAddressed) => "not_addressed",
            Verdict::Unfit(Unfit::When) => "when_is_false",
            Verdict::Unfit(Unfit::OptedOut) => "opted_out",
            Verdict::MessageCap(_) => "message_cap",
            Verdict::SubjectCap(_) => "subject_cap",
            Verdict::Hushed(Hushed::Quiet, _) => "quiet",
            Verdict::Hushed(Hushed::Muted, _) => "muted",
        }
    }

    /// When it may change by itself.
    pub fn until(self) -> Option<Micros> {
        match self {
            Verdict::Unfit(Unfit::NotYet(at)) | Verdict::MessageCap(at) | Verdict::SubjectCap(at) | Verdict::Hushed(_, at) => Some(at),
            Verdict::Allowed | Verdict::Unfit(_) => None,
        }
    }
}

/// What a subject was sent of a deck.
#[derive(Clone, Debug)]
pub struct HistoryAnswer {
    /// How many picks there were.
    pub picks: u64,
    /// What was sent, unless it is deleted or for others by now, and when; newest first.
    pub sent: Vec<(Option<Arc<Message>>, Micros)>,
    /// How many messages were sent so long ago that no more is known.
    pub older: usize,
    /// How many picks are not settled yet.
    pub open: usize,
    /// When the subject's cap allows the next one; none: now.
    pub subject_cap_until: Option<Micros>,
}

fn candidates(view: &View, subject: &Subject, now: Micros) -> Considered {
    let offer = view.offer();
    let (profile, hushed, capped) = (offer.profile(), offer.hushed(now), view.subject_capped_until(now));
    let look = |message: &Arc<Message>| {
        let verdict = match unfit(message, subject, profile, &offer.shelf().deck().id, now) {
            Some(unfit) => Verdict::Unfit(unfit),
            None => match (hushed, view.capped_until(message, now), capped) {
                (Some((why, until)), ..) if !message.critical => Verdict::Hushed(why, until),
                (_, Some(until), _) => Verdict::MessageCap(until),
                (_, None, Some(until)) => Verdict::SubjectCap(until),
                (_, None, None) => Verdict::Allowed,
            },
        };
        let sent_at = view.history().entries.get(&message.ordinal).map(|entry| entry.sent_at);
        Looked { message: Arc::clone(message), verdict, sent_at }
    };
    // Those that name the subject follow the others in the deck; there are few of them, so they are told of first.
    let own = offer.own().iter();
    let shared = offer.messages().take(offer.messages().count() - own.len());
    let told: Vec<Looked> = own.chain(shared).take(CONSIDERED_MAX).map(look).collect();
    Considered { left_out: offer.messages().count() - told.len(), told }
}

impl App {
    /// What would become of every candidate of a pick.
    pub async fn pick_candidates(&self, caller: &Caller, deck: &DeckId, subject: &Subject) -> Result<Considered, Problem> {
        caller.need(Scope::DecksPick)?;
        let (view, now) = self.recall(caller, deck, subject).await?;
        Ok(candidates(&view, subject, now))
    }

    /// What a subject was sent of a deck; the newest `limit`.
    pub async fn pick_history(&self, caller: &Caller, deck: &DeckId, subject: &Subject, limit: usize) -> Result<HistoryAnswer, Problem> {
        caller.need(Scope::DecksRead)?;
        let (view, now) = self.recall(caller, deck, subject).await?;
        let history = view.history();
        let mut sent: Vec<_> = history.entries.iter().collect();
        sent.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.seq));
        let open = history.reserved.iter().filter(|one| one.fate == Fate::Open && one.expires > now).count();
        Ok(HistoryAnswer {
            picks: history.seq,
            sent: sent.into_iter().take(limit).map(|(ordinal, entry)| (view.offer().message(*ordinal).cloned(), entry.sent_at)).collect(),
            older: history.all_old().count(),
            open,
            subject_cap_until: view.subject_capped_until(now),
        })
    }
}
