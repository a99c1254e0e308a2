//! Deliveries as they fall due, over server-sent events and WebSockets: held while the connection stands, and not longer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use hermod_server::{Mode, Server};
use hermod_tests::{Store, unique};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::{Caller, Live, SOON, payloads, shared};
use crate::http::site::config;
use crate::outage::until;

/// Long enough that nothing below ends by itself.
const LEASE: &str = "10m";
/// What is given back is there again so soon; on a busy machine some more than the milliseconds it takes.
const AT_ONCE: Duration = Duration::from_secs(2);
/// So long nothing more must come.
const SILENCE: Duration = Duration::from_millis(200);

/// Either kind of connection.
pub(super) enum Stream {
    Events { response: reqwest::Response, read: String },
    Socket(Box<WebSocketStream<TcpStream>>),
}

impl Stream {
    pub(super) async fn events(live: &Live, query: &str) -> Result<Stream> {
        Stream::events_at(&live.server, &live.team, query).await
    }

    /// The same on any server.
    pub(super) async fn events_at(server: &Server, team: &Caller, query: &str) -> Result<Stream> {
        let url = format!("{}/v1/queues/q/stream?{query}", server.url());
        let response = hermod_tests::request().build()?.get(url).bearer_auth(team.key_text().context("a key")?).send().await?;
        ensure!(response.status() == 200 && response.headers()["content-type"] == "text/event-stream", "{response:?}");
        Ok(Stream::Events { response, read: String::new() })
    }

    pub(super) async fn socket(live: &Live, query: &str) -> Result<Stream> {
        Stream::socket_of(live, &live.team, query).await
    }

    /// The same with another key.
    async fn socket_of(live: &Live, team: &Caller, query: &str) -> Result<Stream> {
        let address = live.server.address();
        let mut request = format!("ws://{address}/v1/queues/q/stream?{query}").into_client_request()?;
        let key = format!("Bearer {}", team.key_text().context("a key")?);
        request.headers_mut().insert("authorization", key.parse()?);
        let (socket, _) = client_async(request, TcpStream::connect(address).await?).await?;
        Ok(Stream::Socket(Box::new(socket)))
    }

    /// What is told next; none if the connection ends.
    pub(super) async fn told(&mut self) -> Result<Option<Value>> {
        match self {
            Stream::Events { response, read } => loop {
                if let Some((event, rest)) = read.split_once("\n\n") {
                    let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(serde_json::from_str).transpose()?;
                    ensure!(data.is_none() || event.contains("event: delivery"), "{event}");
                    *read = rest.to_owned();
                    if let Some(delivery) = data {
                        return Ok(Some(json!({"delivery": Value::clone(&delivery)})));
                    }
                    continue;
                }
                match response.chunk().await {
                    Ok(Some(chunk)) => read.push_str(&String::from_utf8_lossy(&chunk)),
                    Ok(None) | Err(_) => return Ok(None),
                }
            },
            Stream::Socket(socket) => loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text))) => return Ok(Some(serde_json::from_str(&text)?)),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(None),
                    Some(Ok(_)) => {}
                }
            },
        }
    }

    /// The next delivery, which must come.
    pub(super) async fn next(&mut self) -> Result<Value> {
        let mut told = tokio::time::timeout(SOON, self.told()).await.context("nothing came")??.context("the stream ended")?;
        ensure!(told["delivery"].is_object(), "{told}");
        Ok(told["delivery"].take())
    }

    /// Waits for the end of the connection.
    pub(super) async fn ends(&mut self) {
        while let Ok(Some(_)) = self.told().await {}
    }

    async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(SILENCE, self.told()).await.is_err()
    }

    pub(super) async fn write(&mut self, what: &Value) -> Result<()> {
        let Stream::Socket(socket) = self else { bail!("events go one way") };
        Ok(socket.send(Message::text(what.to_string())).await?)
    }

    async fn say(&mut self, what: &Value) -> Result<Value> {
        self.write(what).await?;
        tokio::time::timeout(SOON, self.told()).await.context("no answer")??.context("the stream ended")
    }
}

async fn live(store: Store) -> Result<Live> {
    let live = Live::start(&shared(store)?, &unique("stream")).await?;
    live.team.queue("q", json!({"order": "total", "lease": LEASE})).await?;
    Ok(live)
}

