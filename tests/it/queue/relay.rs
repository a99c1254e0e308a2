//! Packed DIDComm messages find their recipient, and what is no such message stops nobody.
//!
//! The envelopes have the shapes of the specifications' examples (Aries RFC 0019; DIDComm Messaging v2, appendix C). What is
//! encrypted in them is made up: a relay does not look at it.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{Caller, on_every_store, payloads};
use crate::http::site::{Ask, Reply, Site};
use crate::outage::until;

/// A key in base58, and the same as a DID.
const VERKEY: &str = "4zvwRjXUKGfvwnParsHAS3HuSVzV5cA4McphgmoCtajS";
const DID_KEY: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
/// What both have as a key to encrypt for.
const X25519: &str = "z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc";

/// The header of a message of version 1.
fn v1_header(recipients: &[&str]) -> Value {
    let entry = |kid: &&str| {
        json!({"encrypted_key": "zxfYmvoaCbYSEfKIOHPvIYgR0SrSZ2FvCuhUUdZMkC2hVfYM",
            "header": {"kid": kid, "iv": "7ebeX3Xpxv1y8aBgBGbBVSQLKHfaH5ge", "sender": "3lAR1mqGQJyDE9yKfmJbDbq1kVJv"}})
    };
    let recipients: Vec<Value> = recipients.iter().map(entry).collect();
    json!({"enc": "xchacha20poly1305_ietf", "typ": "JWM/1.0", "alg": "Authcrypt", "recipients": recipients})
}

/// A message of version 1 with this `protected`.
fn v1_with(protected: impl Into<Value>, n: u64) -> Value {
    json!({"protected": protected.into(), "iv": "b8VSGLwBRJPdLLrK", "ciphertext": format!("6ogO8MLpEo9{n}"), "tag": "V0b6zFZ7mTVCjrCQpWJHYA=="})
}

fn v1(recipients: &[&str], n: u64) -> Value {
    v1_with(URL_SAFE.encode(v1_header(recipients).to_string()), n)
}

/// A message of version 2 with these members.
fn v2_with(members: &Value, n: u64) -> Value {
    let protected = json!({"epk": {"kty": "OKP", "crv": "X25519", "x": "JHjsmIRZAaB0zRG_wNXLV2rPggF00hdHbW5rj8g0I24"},
        "apv": "NcsuAnrRfPK69A-rkZ0L9XWUG4jMvNC3Zg74BPz53PA", "typ": "application/didcomm-encrypted+json", "enc": "XC20P", "alg": "ECDH-ES+A256KW"});
    let message = json!({"ciphertext": format!("KWS7gJU7TbyJlcT9{n}"), "protected": URL_SAFE_NO_PAD.encode(protected.to_string()),
        "tag": "6ylC_iAs4JvDQzXeY6MuYQ", "iv": "ESpmcyGiZpRjc5urDela21TOOTW8Wqd1"});
    super::with(message, members)
}

fn v2(recipients: &[&str], n: u64) -> Value {
    let entry = |kid: &&str| json!({"header": {"kid": kid}, "encrypted_key": "3n1olyBR3nY7ZGAprOx-b7wYAKza6cvOYjNwVg3miTnbLwPP_FmE1A"});
    v2_with(&json!({"recipients": recipients.iter().map(entry).collect::<Vec<_>>()}), n)
}

impl Caller {
    async fn relay(&self, message: impl ToString) -> Result<Reply> {
        self.send(&Ask::new("POST", "/v1/queues/q/relay", message.to_string())).await
    }

