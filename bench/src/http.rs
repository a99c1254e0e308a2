//! One HTTP check beside a bare handler: what Hermod costs beyond HTTP itself.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use hermod_client::{Client, RuleDraft};
use hermod_tests::server::Hermod;

use crate::load::http_loop;
use crate::ratio::Rounds;

const CONNECTIONS: usize = 64;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 7;
const SUBJECTS: usize = 10_000;

/// The rival, killed when it goes out of scope.
struct Bare {
    child: Child,
    address: String,
}

impl Bare {
    fn start() -> Result<Bare> {
        let mut child = Command::new(std::env::current_exe()?).arg("bare").stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output is piped")?).read_line(&mut line)?;
        let address = line.trim().rsplit('/').next().context("it says where it listens")?.to_owned();
        Ok(Bare { child, address })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn request(subject: usize, key: &str) -> Vec<u8> {
    let body = format!(r#"{{"subject":"user-{subject}","action":"tasks/create","cost":1}}"#);
    format!(
        "POST /v1/limit/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {key}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub(crate) async fn run() -> Result<()> {
    let hermod = Hermod::serve::<&str>([])?;
    let key = hermod.admin_key()?;
    let client = Client::new(hermod.url()?)?.with_key(&key);
    client
        .rules()
        .create(&RuleDraft::new("tasks/create", 1_000_000, "1s").algorithm(hermod_client::Algorithm::TokenBucket).id("bench"))
        .await?;
    let ours = hermod.url()?.rsplit('/').next().context("a URL has an address")?.to_owned();
    let bare = Bare::start()?;
    let requests: Vec<_> = (0..SUBJECTS).map(|subject| request(subject, &key)).collect();
    let short = Duration::from_millis(500);
    http_loop(hermod.pid(), ours.clone(), requests.clone(), CONNECTIONS, short).await?;
    http_loop(bare.child.id(), bare.address.clone(), requests.clone(), CONNECTIONS, short).await?;
    let mut rounds = Rounds::default();
    for _ in 0..ROUNDS {
        let our_side = http_loop(hermod.pid(), ours.clone(), requests.clone(), CONNECTIONS, ROUND).await?;
        let theirs = http_loop(bare.child.id(), bare.address.clone(), requests.clone(), CONNECTIONS, ROUND).await?;
        rounds.add(our_side, theirs);
    }
    rounds.print("HTTP check, embedded, 64 connections", "hermod POST /v1/limit/check", "bare axum handler, same JSON", 0.85)
}
