//! One lane for each endpoint: so many exchanges at once, and rests after failures.
//!
//! A lane is there only while it has something to say: while somebody uses it, or its endpoint fails. So the
//! map holds what is under way and what is in trouble, not every endpoint ever called. At its bound the lane
//! that would be forgotten soonest is forgotten; one in use never is, or its places could be taken twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::circuit::{Circuit, Pass};
use super::{Endpoint, Sent};

/// So many lanes at once.
const LANES_MAX: usize = 10_000;
/// So many places in a lane, whatever was asked for.
const PLACES_MAX: usize = 1_000;
/// How soon to ask again where there was no place.
const BUSY_RETRY: Duration = Duration::from_secs(1);

/// All lanes.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<HashMap<Key, Lane>>);

/// An endpoint, as its lane sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    space: String,
    url: String,
}

#[derive(Debug)]
struct Lane {
    circuit: Circuit,
    places: Arc<Semaphore>,
    /// How many places there are, taken ones included.
    limit: usize,
    /// Who waits for a place or has one.
    users: usize,
}

impl Lane {
    fn new(limit: usize) -> Lane {
        Lane { circuit: Circuit::default(), places: Arc::new(Semaphore::new(limit)), limit, users: 0 }
    }

    /// Follows a definition that was changed. Places that are taken are given up when they are next free.
    fn resize(&mut self, limit: usize) {
        if limit > self.limit {
            self.places.add_permits(limit - self.limit);
            self.limit = limit;
        } else if limit < self.limit {
            self.limit -= self.places.forget_permits(self.limit - limit);
        }
    }
}

/// How an exchange went, as far as the lane cares.
#[derive(Clone, Copy, Debug)]
pub(super) enum Went {
    Well,
    Wrong { asked: Option<Duration> },
}

/// A place in a lane, given back when dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    lanes: &'a Lanes,
    key: Key,
    permit: Option<OwnedSemaphorePermit>,
    pass: Option<Pass>,
}

impl Lanes {
    /// Until when nothing is sent to `endpoint`; `None`: something may be sent now.
    pub(super) fn ready_at(&self, endpoint: &Endpoint, now: Instant) -> Option<Instant> {
        self.0.lock().get(&key(endpoint))?.circuit.wait(now)
    }

    /// How many more exchanges may begin now: none during a rest, one that finds out after it.
    pub(super) fn room(&self, endpoint: &Endpoint, now: Instant) -> usize {
        let limit = limit(endpoint);
        let lanes = self.0.lock();
        let Some(lane) = lanes.get(&key(endpoint)) else { return limit };
        let room = limit.saturating_sub(lane.users);
        match lane.circuit.wait(now) {
            Some(_) => 0,
            None if lane.circuit.is_resting() => room.min(1),
            None => room,
        }
    }

    /// Takes a place, waiting for one for so long.
    pub(super) async fn enter(&self, endpoint: &Endpoint, patience: Duration) -> Result<Place<'_>, Sent> {
        let (mut place, places) = self.join(endpoint)?;
        match tokio::time::timeout(patience, places.acquire_owned()).await {
            Ok(Ok(permit)) => place.permit = Some(permit),
            _ => return Err(Sent::Held { why: "the endpoint is busy", retry_after: BUSY_RETRY }),
        }
        // It may have begun to fail while this one waited.
        let now = Instant::now();
        let passed = self.0.lock().get_mut(&place.key).map(|lane| lane.circuit.pass(now));
        match passed {
            Some(Err(until)) => return Err(resting(until, now)),
            Some(Ok(pass)) => place.pass = Some(pass),
            // A lane with a user is not forgotten.
            None => {}
        }
        Ok(place)
    }

    /// Becomes a user of the lane, unless it rests.
    fn join(&self, endpoint: &Endpoint) -> Result<(Place<'_>, Arc<Semaphore>), Sent> {
        let (key, limit, now) = (key(endpoint), limit(endpoint), Instant::now());
        let mut lanes = self.0.lock();
        if !lanes.contains_key(&key) && lanes.len() >= LANES_MAX && !forget_one(&mut lanes, now) {
            return Err(Sent::Held { why: "too many endpoints at once", retry_after: BUSY_RETRY });
        }
        let lane = lanes.entry(key.clone()).or_insert_with(|| Lane::new(limit));
        if let Some(until) = lane.circuit.wait(now) {
            return Err(resting(until, now));
        }
        lane.resize(limit);
        lane.users += 1;
        let places = Arc::clone(&lane.places);
        Ok((Place { lanes: self, key, permit: None, pass: None }, places))
    }
}

