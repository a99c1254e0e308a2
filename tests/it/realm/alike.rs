//! Plays, commits and holds: embedded = Redis = Cluster, on a seeded random history of requests, as a caller sees it.
//!
//! Three servers, each with a store of its own and a clock that is set by hand, share one catalog, so that they draw alike. Every answer
//! is compared, and in the end all that can be read. The third judge are the events of the answers: what they add up to is what
//! everybody has.

mod judge;
mod requests;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use hermod_core::Micros;
use hermod_server::Config;
use hermod_tests::history::Draws;
use hermod_tests::{Store, unique};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use self::judge::Judge;
use self::requests::{ASSETS, OWNERS, PLAYS, random_commit, random_play};
use super::play::apply_ajo;
use crate::http::site::{Ask, Caller, Reply, SOON, Site};
use crate::queue::shared;

const SEEDS: [u64; 2] = [1, 2];
const STEPS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// A server on each store.
struct Lanes {
    sites: [Site; 3],
    teams: [Caller; 3],
}

impl Lanes {
    async fn open() -> Result<Lanes> {
        let open = async |store: Store, catalog: String| {
            let url = shared(store)?;
            Site::start_with(|config| Config { store: url, catalog, ..config }).await
        };
        let first = open(Store::Embedded, String::new()).await?;
        let catalog = format!("sqlite:{}", first.folder.path().join("data/catalog.db").display());
        let team = first.admin.space(&unique("alike")).await?;
        let sites = [first, open(Store::Redis, catalog.clone()).await?, open(Store::Cluster, catalog).await?];
        let teams = [0, 1, 2].map(|at: usize| team.at(&sites[at].server.url()));
        Ok(Lanes { sites, teams })
    }

    /// The same request to all; the answer they have in common.
    async fn ask(&self, ask: &Ask) -> Result<Reply> {
        let [embedded, redis, cluster] = &self.teams;
        let (embedded, redis, cluster) = tokio::try_join!(embedded.send(ask), redis.send(ask), cluster.send(ask))?;
        for (store, other) in [(Store::Redis, &redis), (Store::Cluster, &cluster)] {
            let is_same = embedded.status == other.status && plain(&embedded) == plain(other);
            let [ours, theirs] = [&embedded, other].map(|reply| format!("{} {}", reply.status, reply.text()));
            ensure!(is_same, "{} {}\n{}\nembedded: {ours}\n{store:?}: {theirs}", ask.method, ask.path, String::from_utf8_lossy(&ask.body));
        }
        ensure!(embedded.status < 500, "{} {}: {}", ask.method, ask.path, embedded.text());
        Ok(embedded)
    }

    async fn get(&self, path: &str) -> Result<Value> {
        self.ask(&Ask::new("GET", format!("/v1/realms/ajo/{path}"), "")).await?.expect(200)
    }

    /// All servers have this definition.
    async fn define(&self, definition: &Value) -> Result<()> {
        let saved = self.teams[0].put("/v1/realms/ajo", definition).await?.expect(200)?;
        for team in &self.teams {
            team.until(SOON, "all know the realm", &Ask::new("GET", "/v1/realms/ajo", ""), |reply| {
                reply.expect(200).is_ok_and(|shown| shown["version"] == saved["version"])
            })?;
        }
        Ok(())
    }

