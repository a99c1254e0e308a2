//! Too much, too large, too slow, and too late: each is told so, and nobody else suffers.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_server::{Config, Mode, Server};
use hermod_tests::until;
use serde_json::{Value, json};

use super::site::{Ask, Caller, SOON, Site, config};
use super::wire::{Wire, body};

fn check() -> Ask {
    Ask::new("POST", "/v1/limit/check", body(1))
}

impl Site {
    fn key(&self) -> &str {
        self.server.admin_key().expect("a new catalog has a first key")
    }

    /// Takes the only place of a server with one: a check without its body.
    async fn occupy(&self) -> Result<Wire> {
        let announce = || Wire::announce(self.server.address(), self.key(), body(1).len());
        let mut wire = announce().await?;
        let runtime = tokio::runtime::Handle::current();
        let is_taken = || {
            let is_refused = runtime.block_on(self.admin.get("/v1/rules")).is_ok_and(|reply| reply.status == 503);
            // The one that looks may have been first; then the other was refused, and comes again.
            if !is_refused && runtime.block_on(wire.is_answered()) {
                wire = runtime.block_on(announce()).expect("the server listens");
            }
            is_refused
        };
        tokio::task::block_in_place(|| until(SOON, "the only place to be taken", is_taken))?;
        Ok(wire)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() -> Result<()> {
    let site = Site::start_with(|config| Config { body_max: "1KiB".to_owned(), ..config }).await?;
    site.admin.fill().await?;
    let address = site.server.address();
    let mut stated = Wire::announce(address, site.key(), 1025).await?;
    stated.answer().await?.problem(413, "body_too_large", None)?;
    let mut pieces = Wire::announce_pieces(address, site.key()).await?;
    pieces.send_piece(&[b' '; 1024]).await?;
    pieces.send_piece(body(1).as_bytes()).await?;
    pieces.answer().await?.problem(413, "body_too_large", None)?;
    let mut fits = Wire::announce_pieces(address, site.key()).await?;
    fits.send_piece(body(1).as_bytes()).await?;
    fits.send_piece(&vec![b' '; 1024 - body(1).len()]).await?;
    fits.send_piece(b"").await?;
    ensure!(fits.answer().await?.expect(200)?["rules"][0]["remaining"] == 2, "only this one was charged");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_answered_while_still_sending_reads_the_answer() -> Result<()> {
    let site = Site::start().await?;
    let large = |path: &str| Ask::new("POST", path, vec![b' '; 4 << 20]);
    // A connection that is closed too early is a matter of luck, so each is tried often.
    for _ in 0..20 {
        let told = site.admin.send(&large("/v1/limit/check")).await?.problem(413, "body_too_large", None)?;
        ensure!(told["detail"].as_str().is_some_and(|detail| detail.contains("1048576")), "it says how much may be sent: {told}");
        site.admin.with_key(Some("hk_wrong")).send(&large("/v1/limit/check")).await?.problem(401, "unauthorized", None)?;
        site.admin.send(&large("/v1/nothing")).await?.problem(404, "not_found", None)?;
        site.admin.send(&large("/healthz")).await?.problem(405, "method_not_allowed", None)?;
    }
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_when_all_places_are_taken_is_told_to_come_back() -> Result<()> {
    let site = Site::start_with(|config| Config { in_flight_max: 1, ..config }).await?;
    site.admin.fill().await?;
    let mut slow = site.occupy().await?;
    let refused = site.admin.send(&check()).await?;
    refused.problem(503, "overloaded", None)?;
    assert_eq!(refused.header("retry-after"), "1");
    for path in ["/healthz", "/readyz"] {
        assert_eq!(site.admin.get(path).await?.expect(200)?["status"], "ok", "{path} answers however busy the server is");
    }
    ensure!(site.admin.get("/metrics").await?.text().contains(r#"route="/v1/limit/check",status="503""#), "refusals are counted");
    slow.send(body(1)).await?;
    let answered = slow.answer().await?.expect(200)?;
    assert_eq!(answered["rules"][0]["remaining"], 2, "who was refused was not charged");
    site.admin.until(SOON, "the place to be free again", &check(), |reply| reply.status == 200)?;
    // A caller that goes away gives its place back.
    drop(site.occupy().await?);
    site.admin.until(SOON, "the place to be free again", &check(), |reply| reply.status == 200)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_come_is_not_waited_for() -> Result<()> {
    let slow_is = |config| Config { in_flight_max: 1, request_timeout: "300ms".to_owned(), ..config };
    let site = Site::start_with(slow_is).await?;
    site.admin.fill().await?;
    let mut wire = site.occupy().await?;
    wire.send(&body(1)[..10]).await?;
    let reply = wire.answer().await?;
    reply.problem(504, "timeout", None)?;
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(site.admin.check("witness", "watched", 1).await?["rules"][0]["remaining"], 2, "its place is free, and it was not charged");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_breaks_off_charges_nothing() -> Result<()> {
    let site = Site::start_with(|config| Config { in_flight_max: 1, ..config }).await?;
    site.admin.fill().await?;
    let mut wire = Wire::announce(site.server.address(), site.key(), body(1).len() + 1).await?;
    wire.send(body(1)).await?;
    drop(wire);
    site.admin.until(SOON, "the place to be free again", &Ask::new("GET", "/v1/rules", ""), |reply| reply.status == 200)?;
    assert_eq!(site.admin.check("witness", "watched", 1).await?["rules"][0]["remaining"], 2);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_server_finishes_what_is_under_way_and_takes_nothing_new() -> Result<()> {
    let site = Site::start_with(|config| Config { in_flight_max: 1, ..config }).await?;
    site.admin.fill().await?;
    let (address, key) = (site.server.address(), site.key().to_owned());
    // Neither a connection that says nothing nor one that has been answered holds up the end.
    let _silent = Wire::open(address).await?;
    let mut idle = Wire::announce(address, &key, body(1).len()).await?;
    idle.send(body(1)).await?;
    idle.answer().await?.expect(200)?;
    let mut slow = site.occupy().await?;
    slow.send(&body(1)[..10]).await?;
    let stopping = tokio::spawn(site.server.shutdown());
    let is_refused = || std::net::TcpStream::connect(address).is_err();
    tokio::task::block_in_place(|| until(SOON, "new connections to be refused", is_refused))?;
    ensure!(!stopping.is_finished(), "somebody is still being served");
    slow.send(&body(1)[10..]).await?;
    let answered = slow.answer().await?.expect(200)?;
    assert_eq!(answered["rules"][0]["remaining"], 1);
    let began = std::time::Instant::now();
    stopping.await?;
    ensure!(began.elapsed() < Duration::from_secs(5), "it ends when the last one is served, not when patience does");

    let again = Server::start(config(&site.folder), Mode { manual_clock: true, ..Mode::default() }).await?;
    again.app().manual_clock().context("a manual clock")?.set(hermod_tests::lane::START);
    let admin = Caller::new(&again.url(), Some(&key));
    assert_eq!(admin.check("witness", "watched", 1).await?["rules"][0]["remaining"], 0, "what it answered last it has kept");
    again.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_are_all_answered_and_none_is_charged_twice() -> Result<()> {
    let site = Site::start().await?;
    site.admin.put("/v1/rules/many", &json!({"action": "many", "limit": 100, "per": "1day"})).await?.expect(201)?;
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let admin = site.admin.clone();
            tokio::spawn(async move { admin.check("crowd", "many", 1).await })
        })
        .collect();
    let mut left = Vec::new();
    for task in tasks {
        let answer = task.await??;
        if answer["allowed"] == true {
            left.push(answer["rules"][0]["remaining"].as_u64().context("a number")?);
        }
    }
    left.sort_unstable();
    assert_eq!(left, (0..100).collect::<Vec<_>>(), "each token was given once");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_asks_for_nothing_is_closed() -> Result<()> {
    let site = Site::start().await?;
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let closed = ["", "PRI", "GET /healthz HTTP/1.1\r\nHo", preface].map(async |said| -> Result<()> {
        let mut wire = Wire::open(site.server.address()).await?;
        wire.send(said).await?;
        wire.until_closed(Duration::from_secs(14)).await.with_context(|| format!("after {said:?}"))
    });
    futures_util::future::try_join_all(closed).await?;
    site.server.shutdown().await;
    Ok(())
}

/// Who pushes and leaves before the answer has pushed all the same, and who acks and leaves has acked: what can be claimed is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_done_by_who_left_is_known() -> Result<()> {
    let site = Site::start().await?;
    let (admin, count) = (&site.admin, 40);
    admin.put("/v1/queues/q", &json!({})).await?.expect(201)?;
    let claim = async || -> Result<Vec<Value>> {
        let claimed = admin.post("/v1/queues/q/claim", &json!({"count": 100})).await?.expect(200)?;
        Ok(claimed["deliveries"].as_array().context("a list")?.clone())
    };
    // At another moment each time.
    let leave = async |n: usize, path: &str, body: Value| -> Result<()> {
        let (mut wire, body) = (Wire::open(site.server.address()).await?, body.to_string());
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n", site.key(), body.len());
        wire.send(head + &body).await?;
        tokio::time::sleep(Duration::from_micros(u64::try_from(n)? * 200)).await;
        Ok(())
    };
    // Those that were given up before they were read are not there; the others may be underway.
    let counted = async |state: &str| -> Result<usize> {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let stats = admin.get("/v1/queues/q/stats").await?.expect(200)?;
        Ok(usize::try_from(stats[state].as_u64().context("a number")?)?)
    };
    ensure!(claim().await?.is_empty(), "all of it is known to be empty");
    for n in 0..count {
        leave(n, "/v1/queues/q/deliveries", json!({"payload": n, "to": format!("r{n}")})).await?;
    }
    let there = counted("ready").await?;
    ensure!(there > 0, "only {there} were pushed");
    let claimed = claim().await?;
    assert_eq!(claimed.len(), there, "so many were found of those that are there");
    for one in &claimed {
        admin.post("/v1/queues/q/deliveries", &json!({"payload": "next", "to": one["to"]})).await?.expect(201)?;
    }
    for (n, one) in claimed.iter().enumerate() {
        leave(n, "/v1/queues/q/ack", json!({"id": one["id"], "token": one["token"]})).await?;
    }
    let acked = there - counted("leased").await?;
    ensure!(acked > 0, "only {acked} were acked");
    assert_eq!(claim().await?.len(), acked, "so many were found of those that follow");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_gone_is_not_counted_any_more() -> Result<()> {
    let site = Site::start().await?;
    site.admin.put("/v1/queues/gone", &json!({})).await?.expect(201)?;
    site.admin.post("/v1/queues/gone/deliveries", &json!({"payload": 1})).await?.expect(201)?;
    let told = async || -> Result<String> { Ok(site.admin.get("/metrics").await?.text()) };
    let line = r#"hermod_queue_depth{space="default",queue="gone",state="ready"} 1"#;
    ensure!(told().await?.contains(line), "{}", told().await?);
    site.admin.delete("/v1/queues/gone?purge=true").await?.expect(204)?;
    ensure!(!told().await?.contains("gone"), "{}", told().await?);
    site.server.shutdown().await;
    Ok(())
}
