//! The owners of recipients: nothing is indexed, everybody is searched for.

use std::collections::BTreeMap;

use hermod_core::queue::claim::Failing;
use hermod_core::queue::worker::{Act, Member};
use hermod_core::queue::{Binding, Explained, InFlight, Number, Rolled, Staffed, Standing, Terms, Token, Turnover, Why, Woken, Working};

use super::{QueueModel, us};

#[derive(Clone, Debug)]
struct Worker {
    incarnation: u64,
    until: u64,
    gone: Option<Why>,
    is_draining: bool,
    is_closed: bool,
    is_leaving: bool,
    points: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Owners {
    workers: BTreeMap<String, Worker>,
    turn: Option<(u64, String)>,
    bound: BTreeMap<String, Binding>,
    idle: BTreeMap<String, u64>,
    given: BTreeMap<String, u64>,
    turnover: Turnover,
    is_adopting: bool,
}

impl QueueModel {
    /// Begins a step.
    pub fn begin(&mut self, terms: Terms, now: u64) {
        (self.terms, self.now) = (terms, now);
        self.owners.given.clear();
        self.owners.turnover = Turnover::default();
    }

    /// Whoever is alive, to choose from.
    pub fn alive(&self) -> Vec<(String, u64)> {
        self.owners
            .workers
            .iter()
            .filter(|(_, worker)| worker.gone.is_none())
            .map(|(name, worker)| (name.clone(), worker.incarnation))
            .collect()
    }

    fn owner(&self, to: &str) -> String {
        self.owners.bound.get(to).map(|binding| binding.owner().to_owned()).unwrap_or_default()
    }

    /// A recipient's first, if it waits.
    fn head(&self, to: &str) -> Option<(u64, Number)> {
        let first = self.items.values().find(|item| item.to() == to && self.is_first(item));
        first.map(|item| (item.at, item.number))
    }

    fn has_line(&self, to: &str) -> bool {
        self.items.values().any(|item| item.to() == to && item.died == 0 && !item.is_lifted)
    }

    /// Changes one delivery; its recipient is given to somebody if it has another first.
    fn moving(&mut self, number: Number, change: impl FnOnce(&mut super::Item)) {
        let Some(to) = self.items.get(&number).map(|item| item.to().to_owned()) else { return };
        let is_ours = self.terms.is_sticky && !to.is_empty();
        let (before, had_line) = (self.head(&to), self.has_line(&to));
        if let Some(item) = self.items.get_mut(&number) {
            change(item);
        }
        if !is_ours {
            return;
        }
        match (had_line, self.has_line(&to)) {
            (true, false) => self.rest(&to),
            (false, true) => drop(self.owners.idle.remove(&to)),
            _ => {}
        }
        if let Some(head) = self.head(&to).filter(|head| Some(*head) != before) {
            self.give(&to, head.0);
        }
    }

    fn rest(&mut self, to: &str) {
        self.owners.idle.remove(to);
        if self.owners.bound.get(to).is_some_and(|binding| binding.pin.is_empty()) {
            self.owners.idle.insert(to.to_owned(), self.now);
        }
    }

    fn give(&mut self, to: &str, at: u64) {
        let owner = self.route(to);
        let given = self.owners.given.entry(owner).or_insert(at);
        *given = at.min(*given);
    }

    /// A delivery leaves its line.
    pub(super) fn lift(&mut self, number: Number) {
        self.moving(number, |item| (item.is_lifted, item.until) = (true, 0));
    }

    /// It joins it again.
    pub(super) fn land(&mut self, number: Number) {
        self.moving(number, |item| item.is_lifted = false);
    }

    /// Both, at another time.
    pub(super) fn put_back(&mut self, number: Number, at: u64) {
        self.lift(number);
        if let Some(item) = self.items.get_mut(&number) {
            (item.at, item.blocks) = (at, false);
        }
        self.land(number);
    }

    pub(super) fn block(&mut self, number: Number, at: u64) {
        self.moving(number, |item| (item.until, item.at, item.blocks) = (0, at, true));
    }

    /// One that was claimed ahead of its time goes back there, and is waited for if that is a pause after an attempt; any other to
    /// when it was due. That time.
    pub(super) fn put_back_ahead(&mut self, number: Number) -> u64 {
        let Some(item) = self.items.get(&number) else { return 0 };
        let at = if item.at > self.now { item.at } else { item.due };
        match at > item.due && !item.to().is_empty() {
            true => self.block(number, at),
            false => self.put_back(number, at),
        }
        at
    }

