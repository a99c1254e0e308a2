//! Realms on the command line: kept in a file, compared, applied, and what is wrong with its place.

use anyhow::{Result, ensure};
use serde_json::json;

use super::Shell;

const AJO: &str = "\
realm: ajo
description: Garlic and all that grows.
timezone: Europe/Berlin
assets:
  ajo: {kind: currency, board: true}
  bone: {max: 206}
  gear: {max: 20}
timers:
  daily: {every: 24h}
tables:
  finds: {of: 100000, drops: {bone: 2500}}
plays:
  daily:
    description: A wage.
    need:
      - {timer: daily, else: ttl}
    do:
      - claim: {timer: daily}
      - move: {from: '@mint', to: by, asset: ajo, qty: 32}
  pay:
    args: {to: owner, amount: {type: amount, round_up: true}}
    need:
      - {if: amount > 0, else: err}
    do:
      - move: {from: by, to: to, asset: ajo, qty: amount, event: [payer, payee]}
rules:
  - {on: payer, play: daily, mode: after}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_realm_comes_from_a_file_and_goes_back_to_one() -> Result<()> {
    let shell = Shell::start()?;
    shell.write("ajo.yaml", AJO)?;
    let said = shell.says("realms apply -f ajo.yaml --dry-run", 0)?;
    ensure!(!said.contains("odds: unknown"), "nothing draws: {said}");
    shell.write(
        "bet.yaml",
        &AJO.replace(
            "  pay:\n    args",
            "  bet:\n    args: {n: amount}\n    roll: {win: [1, 4]}\n    need: [{if: win == n, else: lost}]\n  pay:\n    args",
        ),
    )?;
    let bet = shell.says("realms apply -f bet.yaml --dry-run", 0)?;
    ensure!(bet.contains("play bet") && bet.contains("odds: unknown, give a sample\n"), "{bet}");
    ensure!(said.contains("+ realm ajo") && said.contains("1 to create") && said.contains("Nothing was changed"), "{said}");
    ensure!(shell.says("realms get ajo", 2)?.contains("realm_not_found"), "a dry run made a realm");
    ensure!(shell.says("realms apply -f ajo.yaml", 0)?.contains("1 created"), "it is made");
    ensure!(shell.says("realms apply -f ajo.yaml", 0)?.contains("1 unchanged"), "a second time changes nothing");

    let changed =
        AJO.replace("max: 206", "max: 99").replace("qty: 32", "qty: 64").replace("tables:", "recipes: {bone: {take: {ajo: 5}}}\ntables:");
    shell.write("ajo.yaml", &changed)?;
    let lines = ["~ realm ajo", "~ assets.bone.max: 206 -> 99", "~ plays.daily.do[1].move.qty: 32 -> 64", "+ recipes.bone"];
    for (line, summary) in [("realms apply -f ajo.yaml --dry-run", "1 to change"), ("realms apply -f ajo.yaml", "1 changed")] {
        let said = shell.says(line, 0)?;
        ensure!(lines.iter().all(|line| said.contains(line)) && said.contains(summary), "{said}");
    }
    let done = shell.json("realms apply -f ajo.yaml --realm ajo-test", 0)?;
    assert_eq!((&done["created"], &done["changes"][0]["id"]), (&json!(1), &json!("ajo-test")));

    // What was exported is what is there, as YAML and as JSON.
    shell.says("realms export ajo -o copy.yaml", 0)?;
    shell.says("realms export ajo -o copy.json --json", 0)?;
    let copy = shell.read("copy.yaml")?;
    ensure!(copy.starts_with("realm: ajo\ndescription: Garlic and all that grows.\ntimezone: Europe/Berlin\nassets:\n"), "{copy}");
    for copy in ["copy.yaml", "copy.json"] {
        ensure!(shell.says(&format!("realms apply -f {copy}"), 0)?.contains("1 unchanged"), "{copy}");
    }
    let said = shell.says("realms list", 0)?;
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(rows, [["REALM", "VERSION", "ASSETS", "PLAYS"], ["ajo", "2", "3", "2"], ["ajo-test", "1", "3", "2"]]);
    let said = shell.says("realms get ajo", 0)?;
    ensure!(said.starts_with("realm ajo, version 2\nGarlic") && said.contains("currency") && said.contains("amount, to"), "{said}");
    assert_eq!(shell.json("realms get ajo", 0)?["definition"]["assets"]["bone"]["max"], 99);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_of_a_realm_has_its_line_and_column() -> Result<()> {
    let shell = Shell::start()?;
    let applied = |text: &str| {
        shell.write("ajo.yaml", text)?;
        shell.says("realms apply -f ajo.yaml", 1)
    };
    let said = applied(&AJO.replace("qty: amount", "qy: amount"))?;
    ensure!(said.contains("ajo.yaml:25:50: realm ajo: There is no field plays.pay.do[0].move.qy; there may be one of from, to"), "{said}");
    let said = applied(&AJO.replace("max: 206", "max: many"))?;
    ensure!(said.contains("ajo.yaml:6:15: realm ajo: assets.bone.max must be a whole number of at least 0."), "{said}");
    ensure!(said.contains("Nothing was changed: ajo.yaml has 1 fault."), "{said}");
    // What is wrong with formulas and names is told at once.
    let said = applied(&AJO.replace("if: amount > 0", "if: amnt > 0").replace("claim: {timer: daily}", "claim: {timer: dayly}"))?;
    ensure!(said.contains("ajo.yaml:18:24: realm ajo: plays.daily.do[0].claim.timer: "), "{said}");
    ensure!(said.contains("ajo.yaml:23:14: realm ajo: plays.pay.need[0].if: "), "{said}");
    ensure!(said.contains("Nothing was changed: ajo.yaml has 2 faults."), "{said}");
    ensure!(shell.says("realms list", 0)?.lines().count() == 1, "nothing of it was applied");

    shell.write("ajo.yaml", AJO)?;
    shell.says("realms apply -f ajo.yaml", 0)?;
    // What the realm that is there has settled: what is gone from the file has the place of what it was in.
    shell.write("ajo.yaml", &AJO.replace(", board: true", "").replace("  gear: {max: 20}\n", ""))?;
    for line in ["realms apply -f ajo.yaml", "realms apply -f ajo.yaml --dry-run"] {
        let said = shell.says(line, 1)?;
        ensure!(said.contains("ajo.yaml:5:8: realm ajo: assets.ajo.board: was settled as true"), "{said}");
        ensure!(said.contains("ajo.yaml:5:3: realm ajo: assets.gear: an asset is never removed"), "{said}");
    }
    let done = shell.run("realms apply -f ajo.yaml --dry-run --json")?;
    let told: serde_json::Value = serde_json::from_slice(&done.stderr)?;
    assert_eq!((&told["faults"][0]["realm"], &told["faults"][0]["line"]), (&json!("ajo"), &json!(5)));
    assert_eq!(shell.json("realms get ajo", 0)?["version"], 1);
    Ok(())
}
