//! What a deck has for one subject: which messages are eligible, when it is quiet, and how caps count in its time zone.
//!
//! It holds from one turn of the messages' schedules to the next, for one version of the subject's profile.

use std::sync::Arc;

use super::bits::Bits;
use super::message::{Audience, Message};
use super::profile::Profile;
use super::quiet::{Hush, Quiet, Zone};
use super::shelf::{Caps, Shelf};
use crate::id::Subject;
use crate::int::Micros;
use crate::limit::index::{Attributes, Facts};
use crate::limit::meter::Meter;

/// What a deck has for one subject.
#[derive(Debug)]
pub struct Offer {
    pub(super) shelf: Arc<Shelf>,
    subject: Subject,
    profile: Arc<Profile>,
    /// Messages that name the subject, by ordinal. Their positions follow those of the shelf.
    own: Vec<Arc<Message>>,
    own_caps: Vec<u32>,
    pub(super) eligible: Bits,
    pub(super) critical: Bits,
    meters: Arc<[Meter]>,
    /// The subject's cap.
    pub(super) cap: Option<Meter>,
    zone: Zone,
    quiet: Option<Quiet>,
    mute_until: Option<Micros>,
    /// It holds from then on,
    pub(super) from: Micros,
    /// and not from then on: a message begins or ends.
    pub(super) until: Micros,
    /// The next time a message begins.
    pub(super) next_start: Option<Micros>,
    pub(super) weight_max: u32,
    pub(super) is_even: bool,
}

/// Why a message is not for a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is not active.
    Inactive,
    /// It begins later.
    NotYet(Micros),
    /// It is over.
    Over,
    /// It is for others.
    NotAddressed,
    /// Its condition does not hold.
    When,
    /// The subject opted out of one of its tags.
    OptedOut,
}

impl Offer {
    /// What `shelf`, and the messages that name the subject, have for it at `now`.
    pub fn new(shelf: Arc<Shelf>, own: Vec<Arc<Message>>, subject: &Subject, profile: &Arc<Profile>, now: Micros) -> Offer {
        let shared = shelf.messages.len();
        let mut eligible = Bits::new(shared + own.len()).or(&shelf.plain);
        let mut critical = Bits::new(shared + own.len()).or(&shelf.critical);
        let (mut from, mut until, mut next_start) = (Micros::ZERO, Micros::MAX, None);
        let mut look = |position: u32, message: &Message| {
            if unfit(message, subject, profile, &shelf.deck.id, now).is_none() {
                eligible.insert(position);
            }
            for turn in [message.starts_at, message.ends_at].into_iter().flatten().filter(|_| message.active) {
                if turn.0 > now { until = until.min(turn.0) } else { from = from.max(turn.0) }
            }
            if let Some(starts_at) = message.starts_at.filter(|at| at.0 > now && message.active) {
                next_start = Some(next_start.map_or(starts_at.0, |next: Micros| next.min(starts_at.0)));
            }
        };
        for position in &shelf.special {
            if let Some(message) = usize::try_from(*position).ok().and_then(|at| shelf.messages.get(at)) {
                look(*position, message);
            }
        }
        let mut caps = Caps::of(&shelf.caps);
        let mut own_caps = Vec::with_capacity(own.len());
        for (position, message) in (u32::try_from(shared).unwrap_or(u32::MAX)..).zip(&own) {
            look(position, message);
            own_caps.push(caps.number(message.cap.as_ref()));
            if message.critical {
                critical.insert(position);
            }
        }
        let zone = profile.timezone.clone().unwrap_or_else(|| shelf.deck.timezone.clone());
        let is_shared = own.is_empty() && (zone == Zone::utc() || !shelf.caps.iter().any(|cap| cap.is_calendar()));
        let meters = match is_shared {
            true => Arc::clone(&shelf.meters),
            false => caps.list.iter().map(|cap| cap.meter(&zone)).collect(),
        };
        let cap = shelf.deck.subject_cap.as_ref().map(|cap| cap.meter(&zone));
        let weight_max = own.iter().map(|message| message.weight).fold(shelf.weight_max, u32::max);
        let is_even = shelf.is_even && own.iter().all(|message| message.weight == weight_max) && shelf.weight_max == weight_max;
        let (quiet, mute_until) = (profile.quiet.or(shelf.deck.quiet_hours), profile.mute_until.map(|until| until.0));
        Offer {
            shelf,
            subject: subject.clone(),
            profile: Arc::clone(profile),
            own,
            own_caps,
            eligible,
            critical,
            meters,
            cap,
            zone,
            quiet,
            mute_until,
            from,
            until,
            next_start,
            weight_max,
            is_even,
        }
    }

