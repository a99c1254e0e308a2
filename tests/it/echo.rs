//! The echo example prints every message once, at its time and in order, whoever of it runs and whatever was killed.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use hermod_client::Client;
use hermod_tests::server::{Hermod, Process, Program, Redis};
use hermod_tests::{request, until};
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

use crate::example::binary;

const README: &str = include_str!("../../examples/echo/README.md");
const SOURCE: &str = include_str!("../../examples/echo/src/main.rs");

/// Far more than anything here takes.
const SOON: Duration = Duration::from_secs(60);
/// How many messages each version gets.
const MESSAGES: u64 = 24;

/// A running instance. Those of one folder print to one file, in the order they print.
struct Echo {
    address: String,
    process: Process,
}

impl Echo {
    fn start(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Result<Echo> {
        let mut program = Program::at(binary("echo-at-time", "hermod-example-echo")?, folder).args(["--listen", "127.0.0.1:0"]).args(args);
        for (name, value) in env {
            program = program.env(name, value);
        }
        let mut process = program.start()?;
        let mut address = None;
        process.until_ready(SOON, |process| {
            let log = process.log();
            let told = log.split_once("echo: http://").and_then(|(_, rest)| rest.split_once('\n'));
            address = told.map(|(address, _)| address.trim().to_owned());
            address.is_some()
        })?;
        Ok(Echo { address: address.context("it told where it listens")?, process })
    }

    async fn send(&self, version: u8, message: &str, date: SystemTime) -> Result<u16> {
        let url = format!("http://{}/api/v{version}/echoAtTime", self.address);
        let body = json!({"message": message, "date": humantime::format_rfc3339_millis(date).to_string()});
        let sent = request().build()?.post(url).header(CONTENT_TYPE, "application/json").body(body.to_string()).send().await?;
        Ok(sent.status().as_u16())
    }
}

/// The messages of one version that were printed in a folder, in this order. One may stand in the middle of what another instance says of
/// itself: that goes to the same file, and not in one piece.
fn printed(folder: &Path, version: u8) -> Vec<String> {
    let log = std::fs::read_to_string(folder.join("echo-at-time.log")).unwrap_or_default();
    let begin = format!("v{version} message ");
    log.match_indices(&begin).filter_map(|(at, _)| log.get(at..at + begin.len() + 2)).map(str::to_owned).collect()
}

fn message(version: u8, n: u64) -> String {
    format!("v{version} message {n:02}")
}

/// Sends the messages of both versions to all instances in turn, in any order but that of their dates.
async fn send_all(echoes: &[Echo], first: SystemTime) -> Result<()> {
    for n in (0..MESSAGES).map(|n| n * 7 % MESSAGES) {
        for (version, echo) in [1, 2].into_iter().zip(echoes.iter().cycle().skip(usize::try_from(n)?)) {
            let date = first + Duration::from_millis(20 * n);
            ensure!(echo.send(version, &message(version, n), date).await? == 201, "it takes messages");
        }
    }
    Ok(())
}

/// Waits until all were printed and nothing is left, and looks at what was printed and in which order.
async fn all_printed_once_and_in_order(folder: &Path, hermod: &Client) -> Result<()> {
    for (version, queue) in [(1, "echo-v1"), (2, "echo-v2")] {
        let count = usize::try_from(MESSAGES)?;
        tokio::task::block_in_place(|| until(SOON, "all messages", || printed(folder, version).len() >= count))
            .with_context(|| format!("{:?}", printed(folder, version)))?;
        // When nothing is left, nothing can be printed again.
        loop {
            let stats = hermod.queues().stats(queue).await?;
            if stats.ready + stats.scheduled + stats.leased == 0 {
                break;
            }
        }
        let expected: Vec<String> = (0..MESSAGES).map(|n| message(version, n)).collect();
        assert_eq!(printed(folder, version), expected);
    }
    Ok(())
}

/// A server and three instances.
struct Site {
    hermod: Hermod,
    key: String,
    folder: tempfile::TempDir,
    echoes: Vec<Echo>,
}

impl Site {
    fn start(store: &str) -> Result<Site> {
        let hermod = Hermod::serve(["--store", store])?;
        let key = hermod.admin_key()?;
        let mut site = Site { hermod, key, folder: tempfile::tempdir()?, echoes: Vec::new() };
        site.start_echoes()?;
        Ok(site)
    }

