//! Deliveries that recur: one a run, however many servers there are and whatever happens to them.

use anyhow::{Context, Result, ensure};
use hermod_core::Micros;
use hermod_engine::clock::ManualClock;
use hermod_server::{Config, Mode, Server};
use hermod_tests::server::{Postgres, Redis};
use hermod_tests::unique;
use serde_json::{Value, json};

use super::{Caller, Live, SOON, time};
use crate::http::site::config;
use crate::outage::until;

const MINUTE_MS: u64 = 60_000;

/// Servers on one Redis and one catalog, whose clocks are moved together.
struct Servers {
    change: Config,
    servers: Vec<Server>,
    _folder: tempfile::TempDir,
    key: String,
    now_ms: u64,
}

impl Servers {
    async fn start() -> Result<Servers> {
        let folder = tempfile::tempdir()?;
        let catalog = Postgres::shared()?.database(&unique("schedules"))?;
        let change = Config { store: Redis::shared()?.url(), catalog, ..config(&folder) };
        let first = Server::start(change.clone(), Mode { manual_clock: true, ..Mode::default() }).await?;
        let admin = Caller::new(&first.url(), first.admin_key());
        let key = admin.space(&unique("cron")).await?.key_text().context("a key")?.to_owned();
        // This minute: a server that is started again begins with the system's time, before its clock is set, and must
        // find the runs from then on to be done.
        let now_ms = super::now_ms() / MINUTE_MS * MINUTE_MS;
        let mut all = Servers { change, servers: vec![first], _folder: folder, key, now_ms };
        all.add().await?;
        all.set(now_ms)?;
        Ok(all)
    }

    async fn add(&mut self) -> Result<()> {
        let config = Config { data: self.change.data.join(self.servers.len().to_string()), ..self.change.clone() };
        self.servers.push(Server::start(config, Mode { manual_clock: true, ..Mode::default() }).await?);
        self.set(self.now_ms)
    }

    fn set(&mut self, now_ms: u64) -> Result<()> {
        self.now_ms = now_ms;
        for server in &self.servers {
            let clock: &ManualClock = server.app().manual_clock().context("a clock to set")?;
            clock.set(Micros::saturating(now_ms * 1_000));
        }
        Ok(())
    }

    fn team(&self, server: usize) -> Caller {
        Caller::new(&self.servers[server % self.servers.len()].url(), Some(&self.key))
    }

    /// Adds a queue that all servers know.
    async fn queue(&self, fields: Value) -> Result<()> {
        self.team(0).queue("q", fields).await?;
        let last = self.team(self.servers.len() - 1);
        until(SOON, "the queue to be known", async || last.stats("q").await.is_ok()).await
    }

    /// Waits until the run after now is there, and it alone.
    async fn until_next(&self) -> Result<()> {
        let (team, next) = (self.team(0), time(self.now_ms + MINUTE_MS));
        let is_there = async || team.list("q", "").await.is_ok_and(|all| all.len() == 1 && all[0]["due"] == next.as_str());
        until(SOON, "the next run", is_there).await
    }

