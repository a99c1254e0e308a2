//! A queue as a list that is searched from the beginning: who may have what follows from what is written down.

mod owners;

use std::collections::BTreeMap;

use hermod_core::Micros;
use hermod_core::queue::claim::Failing;
use hermod_core::queue::delivery::read_body;
use hermod_core::queue::edit::{Change, Edited, Edits, Move};
use hermod_core::queue::settle::{Outcome, SettleAct, Settled};
use hermod_core::queue::{
    Claimed, Counts, Delivery, Fetched, Filter, Handed, IfExists, Listed, Number, Page, Pushed, Replied, Shown, Standing, Status, Stored,
    Terms, Token,
};

const DAY: u64 = 86_400_000_000;

#[derive(Clone, Debug)]
struct Item {
    number: Number,
    delivery: Delivery,
    due: u64,
    at: u64,
    attempts: u16,
    token: u64,
    until: u64,
    blocks: bool,
    died: u64,
    /// It is between two places.
    is_lifted: bool,
}

impl Item {
    fn to(&self) -> &str {
        self.delivery.to.as_ref().map_or("", |to| to.as_str())
    }

    fn waits(&self) -> bool {
        self.until == 0 && self.died == 0 && !self.is_lifted
    }

    /// It is not handed out any more.
    fn is_over(&self, failing: &Failing, now: u64) -> bool {
        let is_late = failing.drop_after.is_some_and(|span| self.due + span.get() <= now);
        is_late || self.delivery.expires_at.is_some_and(|end| end.get() <= now)
    }
}

/// One queue in one partition.
#[derive(Debug, Default)]
pub struct QueueModel {
    items: BTreeMap<Number, Item>,
    last: u64,
    finished: BTreeMap<(String, String), (Number, u64)>,
    replies: BTreeMap<Number, (u64, Replied)>,
    /// It believes in every token, as a store without fences would.
    pub is_unfenced: bool,
    terms: Terms,
    now: u64,
    owners: owners::Owners,
}

fn us(n: u64) -> Micros {
    Micros::saturating(n)
}

impl QueueModel {
    fn number(&mut self, now: u64) -> u64 {
        self.last = (self.last.max(self.terms.floor) + 1).max(now);
        self.last
    }

    /// Whether nothing stands before it: of a recipient only one is handed out at a time.
    fn is_first(&self, item: &Item) -> bool {
        let others =
            || self.items.values().filter(|other| !item.to().is_empty() && other.to() == item.to() && other.died == 0 && !other.is_lifted);
        let is_before = |other: &Item| !item.blocks && (other.blocks || (other.at, other.number) < (item.at, item.number));
        item.waits() && !others().any(|other| other.until > 0 || is_before(other))
    }

    fn firsts(&self) -> Vec<(u64, Number)> {
        let mut firsts: Vec<_> = self.items.values().filter(|item| self.is_first(item)).map(|item| (item.at, item.number)).collect();
        firsts.sort_unstable();
        firsts
    }

    fn next(&self) -> Option<Micros> {
        self.firsts().first().map(|(at, _)| us(*at))
    }

    /// The same, as it is told: of a sticky queue nobody may claim all.
    fn next_told(&self) -> Option<Micros> {
        self.next().filter(|_| !self.terms.is_sticky)
    }

    /// What `Push` answers.
    pub fn push(&mut self, deliveries: &[Delivery], failing: &Failing, now: u64) -> Pushed {
        let dead = self.clear_up(failing, 10);
        let mut expired = 0;
        let stored = deliveries.iter().map(|delivery| self.push_one(delivery, failing, &mut expired, now)).collect();
        Pushed { now: us(now), next: self.next_told(), expired, dead, stored, woken: self.woken(), turnover: self.turnover() }
    }