async fn push(team: &Caller, count: u64) -> Result<()> {
    for n in 0..count {
        team.push("q", json!({"payload": n})).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_holds_more_than_their_credits() -> Result<()> {
    for store in Store::ALL {
        let live = live(store).await?;
        for is_socket in [false, true] {
            push(&live.team, 5).await?;
            let query = "credits=2";
            let mut stream = if is_socket { Stream::socket(&live, query).await? } else { Stream::events(&live, query).await? };
            let (first, second) = (stream.next().await?, stream.next().await?);
            assert_eq!(payloads(&[first.clone(), second.clone()]), [0, 1]);
            ensure!(stream.is_silent().await, "a third, with two credits");
            assert_eq!(live.team.stats("q").await?["leased"], 2);
            // What is acked by request makes room for another.
            live.team.ack("q", &first).await?;
            let third = stream.next().await?;
            assert_eq!(third["payload"], 2);
            ensure!(stream.is_silent().await);
            if is_socket {
                let ack = json!({"act": "ack", "id": second["id"], "token": second["token"]});
                assert_eq!(stream.say(&ack).await?, json!({"settled": {"id": second["id"], "outcome": "done"}}));
                let fourth = stream.next().await?;
                assert_eq!(stream.say(&ack).await?["settled"]["outcome"], "stale", "only once");
                let nack = json!({"act": "nack", "id": fourth["id"], "token": fourth["token"], "delay": "1h"});
                assert_eq!(stream.say(&nack).await?["settled"]["outcome"], "retry");
                assert_eq!(stream.next().await?["payload"], 4);
                for (said, field) in
                    [(json!({"act": "eat", "id": third["id"], "token": 1}), "act"), (json!({"act": "ack", "id": "x", "token": 1}), "id")]
                {
                    assert_eq!(stream.say(&said).await?["problem"]["field"], field);
                }
            }
            drop(stream);
            let clear = async || {
                live.team.post("/v1/queues/q/cancel", &json!({"state": "waiting"})).await.is_ok()
                    && live.team.stats("q").await.is_ok_and(|stats| stats["leased"] == 0 && stats["ready"] == 0 && stats["scheduled"] == 0)
            };
            until(SOON, "the queue to be empty", clear).await?;
        }
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_connection_gives_back_at_once() -> Result<()> {
    for store in Store::ALL {
        let live = live(store).await?;
        for is_socket in [false, true] {
            push(&live.team, 1).await?;
            let mut stream = if is_socket { Stream::socket(&live, "").await? } else { Stream::events(&live, "").await? };
            let held = stream.next().await?;
            assert_eq!(live.team.claim("q", json!({})).await?, Vec::<Value>::new());
            let began = Instant::now();
            drop(stream);
            let claimed = live.team.claim("q", json!({"wait_ms": 20_000})).await?;
            let took = began.elapsed();
            println!("{store:?}: given back after {took:?}");
            ensure!(took < AT_ONCE, "{took:?}");
            assert_eq!((&claimed[0]["id"], &claimed[0]["attempt"]), (&held["id"], &json!(2)));
            assert_eq!(live.team.settle("q", "ack", &held, json!({})).await?["outcome"], "stale");
            live.team.ack("q", &claimed[0]).await?;
        }
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_key_has_no_stream_any_more() -> Result<()> {
    for store in Store::ALL {
        let live = live(store).await?;
        let space = live.team.get("/v1/keys").await?.expect(200)?["items"][0]["space"].as_str().context("a space")?.to_owned();
        for (is_socket, holds) in [(false, false), (true, false), (false, true), (true, true)] {
            let (id, reader) = live.team.key(&space, &["queues:claim"]).await?;
            let mut stream = match is_socket {
                true => Stream::socket_of(&live, &reader, "").await?,
                false => Stream::events_at(&live.server, &reader, "").await?,
            };
            if holds {
                push(&live.team, 1).await?;
                stream.next().await?;
            }
            live.team.delete(&format!("/v1/keys/{id}")).await?.expect(204)?;
            if !holds {
                push(&live.team, 1).await?;
            }
            let told = tokio::time::timeout(AT_ONCE, stream.told()).await.with_context(|| format!("on {store:?} a stream goes on"))??;
            ensure!(told.is_none(), "{told:?}");
            // What it held was attempted; what came later was never its.
            let claimed = live.team.claim("q", json!({"wait_ms": 5_000})).await?;
            assert_eq!(claimed[0]["attempt"], if holds { 2 } else { 1 });
            live.team.ack("q", &claimed[0]).await?;
        }
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_queue_has_no_stream_any_more() -> Result<()> {
    for store in Store::ALL {
        let live = live(store).await?;
        // It is noticed when leases are renewed: each second of these.
        let mut stream = Stream::events(&live, "lease=3s").await?;
        assert_eq!(live.team.delete("/v1/queues/q").await?.status, 204);
        let told = tokio::time::timeout(SOON, stream.told()).await.with_context(|| format!("on {store:?} a stream goes on"))??;
        ensure!(told.is_none(), "{told:?}");
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_key_settles_nothing_on_its_socket_and_gets_nothing_it_waited_for() -> Result<()> {
    let live = live(Store::Embedded).await?;
    let space = live.team.get("/v1/keys").await?.expect(200)?["items"][0]["space"].as_str().context("a space")?.to_owned();
    let (id, reader) = live.team.key(&space, &["queues:claim"]).await?;
    push(&live.team, 1).await?;
    let mut socket = Stream::socket_of(&live, &reader, "").await?;
    let held = socket.next().await?;
    let waits = tokio::spawn(async move { reader.post("/v1/queues/q/claim", &json!({"wait_ms": 20_000})).await });
    live.team.delete(&format!("/v1/keys/{id}")).await?.expect(204)?;
    let Stream::Socket(connection) = &mut socket else { bail!("it is a socket") };
    let ack = json!({"act": "ack", "id": held["id"], "token": held["token"]});
    connection.send(Message::text(ack.to_string())).await?;
    if let Ok(Ok(Some(told))) = tokio::time::timeout(AT_ONCE, socket.told()).await {
        assert_eq!(told["problem"]["code"], "unauthorized");
    }
    push(&live.team, 1).await?;
    let refused = tokio::time::timeout(AT_ONCE, waits).await.context("it waits on")???;
    refused.problem(401, "unauthorized", None)?;
    tokio::time::timeout(AT_ONCE, socket.ends()).await.context("the socket goes on")?;
    let claimed = live.team.claim("q", json!({"wait_ms": 5_000, "count": 2})).await?;
    assert_eq!((&claimed[0]["id"], &claimed[0]["attempt"]), (&held["id"], &json!(2)), "it was not acked");
    live.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_renewed_while_the_connection_stands() -> Result<()> {
    for store in Store::ALL {
        let live = live(store).await?;
        push(&live.team, 1).await?;
        let mut stream = Stream::events(&live, "lease=1s").await?;
        let held = stream.next().await?;
        // Three times as long as the lease nobody else gets it.
        assert_eq!(live.team.claim("q", json!({"wait_ms": 3_000})).await?, Vec::<Value>::new(), "{store:?}");
        live.team.ack("q", &held).await?;
        drop(stream);
        live.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_ends_streams_and_uses_up_no_attempts() -> Result<()> {
    for store in Store::ALL {
        let live = live(store).await?;
        // One that may be attempted once would be dead.
        live.team.queue("q", json!({"order": "total", "lease": LEASE, "max_attempts": 1})).await?;
        push(&live.team, 2).await?;
        let (mut events, mut socket) = (Stream::events(&live, "").await?, Stream::socket(&live, "").await?);
        let mut held = [events.next().await?, socket.next().await?];
        held.sort_by_key(|one| one["payload"].as_u64());
        let (key, began) = (live.team.key_text().map(str::to_owned), Instant::now());
        let folder = tokio::time::timeout(SOON, live.stop()).await.context("the server does not stop")?;
        for stream in [&mut events, &mut socket] {
            let told = tokio::time::timeout(SOON, stream.told()).await.context("a stream goes on")??;
            ensure!(told.is_none(), "{told:?}");
        }
        ensure!(began.elapsed() < Duration::from_secs(5), "stopping took {:?}", began.elapsed());
        let url = shared(store)?;
        let server = Server::start(hermod_server::Config { store: url, ..config(&folder) }, Mode::default()).await?;
        let team = Caller::new(&server.url(), key.as_deref());
        let claimed = team.claim("q", json!({"count": 2, "wait_ms": 500})).await?;
        assert_eq!(payloads(&claimed), payloads(&held), "{store:?}");
        ensure!(claimed.iter().all(|one| one["attempt"] == 1), "{claimed:?}");
        server.shutdown().await;
    }
    Ok(())
}

/// Some clients ask for HTTP/2 in this way, and take the answer without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_another_protocol_has_events_all_the_same() -> Result<()> {
    let live = live(Store::Embedded).await?;
    let url = format!("{}/v1/queues/q/stream", live.server.url());
    let ask = hermod_tests::request().build()?.get(url).bearer_auth(live.team.key_text().context("a key")?);
    let response = ask.header("connection", "Upgrade, HTTP2-Settings").header("upgrade", "h2c").send().await?;
    ensure!(response.status() == 200 && response.headers()["content-type"] == "text/event-stream", "{response:?}");
    drop(response);
    live.stop().await;
    Ok(())
}