    /// What runs by itself has run: all ledgers have so many commits.
    async fn settle(&self, commits: u64) -> Result<()> {
        for team in &self.teams {
            let began = std::time::Instant::now();
            loop {
                let page = team.get("/v1/realms/ajo/ledger?limit=1").await?.expect(200)?;
                let last = page["items"][0]["seq"].as_u64().unwrap_or(0);
                ensure!(last <= commits && began.elapsed() < SOON, "{last} commits instead of {commits}: {page}");
                if last == commits {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// An answer without what only one store can say.
fn plain(reply: &Reply) -> Value {
    let mut body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    for field in ["durability", "request_id"] {
        body.as_object_mut().map(|body| body.remove(field));
    }
    body
}

/// ajo, with a streak, a table that is drawn from again, and a rule that has something done after.
fn more(mut definition: Value, wage: u64) -> Value {
    let step =
        |asset: &str, qty: Value, event: &str| json!({"move": {"from": "@mint", "to": "by", "asset": asset, "qty": qty, "event": event}});
    definition["timers"]["streak"] = json!({"every": "24h", "streak": true, "grace": "12h"});
    definition["tables"]["lucky"] = json!({"of": 10, "full": "reroll", "drops": {"bone": 4, "cross": 3, "shoe": 1, "ribbon": 1}});
    definition["plays"]["streaked"] =
        json!({"do": [{"claim": {"timer": "streak"}}, step("ajo", json!(format!("{wage} * (1 + streak(by, 'streak'))")), "streaked")]});
    definition["plays"]["lucky"] =
        json!({"do": [{"draw": {"table": "lucky", "event": "lucky", "as": "prize"}}], "return": {"prize": "prize"}});
    definition["plays"]["gift"] = json!({"internal": true, "do": [step("ajo", json!(wage), "gift")]});
    let rules = definition["rules"].as_array_mut().expect("ajo has rules");
    rules.extend([json!({"on": "lucky", "play": "gift", "mode": "after"}), json!({"on": "streaked", "play": "drop"})]);
    definition
}

async fn step(lanes: &Lanes, judge: &mut Judge, draws: &mut Draws, asked: &mut Vec<Ask>, (step, now, wage): (u64, u64, i64)) -> Result<()> {
    let ask = if !asked.is_empty() && draws.chance(6) {
        asked[usize::try_from(draws.below(u64::try_from(asked.len())?))?].clone()
    } else {
        let (path, mut body) = if draws.chance(65) { random_play(draws) } else { random_commit(draws, judge) };
        body["key"] = json!(if draws.chance(2) { "again".to_owned() } else { format!("k{step}") });
        if draws.chance(8) {
            body["dry_run"] = json!(true);
        }
        Ask::json("POST", format!("/v1/realms/ajo/{path}"), &body)
    };
    let reply = lanes.ask(&ask).await?;
    asked.push(ask.clone());
    if reply.status == 200 {
        let body: Value = serde_json::from_slice(&ask.body)?;
        let what = ask.path.trim_start_matches("/v1/realms/ajo/").replace(|letter: char| letter.is_ascii_digit(), "");
        let told = reply.expect(200)?;
        let outcome = if told["status"] == "done" { "done" } else { told["code"].as_str().unwrap_or_default() };
        *judge.came.entry(format!("{what} {outcome}")).or_default() += 1;
        let gifts = judge.take_in(&told, now, body["args"]["delay"].as_i64().unwrap_or(0))?;
        let is_armed = judge.armed(now);
        for owner in &gifts {
            judge.commits += 1;
            judge.add(owner, "ajo", wage);
        }
        if is_armed || !gifts.is_empty() {
            lanes.settle(judge.commits).await?;
        }
    }
    Ok(())
}

/// All that can be read is the same, and is what the answers said.
async fn compare_all(lanes: &Lanes, judge: &Judge) -> Result<()> {
    for owner in OWNERS.iter().chain(&["@house", "nobody"]) {
        let account = lanes.get(&format!("accounts/{}", owner.replace('@', "%40"))).await?;
        for asset in ASSETS.iter().filter(|_| !owner.starts_with('@')) {
            let says = account["assets"][asset]["balance"].as_i64().unwrap_or(0);
            ensure!(says == judge.has(owner, asset), "{owner} has {} of {asset} by the events: {account}", judge.has(owner, asset));
        }
        lanes.get(&format!("boards/ajo?around={}&limit=3", owner.replace('@', "%40"))).await?;
    }
    lanes.get("boards/ajo").await?;
    lanes.get("supply").await?;
    let mut cursor = String::new();
    loop {
        let page = lanes.get(&format!("ledger?limit=200{cursor}")).await?;
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    for hold in &judge.holds {
        lanes.ask(&Ask::new("GET", format!("/v1/realms/ajo/holds/{hold}"), "")).await?;
    }
    let audit = lanes.get("audit").await?;
    ensure!(audit["clean"] == true && audit["commits"] == judge.commits, "{audit}");
    Ok(())
}

/// The history of a seed: how often what came of what.
async fn history(seed: u64) -> Result<BTreeMap<String, u64>> {
    let lanes = Lanes::open().await?;
    let (mut judge, mut draws, mut asked) = (Judge::default(), Draws::new(seed), Vec::new());
    apply_ajo(&lanes.teams[0])?;
    let ajo = lanes.teams[0].get("/v1/realms/ajo").await?.expect(200)?["definition"].clone();
    lanes.define(&more(ajo.clone(), 3)).await?;
    let (mut now, mut wage) = (hermod_tests::lane::START.get(), 3);
    for number in 0..STEPS {
        if draws.chance(8) {
            now += SECOND * draws.one_of(&[1, 60, 60, 599, 600, 600, 3_600, 3_600, 30 * 3_600, 8 * 86_400]) - draws.below(2);
            lanes.sites.iter().for_each(|site| site.clock.set(Micros::saturating(now)));
            if judge.armed(now) {
                lanes.settle(judge.commits).await.with_context(|| format!("before step {number}"))?;
            }
        }
        if number == STEPS / 2 {
            wage = 5;
            lanes.define(&more(ajo.clone(), 5)).await?;
        }
        step(&lanes, &mut judge, &mut draws, &mut asked, (number, now, wage)).await.with_context(|| format!("step {number} at {now}"))?;
        if number % 250 == 249 {
            compare_all(&lanes, &judge).await.with_context(|| format!("after step {number}"))?;
        }
    }
    for site in lanes.sites {
        site.server.shutdown().await;
    }
    Ok(judge.came)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn plays_commits_and_holds_agree_on_every_store() -> Result<()> {
    let mut came = BTreeMap::<String, u64>::new();
    // Beside each other, as most of it is waiting.
    let mut histories = JoinSet::new();
    for seed in SEEDS {
        histories.spawn(async move { history(seed).await.with_context(|| format!("seed {seed}")) });
    }
    while let Some(ended) = histories.join_next().await {
        ended??.into_iter().for_each(|(what, many)| *came.entry(what).or_default() += many);
    }
    println!("{came:#?}");
    // All that can be done was, or little would be said by it.
    let others = ["commits", "holds", "holds/ho_/capture", "holds/ho_/release", "commits/cm_/revert"].map(str::to_owned);
    for what in PLAYS.iter().filter(|play| **play != "vampire").map(|play| format!("plays/{play}")).chain(others) {
        ensure!(came.contains_key(&format!("{what} done")), "{what} was never done");
    }
    Ok(())
}
