//! The limiter that takes over while the store cannot be reached: the same meters and leases, in this server's memory.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use hermod_core::limit::lease::LEASE_ID_MAX;
use hermod_core::limit::{Act, Check, Explained, Lease, Leased, Rules};
use hermod_core::{Micros, Operation, Partitions, Place, SpaceId, State, Subject};
use parking_lot::Mutex;

use super::lease::{Wanted, shared_id};
use super::{CheckAnswer, CheckAsk, LeaseAnswer, Ran};

/// Beyond this no new counters are made; who has none is let through, as the policy is to serve.
const BYTES_MAX: usize = 64 << 20;

/// Counters that live as long as an outage does. One shard may be away while the others answer, so each place has
/// its own.
#[derive(Debug)]
pub(crate) struct Local {
    partitions: Partitions,
    is_used: AtomicBool,
    places: Mutex<HashMap<Place, Counted>>,
}

/// What is counted of a place.
#[derive(Debug)]
struct Counted {
    state: State,
    /// The leases that were asked for here, by home and id, whatever became of them: of others nothing is known.
    leases: HashSet<(String, String)>,
}

impl Counted {
    fn new() -> Counted {
        Counted { state: State::new(0), leases: HashSet::new() }
    }

    /// How much memory it takes, about.
    fn bytes(&self) -> usize {
        size_of::<Counted>() + self.state.bytes() + self.leases.len() * (size_of::<(String, String)>() + 2 * LEASE_ID_MAX)
    }

    /// What an operation answers here, if there is room for it.
    fn run<O: Operation>(&mut self, op: &O, is_full: bool, now: Micros) -> Option<O::Answer> {
        self.state.is_full = is_full;
        op.apply(&mut self.state, now).ok()
    }
}

/// What of a place is counted, which is nothing where there is no room to begin.
fn counted<'a>(places: &'a mut HashMap<Place, Counted>, place: &Place, is_full: bool) -> Option<&'a mut Counted> {
    if is_full { places.get_mut(place) } else { Some(places.entry(place.clone()).or_insert_with(Counted::new)) }
}

fn is_full(places: &HashMap<Place, Counted>) -> bool {
    places.values().map(Counted::bytes).sum::<usize>() >= BYTES_MAX
}

impl Local {
    pub(crate) fn new(partitions: Partitions) -> Local {
        Local { partitions, is_used: AtomicBool::new(false), places: Mutex::default() }
    }

    /// The store answers again for this place: it knows better.
    pub(super) fn forget(&self, place: &Place) {
        // Looked at for every answer; locked only if there is something.
        if self.is_used.load(Ordering::Relaxed) {
            let mut places = self.places.lock();
            places.remove(place);
            self.is_used.store(!places.is_empty(), Ordering::Relaxed);
        }
    }

    /// What a limiter of our own says. The shared rules are those of this server's callers alone.
    pub(super) fn check(&self, space: &SpaceId, ask: &CheckAsk, own: &Rules, shared: &Rules, now: Micros) -> CheckAnswer {
        let mut places = self.places.lock();
        self.is_used.store(true, Ordering::Relaxed);
        let is_full = is_full(&places);
        let mut run = |subject: Option<&Subject>, act: Act, rules: &Rules| {
            let place = self.partitions.place(space, subject.map_or("", Subject::as_str));
            let check = Check::new(&place, subject, act, ask.cost, rules);
            let checked = counted(&mut places, &place, is_full).and_then(|counted| counted.run(&check, is_full, now));
            let checked = checked.map_or_else(|| Explained::unlimited(now, ask.cost), |checked| checked.explained(rules));
            Ran { checked, durability: hermod_engine::Durability::Deferred, is_charged: false, is_reserved: false, is_replayed: false }
        };
        let first = run(None, Act::Check, shared);
        let mut answer = CheckAnswer::of(first.checked.clone());
        if answer.is_allowed() {
            let second = run(Some(&ask.subject), Act::Check, own);
            if second.checked.verdict() != hermod_core::limit::Verdict::Allowed {
                run(None, Act::Undo, &first.checked.admitting());
                answer = CheckAnswer::new(run(None, Act::Peek, shared));
            }
            answer = answer.and(second);
        }
        answer.durability = None;
        answer
    }

    /// Takes a lease of our own; of the rules that all share it counts those of this server's callers alone.
    pub(super) fn acquire(&self, space: &SpaceId, wanted: &Wanted, now: Micros) -> LeaseAnswer {
        let mut places = self.places.lock();
        self.is_used.store(true, Ordering::Relaxed);
        let is_full = is_full(&places);
        let mut answer = LeaseAnswer::new(&wanted.lease, now);
        // Whether it was held before.
        let mut take = |lease: &Lease, home: &str, id: &str, answer: &mut LeaseAnswer| {
            let counted = counted(&mut places, lease.place(), is_full)?;
            let leased = counted.run(lease, is_full, now)?;
            counted.leases.insert((home.to_owned(), id.to_owned()));
            answer.add(&leased, None, false);
            Some(leased.was_held)
        };
        let (shared, own) = wanted.parts(&self.partitions, space);
        let id = shared_id(&wanted.subject, &wanted.lease);
        let was_held = shared.as_ref().and_then(|shared| take(shared, "", &id, &mut answer));
        if let Some(own) = own.filter(|_| answer.is_held) {
            take(&own, wanted.subject.as_str(), &wanted.lease, &mut answer);
            if let (Some(shared), Some(false), false) = (&shared, was_held, answer.is_held) {
                let release = Lease::release(shared.place().clone(), "", id);
                let _given_back = places.get_mut(shared.place()).and_then(|counted| counted.run(&release, is_full, now));
            }
        }
        answer
    }

    /// Keeps a lease, or gives it back; nothing if it was never asked for here.
    pub(super) fn keep(&self, op: &Lease, home: &str, id: &str, now: Micros) -> Option<Leased> {
        if !self.is_used.load(Ordering::Relaxed) {
            return None;
        }
        let mut places = self.places.lock();
        let counted = places.get_mut(op.place())?;
        let is_known = counted.leases.contains(&(home.to_owned(), id.to_owned()));
        is_known.then(|| counted.run(op, false, now)).flatten()
    }
}