    fn start_echoes(&mut self) -> Result<()> {
        let env = [("HERMOD_URL", self.hermod.url()?), ("HERMOD_KEY", self.key.as_str())];
        self.echoes = (0..3).map(|_| Echo::start(self.folder.path(), &[], &env)).collect::<Result<_>>()?;
        Ok(())
    }

    fn client(&self) -> Result<Client> {
        Ok(Client::new(self.hermod.url()?)?.with_key(&self.key))
    }
}

async fn three_instances_print_each_message_once(store: &str) -> Result<()> {
    let site = Site::start(store)?;
    // A date in the past is refused: all must be sent before the first is due, also where much else is done.
    send_all(&site.echoes, SystemTime::now() + Duration::from_secs(12)).await?;
    all_printed_once_and_in_order(site.folder.path(), &site.client()?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_instances_on_the_embedded_store() -> Result<()> {
    three_instances_print_each_message_once("embedded").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_instances_on_redis() -> Result<()> {
    let redis = Redis::start()?;
    three_instances_print_each_message_once(&redis.url()).await
}

async fn overdue_after_all_were_killed_in_order(store: &str, redis: Option<&mut Redis>) -> Result<()> {
    let mut site = Site::start(store)?;
    let first = SystemTime::now() + Duration::from_secs(15);
    send_all(&site.echoes, first).await?;
    for echo in &mut site.echoes {
        echo.process.kill9()?;
    }
    site.hermod.kill9()?;
    ensure!(SystemTime::now() < first, "this machine is too slow to be down before the first is due");
    if let Some(redis) = redis {
        redis.restart()?;
    }
    let last = first + Duration::from_millis(20 * MESSAGES);
    tokio::time::sleep(last.duration_since(SystemTime::now()).unwrap_or_default()).await;
    site.hermod.restart()?;
    site.start_echoes()?;
    all_printed_once_and_in_order(site.folder.path(), &site.client()?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overdue_on_the_embedded_store() -> Result<()> {
    overdue_after_all_were_killed_in_order("embedded", None).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overdue_on_redis() -> Result<()> {
    let mut redis = Redis::options().appendonly().start()?;
    overdue_after_all_were_killed_in_order(&redis.url(), Some(&mut redis)).await
}

/// The commands of the README, to the example as it is run by who only wants to look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_readme_shows_what_happens() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut echo = Echo::start(folder.path(), &[], &[])?;
    let blocks = README.split("```shell\n").skip(1).filter_map(|rest| rest.split("```").next());
    let curls: Vec<&str> = blocks.map(str::trim).filter(|block| block.starts_with("curl ")).collect();
    assert_eq!(curls.len(), 2);
    for (command, message) in curls.iter().zip(["good morning", "good evening"]) {
        ensure!(command.contains(message), "{command}");
        let (before, rest) = command.split_once("\"date\": \"").context("a date")?;
        let (_, after) = rest.split_once('"').context("its end")?;
        let ask = |date: SystemTime| -> Result<String> {
            let date = humantime::format_rfc3339_millis(date);
            let command = format!("{before}\"date\": \"{date}\"{after}").replace("localhost:8080", &echo.address);
            let done = Command::new("sh").args(["-c", &format!("{command} --silent --show-error --include")]).output()?;
            Ok(String::from_utf8_lossy(&done.stdout).into_owned())
        };
        let said = ask(SystemTime::now() - Duration::from_secs(1))?;
        ensure!(said.starts_with("HTTP/1.1 400") && said.contains("in the past"), "{said}");
        let said = ask(SystemTime::now() + Duration::from_secs(1))?;
        ensure!(said.starts_with("HTTP/1.1 201") && said.contains("\"id\":\"dl_"), "{said}");
        tokio::task::block_in_place(|| until(SOON, message, || echo.process.log().lines().any(|line| line == message)))?;
    }
    ensure!(echo.send(1, "v1 message 00", SystemTime::now() + Duration::from_secs(2)).await? == 201);
    echo.process.kill9()?;
    let echo = Echo::start(folder.path(), &[], &[])?;
    let again = || until(SOON, "the message of before", || echo.process.log().lines().any(|line| line == "v1 message 00"));
    tokio::task::block_in_place(again).context("what is in ./echo-data is printed by the next one")
}

#[test]
fn the_example_is_short() {
    let lines = SOURCE.lines().count();
    assert!(lines < 200, "{lines} lines are more than an example should have");
}
