//! Decks on the command line: made by flags, and kept in a file.

use anyhow::{Result, ensure};
use serde_json::json;

use super::Shell;

const TIPS: &str = "\
deck: tips
strategy: sequence
subject_cap: ~
quiet_hours: {from: 22:00, to: 08:00}
timezone: Europe/Berlin
messages:
  - id: welcome
    body: {text: Good to see you., buttons: [ok, 2.5, ~]}
  - id: mute
    body: You can mute me.
    to: {tags: [new]}
    when: attributes.plan == 'free'
    cap: {tokens: 1, per: 30days}
    starts_at: 2030-01-31T09:00:00Z
  - {id: own, body: 3, to: {subjects: [ann, bob]}, active: false}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deck_comes_from_a_file_and_goes_back_to_one() -> Result<()> {
    let shell = Shell::start()?;
    shell.write("tips.yaml", TIPS)?;
    let said = shell.says("decks apply -f tips.yaml --dry-run", 0)?;
    ensure!(said.contains("+ deck tips") && said.contains("+ own") && said.contains("Nothing was changed"), "{said}");
    ensure!(shell.says("decks get tips", 2)?.contains("deck_not_found"), "a dry run made a deck");
    let said = shell.says("decks apply -f tips.yaml", 0)?;
    ensure!(said.contains("4 created"), "{said}");
    ensure!(shell.says("decks apply -f tips.yaml", 0)?.contains("4 unchanged"), "a second time changes nothing");
    shell.write("tips.yaml", &TIPS.replace("per: 30days", "per: 60days").replace("sequence", "weighted"))?;
    let said = shell.says("decks apply -f tips.yaml", 0)?;
    ensure!(said.contains("~ deck tips  strategy: sequence -> weighted") && said.contains("~ mute  cap: "), "{said}");
    ensure!(said.contains("2 changed, 2 unchanged"), "{said}");
    // What was exported is what is there, as YAML and as JSON.
    shell.says("decks export tips -o copy.yaml", 0)?;
    shell.says("decks export tips -o copy.json --json", 0)?;
    let copy = shell.read("copy.yaml")?;
    let places = ["welcome", "mute", "own"].map(|id| copy.find(&format!("id: {id}")));
    ensure!(places.is_sorted() && places[0].is_some(), "they are in the order they were made:\n{copy}");
    for copy in ["copy.yaml", "copy.json"] {
        ensure!(shell.says(&format!("decks apply -f {copy} --prune --yes"), 0)?.contains("4 unchanged"), "{copy}");
    }
    shell.write("less.yaml", "deck: tips\nstrategy: weighted\nmessages: [{id: mute, body: Mute me.}]\n")?;
    let said = shell.says("decks apply -f less.yaml", 0)?;
    ensure!(said.contains("2 messages not in the file: left as is"), "{said}");
    ensure!(shell.says("decks apply -f less.yaml --prune", 2)?.contains("would delete 2 messages; add --yes"), "nobody can be asked");
    let done = shell.json("decks apply -f less.yaml --prune --yes", 0)?;
    assert_eq!((&done["deleted"], &done["unchanged"], &done["changes"][0]["what"]), (&json!(2), &json!(2), &json!("message")));
    let said = shell.says("decks messages tips list", 0)?;
    ensure!(said.starts_with("ID") && said.lines().count() == 2 && said.contains("mute"), "{said}");

    let faulty = TIPS.replace("tokens: 1", "tokens: 0").replace("active: false", "actve: false");
    shell.write("tips.yaml", &faulty)?;
    let said = shell.says("decks apply -f tips.yaml", 1)?;
    ensure!(said.contains("tips.yaml:13:19: message mute: cap.tokens must be at least 1"), "{said}");
    ensure!(said.contains("tips.yaml:15:") && said.contains("There is no field actve here. Did you mean active?"), "{said}");
    ensure!(said.contains("Nothing was changed: tips.yaml has 2 faults."), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decks_and_messages_are_made_by_flags() -> Result<()> {
    let shell = Shell::start()?;
    let said =
        shell.says("decks put tips --subject-cap 3/day/calendar --quiet-hours 22:00-08:00 --timezone Europe/Berlin --history-max 64", 0)?;
    let row: Vec<&str> = said.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(row, ["tips", "fresh_lru", "3/day/calendar", "22:00-08:00", "Europe/Berlin", "history_max=64"]);
    let deck = shell.json("decks put tips --subject-cap none", 0)?;
    assert_eq!((&deck["subject_cap"], &deck["version"]), (&json!(null), &json!(2)));
    ensure!(shell.says("decks put tips --subject-cap often", 2)?.contains("TOKENS/PER"), "a cap has a form");
    let made = shell.json(
        "decks messages tips put m {\"n\":1} --to ann,bob --weight 3 --priority -2 --cap 1/1h --tag news --critical --starts-at 2030-01-31T09:00:00+01:00",
        0,
    )?;
    let expected = json!({"id": "m", "body": {"n": 1}, "to": {"subjects": ["ann", "bob"]}, "weight": 3, "priority": -2, "active": true,
        "starts_at": "2030-01-31T08:00:00.000Z", "cap": {"tokens": 1, "per": "1h", "kind": "bucket"}, "tags": ["news"], "critical": true,
        "ordinal": 0, "version": 1});
    assert_eq!(made, expected);
    shell.says("decks messages tips put n true --to-tag vip --inactive", 0)?;
    let said = shell.says("decks messages tips list", 0)?;
    ensure!(said.contains("2 subjects") && said.contains("tags vip"), "{said}");
    assert_eq!(shell.json("decks messages tips get n", 0)?["active"], false);
    ensure!(shell.says("decks messages tips put m hello", 2)?.contains("not JSON"), "a text needs quotes");
    shell.says("decks messages tips delete m", 0)?;
    ensure!(shell.says("decks messages tips get m", 2)?.contains("message_not_found"), "it is gone");
    shell.says("decks delete tips", 0)?;
    ensure!(shell.json("decks list", 0)?["items"].as_array().is_some_and(Vec::is_empty), "it is gone");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_picked_settled_and_told_of() -> Result<()> {
    let shell = Shell::start()?;
    shell.says("decks put tips --strategy sequence --subject-cap 1/1h", 0)?;
    for id in ["first", "second"] {
        shell.says(&format!("decks messages tips put {id} {{\"text\":\"{id}\"}}"), 0)?;
    }
    ensure!(shell.says("decks pick tips ann --dry-run", 0)?.starts_with("first  {\"text\":\"first\"}"), "nothing is changed");
    let said = shell.says("decks pick tips ann --simulate 3", 0)?;
    ensure!(said.lines().count() == 4 && said.contains("second"), "{said}");
    let picked = shell.json("decks pick tips ann --reserve 30s", 0)?;
    let pick = picked["pick"].as_str().unwrap_or_default();
    let said = shell.says("decks pick tips ann --explain", 1)?;
    ensure!(said.starts_with("none: subject_cap, ask again at ") && said.contains("VERDICT"), "{said}");
    ensure!(shell.says(&format!("decks nack {pick}"), 0)?.trim() == "nacked", "it was not settled");
    ensure!(shell.says(&format!("decks ack {pick}"), 1)?.contains("nacked before; nothing was changed"), "it was settled");
    shell.says("decks pick tips ann", 0)?;
    let said = shell.says("decks history tips ann", 0)?;
    ensure!(said.contains("first") && said.contains("2 picks in all") && said.contains("the next one not before"), "{said}");
    let said = shell.says(
        "subjects put ben --tag vip,staff --attributes {\"level\":3} --timezone Europe/Berlin --quiet 22:00-08:00 --opt-out ads",
        0,
    )?;
    ensure!(said.contains("vip,staff") && said.contains("22:00-08:00") && said.contains("{\"level\":3}"), "{said}");
    assert_eq!(shell.json("subjects get ben", 0)?["opt_out"], json!(["ads"]));
    ensure!(shell.says("subjects forget ben", 0)?.contains("forgotten"), "it was not forgotten");
    shell.says("subjects forget ben", 2)?;
    shell.says("subjects put ben --mute-until 2200-01-01T00:00:00Z", 0)?;
    ensure!(shell.says("decks pick tips ben", 1)?.contains("none: muted, ask again at 2200-01-01"), "it is muted");
    ensure!(shell.says("subjects put ben --timezone Mars/Base", 2)?.contains("timezone"), "the field is named");
    Ok(())
}