    fn push_one(&mut self, delivery: &Delivery, failing: &Failing, expired: &mut u16, now: u64) -> (Stored, Number, Micros) {
        let due = delivery.due.from(us(now)).get();
        let keeps = delivery.if_exists == IfExists::Keep;
        if let Some(key) = &delivery.key {
            let to = delivery.to.as_ref().map_or("", |to| to.as_str()).to_owned();
            let is_known = |item: &Item| item.delivery.key.as_ref() == Some(key) && item.to() == to;
            let is_lost = |item: &&Item| is_known(item) && item.until <= now && item.died == 0 && item.is_over(failing, now);
            if let Some(number) = self.items.values().find(is_lost).map(|item| item.number) {
                self.lift(number);
                self.items.remove(&number);
                *expired += 1;
            }
            if let Some(item) = self.items.values_mut().find(|item| is_known(item)) {
                if keeps {
                    return (Stored::Kept, item.number, us(item.due));
                }
                if item.until <= now && item.died == 0 {
                    let due = if delivery.if_exists == IfExists::Debounce { due.max(item.due) } else { due };
                    let number = item.number;
                    self.lift(number);
                    self.items.insert(number, Item { is_lifted: true, ..new_item(number, delivery, due) });
                    self.land(number);
                    return (Stored::Replaced, number, us(due));
                }
                item.delivery.key = None;
            } else if let Some((number, until)) = self.finished.get(&(key.clone(), to.clone())) {
                if *until > now && keeps {
                    return (Stored::Finished, *number, Micros::ZERO);
                }
                self.finished.remove(&(key.clone(), to));
            }
        }
        let number = self.number(now);
        self.items.insert(number, Item { is_lifted: true, ..new_item(number, delivery, due) });
        self.land(number);
        (Stored::Added, number, us(due))
    }

    /// What `Claim` answers.
    pub fn claim(&mut self, worker: Option<(&str, u64)>, count: usize, (lease, ahead): (u64, u64), failing: &Failing, now: u64) -> Claimed {
        self.expire();
        let mut ended: Vec<(u64, Number)> =
            self.items.values().filter(|item| item.until > 0 && item.until <= now).map(|item| (item.until, item.number)).collect();
        ended.sort_unstable();
        let mut claimed = Claimed { now: us(now), ..Claimed::default() };
        for (_, number) in ended.into_iter().take(200) {
            claimed.dead += u16::from(self.end_lease(number, failing));
        }
        claimed.dead += self.tend(failing, 10);
        let (standing, is_given) = self.standing(worker);
        claimed.standing = standing;
        let first = self.mine(worker).first().map(|(at, _)| *at).filter(|at| *at > now && *at <= now + ahead);
        let reach = first.map_or(now, |at| (at + 1_000).min(now + ahead));
        loop {
            let mut has_freed = false;
            let mine = if is_given { self.mine(worker) } else { Vec::new() };
            let heads: Vec<_> = mine.into_iter().filter(|(at, _)| *at <= reach).take(count - claimed.handed.len()).collect();
            for (at, number) in heads {
                let from = at.max(now);
                if self.items.get(&number).is_none_or(|item| item.is_over(failing, from)) {
                    self.lift(number);
                    self.items.remove(&number);
                    claimed.expired += 1;
                    has_freed = true;
                    continue;
                }
                let token = self.number(now);
                let Some(item) = self.items.get_mut(&number) else { continue };
                (item.token, item.until, item.attempts, item.blocks) = (token, from + lease, item.attempts + 1, false);
                claimed.handed.push(Handed {
                    number,
                    token: Token(token),
                    attempt: item.attempts,
                    until: us(item.until),
                    at: us(item.at),
                    body: Box::default(),
                });
            }
            if !has_freed || claimed.handed.len() == count {
                break;
            }
        }
        claimed.next = self.next();
        if self.terms.is_sticky {
            claimed.next = self.mine(worker).first().map(|(at, _)| us(*at)).filter(|_| standing != Standing::Gone);
        }
        (claimed.woken, claimed.turnover) = (self.woken(), self.turnover());
        claimed.next_end = self.items.values().filter(|item| item.until > 0).map(|item| us(item.until)).min();
        claimed
    }

    fn exhaust(&mut self, number: Number, drops: bool, now: u64) {
        self.lift(number);
        if drops {
            self.items.remove(&number);
        } else if let Some(item) = self.items.get_mut(&number) {
            (item.until, item.died, item.blocks, item.is_lifted) = (0, now, false, false);
        }
    }