    fn may_have_more(&self, name: &str) -> bool {
        self.owners.workers.get(name).is_some_and(|worker| worker.gone.is_none() && !worker.is_draining)
    }

    fn route(&mut self, to: &str) -> String {
        let binding = self.owners.bound.get(to).cloned().unwrap_or_default();
        let owner = binding.owner().to_owned();
        if self.may_have_more(&binding.pin) {
            if *owner != *binding.pin {
                self.bind(to, &binding.pin, Why::Pinned);
            }
            return binding.pin.into();
        }
        if self.may_have_more(&owner) {
            return owner;
        }
        let why = match self.owners.workers.get(&owner) {
            _ if binding.changes.is_empty() => Why::First,
            _ if owner.is_empty() => Why::Adopted,
            Some(worker) => worker.gone.unwrap_or(Why::Drained),
            None => Why::Gone,
        };
        let mut ring: Vec<(u64, String)> = Vec::new();
        for (name, worker) in self.owners.workers.iter().filter(|(name, _)| self.may_have_more(name)) {
            ring.extend(worker.points.iter().map(|point| (*point, name.clone())));
        }
        ring.sort_unstable();
        let turn = self.owners.turn.clone();
        let next = ring.iter().find(|point| turn.as_ref().is_some_and(|turn| *point > turn)).or(ring.first()).cloned();
        let name = next.as_ref().map(|(_, name)| name.clone()).unwrap_or_default();
        if next.is_some() {
            self.owners.turn = next;
        }
        if name != owner {
            self.bind(to, &name, why);
        }
        name
    }

    fn bind(&mut self, to: &str, owner: &str, why: Why) {
        self.owners.turnover.moved += u16::from(why != Why::First || self.owners.is_adopting);
        let epoch = self.number(self.now);
        let now = us(self.now);
        let binding = self.owners.bound.entry(to.to_owned()).or_default();
        binding.epoch = epoch;
        binding.changes.insert(0, (now, why, owner.into()));
        binding.changes.truncate(4);
    }

    pub(super) fn turnover(&self) -> Turnover {
        self.owners.turnover
    }

    pub(super) fn woken(&self) -> Vec<Woken> {
        let first = |owner: &str| self.waiting_for(owner).first().map(|(at, _)| *at);
        let given = self.owners.given.iter().filter(|(owner, _)| !owner.is_empty());
        given.filter_map(|(owner, given)| first(owner).filter(|at| at >= given).map(|at| (owner.as_str().into(), us(at)))).collect()
    }

    /// What waits of the recipients of this worker.
    fn waiting_for(&self, owner: &str) -> Vec<(u64, Number)> {
        let is_of = |number: &Number| self.items.get(number).is_some_and(|item| !item.to().is_empty() && self.owner(item.to()) == owner);
        self.firsts().into_iter().filter(|(_, number)| is_of(number)).collect()
    }

    fn held_by(&self, owner: &str) -> Vec<Number> {
        let is_of = |item: &&super::Item| item.until > 0 && !item.to().is_empty() && self.owner(item.to()) == owner;
        self.items.values().filter(is_of).map(|item| item.number).collect()
    }

    pub(super) fn mine(&self, worker: Option<(&str, u64)>) -> Vec<(u64, Number)> {
        match worker {
            Some((name, _)) if self.terms.is_sticky => self.waiting_for(name),
            _ => self.firsts(),
        }
    }

    pub(super) fn standing(&self, worker: Option<(&str, u64)>) -> (Standing, bool) {
        if !self.terms.is_sticky {
            return (Standing::Live, true);
        }
        let known = worker.and_then(|(name, incarnation)| {
            self.owners.workers.get(name).filter(|worker| worker.gone.is_none() && worker.incarnation == incarnation)
        });
        match known {
            None => (Standing::Gone, false),
            Some(worker) if worker.is_draining => (Standing::Draining, true),
            Some(worker) => (Standing::Live, !worker.is_leaving),
        }
    }