impl Place<'_> {
    /// Tells how the exchange went, and gives the place back.
    pub(super) fn leave(mut self, went: Went) {
        let Some(pass) = self.pass.take() else { return };
        if let Some(lane) = self.lanes.0.lock().get_mut(&self.key) {
            match went {
                Went::Well => lane.circuit.succeeded(pass),
                Went::Wrong { asked } => lane.circuit.failed(pass, Instant::now(), asked),
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lanes = self.lanes.0.lock();
        // Under the lock, so that a lane without users has all its places.
        drop(self.permit.take());
        let Some(lane) = lanes.get_mut(&self.key) else { return };
        if let Some(pass) = self.pass.take() {
            lane.circuit.given_up(pass);
        }
        lane.users = lane.users.saturating_sub(1);
        if lane.users == 0 && lane.circuit.is_calm() {
            lanes.remove(&self.key);
        }
    }
}

fn key(endpoint: &Endpoint) -> Key {
    Key { space: endpoint.space.clone(), url: endpoint.url.as_str().to_owned() }
}

fn limit(endpoint: &Endpoint) -> usize {
    endpoint.concurrency.clamp(1, PLACES_MAX)
}

fn resting(until: Instant, now: Instant) -> Sent {
    Sent::Held { why: "the endpoint is left alone for a while after failures", retry_after: until.saturating_duration_since(now) }
}

/// Forgets the lane without users whose rest ends first; `false` if all have some.
fn forget_one(lanes: &mut HashMap<Key, Lane>, now: Instant) -> bool {
    let idle = lanes.iter().filter(|(_, lane)| lane.users == 0);
    let first = idle.min_by_key(|(_, lane)| lane.circuit.wait(now)).map(|(key, _)| key.clone());
    first.is_some_and(|key| lanes.remove(&key).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::Target;

    fn endpoint(space: &str, path: &str, concurrency: usize) -> Endpoint {
        let url = Target::parse(&format!("https://example.com/{path}")).unwrap();
        Endpoint { space: space.to_owned(), url, secrets: Vec::new(), timeout: Duration::from_millis(20), concurrency }
    }

    /// How long they wait for a place here.
    const PATIENCE: Duration = Duration::from_millis(20);

    async fn fail(lanes: &Lanes, endpoint: &Endpoint, times: usize) {
        for _ in 0..times {
            lanes.enter(endpoint, PATIENCE).await.unwrap().leave(Went::Wrong { asked: None });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_lane_holds_only_its_own() {
        let lanes = Lanes::default();
        let (slow, other) = (endpoint("a", "slow", 2), endpoint("a", "other", 1));
        let first = lanes.enter(&slow, PATIENCE).await.unwrap();
        let second = lanes.enter(&slow, PATIENCE).await.unwrap();
        assert_eq!(lanes.room(&slow, Instant::now()), 0);
        assert!(matches!(lanes.enter(&slow, PATIENCE).await, Err(Sent::Held { why: "the endpoint is busy", .. })));
        lanes.enter(&other, PATIENCE).await.unwrap().leave(Went::Well);
        drop(first);
        assert_eq!(lanes.room(&slow, Instant::now()), 1);
        lanes.enter(&slow, PATIENCE).await.unwrap().leave(Went::Well);
        second.leave(Went::Well);
        assert!(lanes.0.lock().is_empty(), "calm lanes are not kept");
    }

    #[tokio::test(start_paused = true)]
    async fn the_failures_of_one_space_do_not_concern_another() {
        let lanes = Lanes::default();
        let (mine, theirs) = (endpoint("a", "hook", 4), endpoint("b", "hook", 4));
        fail(&lanes, &mine, 5).await;
        assert!(lanes.ready_at(&mine, Instant::now()).is_some());
        assert_eq!(lanes.room(&mine, Instant::now()), 0);
        assert!(matches!(lanes.enter(&mine, PATIENCE).await, Err(Sent::Held { .. })));
        assert_eq!(lanes.ready_at(&theirs, Instant::now()), None);
        assert_eq!(lanes.room(&theirs, Instant::now()), 4);

        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lanes.room(&mine, Instant::now()), 1, "one finds out");
        let probe = lanes.enter(&mine, PATIENCE).await.unwrap();
        assert!(matches!(lanes.enter(&mine, PATIENCE).await, Err(Sent::Held { .. })));
        drop(probe);
        lanes.enter(&mine, PATIENCE).await.unwrap().leave(Went::Well);
        assert_eq!(lanes.room(&mine, Instant::now()), 4);
        assert!(lanes.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waited_for_a_place_does_not_call_an_endpoint_that_began_to_rest() {
        let lanes = Lanes::default();
        let hook = endpoint("a", "hook", 1);
        fail(&lanes, &hook, 4).await;
        let last = lanes.enter(&hook, PATIENCE).await.unwrap();
        let (waited, ()) = tokio::join!(lanes.enter(&hook, PATIENCE), async { last.leave(Went::Wrong { asked: None }) });
        assert!(matches!(waited, Err(Sent::Held { .. })), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_concurrency_is_followed() {
        let lanes = Lanes::default();
        let (two, four) = (endpoint("a", "hook", 2), endpoint("a", "hook", 4));
        let mut places = Vec::new();
        for endpoint in [&two, &two, &four, &four] {
            places.push(lanes.enter(endpoint, PATIENCE).await.unwrap());
        }
        assert!(lanes.enter(&two, PATIENCE).await.is_err());
        places.pop();
        assert!(lanes.enter(&two, PATIENCE).await.is_err(), "three are still under way");
        places.truncate(1);
        assert!(lanes.enter(&two, PATIENCE).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_map_is_bounded() {
        let lanes = Lanes::default();
        let kept = endpoint("a", "kept", 1);
        let place = lanes.enter(&kept, PATIENCE).await.unwrap();
        for i in 0..LANES_MAX + 10 {
            fail(&lanes, &endpoint("a", &format!("{i}"), 1), 1).await;
        }
        assert_eq!(lanes.0.lock().len(), LANES_MAX);
        assert!(lanes.enter(&kept, PATIENCE).await.is_err(), "a lane in use keeps its bound");
        drop(place);
    }
}