    /// What `Settle` answers.
    pub fn settle(&mut self, act: SettleAct, failing: &Failing, held: &[(Number, Token)], reply: Option<&Replied>, now: u64) -> Settled {
        let (max_attempts, drops) = (failing.max_attempts, failing.drops);
        self.expire();
        for (number, token) in held.iter().filter(|_| act == SettleAct::Ack) {
            let item = self.items.get(number).filter(|item| (item.token == token.0 || self.is_unfenced) && item.until > now);
            if let Some((keep, reply)) = item.and_then(|item| item.delivery.reply).zip(reply) {
                self.replies.insert(*number, (now + keep.get(), reply.clone()));
            }
        }
        let outcomes = held.iter().map(|(number, token)| self.settle_one(act, max_attempts, drops, *number, *token, now)).collect();
        Settled { now: us(now), next: self.next_told(), outcomes, woken: self.woken(), turnover: self.turnover() }
    }

    fn settle_one(&mut self, act: SettleAct, max_attempts: u16, drops: bool, number: Number, token: Token, now: u64) -> Outcome {
        let Some(item) = self.items.get_mut(&number) else { return Outcome::Stale };
        if (item.token != token.0 && !self.is_unfenced) || item.until <= now {
            return Outcome::Stale;
        }
        match act {
            SettleAct::Ack => {
                if let Some(key) = item.delivery.key.take() {
                    self.finished.insert((key, item.to().to_owned()), (number, now + 3 * DAY));
                }
                self.lift(number);
                self.items.remove(&number);
                Outcome::Done
            }
            SettleAct::Extend(span) => {
                item.until = now + span.get();
                Outcome::Until(us(item.until))
            }
            SettleAct::Return => {
                item.attempts -= 1;
                Outcome::Until(us(self.put_back_ahead(number)))
            }
            _ if item.attempts >= item.delivery.max_attempts.unwrap_or(max_attempts) => {
                self.exhaust(number, drops, now);
                if drops { Outcome::Dropped } else { Outcome::Dead }
            }
            SettleAct::Nack { delay, backoff, chance, blocks } => {
                let delay = delay.unwrap_or_else(|| backoff.delay(u32::from(item.attempts), u64::from(chance)));
                let at = now + delay.get();
                if blocks && !item.to().is_empty() {
                    self.block(number, at);
                } else {
                    self.put_back(number, at);
                }
                Outcome::Until(us(at))
            }
            SettleAct::GiveBack => {
                let due = item.due;
                self.put_back(number, due);
                Outcome::Until(us(due))
            }
        }
    }

    /// What `Fetch` answers.
    pub fn fetch(&mut self, number: Number, now: u64) -> Fetched {
        let is_live = self.replies.get(&number).is_some_and(|(until, _)| *until > now);
        let reply = if is_live { self.replies.remove(&number).map(|(_, reply)| reply) } else { None };
        Fetched { now: us(now), reply }
    }

    /// What `Edit` answers.
    pub fn edit(&mut self, change: &Change, numbers: &[Number], now: u64) -> Edits {
        self.expire();
        let edited = numbers.iter().map(|number| self.edit_one(change, *number, now)).collect();
        Edits { now: us(now), next: self.next_told(), edited, woken: self.woken(), turnover: self.turnover() }
    }

    fn edit_one(&mut self, change: &Change, number: Number, now: u64) -> Edited {
        let Some(item) = self.items.get_mut(&number) else { return Edited::Gone };
        if item.until > now {
            return Edited::Leased { until: us(item.until) };
        }
        let (content, moved) = match change {
            Change::Cancel => {
                let due = us(item.due);
                self.lift(number);
                self.items.remove(&number);
                return Edited::Done { due };
            }
            Change::Move(moved) => (None, Some(*moved)),
            Change::Rewrite { is_json, payload, moved } => (Some((*is_json, payload)), *moved),
        };
        match moved {
            Some(Move::Redrive) if item.died == 0 => return Edited::Alive,
            Some(Move::To(_) | Move::Later(_) | Move::Earlier(_)) if item.died > 0 => return Edited::Dead,
            _ => {}
        }
        if let Some((is_json, payload)) = content {
            (item.delivery.is_json, item.delivery.payload) = (is_json, payload.clone());
        }
        let due = match moved {
            None => return Edited::Done { due: us(item.due) },
            Some(Move::Redrive) => {
                (item.died, item.attempts, item.token, item.is_lifted) = (0, 0, 0, true);
                now
            }
            Some(Move::To(due)) => due.from(us(now)).get(),
            Some(Move::Later(span)) => item.due + span.get(),
            Some(Move::Earlier(span)) => item.due.saturating_sub(span.get()),
        };
        item.due = due;
        self.put_back(number, due);
        Edited::Done { due: us(due) }
    }

