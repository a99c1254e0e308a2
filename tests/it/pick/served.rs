//! Picks over HTTP on random histories, with the catalog edited all the time: embedded = Redis, and what a naive model says of each.
//!
//! Two servers with the same seed and clock are asked the same. Messages are deactivated, deleted and made anew, their conditions,
//! tags, schedules and caps change, so do the deck's strategy, cap and quiet hours and what is known of subjects, while picks are open.
//! Every answer must be the same on both, and right: see `world.rs`.
//!
//! A seed that fails is printed and appended to `seeds/served-picks.txt`, which is replayed first.

mod world;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use hermod_core::Micros;
use hermod_core::pick::Fate;
use hermod_server::{Config, Mode};
use hermod_tests::history::{self, Draws};
use hermod_tests::lane::START;
use hermod_tests::model::pick::{Picks, Told};
use hermod_tests::{Store, unique};
use serde_json::{Value, json};

use crate::http::site::{Ask, Caller, Site};
use crate::queue::{epoch_ms, shared, with};
use world::{DAY, HOUR, Message, Profile, SECOND, SUBJECTS, World};

const HISTORIES: u64 = 8;
const STEPS: u64 = 150;
const MESSAGES: u64 = 12;

/// Two servers that are told the same.
struct Both {
    sites: Vec<Site>,
    teams: Vec<Caller>,
}

impl Both {
    async fn start(seed: u64) -> Result<Both> {
        let (mut sites, mut teams) = (Vec::new(), Vec::new());
        let space = unique("served");
        for store in [Store::Embedded, Store::Redis] {
            let url = shared(store)?;
            let mode = Mode { seed: Some(seed), ..Mode::default() };
            let site = Site::start_as(mode, |config| Config { store: url, ..config }).await?;
            teams.push(site.admin.space(&space).await?);
            sites.push(site);
        }
        Ok(Both { sites, teams })
    }

    fn at(&self, now: u64) {
        self.sites.iter().for_each(|site| site.clock.set(Micros::saturating(now)));
    }

    /// The answers of both; `same` is what must be equal in them.
    async fn ask_each(&self, asks: [Ask; 2], same: impl Fn(&Value) -> Value) -> Result<[Value; 2]> {
        let (one, other) = tokio::try_join!(self.teams[0].send(&asks[0]), self.teams[1].send(&asks[1]))?;
        let read = |text: String| if text.is_empty() { Ok(Value::Null) } else { serde_json::from_str::<Value>(&text).context(text) };
        ensure!(one.status < 300 && one.status == other.status, "{}: {} and {}", asks[0].path, one.text(), other.text());
        let (one, other) = (read(one.text())?, read(other.text())?);
        ensure!(same(&one) == same(&other), "{}: embedded {one}\n and Redis {other}", asks[0].path);
        Ok([one, other])
    }

    async fn ask(&self, ask: Ask) -> Result<Value> {
        Ok(self.ask_each([ask.clone(), ask], Clone::clone).await?[0].clone())
    }

    async fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.ask(Ask::json("PUT", path, body)).await
    }
}

/// A pick that can be settled: its number in the model, whose, and what both servers call it.
struct Open {
    number: u64,
    subject: &'static str,
    picks: [Value; 2],
}

struct Run {
    both: Both,
    draws: Draws,
    world: World,
    model: Picks,
    now: u64,
    /// Times at which something may turn.
    times: Vec<u64>,
    open: Vec<Open>,
    number: u64,
    /// How often something was picked, or refused for a reason.
    told: BTreeMap<String, u64>,
}

impl Run {
    async fn put_message(&mut self, id: &str, mut message: Message) -> Result<()> {
        let put = self.both.put(&format!("/v1/decks/tips/messages/{id}"), &message.body(id)).await?;
        message.ordinal = u32::try_from(put["ordinal"].as_u64().context("it has an ordinal")?)?;
        self.world.messages.insert(id.to_owned(), message);
        Ok(())
    }

