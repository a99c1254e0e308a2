//! The server as a consumer: it signs, sends, tries again and gives up as it should, whatever the receiver does.

use std::time::Duration;

use anyhow::{Result, ensure};
use hermod_core::Micros;
use hermod_server::push::{Secret, Signed, TOLERANCE, verify};
use hermod_server::{Config, Mode, Server};
use hermod_tests::unique;
use serde_json::{Value, json};

use super::receiver::{Receiver, Seen};
use super::{Caller, Live, SOON, now_ms, time, with};
use crate::http::site::config;
use crate::outage::until;

const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NOW: Duration = Duration::ZERO;

async fn live() -> Result<Live> {
    Live::start_with(|config| Config { webhook_networks: "127.0.0.0/8".to_owned(), ..config }, &unique("hook")).await
}

/// A queue that is sent to `url`, tried again soon.
fn hook(url: &str, fields: Value) -> Value {
    let webhook = with(json!({"url": url, "secret": NEW, "timeout": "1s"}), &fields);
    json!({"push": {"webhook": webhook}, "backoff": {"first": "100ms", "factor": 2, "jitter": 0}, "max_attempts": 3, "lease": "30s"})
}

/// Waits until this many are left, in whichever state.
async fn until_left(team: &Caller, queue: &str, state: &str, count: u64) -> Result<()> {
    until(SOON, &format!("{count} to be {state} in {queue}"), async || team.stats(queue).await.is_ok_and(|stats| stats[state] == count))
        .await
}

async fn until_empty(team: &Caller, queue: &str) -> Result<()> {
    let is_empty = |stats: &Value| ["ready", "scheduled", "leased"].iter().all(|state| stats[state] == 0);
    until(SOON, &format!("{queue} to be empty"), async || team.stats(queue).await.is_ok_and(|stats| is_empty(&stats))).await
}