    /// What `List` answers.
    pub fn list(&self, filter: &Filter, after: Option<Page>, limit: usize, now: u64) -> Listed {
        let place = |item: &Item| match filter {
            Filter::Waiting { from, until } => (item.waits() && item.at >= from.get() && item.at < until.get()).then_some(item.at),
            Filter::Held => (item.until > 0).then_some(item.until),
            Filter::Dead => (item.died > 0).then_some(item.died),
            Filter::Tag(tag) => item.delivery.tags.contains(tag).then_some(0),
            Filter::Number(number) => (item.number == *number).then_some(0),
            Filter::Key { key, to } => (item.delivery.key.as_ref() == Some(key) && item.to() == to).then_some(0),
        };
        let is_single = matches!(filter, Filter::Number(_) | Filter::Key { .. });
        let mut found: Vec<(Page, &Item)> =
            self.items.values().filter_map(|item| place(item).map(|at| ((us(at), item.number), item))).collect();
        found.sort_unstable_by_key(|(page, _)| *page);
        found.retain(|(page, _)| is_single || after.is_none_or(|after| *page > after));
        let more = found.get(limit - 1).map(|(page, _)| *page).filter(|_| found.len() > limit);
        found.truncate(limit);
        let shown = found.into_iter().map(|((_, number), item)| {
            let (status, until) = match () {
                () if item.died > 0 => (Status::Dead, item.died),
                () if item.until > now => (Status::Leased, item.until),
                () if item.at > now => (Status::Scheduled, 0),
                () => (Status::Ready, 0),
            };
            let (attempts, token) = (item.attempts, Token(item.token));
            Shown { number, status, at: us(item.at), attempts, token, until: us(until), body: Box::default() }
        });
        Listed { now: us(now), more, shown: shown.collect() }
    }

    /// What `Stats` answers.
    pub fn stats(&self, step: u64, steps: u64, now: u64) -> Counts {
        let count = |is: &dyn Fn(&Item) -> bool| self.items.values().filter(|item| is(item)).map(|_| 1).sum::<u64>();
        let within = |from: u64, through: u64| count(&|item| item.waits() && item.at > from && item.at <= through);
        Counts {
            now: us(now),
            next: self.next(),
            next_end: self.items.values().filter(|item| item.until > 0).map(|item| us(item.until)).min(),
            oldest: self.items.values().filter(|item| item.waits() && item.at <= now).map(|item| us(item.at)).min(),
            ready: count(&|item| item.waits() && item.at <= now),
            scheduled: count(&|item| item.waits() && item.at > now),
            leased: count(&|item| item.until > 0),
            dead: count(&|item| item.died > 0),
            forecast: (0..steps).map(|n| within(now + n * step, now + (n + 1) * step)).collect(),
        }
    }

    /// Whether a stored body is that of this delivery.
    pub fn is_body(&self, number: Number, body: &[u8]) -> bool {
        let Some((meta, payload)) = read_body(body) else { return false };
        self.items.get(&number).is_some_and(|item| {
            let mut tags: Vec<&str> = item.delivery.tags.iter().map(|tag| tag.as_str()).collect();
            tags.sort_unstable();
            tags.dedup();
            let same = (meta.due.get(), meta.to, meta.key) == (item.due, item.to(), item.delivery.key.as_deref().unwrap_or(""));
            let delivery = &item.delivery;
            let kind = (meta.expires_at, meta.max_attempts, meta.reply, meta.is_json)
                == (delivery.expires_at, delivery.max_attempts, delivery.reply, delivery.is_json);
            same && kind && meta.tags == tags && payload == item.delivery.payload
        })
    }
}

fn new_item(number: Number, delivery: &Delivery, due: u64) -> Item {
    Item { number, delivery: delivery.clone(), due, at: due, attempts: 0, token: 0, until: 0, blocks: false, died: 0, is_lifted: false }
}