    pub(super) fn expire(&mut self) {
        if !self.terms.is_sticky {
            return;
        }
        for worker in self.owners.workers.values_mut().filter(|worker| worker.gone.is_none() && worker.until <= self.now) {
            worker.gone = Some(if worker.is_closed { Why::Closed } else { Why::Silent });
            worker.is_leaving = true;
            self.owners.turnover.lost += 1;
        }
    }

    /// Whether it is dead.
    pub(super) fn end_lease(&mut self, number: Number, failing: &Failing) -> bool {
        let Some(item) = self.items.get(&number) else { return false };
        if item.attempts >= item.delivery.max_attempts.unwrap_or(failing.max_attempts) {
            self.exhaust(number, failing.drops, self.now);
            return true;
        }
        self.put_back_ahead(number);
        false
    }

    fn move_head(&mut self, number: Number) {
        let Some(item) = self.items.get(&number) else { return };
        let (to, at) = (item.to().to_owned(), item.at);
        self.give(&to, at);
    }

    /// How many died of what is held by whoever is gone.
    pub(super) fn clear_up(&mut self, failing: &Failing, most: usize) -> u16 {
        self.expire();
        self.tend(failing, most)
    }

    pub(super) fn tend(&mut self, failing: &Failing, most: usize) -> u16 {
        let (mut dead, mut left) = (0, most);
        while left > 0 && self.terms.is_sticky {
            let leaving = self.owners.workers.iter().find(|(_, worker)| worker.is_leaving);
            let Some((name, worker)) = leaving.map(|(name, worker)| (name.clone(), worker.clone())) else { break };
            if !worker.is_draining || worker.gone.is_some() {
                for number in self.held_by(&name).into_iter().take(left) {
                    left -= 1;
                    dead += u16::from(self.end_lease(number, failing));
                }
            }
            if worker.is_draining || worker.gone.is_some() {
                for (_, number) in self.waiting_for(&name).into_iter().take(left) {
                    left -= 1;
                    self.move_head(number);
                }
            }
            if left > 0 {
                match self.owners.workers.get_mut(&name) {
                    Some(worker) if worker.gone.is_none() => worker.is_leaving = false,
                    _ => drop(self.owners.workers.remove(&name)),
                }
            }
        }
        if self.terms.is_sticky && self.has_takers() {
            self.owners.is_adopting = true;
            for (_, number) in self.waiting_for("").into_iter().take(left) {
                self.move_head(number);
            }
            self.owners.is_adopting = false;
        }
        dead
    }

    fn has_takers(&self) -> bool {
        self.owners.workers.keys().any(|name| self.may_have_more(name))
    }

    /// What `Staff` answers. `points` are those of each.
    pub fn staff(&mut self, act: Act, ttl: u64, idle_after: u64, failing: &Failing, members: &[Member], points: &[Vec<u64>]) -> Staffed {
        let told = members.iter().zip(points).map(|(member, points)| self.tell(act, ttl, member, points)).collect();
        let dead = self.clear_up(failing, 25);
        let over: Vec<String> =
            self.owners.idle.iter().filter(|(_, since)| **since + idle_after <= self.now).map(|(to, _)| to.clone()).collect();
        for to in over {
            self.owners.idle.remove(&to);
            self.owners.bound.remove(&to);
        }
        let parked = self.waiting_for("").len();
        let is_leaving = self.owners.workers.values().any(|worker| worker.is_leaving);
        Staffed {
            now: us(self.now),
            next_end: self.owners.workers.values().filter(|worker| worker.gone.is_none()).map(|worker| us(worker.until)).min(),
            dead,
            parked: u64::try_from(parked).unwrap_or(0),
            more: is_leaving || (self.has_takers() && parked > 0),
            members: told,
            woken: self.woken(),
            turnover: self.turnover(),
        }
    }

