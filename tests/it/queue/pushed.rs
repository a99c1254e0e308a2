//! What a user sees of what the server sends and prints itself: where it does not go, why it failed, and that it is there once.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_server::Config;
use hermod_tests::server::{Hermod, Redis};
use hermod_tests::unique;
use serde_json::{Value, json};

use super::receiver::Receiver;
use super::{Caller, Live, SOON};
use crate::outage::until;

const NOW: Duration = Duration::ZERO;

fn hook(url: &str, max_attempts: u64) -> Value {
    json!({"push": {"webhook": {"url": url, "timeout": "1s"}}, "backoff": {"first": "50ms", "factor": 1, "jitter": 0},
        "max_attempts": max_attempts, "lease": "30s"})
}

/// What was tried to be sent, the first first.
async fn attempts(team: &Caller, queue: &str) -> Result<Vec<Value>> {
    let list = team.get(&format!("/v1/queues/{queue}/attempts")).await?.expect(200)?;
    let mut attempts = list["items"].as_array().context("a list")?.clone();
    attempts.reverse();
    Ok(attempts)
}

async fn until_settled(team: &Caller, queue: &str) -> Result<()> {
    let is_settled = |stats: &Value| ["ready", "scheduled", "leased"].iter().all(|state| stats[state] == 0);
    until(SOON, &format!("{queue} to be empty"), async || team.stats(queue).await.is_ok_and(|stats| is_settled(&stats))).await
}

/// A server that is told nothing reaches nobody in its own network, whoever asks it to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn this_machine_is_sent_nothing_unless_the_settings_allow_it() -> Result<()> {
    let receiver = Receiver::start(|_, _| (NOW, 200, None)).await?;
    let refusing = Live::start("embedded", &unique("guard")).await?;
    refusing.team.queue("q", hook(&receiver.url("/refused"), 2)).await?;
    refusing.team.push("q", json!({"payload": 1})).await?;
    until_settled(&refusing.team, "q").await?;
    assert_eq!(refusing.team.stats("q").await?["dead"], 1);
    let tried = attempts(&refusing.team, "q").await?;
    let why = "the address is not a public one, and not allowed";
    ensure!(tried.len() == 2 && tried.iter().all(|one| one["why"] == why && one["status"].is_null()), "{tried:?}");
    refusing.stop().await;
    assert_eq!(receiver.seen("/refused").len(), 0);

    for (networks, arrives) in [("10.0.0.0/8", false), ("127.0.0.0/8", true)] {
        let live = Live::start_with(|config| Config { webhook_networks: networks.to_owned(), ..config }, &unique("guard")).await?;
        live.team.queue("q", hook(&receiver.url("/asked"), 1)).await?;
        live.team.push("q", json!({"payload": 1})).await?;
        until_settled(&live.team, "q").await?;
        assert_eq!(receiver.seen("/asked").len(), usize::from(arrives));
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_attempt_is_told_with_its_status_and_why_it_failed() -> Result<()> {
    let live = Live::start_with(|config| Config { webhook_networks: "127.0.0.0/8".to_owned(), ..config }, &unique("log")).await?;
    let team = &live.team;
    let receiver = Receiver::start(|_, before| match before {
        0 => (NOW, 500, None),
        1 => (NOW, 302, Some(("location", "/elsewhere".to_owned()))),
        2 => (Duration::from_secs(20), 200, None),
        _ => (NOW, 204, None),
    })
    .await?;
    team.queue("q", hook(&receiver.url("/"), 9)).await?;
    let id = team.push("q", json!({"payload": 1})).await?["id"].clone();
    until_settled(team, "q").await?;
    let tried = attempts(team, "q").await?;
    ensure!(tried.len() == 4 && tried.iter().all(|one| one["id"] == id && one["at"].is_string()), "{tried:?}");
    let numbers: Vec<u64> = tried.iter().filter_map(|one| one["attempt"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let statuses: Vec<&Value> = tried.iter().map(|one| &one["status"]).collect();
    assert_eq!(statuses, [&json!(500), &json!(302), &Value::Null, &json!(204)]);
    for (one, word) in tried.iter().zip(["500", "302", "no answer", ""]) {
        let why = one["why"].as_str().unwrap_or("");
        ensure!(why.contains(word) && why.is_empty() == word.is_empty(), "{word}: {one}");
    }
    ensure!(tried[2]["took_ms"].as_u64() >= Some(900) && tried[3]["took_ms"].as_u64() < Some(900), "{tried:?}");
    live.stop().await;
    Ok(())
}

/// How often each delivery was printed, by its id.
fn printed(servers: &[Hermod]) -> BTreeMap<String, usize> {
    let mut printed = BTreeMap::new();
    for line in servers.iter().flat_map(Hermod::lines) {
        if let Some((id, _)) = line.strip_prefix("q ").and_then(|rest| rest.split_once(' ')) {
            *printed.entry(id.to_owned()).or_default() += 1;
        }
    }
    printed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_logged_is_printed_once_by_one_of_the_servers() -> Result<()> {
    const COUNT: u64 = 200;
    let redis = Redis::start()?;
    for stores in [vec!["embedded".to_owned()], vec![redis.url(), redis.url()]] {
        let servers = stores.iter().map(|store| Hermod::serve(["--store", store])).collect::<Result<Vec<_>>>()?;
        let mut pushed = BTreeMap::new();
        for server in &servers {
            let team = Caller::new(server.url()?, Some(&server.admin_key()?));
            team.queue("q", json!({"push": {"log": true}})).await?;
        }
        let team = Caller::new(servers[0].url()?, Some(&servers[0].admin_key()?));
        let lines: String = (0..COUNT).map(|n| format!("{{\"payload\": {{\"n\": {n}}}, \"to\": \"r{}\"}}\n", n % 7)).collect();
        for one in team.push_lines("q", &lines).await? {
            pushed.insert(one["id"].as_str().context("an id")?.to_owned(), 1);
        }
        until_settled(&team, "q").await?;
        assert_eq!(printed(&servers), pushed, "each once");
        let whole = servers.iter().flat_map(Hermod::lines).filter(|line| line.starts_with("q dl_")).all(|line| line.ends_with("}"));
        ensure!(whole, "a line is broken");
    }
    Ok(())
}