    /// Changes something of the catalog, or what is known of a subject.
    async fn edit(&mut self) -> Result<()> {
        let ids: Vec<String> = self.world.messages.keys().cloned().collect();
        let at = usize::try_from(self.draws.below(u64::try_from(ids.len())?))?;
        let known = ids.get(at).cloned();
        let now = self.now;
        if self.draws.chance(50) {
            self.settle_all().await?;
        }
        let is_open = |subject| self.model.seen(subject, now).reserved.iter().any(|one| one.3 == Fate::Open);
        let is_settled = !SUBJECTS.into_iter().any(is_open);
        match (self.draws.below(10), known) {
            (0 | 1, _) => {
                self.world.edit_deck(&mut self.draws, is_settled);
                self.both.put("/v1/decks/tips", &self.world.deck_body()).await?;
            }
            (2..=4, Some(id)) => {
                let mut message = self.world.messages[&id].clone();
                message.active = !message.active;
                self.put_message(&id, message).await?;
            }
            (5, Some(id)) => {
                self.both.ask(Ask::new("DELETE", format!("/v1/decks/tips/messages/{id}"), "")).await?;
                self.world.messages.remove(&id);
            }
            (6 | 7, _) => {
                let subject = self.draws.one_of(&SUBJECTS);
                let profile = Profile::random(&mut self.draws, now);
                self.both.put(&format!("/v1/subjects/{subject}"), &profile.body()).await?;
                self.world.profiles.insert(subject, profile);
                self.model.about(subject, Some(true), now);
            }
            _ => {
                let id = format!("m{}", self.draws.below(MESSAGES));
                let mut message = Message::random(&mut self.draws, now);
                if let Some(old) = self.world.messages.get(&id) {
                    message = message.replacing(old, is_settled);
                }
                self.put_message(&id, message).await?;
            }
        }
        for subject in SUBJECTS {
            self.times.extend(self.world.turns(subject, now).into_iter().take(6));
        }
        Ok(())
    }

    /// Picks; what is answered must be right.
    async fn pick(&mut self, subject: &'static str) -> Result<()> {
        let ttl = self.draws.one_of(&[None, None, None, Some((5 * SECOND, "5s")), Some((60 * SECOND, "1m")), Some((HOUR, "1h"))]);
        let reserve = ttl.map_or(json!({}), |(_, ttl)| json!({"mode": "reserve", "ttl": ttl}));
        let ask = |more: Value| Ask::json("POST", "/v1/decks/tips/picks", &with(with(json!({"subject": subject}), &reserve), &more));
        if self.draws.chance(15) {
            // It only looks.
            let count = self.draws.below(6);
            let more = if count == 0 { json!({"dry_run": true, "explain": true}) } else { json!({"simulate": count}) };
            self.both.ask(ask(more)).await?;
        }
        let named = |answer: &Value| {
            let mut answer = answer.clone();
            for field in ["pick", "durability"] {
                answer.as_object_mut().map(|fields| fields.remove(field));
            }
            answer
        };
        let answers = self.both.ask_each([ask(json!({})), ask(json!({}))], named).await?;
        let told = &answers[0];
        self.number += 1;
        *self.told.entry(told["reason"].as_str().unwrap_or("picked").to_owned()).or_default() += 1;
        if told["status"] == "picked" {
            let id = told["message"]["id"].as_str().context("an id")?;
            let lease = ttl.map_or(0, |(lease, _)| lease);
            self.world.picked(&mut self.model, subject, id, (self.number, lease), self.now).with_context(|| format!("{told}"))?;
            if lease > 0 {
                self.times.push(self.now + lease);
                self.open.push(Open { number: self.number, subject, picks: answers.map(|answer| answer["pick"].clone()) });
            }
            return Ok(());
        }
        let reason = told["reason"].as_str().context("a reason")?;
        let retry_at = (!told["retry_at"].is_null()).then(|| epoch_ms(&told["retry_at"]).map(|ms| ms * 1_000)).transpose()?;
        self.times.extend(retry_at);
        if reason == "unsettled" {
            let open = self.model.seen_then(subject, self.now).reserved.into_iter().filter(|one| one.3 == Fate::Open);
            let ends: Vec<u64> = open.map(|one| one.2).collect();
            ensure!(ends.len() == 32 && ends.iter().min().copied() == retry_at, "{told}: {ends:?}");
            return Ok(());
        }
        self.world.refused(&mut self.draws, &self.model, subject, (reason, retry_at), self.now).with_context(|| format!("{told}"))
    }

    async fn settle(&mut self) -> Result<()> {
        let recent = self.open.len().saturating_sub(6);
        let Some(count) = u64::try_from(self.open.len() - recent).ok().filter(|count| *count > 0) else { return Ok(()) };
        let at = recent + usize::try_from(self.draws.below(count)).unwrap();
        self.settle_one(at).await
    }

