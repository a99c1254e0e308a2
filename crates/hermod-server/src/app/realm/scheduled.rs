//! realm: plays that were scheduled, run exactly once.
//!
//! What is scheduled lies in the realm's own partition, written in the step of the commit that schedules it. The step that runs it
//! takes it away. So neither a crash nor two servers at once can lose it or run it twice.

use std::sync::Arc;

use hermod_core::realm::args::Raw;
use hermod_core::realm::due::DUE_MAX;
use hermod_core::realm::formula::Datum;
use hermod_core::realm::plan::{Act, Plan};
use hermod_core::realm::{Apply, Plans, ReadDue, Realm, Refusal, Scheduled, Zones};
use hermod_core::{Micros, Once, Outcome, RealmId, SpaceId};

use super::{App, EnactAsk, call_of, lost};
use crate::code::{Code, Problem};

impl App {
    /// Runs what is due in a realm; when something is due next.
    pub(crate) async fn run_due(&self, space: &SpaceId, id: &RealmId) -> Result<(), Problem> {
        let place = self.engine.partitions().place(space, id.as_str());
        let Outcome::Done(waiting) = self.engine.run(&ReadDue::new(place, id.clone(), DUE_MAX), None).await?.outcome else {
            return Err(lost());
        };
        for (at, what) in &waiting.first {
            if *at > waiting.now {
                self.remind(*at, waiting.now, space, id);
                return Ok(());
            }
            // A fault of ours in one must not hold up the others.
            let (app, of, realm, one) = (self.clone(), space.clone(), id.clone(), what.clone());
            match tokio::spawn(async move { app.run_one(&of, &realm, &one).await }).await {
                Ok(ran) => ran?,
                Err(fault) => {
                    tracing::error!(realm = %id, error = %fault, "a scheduled play failed, and is dropped");
                    self.drop_scheduled(space, id, what).await?;
                }
            }
        }
        // There may be more; the other realms have their turn first.
        if waiting.first.len() == DUE_MAX {
            self.remind(waiting.now, waiting.now, space, id);
        }
        Ok(())
    }

    /// Has this realm looked at then. Times are the store's, and its clock is another than this server's.
    pub(super) fn remind(&self, at: Micros, now: Micros, space: &SpaceId, id: &RealmId) {
        self.agenda.note(self.now().plus(at.since(now)), space, id);
    }

    async fn run_one(&self, space: &SpaceId, id: &RealmId, what: &[u8]) -> Result<(), Problem> {
        let Some((seq, scheduled)) = Scheduled::read(what) else {
            tracing::error!(realm = %id, "what was scheduled is not understood, and is dropped");
            return self.drop_scheduled(space, id, what).await;
        };
        // No caller's key holds a space.
        let part = usize::try_from(seq).unwrap_or(usize::MAX);
        let once = Once::new(&format!("scheduled.{}", scheduled.number), what)?.part(part);
        let args: std::collections::BTreeMap<Arc<str>, Raw> = scheduled
            .args
            .iter()
            .map(|(name, datum)| {
                let raw = match datum {
                    Datum::Int(number) => Raw::Int(*number),
                    Datum::Text(text) => Raw::Text(Arc::clone(text)),
                    Datum::Bool(_) => Raw::Other("true or false"),
                };
                (Arc::clone(name), raw)
            })
            .collect();
        let (by, guild) = (Arc::clone(&scheduled.by), Arc::clone(&scheduled.guild));
        let ask = EnactAsk { realm: id.clone(), once, by, guild, note: "".into(), is_dry: false };
        let plans = |realm: Arc<Realm>, zones: &Zones| -> Arc<dyn Plans> {
            let mut call = call_of(realm, &ask, &scheduled.play, args.clone(), zones);
            call.done = Some(what.into());
            Arc::new(call)
        };
        match self.enact(space, id, &plans, Some(&ask.once)).await {
            Ok(_) => Ok(()),
            // Another server was faster.
            Err(problem) if problem.code == Code::Gone => Ok(()),
            // A definition that this server cannot read is no reason to lose it: a newer one can.
            Err(problem) if problem.code.is_retryable() || problem.code == Code::RealmNotFound => Err(problem),
            Err(problem) => {
                tracing::error!(realm = %id, play = %scheduled.play, code = %problem.code, "a scheduled play cannot be run, and is dropped");
                self.drop_scheduled(space, id, what).await
            }
        }
    }

    async fn drop_scheduled(&self, space: &SpaceId, id: &RealmId, what: &[u8]) -> Result<(), Problem> {
        let place = self.engine.partitions().place(space, id.as_str());
        let version = self.realm_of(space, id)?.version;
        let plan = Plan { act: Act::Refuse, version, done: Some(what.into()), told: Refusal::new("dropped").pack(), ..Plan::look([], []) };
        self.engine.run(&Apply::new(place, id.clone(), Arc::new(plan)), None).await?;
        Ok(())
    }
}