fn is_signed(seen: &Seen, secret: &str) -> bool {
    let (id, timestamp) = (seen.header("webhook-id"), seen.header("webhook-timestamp"));
    let signed = Signed { id, timestamp, signature: seen.header("webhook-signature"), body: &seen.body };
    let secret = Secret::parse(secret).expect("a secret");
    verify(&signed, &[secret], Micros::saturating(now_ms() * 1_000), TOLERANCE).is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_arrive_signed_and_are_done() -> Result<()> {
    let live = live().await?;
    let receiver = Receiver::start(|_, _| (NOW, 200, None)).await?;
    let mut queue = hook(&receiver.url("/both"), json!({"secrets": [NEW, OLD]}));
    queue["push"]["webhook"].as_object_mut().map(|webhook| webhook.remove("secret"));
    live.team.queue("both", queue).await?;
    let id = live.team.push("both", json!({"payload": {"b": 1, "a": [1.50]}})).await?["id"].clone();
    live.team.push("both", json!({"base64": "AAEC"})).await?;
    until_empty(&live.team, "both").await?;
    let seen = receiver.seen("/both");
    ensure!(seen.len() == 2 && seen.iter().all(|one| is_signed(one, NEW) && is_signed(one, OLD)), "{seen:?}");
    ensure!(!seen.iter().any(|one| is_signed(one, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")));
    let json =
        seen.iter().find(|one| one.header("content-type") == "application/json").map(|one| (one.header("webhook-id"), one.body.clone()));
    assert_eq!(json, id.as_str().map(|id| (id, r#"{"a":[1.5],"b":1}"#.into())));
    ensure!(seen.iter().any(|one| one.header("content-type") == "application/octet-stream" && *one.body == [0, 1, 2]), "{seen:?}");
    live.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_made_again_has_no_attempts_of_the_one_before() -> Result<()> {
    let live = live().await?;
    let receiver = Receiver::start(|_, _| (NOW, 200, None)).await?;
    let queue = hook(&receiver.url("/again"), json!({}));
    live.team.queue("again", queue.clone()).await?;
    live.team.push("again", json!({"payload": 1})).await?;
    until_empty(&live.team, "again").await?;
    let attempts = async || Ok::<_, anyhow::Error>(live.team.get("/v1/queues/again/attempts").await?.expect(200)?["items"].clone());
    assert_eq!(attempts().await?.as_array().map(Vec::len), Some(1));
    assert_eq!(live.team.delete("/v1/queues/again").await?.status, 204);
    live.team.queue("again", queue).await?;
    assert_eq!(attempts().await?, json!([]));
    live.team.push("again", json!({"payload": 2})).await?;
    until_empty(&live.team, "again").await?;
    live.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_tried_again_later_and_later_until_it_is_dead() -> Result<()> {
    let live = live().await?;
    let receiver = Receiver::start(|seen, before| match seen.path.as_str() {
        "/moved" => (NOW, 302, Some(("location", "/elsewhere".to_owned()))),
        "/busy" if before == 0 => (NOW, 429, Some(("retry-after", "1".to_owned()))),
        "/slow" if before == 0 => (Duration::from_secs(3), 200, None),
        "/failing" => (NOW, 500, None),
        _ => (NOW, 204, None),
    })
    .await?;
    for name in ["moved", "busy", "slow", "failing"] {
        live.team.queue(name, hook(&receiver.url(&format!("/{name}")), json!({}))).await?;
        live.team.push(name, json!({"payload": 1})).await?;
    }
    for (name, state, count, attempts) in
        [("failing", "dead", 1, 3), ("moved", "dead", 1, 3), ("busy", "dead", 0, 2), ("slow", "dead", 0, 2)]
    {
        until_empty(&live.team, name).await?;
        until_left(&live.team, name, state, count).await?;
        let seen = receiver.seen(&format!("/{name}"));
        ensure!(
            seen.len() == attempts && seen.iter().all(|one| one.header("webhook-id") == seen[0].header("webhook-id")),
            "{name}: {seen:?}"
        );
        let gaps: Vec<Duration> = seen.windows(2).map(|pair| pair[1].at.duration_since(pair[0].at)).collect();
        let least_ms: &[u64] = match name {
            "busy" => &[1_000],
            // A second of patience and a pause of 100 ms, but the server counts from when it sends, and the receiver from when it has it.
            "slow" => &[1_050],
            _ => &[100, 200],
        };
        let is_late = gaps.iter().zip(least_ms).all(|(gap, least)| *gap >= Duration::from_millis(*least));
        ensure!(is_late, "{name} was tried again after {gaps:?}");
    }
    ensure!(receiver.seen("/elsewhere").is_empty(), "a redirect was followed");
    assert_eq!(live.team.list("failing", "state=dead").await?[0]["attempts"], 3);
    live.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_gone_is_left_alone_until_told_otherwise() -> Result<()> {
    let live = live().await?;
    let receiver = Receiver::start(|_, before| (NOW, if before == 0 { 410 } else { 200 }, None)).await?;
    let queue = hook(&receiver.url("/gone"), json!({"concurrency": 1}));
    live.team.queue("q", queue.clone()).await?;
    live.team.push("q", json!({"payload": 1})).await?;
    let is_disabled = async || live.team.get("/v1/queues/q").await.is_ok_and(|reply| reply.text().contains("410"));
    until(SOON, "the queue to be disabled", is_disabled).await?;
    live.team.push("q", json!({"payload": 2})).await?;
    until_left(&live.team, "q", "ready", 2).await?;
    assert_eq!(receiver.seen("/gone").len(), 1, "nothing more is sent");
    let waiting = live.team.list("q", "").await?;
    ensure!(waiting.iter().all(|one| one["attempts"] == 0), "that was no attempt: {waiting:?}");
    live.team.queue("q", queue).await?;
    until_empty(&live.team, "q").await?;
    assert_eq!(receiver.seen("/gone").len(), 3);
    live.stop().await;
    Ok(())
}

/// One that hangs takes nothing from another; one that dies gets all when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_do_not_disturb_each_other() -> Result<()> {
    let live = live().await?;
    let hanging = Receiver::start(|_, _| (Duration::from_secs(60), 200, None)).await?;
    let mut dying = Receiver::start(|_, _| (NOW, 200, None)).await?;
    live.team.queue("hanging", hook(&hanging.url("/"), json!({"timeout": "20s", "concurrency": 2}))).await?;
    let patient = with(hook(&dying.url("/"), json!({})), &json!({"max_attempts": 100}));
    live.team.queue("dying", patient).await?;
    for n in 0..20 {
        live.team.push("hanging", json!({"payload": n})).await?;
        live.team.push("dying", json!({"payload": n})).await?;
    }
    until_empty(&live.team, "dying").await?;
    until_left(&live.team, "hanging", "leased", 2).await?;
    assert_eq!(hanging.seen("/").len(), 2, "as many at once as it takes");
    let address = dying.address;
    drop(std::mem::replace(&mut dying, Receiver::start(|_, _| (NOW, 200, None)).await?));
    for n in 20..30 {
        live.team.push("dying", json!({"payload": n})).await?;
    }
    let has_failed = async || live.team.list("dying", "").await.is_ok_and(|all| all.iter().any(|one| one["attempts"].as_u64() > Some(0)));
    until(SOON, "an attempt to fail", has_failed).await?;
    dying.address = address;
    dying.open().await?;
    until_empty(&live.team, "dying").await?;
    let mut numbers: Vec<u64> = dying.seen("/").iter().map(Seen::number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (20..30).collect::<Vec<_>>(), "each once, though it was away");
    drop(hanging);
    live.stop().await;
    Ok(())
}

/// Who waits for a place does not wait so long that the request outlives the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_that_share_an_endpoint_send_each_delivery_once() -> Result<()> {
    let live = live().await?;
    let receiver = Receiver::start(|_, _| (Duration::from_millis(1_500), 200, None)).await?;
    for name in ["one", "other"] {
        let slow = hook(&receiver.url("/"), json!({"timeout": "2s", "concurrency": 1}));
        live.team.queue(name, with(slow, &json!({"lease": "2500ms"}))).await?;
    }
    // Both are claimed while there is a place for one.
    let due = time(now_ms() + 1_000);
    for (n, name) in ["one", "other"].into_iter().enumerate() {
        live.team.push(name, json!({"payload": n, "at": due})).await?;
    }
    for name in ["one", "other"] {
        until_empty(&live.team, name).await?;
    }
    let mut numbers: Vec<u64> = receiver.seen("/").iter().map(Seen::number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1], "each once");
    live.stop().await;
    Ok(())
}

/// A queue that is changed, and a server that stops, finish what is under way and begin no more: nothing is sent twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_and_a_stop_in_the_middle_send_nothing_twice() -> Result<()> {
    const COUNT: u64 = 60;
    let live = live().await?;
    let receiver = Receiver::start(|_, _| (Duration::from_millis(100), 200, None)).await?;
    let queue = hook(&receiver.url("/"), json!({"concurrency": 4}));
    live.team.queue("q", queue.clone()).await?;
    for n in 0..COUNT {
        live.team.push("q", json!({"payload": n})).await?;
    }
    let sent = async |count: usize| until(SOON, "some to be sent", async || receiver.seen("/").len() >= count).await;
    sent(8).await?;
    live.team.queue("q", with(queue, &json!({"lease": "31s"}))).await?;
    sent(20).await?;
    let key = live.team.key_text().map(str::to_owned);
    let folder = live.stop().await;
    let before = receiver.seen("/").len();
    ensure!(before < 50, "the server did not stop while there was anything: {before} were sent");
    let again = Config { webhook_networks: "127.0.0.0/8".to_owned(), ..config(&folder) };
    let server = Server::start(again, Mode::default()).await?;
    until_empty(&Caller::new(&server.url(), key.as_deref()), "q").await?;
    let mut numbers: Vec<u64> = receiver.seen("/").iter().map(Seen::number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..COUNT).collect::<Vec<_>>());
    server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_logged_empties() -> Result<()> {
    for store in hermod_tests::Store::ALL {
        let live = Live::start(&super::shared(store)?, &unique("log")).await?;
        live.team.queue("q", json!({"push": {"log": true}})).await?;
        let lines: String = (0..300).map(|n| format!("{{\"payload\": {n}, \"to\": \"r{}\"}}\n", n % 7)).collect();
        live.team.push_lines("q", &lines).await?;
        live.team.push("q", json!({"payload": "later", "in": "1h"})).await?;
        let is_done = |stats: &Value| stats["ready"] == 0 && stats["leased"] == 0 && stats["scheduled"] == 1 && stats["dead"] == 0;
        until(SOON, "the queue to be empty", async || live.team.stats("q").await.is_ok_and(|stats| is_done(&stats))).await?;
        live.stop().await;
    }
    Ok(())
}

/// Deleted and made again between two looks it has the same version, and is another queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_was_made_again_is_sent_where_it_says_now() -> Result<()> {
    let live = live().await?;
    let receiver = Receiver::start(|_, _| (NOW, 200, None)).await?;
    live.team.queue("again", hook(&receiver.url("/before"), json!({}))).await?;
    live.team.push("again", json!({"payload": 1})).await?;
    until_empty(&live.team, "again").await?;
    live.team.delete("/v1/queues/again").await?.expect(204)?;
    live.team.queue("again", hook(&receiver.url("/after"), json!({}))).await?;
    // The consumer of before may still be there for a moment, and take some.
    let arrives = async || live.team.push("again", json!({"payload": 2})).await.is_ok() && !receiver.seen("/after").is_empty();
    until(SOON, "a delivery to come where it says now", arrives).await?;
    live.stop().await;
    Ok(())
}
