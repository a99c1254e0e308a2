//! Workers of sticky queues on the command line: listed, explained, drained, pinned; claims and tails by one of them.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_tests::server::hermod_binary;
use hermod_tests::until;
use serde_json::{Value, json};

use super::Shell;

/// Far more than anything here takes.
const SOON: Duration = Duration::from_secs(30);

impl Shell {
    /// Starts a command that goes on, which prints to these files.
    fn spawn(&self, line: &str, printed: &str, told: &str) -> Result<Child> {
        let file = |name: &str| std::fs::File::create(self.folder.path().join(name));
        let mut command = Command::new(hermod_binary()?);
        command.args(line.split_whitespace()).env("HERMOD_SERVER", self.hermod.url()?).stdin(Stdio::null());
        Ok(command.stdout(file(printed)?).stderr(file(told)?).spawn()?)
    }

    fn printed(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// One worker as it is listed.
    fn worker(&self, name: &str) -> Result<Value> {
        let listed = self.json("queues workers inbox", 0)?;
        Ok(listed["items"].as_array().into_iter().flatten().find(|worker| worker["worker"] == name).cloned().unwrap_or_default())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recipient_is_parked_claimed_pinned_and_drained_away() -> Result<()> {
    let shell = Shell::start()?;
    shell.says("queues put inbox --mode sticky --worker-ttl 5m --lease 5m", 0)?;
    for n in 1..=3 {
        shell.says(&format!("queues push inbox {n} --to ann"), 0)?;
    }
    let said = shell.says("queues workers inbox", 0)?;
    ensure!(said.starts_with("WORKER") && said.trim_end().ends_with("parked: 1"), "{said}");
    ensure!(shell.says("queues explain inbox ann", 0)?.starts_with("ann is parked: it waits for a worker"), "no worker parks");
    ensure!(shell.says("queues claim inbox", 2)?.contains("sticky"), "who asks is to be said");
    ensure!(shell.says("queues claim inbox --incarnation 7", 2)?.contains("--worker"), "an incarnation is that of a worker");

    let held = shell.json("queues claim inbox --worker w1 --wait 10s", 0)?;
    let first = &held["deliveries"][0];
    assert_eq!((&first["payload"], &first["to"]), (&json!(1), &json!("ann")));
    let incarnation = held["incarnation"].as_u64().context("the incarnation is told")?;
    let said = shell.says(&format!("queues claim inbox --worker w1 --incarnation {incarnation}"), 1)?;
    ensure!(said.contains("nothing is due") && said.contains(&format!("w1 is incarnation {incarnation}")), "one at a time: {said}");
    let said = shell.says("queues workers inbox", 0)?;
    let row: Vec<&str> = said.lines().nth(1).context("a row")?.split_whitespace().collect();
    ensure!(row[..2] == ["w1", "live"] && row[3..] == ["1", "1", "3", "1"] && said.trim_end().ends_with("parked: 0"), "{said}");
    let left: f64 = row[2].trim_end_matches('s').parse()?;
    ensure!((200.0..=300.0).contains(&left), "{said}");
    let said = shell.says("queues explain inbox ann", 0)?;
    ensure!(said.starts_with("ann is owned by w1, since ") && said.contains("not finished: 3") && said.contains("attempt 1"), "{said}");

    shell.says("queues claim inbox --worker w2", 1)?;
    ensure!(shell.says("queues pin inbox ann", 2)?.contains("--any"), "whom is to be said");
    ensure!(shell.says("queues pin inbox ann w2 --idempotency-key once", 0)?.contains("pinned to w2"), "pinned");
    let explained = shell.json("queues explain inbox ann", 0)?;
    assert_eq!((&explained["worker"], &explained["pinned_to"]), (&json!("w1"), &json!("w2")), "from its next delivery on");
    shell.says(&format!("queues ack inbox {} {}", first["id"].as_str().context("an id")?, first["token"]), 0)?;
    let explained = shell.json("queues explain inbox ann", 0)?;
    assert_eq!((&explained["worker"], &explained["changes"][0]["why"]), (&json!("w2"), &json!("pinned")));
    ensure!(!shell.says("queues pin inbox ann --any", 0)?.contains("pinned to"), "to nobody");

    // What is in flight is finished first; whoever waits is told how far it has come.
    let held = shell.json("queues claim inbox --worker w2 --wait 10s", 0)?;
    let mut waits = shell.spawn("queues drain inbox w2 --wait", "drained", "progress")?;
    until(SOON, "progress to be told", || shell.printed("progress").contains("1 deliveries in flight"))?;
    ensure!(waits.try_wait()?.is_none(), "it waits for what is in flight");
    let second = &held["deliveries"][0];
    shell.says(&format!("queues ack inbox {} {}", second["id"].as_str().context("an id")?, second["token"]), 0)?;
    ensure!(waits.wait()?.success(), "{}", shell.printed("progress"));
    ensure!(shell.printed("drained").starts_with("w2 is drained"), "{}", shell.printed("drained"));
    let said = shell.says("queues explain inbox ann", 0)?;
    ensure!(said.starts_with("ann is owned by w1, since ") && said.contains("w2 drains"), "{said}");
    assert_eq!(shell.json("queues drain inbox w1", 0)?["state"], "draining");
    ensure!(shell.says("queues drain inbox w9", 2)?.contains("worker_gone"), "there is no such worker");
    ensure!(shell.says("queues explain inbox ann", 0)?.contains("is parked"), "nobody is left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_is_a_worker_until_it_is_interrupted_or_another_has_its_name() -> Result<()> {
    let shell = Shell::start()?;
    shell.says("queues put inbox --mode sticky --worker-ttl 5m", 0)?;
    ensure!(shell.says("queues tail inbox", 2)?.contains("sticky"), "who listens is to be said");
    let mut first = shell.spawn("queues tail inbox --worker w1 --credits 4 --json", "first", "first-told")?;
    until(SOON, "w1 to be there", || shell.worker("w1").is_ok_and(|worker| worker["state"] == "live"))?;
    for n in 0..5 {
        shell.says(&format!("queues push inbox {n} --to ann"), 0)?;
    }
    until(SOON, "five lines", || shell.printed("first").lines().count() >= 5)?;
    let payloads: Vec<Value> =
        shell.printed("first").lines().map(|line| Ok(serde_json::from_str::<Value>(line)?["payload"].clone())).collect::<Result<_>>()?;
    assert_eq!(payloads, [0, 1, 2, 3, 4].map(Value::from));
    let explained = shell.json("queues explain inbox ann", 0)?;
    assert_eq!((&explained["worker"], &explained["worker_state"]), (&json!("w1"), &json!("live")));

    shell.says("queues claim inbox --worker w1", 1)?;
    shell.says("queues push inbox 5 --to ann", 0)?;
    until(SOON, "the later one of a name to stay", || first.try_wait().is_ok_and(|ended| ended.is_some()))?;
    ensure!(first.wait()?.code() == Some(2) && shell.printed("first-told").contains("worker_gone"), "{}", shell.printed("first-told"));
    let mut second = shell.spawn("queues tail inbox --worker w1", "second", "second-told")?;
    until(SOON, "what waited for it", || shell.printed("second").contains("ann: 5"))?;
    let killed = Command::new("sh").args(["-c", &format!("kill -INT {}", second.id())]).status()?;
    ensure!(killed.success() && second.wait()?.success(), "an interrupt ends it cleanly");
    let worker = shell.worker("w1")?;
    ensure!(worker.is_null() || worker["state"] == "gone", "it has left: {worker}");
    Ok(())
}

#[test]
fn a_tail_is_interrupted_also_where_the_server_never_answers() -> Result<()> {
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let mut command = Command::new(hermod_binary()?);
    command.args(["queues", "tail", "inbox", "--worker", "w1", "--server", &format!("http://{}", silent.local_addr()?)]);
    let mut tail = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // Who asks has begun to listen for signals before.
    let _asked = silent.accept()?;
    let killed = Command::new("sh").args(["-c", &format!("kill -INT {}", tail.id())]).status()?;
    ensure!(killed.success());
    // Its request would wait for longer, and then fail.
    let ended = tail.wait()?;
    ensure!(ended.success(), "an interrupt ends it cleanly: {ended}");
    Ok(())
}
