//! What is known of a subject: told, asked, forgotten.

use hermod_catalog::Scope;
use hermod_core::pick::{About, Known, Profile, Zone};
use hermod_core::{Once, Outcome, SpaceId, Subject};

use super::super::{App, Caller};
use super::profile_of;
use crate::code::{Code, Problem, conflict};

impl App {
    /// What is known of a subject. One nobody told anything of has an empty profile.
    pub async fn profile(&self, caller: &Caller, subject: &Subject) -> Result<Profile, Problem> {
        caller.need(Scope::DecksRead)?;
        let known = self.about(caller, |place| About::ask(place, subject.clone()), subject, None).await?.0;
        profile_of(&known.bytes)
    }

    /// The time zone that is known of a subject, for whoever needs no more of it.
    pub(in crate::app) async fn zone_of(&self, space: &SpaceId, subject: &Subject) -> Result<Option<Zone>, Problem> {
        let place = self.engine.partitions().place(space, subject.as_str());
        match self.engine.run(&About::ask(place, subject.clone()), None).await?.outcome {
            Outcome::Done(known) | Outcome::Replayed(known) => Ok(profile_of(&known.bytes)?.timezone),
            Outcome::Conflict => Err(conflict()),
        }
    }

    /// Replaces what is known of a subject; what is known then, and whether that was answered before.
    pub async fn put_profile(
        &self,
        caller: &Caller,
        subject: &Subject,
        profile: &Profile,
        once: Option<&Once>,
    ) -> Result<(Profile, bool), Problem> {
        caller.need(Scope::DecksPick)?;
        profile.check()?;
        let bytes = serde_json::to_vec(profile)
            .map_err(|fault| Problem::new(Code::Internal, "The profile could not be written.").caused_by(&fault))?;
        let tell = |place| About::tell(place, subject.clone(), bytes.clone().into());
        let (known, is_replayed) = self.about(caller, tell, subject, once).await?;
        Ok((profile_of(&known.bytes)?, is_replayed))
    }

    /// Forgets what is known of a subject; false if nothing was.
    pub async fn forget_profile(&self, caller: &Caller, subject: &Subject, once: Option<&Once>) -> Result<bool, Problem> {
        caller.need(Scope::DecksPick)?;
        Ok(self.about(caller, |place| About::forget(place, subject.clone()), subject, once).await?.0.was_known)
    }

    async fn about(
        &self,
        caller: &Caller,
        make: impl FnOnce(hermod_core::Place) -> About,
        subject: &Subject,
        once: Option<&Once>,
    ) -> Result<(Known, bool), Problem> {
        let place = self.engine.partitions().place(&caller.space, subject.as_str());
        let _growing = self.hints.changes.growing(&caller.space, subject);
        let outcome = self.engine.run(&make(place), once).await?.outcome;
        match outcome {
            Outcome::Done(known) => Ok((known, false)),
            Outcome::Replayed(known) => Ok((known, true)),
            Outcome::Conflict => Err(conflict()),
        }
    }
}