    /// A minute later exactly one delivery is due; what it carries.
    async fn run(&mut self, server: usize) -> Result<Value> {
        self.until_next().await?;
        self.set(self.now_ms + MINUTE_MS)?;
        let claimed = self.team(server).claim("q", json!({"count": 10, "wait_ms": 10_000})).await?;
        ensure!(claimed.len() == 1 && claimed[0]["due"] == time(self.now_ms), "{}: {claimed:?}", time(self.now_ms));
        self.team(server + 1).ack("q", &claimed[0]).await?;
        Ok(claimed[0].clone())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_minute_is_once_a_minute() -> Result<()> {
    let mut all = Servers::start().await?;
    let schedule = "/v1/queues/q/schedules/s";
    all.queue(json!({})).await?;
    all.team(0).put(schedule, &json!({"cron": "* * * * *", "payload": {"v": 1}, "to": "ann"})).await?.expect(201)?;
    for n in 0..5 {
        assert_eq!(all.run(n).await?["payload"], json!({"v": 1}));
    }
    // One server is started again, then all of them are.
    all.servers.remove(0).shutdown().await;
    all.add().await?;
    all.run(0).await?;
    all.run(1).await?;
    all.until_next().await?;
    for server in std::mem::take(&mut all.servers) {
        server.shutdown().await;
    }
    all.add().await?;
    all.run(0).await?;
    all.add().await?;
    // What is changed holds for the next run, which is still one.
    all.until_next().await?;
    all.team(0).put(schedule, &json!({"cron": "* * * * *", "payload": {"v": 2}, "to": "bob", "tags": ["t"]})).await?.expect(200)?;
    let team = all.team(0);
    let is_changed = async || team.list("q", "").await.is_ok_and(|all| all.len() == 1 && all[0]["to"] == "bob");
    until(SOON, "the change to be seen", is_changed).await?;
    let changed = all.run(1).await?;
    assert_eq!((&changed["payload"], &changed["to"]), (&json!({"v": 2}), &json!("bob")));
    // Deleted and made again, it is a new one.
    all.until_next().await?;
    all.team(1).delete(schedule).await?.expect(204)?;
    all.team(1).put(schedule, &json!({"cron": "* * * * *", "payload": {"v": 3}})).await?.expect(201)?;
    let team = all.team(0);
    let is_new = async || team.list("q", "").await.is_ok_and(|all| all.len() == 1 && all[0]["payload"] == json!({"v": 3}));
    until(SOON, "the new one to be seen", is_new).await?;
    assert_eq!(all.run(0).await?["payload"], json!({"v": 3}));
    all.until_next().await?;
    all.team(0).delete(schedule).await?.expect(204)?;
    let team = all.team(0);
    until(SOON, "the last run to be cancelled", async || team.stats("q").await.is_ok_and(|stats| stats["scheduled"] == 0)).await?;
    for _ in 0..3 {
        all.set(all.now_ms + MINUTE_MS)?;
        assert_eq!(all.team(0).claim("q", json!({"wait_ms": 400})).await?, Vec::<Value>::new());
    }
    for server in std::mem::take(&mut all.servers) {
        server.shutdown().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_to_be_tried_again_stays() -> Result<()> {
    let mut all = Servers::start().await?;
    let schedule = "/v1/queues/q/schedules/s";
    all.queue(json!({"on_failure": "skip"})).await?;
    all.team(0).put(schedule, &json!({"cron": "* * * * *", "to": "ann"})).await?.expect(201)?;
    all.until_next().await?;
    all.set(all.now_ms + MINUTE_MS)?;
    let failed = all.team(0).claim("q", json!({"wait_ms": 10_000})).await?;
    assert_eq!(all.team(0).settle("q", "nack", &failed[0], json!({"delay": "1h"})).await?["outcome"], "retry");
    for server in std::mem::take(&mut all.servers) {
        server.shutdown().await;
    }
    all.add().await?;
    let team = all.team(0);
    let ids = async || -> Result<Vec<Value>> { Ok(team.list("q", "").await?.iter().map(|one| one["id"].clone()).collect()) };
    let has_both = async || ids().await.is_ok_and(|ids| ids.len() == 2 && ids.contains(&failed[0]["id"]));
    until(SOON, "the one that failed and the next", has_both).await?;
    team.delete(schedule).await?.expect(204)?;
    until(SOON, "the next to be cancelled", async || ids().await.is_ok_and(|ids| ids == [failed[0]["id"].clone()])).await?;
    for server in std::mem::take(&mut all.servers) {
        server.shutdown().await;
    }
    Ok(())
}

/// Runs whose time came and that nobody took may be many: the next is found behind them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_run_of_a_disabled_schedule_is_cancelled_behind_a_thousand_that_wait() -> Result<()> {
    let live = Live::start("embedded", &unique("cron")).await?;
    let (team, schedule) = (&live.team, "/v1/queues/q/schedules/s");
    team.queue("q", json!({"order": "total"})).await?;
    team.push_lines("q", &"{\"payload\": 1, \"tags\": [\"schedule:s\"]}\n".repeat(1_001)).await?;
    let scheduled = async |count: u64| team.stats("q").await.is_ok_and(|stats| stats["scheduled"] == count);
    team.put(schedule, &json!({"cron": "0 0 1 1 *"})).await?.expect(201)?;
    until(SOON, "the next run", async || scheduled(1).await).await?;
    team.put(schedule, &json!({"cron": "0 0 1 1 *", "enabled": false})).await?.expect(200)?;
    until(SOON, "it to be cancelled", async || scheduled(0).await).await?;
    live.stop().await;
    Ok(())
}

/// A run is known by its key and its tag. What somebody else gave one of them is theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_takes_nothing_away_that_it_did_not_make() -> Result<()> {
    let live = Live::start("embedded", &unique("cron")).await?;
    let (team, schedule) = (&live.team, "/v1/queues/q/schedules/s");
    team.queue("q", json!({})).await?;
    team.push("q", json!({"payload": 1, "in": "1h", "tags": ["schedule:s"]})).await?;
    team.push("q", json!({"payload": 2, "in": "1h", "key": "schedule/s/x"})).await?;
    let scheduled = async |count: u64| team.stats("q").await.is_ok_and(|stats| stats["scheduled"] == count);
    team.put(schedule, &json!({"cron": "0 0 1 1 *"})).await?.expect(201)?;
    until(SOON, "the next run", async || scheduled(3).await).await?;
    team.delete(schedule).await?.expect(204)?;
    until(SOON, "it to be cancelled", async || !scheduled(3).await).await?;
    ensure!(scheduled(2).await, "the others stay");
    team.delete("/v1/queues/q").await?.problem(409, "queue_not_empty", None)?;
    // What could never be pushed is refused when it is saved.
    team.queue("sticky", json!({"mode": "sticky"})).await?;
    let nobody = team.put("/v1/queues/sticky/schedules/s", &json!({"cron": "* * * * *"})).await?;
    nobody.problem(400, "missing_field", Some("to"))?;
    live.stop().await;
    Ok(())
}