    /// Settles all that is open, also what has expired and is not given back yet.
    async fn settle_all(&mut self) -> Result<()> {
        for at in 0..self.open.len() {
            let (number, subject) = (self.open[at].number, self.open[at].subject);
            if self.model.seen(subject, self.now).reserved.iter().any(|one| one.0 == number && one.3 == Fate::Open) {
                self.settle_one(at).await?;
            }
        }
        Ok(())
    }

    async fn settle_one(&mut self, at: usize) -> Result<()> {
        let Open { number, subject, picks } = &self.open[at];
        let (verb, fate) = self.draws.one_of(&[("ack", Fate::Acked), ("nack", Fate::Nacked), ("nack", Fate::Nacked)]);
        let path = |pick: &Value| format!("/v1/picks/{}/{verb}", pick.as_str().unwrap_or("none"));
        let asks = [&picks[0], &picks[1]].map(|pick| Ask::json("POST", path(pick), &json!({})));
        let same = |answer: &Value| json!([answer["outcome"], answer["settled"]]);
        let answers = self.both.ask_each(asks, same).await?;
        let told = self.model.settle(subject, *number, fate, self.now);
        let Told::Settled(Some(fate), is_done) = told else { anyhow::bail!("the model knows it: {told:?}") };
        ensure!(same(&answers[0]) == json!([fate.as_str(), is_done]), "{}: the model says {fate:?}, {is_done}", answers[0]);
        Ok(())
    }

    async fn compare_histories(&self) -> Result<()> {
        for subject in SUBJECTS {
            let told = self.both.ask(Ask::new("GET", format!("/v1/decks/tips/history/{subject}"), "")).await?;
            let ids: Vec<&str> = told["items"].as_array().into_iter().flatten().filter_map(|item| item["id"].as_str()).collect();
            assert_eq!(ids, self.world.history(&self.model, subject, self.now), "what {subject} got");
            assert_eq!(told["picks"], self.model.seen(subject, self.now).seq);
        }
        Ok(())
    }

    /// Moves the clock: a little, or to where it hurts.
    fn tick(&mut self) {
        self.times.retain(|at| *at > self.now);
        let next = self.times.iter().min().copied();
        let far = (!self.times.is_empty()).then(|| self.draws.one_of(&self.times));
        self.now = match (self.draws.below(10), next, far) {
            (0..=2, _, _) => self.now,
            (3 | 4, Some(next), _) => next,
            (5, Some(next), _) => (next - 1_000).max(self.now),
            (6, _, Some(far)) if far < self.now + DAY => far,
            (7, _, _) => self.now + 1_000 * self.draws.below(600_000),
            _ => self.now + self.draws.one_of(&[1, 1_000, 7_000, 10_000]) * 1_000,
        };
        self.both.at(self.now);
    }

    async fn step(&mut self) -> Result<()> {
        self.tick();
        let subject = self.draws.one_of(&["ann", "ann", "ben", "cem"]);
        match self.draws.below(20) {
            0..=3 => self.edit().await,
            4 | 5 => self.settle().await,
            _ => self.pick(subject).await,
        }
    }
}

async fn run(seed: u64) -> Result<u64> {
    let mut draws = Draws::new(seed);
    let world = World::random(&mut draws);
    let both = Both::start(seed << 32).await?;
    let now = START.get();
    let mut run =
        Run { both, draws, world, model: Picks::default(), now, times: Vec::new(), open: Vec::new(), number: 0, told: BTreeMap::new() };
    run.both.at(now);
    run.both.put("/v1/decks/tips", &run.world.deck_body()).await?;
    for n in 0..MESSAGES / 2 {
        let message = Message::random(&mut run.draws, now);
        run.put_message(&format!("m{n}"), message).await?;
    }
    for step in 0..STEPS {
        run.step().await.with_context(|| format!("step {step} at {} of {:?}", run.now, run.world))?;
        if step % 25 == 24 {
            run.compare_histories().await.with_context(|| format!("after step {step}"))?;
        }
    }
    println!("seed {seed}: {:?} by {:?}", run.told, run.world.strategy);
    for site in run.both.sites {
        site.server.shutdown().await;
    }
    Ok(STEPS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn picks_are_the_same_and_right_while_the_catalog_is_edited() -> Result<()> {
    let steps = history::agree("served-picks", HISTORIES, run).await?;
    println!("{steps} steps agree on embedded, Redis and the model");
    Ok(())
}
