//! Deliveries on the command line: pushed, taken, shown, changed.

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use hermod_client::{BulkChange, DeliveryFilter, NewDelivery, PageRequest, QueueDraft, QueueOrder, Which};
use hermod_tests::server::hermod_binary;
use hermod_tests::until;
use serde_json::{Value, json};

use super::Shell;

/// Far more than anything here takes.
const SOON: Duration = Duration::from_secs(30);

impl Shell {
    /// What it prints as JSON, where it must end with this code.
    pub(super) fn json(&self, line: &str, code: i32) -> Result<Value> {
        let done = self.run(&format!("{line} --json"))?;
        let said = String::from_utf8(done.stdout)?;
        let told = || format!("{line}: {said}{}", String::from_utf8_lossy(&done.stderr));
        ensure!(done.status.code() == Some(code), told());
        serde_json::from_str(&said).with_context(told)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_pushed_shown_claimed_and_finished() -> Result<()> {
    let shell = Shell::start()?;
    shell.says("queues put mail --max-attempts 2 --backoff-first 1ms --backoff-jitter 0", 0)?;
    ensure!(shell.says("queues claim mail", 1)?.contains("nothing is due"), "nothing is an answer");
    let said = shell.says("queues push mail {\"n\":1} --to ann --tag a,b", 0)?;
    ensure!(said.starts_with("ID") && said.contains("added") && said.contains("ready"), "{said}");
    let later = shell.json("queues push mail 2 --in 1h --delivery-key later", 0)?;
    assert_eq!((&later["outcome"], &later["state"]), (&json!("added"), &json!("scheduled")));
    let again = shell.json("queues push mail 3 --at 2030-01-31T09:00:00+01:00 --delivery-key later --if-exists replace", 0)?;
    assert_eq!((&again["outcome"], &again["id"], &again["due"]), (&json!("replaced"), &later["id"], &json!("2030-01-31T08:00:00.000Z")));
    let said = shell.says("queues push mail hello", 2)?;
    ensure!(said.contains("not JSON"), "{said}");

    let listed = shell.says("queues show mail", 0)?;
    ensure!(listed.starts_with("ID") && listed.contains("{\"n\":1}") && listed.contains("a,b") && listed.contains("ann"), "{listed}");
    let id = later["id"].as_str().context("an id")?;
    let shown = shell.says(&format!("queues show mail {id}"), 0)?;
    ensure!(shown.contains("2030-01-31T08:00:00.000Z") && shown.contains("later"), "{shown}");
    let found = shell.json("queues show mail --delivery-key later", 0)?;
    assert_eq!((&found["items"][0]["id"], &found["items"][0]["payload"]), (&later["id"], &json!(3)));
    let stats = shell.json("queues stats mail", 0)?;
    assert_eq!((&stats["ready"], &stats["scheduled"]), (&json!(1), &json!(1)));
    ensure!(shell.says("queues stats mail", 0)?.starts_with("READY"), "people have a table");

    let claimed = shell.json("queues claim mail --count 5 --wait 5s --lease 1m", 0)?;
    let first = &claimed["deliveries"][0];
    assert_eq!((&first["payload"], &first["attempt"], &first["to"]), (&json!({"n": 1}), &json!(1), &json!("ann")));
    let (id, token) = (first["id"].as_str().context("an id")?, &first["token"]);
    ensure!(shell.says(&format!("queues cancel mail {id}"), 1)?.starts_with("leased"), "what is held is not cancelled");
    ensure!(shell.says(&format!("queues ack mail {id} 1"), 1)?.starts_with("stale"), "another token is stale");
    let said = shell.says(&format!("queues nack mail {id} {token} --delay 1ms"), 0)?;
    ensure!(said.contains("will be tried again"), "{said}");
    ensure!(shell.says(&format!("queues ack mail {id} {token}"), 1)?.starts_with("stale"), "it was given back");
    let again = shell.json("queues claim mail --wait 5s --ack", 0)?;
    assert_eq!((&again["deliveries"][0]["id"], &again["deliveries"][0]["attempt"]), (&json!(id), &json!(2)));
    assert_eq!(shell.json("queues stats mail", 0)?["leased"], 0);
    ensure!(shell.says(&format!("queues show mail {id}"), 2)?.contains("There is no delivery"), "it is finished");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_pushed_line_by_line_and_faults_have_their_numbers() -> Result<()> {
    let shell = Shell::start()?;
    let good: String = (0..1_200).map(|n| format!("{{\"payload\":{n},\"in\":\"1h\",\"tags\":[\"bulk\"]}}\n")).collect();
    shell.write("good.ndjson", &good)?;
    ensure!(shell.says("queues push mail --file good.ndjson --idempotency-key once", 0)?.starts_with("1200 added"), "all are pushed");
    ensure!(shell.says("queues push mail --file good.ndjson --idempotency-key once", 0)?.starts_with("1200 added"), "and answered again");
    assert_eq!(shell.json("queues stats mail", 0)?["scheduled"], 1_200, "but not pushed again");
    shell.write(
        "bad.ndjson",
        "{\"payload\":1,\"key\":\"k\"}\n\nnonsense\n{\"payload\":2,\"key\":\"k\"}\n{\"payload\":3,\"too\":\"ann\"}\n",
    )?;
    let said = shell.says("queues push mail --file bad.ndjson", 1)?;
    ensure!(said.contains("1 added, 1 there already, 2 refused"), "{said}");
    ensure!(said.contains("bad.ndjson:3: ") && said.contains("bad.ndjson:5: ") && said.contains("unknown_field"), "{said}");
    let told = shell.json("queues push mail --file bad.ndjson", 1)?;
    assert_eq!((&told["kept"], &told["refused"][1]["line"]), (&json!(2), &json!(5)));
    ensure!(shell.says("queues push mail --file none.ndjson", 2)?.contains("none.ndjson"), "a file that is not there");

    let page = shell.json("queues show mail --tag bulk --limit 7", 0)?;
    ensure!(page["items"].as_array().is_some_and(|items| items.len() == 7) && page["next"].is_string(), "{page}");
    ensure!(shell.says("queues cancel mail", 2)?.contains("required"), "nobody empties a queue by leaving out a word");
    ensure!(shell.says("queues cancel mail --tag bulk", 0)?.starts_with("1200 cancelled"), "more than one call");
    ensure!(shell.says("queues cancel mail --all", 0)?.starts_with("1 cancelled"), "what is left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packed_message_is_relayed_from_a_file_and_from_standard_input() -> Result<()> {
    let shell = Shell::start()?;
    let message = r#"{"recipients":[{"header":{"kid":"did:example:bob#key-1"},"encrypted_key":"k"}],"ciphertext":"c"}"#;
    shell.write("message.json", message)?;
    let said = shell.says("queues relay inbox message.json --idempotency-key once", 0)?;
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    ensure!(lines[0] == ["ID", "TO"] && lines[1][0].starts_with("dl_") && lines[1][1] == "did:example:bob", "{said}");
    let again = shell.json("queues relay inbox message.json --idempotency-key once", 0)?;
    assert_eq!((&again["id"], &again["to"], &again["outcome"]), (&json!(lines[1][0]), &json!("did:example:bob"), &json!("added")));
    let mut command = Command::new(hermod_binary()?);
    command.args(["queues", "relay", "inbox", "-"]).env("HERMOD_SERVER", shell.hermod.url()?).current_dir(shell.folder.path());
    let done = command.stdin(std::fs::File::open(shell.folder.path().join("message.json"))?).output()?;
    ensure!(done.status.success() && String::from_utf8(done.stdout)?.contains("did:example:bob"), "from standard input");
    shell.write("message.json", r#"{"protected":"e30"}"#)?;
    let said = shell.says("queues relay inbox message.json", 2)?;
    ensure!(said.contains("recipients"), "{said}");
    ensure!(shell.says("queues relay inbox none.json", 2)?.contains("none.json"), "a file that is not there");

    let client = hermod_client::Client::new(shell.hermod.url()?)?;
    let relayed = client.queues().relay("inbox", message).await?;
    assert_eq!(relayed.to, "did:example:bob");
    let refused = client.queues().relay("inbox", "{}").await;
    let Err(hermod_client::ClientError::Problem(problem)) = refused else { anyhow::bail!("{refused:?}") };
    assert_eq!((problem.code.as_str(), problem.field.as_deref()), ("missing_field", Some("protected")));
    assert_eq!(shell.json("queues stats inbox", 0)?["ready"], 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_put_off_is_put_off_once() -> Result<()> {
    let shell = Shell::start()?;
    let client = hermod_client::Client::new(shell.hermod.url()?)?;
    let queues = client.queues();
    queues.put("mail", &QueueDraft::new().order(QueueOrder::Total)).await?;
    let due = SystemTime::now() + Duration::from_secs(3_600);
    let many: Vec<NewDelivery<u32>> = (0..2_500).map(|n| NewDelivery::new(n).due(due).tag("t")).collect();
    ensure!(queues.push_all("mail", &many).await?.iter().all(Result::is_ok), "all are pushed");
    for (which, shifted) in [(Which::Waiting, 1), (Which::Tag("t".to_owned()), 2)] {
        let bulk = queues.shift_all("mail", &which, Duration::from_secs(60)).await?;
        assert_eq!((bulk.done, bulk.others), (2_500, 0), "{which:?}");
        let expected = due + Duration::from_secs(60 * shifted);
        let around =
            DeliveryFilter::Between(Some((expected - Duration::from_secs(1)).into()), Some((expected + Duration::from_secs(1)).into()));
        let (mut seen, mut page) = (0, PageRequest::default().limit(1_000));
        loop {
            let some = queues.deliveries("mail", &around, &page).await?;
            seen += some.items.len();
            page.cursor = some.next;
            if page.cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, 2_500, "each by a minute, {which:?}");
    }
    let back = queues.change_all("mail", BulkChange::Earlier(Duration::from_secs(120)), &Which::Waiting).await?;
    assert_eq!(back.done, 2_500);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_rescheduled_rewritten_and_shifted_and_what_is_held_is_extended() -> Result<()> {
    let shell = Shell::start()?;
    let pushed = shell.json("queues push mail 1 --in 1h --tag a", 0)?;
    let id = pushed["id"].as_str().context("an id")?;
    let due = || Ok::<_, anyhow::Error>(shell.json(&format!("queues show mail {id}"), 0)?["due"].clone());
    ensure!(shell.says(&format!("queues reschedule mail {id}"), 2)?.contains("required"), "a time is to be said");
    let said = shell.says(&format!("queues reschedule mail {id} --at 2030-01-31T09:00:00+01:00"), 0)?;
    ensure!(said.contains("is due at 2030-01-31T08:00:00.000Z"), "{said}");
    ensure!(shell.says("queues shift mail 1h", 2)?.contains("required"), "which is to be said");
    ensure!(shell.says("queues shift mail 1h --all", 0)?.starts_with("1 shifted"), "later");
    ensure!(shell.says("queues shift mail 10m --earlier --tag a", 0)?.starts_with("1 shifted"), "earlier");
    assert_eq!(due()?, "2030-01-31T08:50:00.000Z");
    let between = "queues shift mail 1m --from 2030-01-31T08:00:00Z --until 2030-01-31T08:50:00Z";
    ensure!(shell.says(between, 0)?.starts_with("0 shifted"), "the end is not among them");
    let said = shell.says(&format!("queues rewrite mail {id} hello"), 2)?;
    ensure!(said.contains("not JSON"), "{said}");
    ensure!(shell.says(&format!("queues rewrite mail {id} {{\"n\":2}}"), 0)?.contains("carries something else"), "rewritten");

    shell.says(&format!("queues reschedule mail {id} --in 0s"), 0)?;
    let held = shell.json("queues claim mail --wait 5s --lease 1m", 0)?["deliveries"][0].clone();
    assert_eq!(held["payload"], json!({"n": 2}));
    let extended = shell.json(&format!("queues extend mail {id} {} --lease 1h", held["token"]), 0)?;
    assert_eq!(extended["outcome"], "extended");
    let until = extended["lease_until"].as_str().context("a time")?;
    ensure!(until > held["lease_until"].as_str().context("a time")?, "{extended}");
    ensure!(shell.says(&format!("queues extend mail {id} 1"), 1)?.starts_with("stale"), "another token is stale");
    ensure!(shell.says(&format!("queues rewrite mail {id} 3"), 1)?.starts_with("leased"), "what is held stays as it is");

    ensure!(shell.says("queues delete mail", 2)?.contains("queue_not_empty"), "it holds one");
    ensure!(shell.says("queues delete mail --purge", 2)?.contains("1 leased"), "which is somebody's");
    shell.says(&format!("queues ack mail {id} {}", held["token"]), 0)?;
    shell.says("queues push mail 4 --in 1h", 0)?;
    ensure!(shell.says("queues delete mail --purge", 0)?.contains("mail is removed"), "what waits goes with it");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_failed_for_good_is_listed_redriven_and_purged() -> Result<()> {
    let shell = Shell::start()?;
    shell.says("queues put mail --max-attempts 1", 0)?;
    let mut ids = Vec::new();
    for n in 0..3 {
        shell.says(&format!("queues push mail {n}"), 0)?;
        let held = shell.json("queues claim mail --wait 5s", 0)?["deliveries"][0].clone();
        let id = held["id"].as_str().context("an id")?.to_owned();
        ensure!(shell.says(&format!("queues nack mail {id} {}", held["token"]), 0)?.contains("is dead"), "its only attempt");
        ids.push(id);
    }
    let listed = shell.says("queues dead mail", 0)?;
    ensure!(ids.iter().all(|id| listed.contains(id)), "{listed}");
    ensure!(shell.says("queues dead mail redrive", 2)?.contains("--id"), "which is to be said");
    let first = &ids[0];
    ensure!(shell.says(&format!("queues dead mail redrive --id {first}"), 0)?.contains("due again"), "one");
    ensure!(shell.says(&format!("queues dead mail redrive --id {first}"), 1)?.starts_with("alive"), "it is not dead any more");
    ensure!(shell.says(&format!("queues dead mail purge --id {first}"), 2)?.contains("is not dead"), "and is not purged");
    ensure!(shell.says(&format!("queues dead mail purge --id {}", ids[1]), 0)?.contains("forgotten"), "one");
    ensure!(shell.says("queues dead mail redrive --all", 0)?.starts_with("1 redriven"), "the last");
    assert_eq!(shell.json("queues stats mail", 0)?["ready"], 2);
    ensure!(shell.says("queues dead mail purge --all", 0)?.starts_with("0 purged"), "none is left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_prints_and_finishes_until_it_is_interrupted() -> Result<()> {
    let shell = Shell::start()?;
    let printed = shell.folder.path().join("printed");
    let mut command = Command::new(hermod_binary()?);
    command.args(["queues", "tail", "mail", "--credits", "4", "--json"]).env("HERMOD_SERVER", shell.hermod.url()?);
    let mut tail = command.stdout(std::fs::File::create(&printed)?).stderr(Stdio::null()).spawn()?;
    for n in 0..5 {
        shell.says(&format!("queues push mail {n} --to ann --in {}ms", 50 * n), 0)?;
    }
    let lines = || std::fs::read_to_string(&printed).unwrap_or_default();
    until(SOON, "five lines", || lines().lines().count() >= 5)?;
    until(SOON, "all to be finished", || shell.json("queues stats mail", 0).is_ok_and(|stats| stats["leased"] == 0))?;
    let killed = Command::new("sh").args(["-c", &format!("kill -INT {}", tail.id())]).status()?;
    ensure!(killed.success());
    ensure!(tail.wait()?.success(), "an interrupt ends it cleanly");
    let payloads: Vec<Value> =
        lines().lines().map(|line| Ok(serde_json::from_str::<Value>(line)?["payload"].clone())).collect::<Result<_>>()?;
    assert_eq!(payloads, [0, 1, 2, 3, 4].map(Value::from));
    Ok(())
}
