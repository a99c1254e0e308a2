//! queue: who waits claims a moment ahead, and is answered on time.
//!
//! A lease must be stored before anybody is told of it, and a disk takes its time. So whoever waits claims what falls due
//! next a little before, waits for the disk meanwhile, and holds the answer back until the delivery is due by the store's
//! clock: it is neither early, nor late by what the disk took. If nobody is there any more by then, it is given back, and was no
//! attempt. Who does not wait gets what is due, and nothing else.

use std::pin::Pin;
use std::time::Duration;

use futures_timer::Delay;
use futures_util::future::join;
use hermod_core::queue::Queue;
use hermod_core::{Micros, SpaceId};
use hermod_engine::{Clock, Engine};
use tokio::time::Instant;

use super::claim::WAIT_MAX;
use super::take::Haul;
use super::watch::Watch;
use super::{App, ClaimAsk, SettleAsk, Taken};
use crate::code::Problem;

/// So much ahead of its time a delivery is claimed: more than most disks take, and little enough for whoever wants to cancel it.
const AHEAD: Duration = Duration::from_millis(25);
/// How often who waits looks at a clock that is set by hand.
const MANUAL_EVERY: Duration = Duration::from_millis(10);
/// A store that has something due and hands out nothing is not asked more often than this.
const PAUSE: Duration = Duration::from_micros(500);

impl App {
    /// How far ahead one may claim who waits until `deadline`: nobody is answered after that.
    pub(super) fn ahead(&self, deadline: Instant) -> Micros {
        match self.clock {
            Clock::System => Micros::from_duration(AHEAD.min(deadline.saturating_duration_since(Instant::now()))).unwrap_or_default(),
            // It may stand still, and what was claimed ahead would be held back for ever.
            Clock::Manual(_) => Micros::ZERO,
        }
    }

    /// When whoever waits until `deadline` must look. `missed` is for what looks ahead have found not to be handed out: it is
    /// looked for again when it is due, and not before.
    pub(super) fn wake_at(&self, watch: &Watch, deadline: Instant, missed: &mut Option<Micros>) -> Instant {
        let now = Instant::now();
        if matches!(self.clock, Clock::Manual(_)) {
            return now + MANUAL_EVERY;
        }
        let (next, end) = watch.next();
        let due = next.map(|next| self.instant_of(next));
        let early = due.and_then(|due| due.checked_sub(AHEAD)).filter(|_| due <= Some(deadline));
        let is_missed = std::mem::replace(missed, next.filter(|_| early.is_some_and(|early| early <= now))) == next;
        let look_at = if is_missed { due } else { early.or(due) };
        let wake_at = look_at.into_iter().chain(end.map(|end| self.instant_of(end))).min().unwrap_or(now + WAIT_MAX);
        let wake_at = wake_at.clamp(now + PAUSE, now + WAIT_MAX);
        watch.rests_until().map_or(wake_at, |until| until.max(wake_at))
    }

    /// When it is that time by the store's clock, about.
    fn instant_of(&self, time: Micros) -> Instant {
        let span = time.since(self.watches.store_time(self.now())).to_duration();
        Instant::now() + span.min(WAIT_MAX)
    }

    /// Returns what was handed out when it is stored and due; or nothing, and it is given back, when nobody waits any more.
    pub(super) async fn hold_back(
        &self,
        space: &SpaceId,
        queue: &Queue,
        watch: &Watch,
        ask: &ClaimAsk,
        haul: Haul,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Vec<Taken>, Problem> {
        let (first, last) = (haul.first, haul.last);
        let Some(until) = haul.until else { return haul.stored().await };
        let taken = haul.stored().await?;
        loop {
            let Some(left) = self.left(until, last) else { return Ok(taken) };
            // Somebody has set the clock back.
            if left > 2 * AHEAD {
                break;
            }
            let earlier = watch.earlier();
            let (sooner, now) = (self.sooner(watch, first), Instant::now());
            if sooner.is_some_and(|sooner| sooner <= now)
                && let Ok(other) = self.take(space, queue, watch, ask, Micros::ZERO).await
                && !other.is_empty()
            {
                // One who is alone must not keep that waiting for what comes later.
                return join(other.stored(), self.put_back(space, queue, &taken)).await.0;
            }
            let sooner = sooner.map_or(now + left, |sooner| sooner.clamp(now + PAUSE, now + left.max(PAUSE)));
            tokio::select! {
                // The runtime's own timer counts in milliseconds and rounds up, and is looked at when there is nothing else to do.
                () = Delay::new(sooner.saturating_duration_since(now)) => {}
                () = earlier => {}
                () = stop.as_mut() => break,
                () = self.stopping() => break,
            }
        }
        self.put_back(space, queue, &taken).await;
        Ok(Vec::new())
    }

    /// How long it is until then; none if it is over. A store that has our clock is asked again, as that may be set back.
    fn left(&self, until: Instant, last: Micros) -> Option<Duration> {
        let left = until.saturating_duration_since(Instant::now());
        let by_clock = match self.engine {
            Engine::Embedded(_) => last.since(self.now()).to_duration(),
            Engine::Redis(_) => Duration::ZERO,
        };
        Some(left.max(by_clock)).filter(|left| !left.is_zero())
    }

    /// When something can be claimed before `first`, if nobody else looks for it.
    fn sooner(&self, watch: &Watch, first: Option<Micros>) -> Option<Instant> {
        if !watch.is_unattended() || watch.rests_until().is_some() {
            return None;
        }
        let (next, end) = watch.next();
        let soonest = next.into_iter().chain(end).min()?;
        (Some(soonest) < first).then(|| self.instant_of(soonest))
    }

    /// Gives back what nobody has seen: that was no attempt.
    pub(super) async fn put_back(&self, space: &SpaceId, queue: &Queue, taken: &[Taken]) {
        let held = taken.iter().map(|taken| (taken.id, taken.handed.token)).collect();
        self.give_back(space, queue, SettleAsk::Return, held).await;
    }
}