    /// What the same has at another time; itself where it holds then, too. All positions are the same.
    pub(super) fn at_time(self: &Arc<Offer>, now: Micros) -> Arc<Offer> {
        match self.holds(now) {
            true => Arc::clone(self),
            false => Arc::new(Offer::new(Arc::clone(&self.shelf), self.own.clone(), &self.subject, &self.profile, now)),
        }
    }

    /// How many messages are looked at to make it.
    pub(super) fn looked_at(&self) -> usize {
        self.shelf.special.len() + self.own.len()
    }

    /// What was known of the subject when it was made.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// The shelf it was made from.
    pub fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    /// How many messages are eligible.
    pub fn len(&self) -> u64 {
        self.eligible.count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it holds at this time.
    pub fn holds(&self, now: Micros) -> bool {
        self.from <= now && now < self.until
    }

    /// How much memory it takes, about.
    pub fn bytes(&self) -> usize {
        let bits = (self.shelf.messages.len() + self.own.len()) / 4;
        let meters = if Arc::ptr_eq(&self.meters, &self.shelf.meters) { 0 } else { self.meters.len() * size_of::<Meter>() };
        size_of::<Offer>() + bits + meters + self.own.len() * 16
    }

    /// The message with this ordinal, unless it is deleted or for others.
    pub fn message(&self, ordinal: u32) -> Option<&Arc<Message>> {
        self.position(ordinal).and_then(|position| self.at(position))
    }

    /// All messages that could be for the subject, active or not.
    pub fn messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.shelf.messages.iter().chain(&self.own)
    }

    pub(super) fn position(&self, ordinal: u32) -> Option<u32> {
        let own = || self.own.binary_search_by_key(&ordinal, |message| message.ordinal).ok().map(|at| at + self.shelf.messages.len());
        self.shelf.position(ordinal).or_else(own).and_then(|position| u32::try_from(position).ok())
    }

    pub(super) fn at(&self, position: u32) -> Option<&Arc<Message>> {
        let position = usize::try_from(position).ok()?;
        self.shelf.messages.get(position).or_else(|| self.own.get(position - self.shelf.messages.len()))
    }

    /// The cap of a message, counted from 1, and its meter.
    pub(super) fn meter(&self, position: u32) -> Option<(u32, &Meter)> {
        let position = usize::try_from(position).ok()?;
        let own = || self.own_caps.get(position.checked_sub(self.shelf.messages.len())?);
        let number = self.shelf.cap_of.get(position).or_else(own).copied()?;
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        self.meters.get(at).map(|meter| (number, meter))
    }

    /// The messages that name the subject, active or not.
    pub fn own(&self) -> &[Arc<Message>] {
        &self.own
    }

    /// Why only critical messages are sent at `now`, and until when; none: it is neither muted nor quiet.
    pub fn hushed(&self, now: Micros) -> Option<(Hushed, Micros)> {
        self.hush(now).ok()
    }

    /// Whether only critical messages are sent at `now`, and until when that holds: `Err` if they are not, since when and until when.
    pub(super) fn hush(&self, now: Micros) -> Result<(Hushed, Micros), (Micros, Micros)> {
        if let Some(until) = self.mute_until.filter(|until| *until > now) {
            return Ok((Hushed::Muted, until));
        }
        let unmuted = self.mute_until.unwrap_or_default();
        match self.quiet.map(|quiet| quiet.at(&self.zone, now)) {
            Some(Hush::Quiet(until)) => Ok((Hushed::Quiet, until)),
            Some(Hush::Loud(since, until)) => Err((since.max(unmuted), until)),
            None => Err((unmuted, Micros::MAX)),
        }
    }
}

/// Why only critical messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hushed {
    /// The subject is muted.
    Muted,
    /// It is quiet.
    Quiet,
}

/// Why a message is not for a subject at `now`, if it is not.
pub fn unfit(message: &Message, subject: &Subject, profile: &Profile, deck: &crate::id::DeckId, now: Micros) -> Option<Unfit> {
    if !message.active {
        return Some(Unfit::Inactive);
    }
    if let Some(starts_at) = message.starts_at.filter(|at| at.0 > now) {
        return Some(Unfit::NotYet(starts_at.0));
    }
    if message.ends_at.is_some_and(|at| at.0 <= now) {
        return Some(Unfit::Over);
    }
    let is_addressed = match &message.to {
        Audience::Everyone => true,
        Audience::Subjects(subjects) => subjects.contains(subject),
        Audience::Tags(tags) => tags.iter().any(|tag| profile.tags.contains(tag)),
    };
    if !is_addressed {
        return Some(Unfit::NotAddressed);
    }
    if message.tags.iter().any(|tag| profile.opt_out.contains(tag)) {
        return Some(Unfit::OptedOut);
    }
    let attributes: &Attributes = &profile.attributes;
    let facts = Facts { subject: subject.as_str(), action: deck.as_str(), cost: 1, attributes };
    message.when.as_ref().filter(|when| !when.holds(&facts)).map(|_| Unfit::When)
}