    /// To whom a good message goes.
    async fn relayed_to(&self, message: &Value) -> Result<Value> {
        let relayed = self.relay(message).await?.expect(201)?;
        ensure!(relayed["outcome"] == "added" && relayed["state"] == "ready" && relayed["due"].is_string(), "{relayed}");
        let shown = self.get(&format!("/v1/queues/q/deliveries/{}", relayed["id"].as_str().context("an id")?)).await?.expect(200)?;
        assert_eq!((&shown["to"], &shown["payload"]), (&relayed["to"], message), "it is there as it came");
        Ok(relayed["to"].clone())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn didcomm_v2_is_understood() -> Result<()> {
    on_every_store(async |_, team| {
        team.queue("q", json!({})).await?;
        for (message, to) in [
            (v2(&["did:example:bob#key-x25519-1", "did:example:bob#key-x25519-2"], 0), "did:example:bob"),
            (v2(&["did:example:carol#1", "did:example:bob#1"], 1), "did:example:carol"),
            (v2(&[&format!("{DID_KEY}#{X25519}")], 2), DID_KEY),
            (v2(&[&format!("did:key:{X25519}#{X25519}")], 3), &format!("did:key:{X25519}")),
            (v2_with(&json!({"header": {"kid": "did:web:example.com#1"}, "encrypted_key": "3n1olyBR"}), 4), "did:web:example.com"),
        ] {
            assert_eq!(team.relayed_to(&message).await?, to);
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_and_its_did_are_one_recipient() -> Result<()> {
    on_every_store(async |_, team| {
        team.queue("q", json!({})).await?;
        let unpadded = |n| v1_with(URL_SAFE.encode(v1_header(&[VERKEY]).to_string()).trim_end_matches('='), n);
        let messages = [
            v1(&[VERKEY], 0),
            v2(&[&format!("{DID_KEY}#{X25519}")], 1),
            unpadded(2),
            v1(&[DID_KEY], 3),
            v2_with(&json!({"header": {"kid": DID_KEY}}), 4),
            v1(&[VERKEY], 5),
        ];
        for message in &messages {
            assert_eq!(team.relayed_to(message).await?, DID_KEY);
        }
        for message in messages {
            let claimed = team.claim("q", json!({"count": 10})).await?;
            assert_eq!(payloads(&claimed), [message], "one at a time, in order");
            team.ack("q", &claimed[0]).await?;
        }
        Ok(())
    })
    .await
}

/// Of several recipients of a sticky queue the one that has a worker has the message, wherever it stands; else the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_recipients_the_one_that_has_a_worker_wins() -> Result<()> {
    on_every_store(async |_, team| {
        team.sticky("q", json!({})).await?;
        let (bob, carol, dave) = ("did:example:bob", "did:example:carol", "did:example:dave");
        let keys = |all: &[&str], n| {
            v2(&all.iter().map(|did| format!("{did}#1")).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>(), n)
        };
        assert_eq!(team.relayed_to(&keys(&[dave, carol], 0)).await?, dave, "nobody works, so nobody is assigned: the first");
        assert_eq!(team.relayed_to(&keys(&[carol, dave], 1)).await?, carol, "one that is parked is not assigned");
        let worker = team.register("q", "w1").await?;
        let is_adopted = async || team.explain("q", dave).await.is_ok_and(|known| known["worker"] == "w1");
        until(super::SOON, "the parked to be adopted", is_adopted).await?;
        for (kids, to) in [(vec![bob, dave], dave), (vec![bob], bob), (vec!["did:example:eve", bob, dave], bob)] {
            assert_eq!(team.relayed_to(&keys(&kids, 2)).await?, to, "{kids:?}");
        }
        // As one did:key and its key in base58 are one recipient.
        assert_eq!(team.relayed_to(&v1(&[VERKEY], 3)).await?, DID_KEY);
        assert_eq!(team.relayed_to(&keys(&["did:example:frank", DID_KEY], 4)).await?, DID_KEY);
        // When there is nothing for it any more it is assigned all the same.
        let mut left = 7;
        while left > 0 {
            for delivery in team.claim_as("q", &worker, json!({"wait_ms": 1_000})).await? {
                team.ack("q", &delivery).await?;
                left -= 1;
            }
        }
        assert_eq!(team.relayed_to(&keys(&["did:example:eve", dave], 5)).await?, dave);
        Ok(())
    })
    .await
}

/// What is no packed message, and what is said about it.
fn malformed() -> Vec<(String, &'static str, Option<&'static str>)> {
    let protected = |text: &str| v1_with(URL_SAFE.encode(text), 0);
    let large = super::with(v1_header(&[VERKEY]), &json!({"x": "x".repeat(64 << 10)}));
    let rows = [
        (json!([]), "invalid_json", None),
        (json!({"id": "1", "type": "https://didcomm.org/basicmessage/2.0/message", "body": {}}), "missing_field", Some("protected")),
        (v1_with(json!({}), 0), "invalid_field", Some("protected")),
        (v1_with("not/base64url", 0), "invalid_field", Some("protected")),
        (protected("no JSON"), "invalid_field", Some("protected")),
        (protected("[]"), "invalid_field", Some("protected")),
        (protected(&large.to_string()), "invalid_field", Some("protected")),
        (protected("{}"), "missing_field", Some("recipients")),
        (v1(&[], 0), "invalid_field", Some("recipients")),
        (v1(&["bob"], 0), "invalid_field", Some("protected.recipients[0].header.kid")),
        (v1(&[VERKEY, &VERKEY[..40]], 0), "invalid_field", Some("protected.recipients[1].header.kid")),
        (v2(&[], 0), "invalid_field", Some("recipients")),
        (v2(&["did:example:bob#1"; 101], 0), "invalid_field", Some("recipients")),
        (v2(&["did:example:bob#1", VERKEY], 0), "invalid_field", Some("recipients[1].header.kid")),
        (v2(&["#key-1"], 0), "invalid_field", Some("recipients[0].header.kid")),
        (v2(&["did:key:z0#1"], 0), "invalid_field", Some("recipients[0].header.kid")),
        (v2(&[&format!("did:example:{}#1", "b".repeat(256))], 0), "invalid_field", Some("recipients[0].header.kid")),
        (v2(&["did:example:b\u{7}b#1"], 0), "invalid_field", Some("recipients[0].header.kid")),
        (v2_with(&json!({"recipients": {}}), 0), "invalid_field", Some("recipients")),
        (v2_with(&json!({"recipients": ["did:example:bob#1"]}), 0), "invalid_field", Some("recipients[0]")),
        (v2_with(&json!({"recipients": [{"encrypted_key": "k"}]}), 0), "missing_field", Some("recipients[0].header")),
        (v2_with(&json!({"recipients": [{"header": {}}]}), 0), "missing_field", Some("recipients[0].header.kid")),
        (v2_with(&json!({"header": {"alg": "x"}}), 0), "missing_field", Some("header.kid")),
        (super::with(v2(&["did:example:bob#1"], 0), &json!({"x": "x".repeat(256 << 10)})), "invalid_field", Some("payload")),
    ];
    let texts =
        ["", "{", "eyJhbGciOi.x.y.z.w", "{\"recipients\":[],\"recipients\":[]}"].map(|text| (text.to_owned(), "invalid_json", None));
    rows.into_iter().map(|(message, code, field)| (message.to_string(), code, field)).chain(texts).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_envelope_does_not_stop_the_relay() -> Result<()> {
    on_every_store(async |_, team| {
        team.queue("q", json!({"lease": "1h"})).await?;
        for (n, (message, code, field)) in (0..).zip(malformed()) {
            let shown: String = message.chars().take(80).collect();
            team.relay(&message).await?.problem(400, code, field).with_context(|| shown.clone())?;
            assert_eq!(team.list("q", "").await?, Vec::<Value>::new(), "{shown}");
            let good = if n % 2 == 0 { v1(&[VERKEY], n) } else { v2(&["did:example:bob#1"], n) };
            team.relayed_to(&good).await?;
            let claimed = team.claim_one("q").await?;
            assert_eq!(claimed["payload"], good);
            team.ack("q", &claimed).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_relayed_once_as_it_came_and_whatever_it_is_called() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.queue("q", json!({})).await?;
    // What a parser would not give back: order, spaces, numbers.
    let text = r#"{ "z":1.50, "recipients" :[{"header":{"kid":"did:example:bob#1"}}],"ciphertext":"\u0041", "a":1e2 }"#;
    let ask = Ask::new("POST", "/v1/queues/q/relay", format!("\n{text}\r\n"));
    let once = ask.clone().once("k");
    let first = team.send(&once).await?.expect(201)?;
    assert_eq!(team.send(&once).await?.expect(201)?, first);
    team.relay(v1(&[VERKEY], 0)).await?.expect(201)?;
    let other = Ask::new("POST", "/v1/queues/q/relay", v1(&[VERKEY], 1).to_string());
    for kind in [
        "application/didcomm-envelope-enc",
        "application/ssi-agent-wire",
        "application/didcomm-encrypted+json; charset=utf-8",
        "application/json",
    ] {
        team.send(&ask.clone().header("content-type", kind)).await?.expect(201)?;
    }
    assert_eq!(team.stats("q").await?["ready"], 6);
    let claimed = team.send(&Ask::json("POST", "/v1/queues/q/claim", &json!({"count": 10}))).await?;
    ensure!(claimed.text().contains(text), "{}", claimed.text());
    let (_, reader) = team.key("default", &["queues:read", "queues:claim"]).await?;
    reader.send(&other).await?.problem(403, "forbidden", None)?;
    let (_, pusher) = team.key("default", &["queues:push"]).await?;
    pusher.send(&other).await?.expect(201)?;
    let none = Ask::new("POST", "/v1/queues/none/relay", v1(&[VERKEY], 1).to_string());
    team.send(&none).await?.problem(404, "not_found", Some("queue"))?;
    let bytes = Ask::new("POST", "/v1/queues/q/relay", b"{\"x\":\"\xff\"}");
    team.send(&bytes).await?.problem(400, "invalid_json", None)?;
    site.server.shutdown().await;
    Ok(())
}