    fn tell(&mut self, act: Act, ttl: u64, member: &Member, points: &[u64]) -> (Standing, u64) {
        let name = member.worker.as_str().to_owned();
        let until = (self.now + ttl).saturating_sub(member.age.get());
        let mut incarnation = member.incarnation;
        if let Act::Join { .. } = act {
            if incarnation == 0 {
                incarnation = self.number(self.now);
            }
            match self.owners.workers.get(&name) {
                Some(worker) if worker.incarnation > incarnation => return (Standing::Gone, worker.incarnation),
                Some(worker) if worker.incarnation == incarnation && worker.gone.is_none() => {}
                _ => {
                    let is_leaving = !self.held_by(&name).is_empty();
                    let points = points.to_vec();
                    let worker = Worker { incarnation, until, gone: None, is_draining: false, is_closed: false, is_leaving, points };
                    self.owners.workers.insert(name, worker);
                    return (Standing::Live, incarnation);
                }
            }
        }
        let is_asked =
            |worker: &&mut Worker| worker.incarnation == incarnation || (incarnation == 0 && matches!(act, Act::Drain | Act::Leave));
        let known = self.owners.workers.get_mut(&name).filter(|worker| worker.gone.is_none()).filter(is_asked);
        let Some(worker) = known else { return (Standing::Gone, 0) };
        match act {
            Act::Join { .. } | Act::Renew => (worker.until, worker.is_closed) = (worker.until.max(until), false),
            Act::Close => (worker.until, worker.is_closed) = (worker.until.min(until), true),
            Act::Drain => (worker.is_draining, worker.is_leaving) = (true, true),
            Act::Leave => {
                (worker.gone, worker.is_leaving) = (Some(Why::Left), true);
                return (Standing::Gone, worker.incarnation);
            }
        }
        (if worker.is_draining { Standing::Draining } else { Standing::Live }, worker.incarnation)
    }

    /// What `Look` answers.
    pub fn look(&mut self, to: &str, pin: Option<Option<&str>>) -> Explained {
        self.expire();
        if let Some(pin) = pin.filter(|_| self.terms.is_sticky) {
            let mut binding = self.owners.bound.remove(to).unwrap_or_default();
            binding.pin = pin.unwrap_or("").into();
            if !binding.pin.is_empty() || !binding.changes.is_empty() {
                self.owners.bound.insert(to.to_owned(), binding);
            }
            self.owners.idle.remove(to);
            match self.head(to) {
                Some((at, _)) => self.give(to, at),
                None if !self.has_line(to) => self.rest(to),
                None => {}
            }
        }
        let owner = self.owner(to);
        let worker = self
            .owners
            .workers
            .get(&owner)
            .filter(|worker| worker.gone.is_none())
            .map(|worker| (if worker.is_draining { Standing::Draining } else { Standing::Live }, worker.incarnation, us(worker.until)));
        let line: Vec<_> = self.items.values().filter(|item| item.to() == to && item.died == 0).collect();
        let held = line.iter().find(|item| item.until > 0).map(|item| item.number);
        let head = held.or_else(|| self.head(to).map(|(_, number)| number)).and_then(|number| self.items.get(&number)).map(|item| {
            InFlight { number: item.number, at: us(item.at), attempts: item.attempts, token: Token(item.token), until: us(item.until) }
        });
        let length = u64::try_from(line.len()).unwrap_or(0);
        Explained {
            now: us(self.now),
            binding: self.owners.bound.get(to).cloned(),
            worker,
            head,
            length,
            woken: self.woken(),
            turnover: self.turnover(),
        }
    }

    /// What `Roll` answers.
    pub fn roll(&self) -> Rolled {
        let count = |n: usize| u64::try_from(n).unwrap_or(0);
        let working = |(name, worker): (&String, &Worker)| Working {
            worker: name.as_str().into(),
            incarnation: worker.incarnation,
            until: us(worker.until),
            standing: match worker {
                worker if worker.gone.is_some() => Standing::Gone,
                worker if worker.is_draining => Standing::Draining,
                _ => Standing::Live,
            },
            gone: worker.gone,
            weight: u8::try_from(worker.points.len()).unwrap_or(0),
            waiting: count(self.waiting_for(name).len()),
            in_flight: count(self.held_by(name).len()),
        };
        let firsts = self.firsts().len() + self.items.values().filter(|item| item.until > 0).count();
        let all = self.items.values().filter(|item| item.died == 0).count();
        let workers = self.owners.workers.iter().map(working).collect();
        Rolled { now: us(self.now), parked: count(self.waiting_for("").len()), behind: count(all - firsts), workers }
    }

    /// How many deliveries a worker's recipients have in all.
    pub fn pending(&self, owner: &str) -> u64 {
        let is_of = |item: &&super::Item| item.died == 0 && !item.to().is_empty() && self.owner(item.to()) == owner;
        u64::try_from(self.items.values().filter(is_of).count()).unwrap_or(0)
    }
}
