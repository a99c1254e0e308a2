//! Events on the command line: listed, and followed.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_client::{Client, DeckDraft, MessageDraft, PickRequest};
use hermod_tests::server::hermod_binary;
use hermod_tests::until;
use serde_json::Value;

use super::Shell;

/// Far more than anything here takes.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_a_realm_are_followed_until_interrupted() -> Result<()> {
    let shell = Shell::start()?;
    shell.write("den.yaml", "realm: den\nassets:\n  coin: {kind: currency}\n")?;
    shell.says("realms apply -f den.yaml", 0)?;
    shell.says("realms commit den --leg @mint->111:coin:1", 0)?;
    let printed = shell.folder.path().join("printed");
    let mut command = Command::new(hermod_binary()?);
    command.args(["realms", "events", "den", "--follow", "--after", "0", "--json"]).env("HERMOD_SERVER", shell.hermod.url()?);
    let mut tail = command.stdout(std::fs::File::create(&printed)?).stderr(Stdio::null()).spawn()?;
    let lines = || std::fs::read_to_string(&printed).unwrap_or_default();
    until(SOON, "what was before", || lines().lines().count() >= 1)?;
    shell.says("realms commit den --leg 111->222:coin:1", 0)?;
    until(SOON, "what comes then", || lines().lines().count() >= 3)?;
    ensure!(Command::new("sh").args(["-c", &format!("kill -INT {}", tail.id())]).status()?.success());
    ensure!(tail.wait()?.success(), "an interrupt ends it cleanly");
    let ids = lines().lines().map(|line| Ok(serde_json::from_str::<Value>(line)?["id"].clone())).collect::<Result<Vec<_>>>()?;
    assert_eq!(ids, ["1-0", "2-0", "2-1"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_listed_and_followed_until_interrupted() -> Result<()> {
    let shell = Shell::start()?;
    let client = Client::new(shell.hermod.url()?)?;
    // What the server makes of its own accord is somewhere else.
    client.decks().put("news", &DeckDraft::new().subject_cap(None)).await?;
    client.decks().messages("news").put("m1", &MessageDraft::new("Hello.")).await?;
    let pick = async |subject: &str| client.decks().pick("news", &PickRequest::new(subject)).await;
    pick("ann-7").await?;
    let said = shell.says("events list --subject ann-7", 0)?;
    ensure!(said.starts_with("TIME") && said.lines().count() == 2, "{said}");
    let row: Vec<&str> = said.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(row[1..], ["message.picked", "ann-7", "news", "m1"]);
    let listed = shell.json("events list --subject ann-7 --type message.acked", 0)?;
    ensure!(listed["items"].as_array().is_some_and(Vec::is_empty), "{listed}");
    ensure!(shell.says("events list --type message.eaten", 2)?.contains("message.picked"), "it says which there are");

    let next = shell.json("events list", 0)?["next"].as_str().context("a cursor")?.to_owned();
    let printed = shell.folder.path().join("printed");
    let mut command = Command::new(hermod_binary()?);
    command.args(["events", "tail", "--json", "--subject", "ben-7", "--after", &next]).env("HERMOD_SERVER", shell.hermod.url()?);
    let mut tail = command.stdout(std::fs::File::create(&printed)?).stderr(Stdio::null()).spawn()?;
    for subject in ["ben-7", "cem-7", "ben-7"] {
        pick(subject).await?;
    }
    let lines = || std::fs::read_to_string(&printed).unwrap_or_default();
    until(SOON, "two lines", || lines().lines().count() >= 2)?;
    ensure!(Command::new("sh").args(["-c", &format!("kill -INT {}", tail.id())]).status()?.success());
    ensure!(tail.wait()?.success(), "an interrupt ends it cleanly");
    for line in lines().lines() {
        let event: Value = serde_json::from_str(line)?;
        assert_eq!((&event["type"], &event["subject"], &event["message"]), (&"message.picked".into(), &"ben-7".into(), &"m1".into()));
    }
    Ok(())
}
