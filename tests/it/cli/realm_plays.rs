//! What is done in a realm from the command line, and what its books say: the example ajo.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Shell;

const AJO: &str = include_str!("../../../examples/ajo/ajo.yaml");

fn ajo() -> Result<Shell> {
    let shell = Shell::start()?;
    shell.write("ajo.yaml", AJO)?;
    ensure!(shell.says("realms apply -f ajo.yaml", 0)?.contains("1 created"), "it is made");
    Ok(shell)
}

fn text<'a>(document: &'a Value, field: &str) -> Result<&'a str> {
    document[field].as_str().with_context(|| format!("{field} of {document}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_play_says_what_changed_or_why_not() -> Result<()> {
    let shell = ajo()?;
    let said = shell.says("realms commit ajo --leg @mint->111:ajo:100 --leg @mint->111:bone:5 --note start", 0)?;
    assert_eq!(said, "done: cm_1\n\nOWNER  ASSET  CHANGE  NOW\n111    ajo    +100    100\n111    bone   +5      5\n");
    let played = shell.json("realms play ajo gamble --by 111 amount=all", 0)?;
    let (won, now) = (&played["return"]["won"], &played["balances"]["111"]["ajo"]);
    ensure!(if *won == json!(true) { now.as_i64() > Some(100) } else { *now == json!(0) }, "{played}");
    ensure!(*won == json!(played["draws"]["gamble.win"] == 1), "what was drawn is what came of it: {played}");

    shell.says("realms play ajo daily --by 222", 0)?;
    let said = shell.says("realms play ajo daily --by 222", 1)?;
    assert_eq!(said.trim(), "refused: ttl, ask again in 23h 59m");
    let told = shell.json("realms play ajo daily --by 222 --dry-run", 1)?;
    assert_eq!((&told["status"], &told["code"], &told["dry_run"]), (&json!("refused"), &json!("ttl"), &json!(true)));
    ensure!(told["retry_at"].as_str() > told["at"].as_str(), "{told}");
    let said = shell.says("realms play ajo craft --by 111 item=wand", 1)?;
    assert_eq!(said.trim(), "refused: funds (asset tooth, have 0, need 2)");
    let said = shell.says("realms play ajo discombobulate --by 111 to=222 offer=1 --dry-run", 1)?;
    ensure!(said.starts_with("would be refused: "), "{said}");

    // The same key gives the same answer, and is bound to what was asked.
    let pay = "realms play ajo pay --by 222 to=333";
    let said = shell.says(&format!("{pay} amount=1.2 --idempotency-key order-17 --guild 9"), 0)?;
    ensure!(said.contains("222    ajo    -2      30") && said.contains("333    ajo    +2      2"), "{said}");
    let said = shell.says(&format!("{pay} amount=1.2 --idempotency-key order-17 --guild 9"), 0)?;
    ensure!(said.contains("given earlier") && said.contains("333    ajo    +2      2"), "{said}");
    ensure!(shell.says(&format!("{pay} amount=2 --idempotency-key order-17"), 2)?.contains("idempotency_conflict"), "another body");
    let farm = "realms play ajo farm --by 333 --interaction 55";
    ensure!(shell.says(farm, 0)?.contains("then drop: refused: funds"), "what followed is told");
    assert_eq!(shell.json(farm, 0)?["replayed"], true);
    let said = shell.says("realms play ajo pay --by 333 to=222 amount=1 --dry-run --explain", 0)?;
    ensure!(said.starts_with("would be done\n") && said.contains("333   222  ajo    1"), "{said}");

    let said = shell.says("realms simulate ajo gamble --by 222 amount=10 -n 500", 0)?;
    ensure!(said.starts_with("500 runs, 500 done\n") && said.contains("ajo   -"), "{said}");
    let said = shell.says("realms simulate ajo gamble --by 222 amount=1000 -n 5", 0)?;
    assert_eq!(said.trim(), "5 runs, 0 done, 5 refused: funds");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_of_ajo_is_played_from_the_command_line() -> Result<()> {
    let shell = ajo()?;
    let has = "ajo:1000 bone:5 tooth:2 herb:2 chopsticks:1 cross:1 shoe:1 eggplant:1 satellite:1 bomb:1";
    let legs = has.split(' ').map(|one| format!(" --leg @mint->111:{one}")).collect::<String>();
    shell.says(&format!("realms commit ajo{legs} --leg @mint->222:ajo:100"), 0)?;
    for (played, told) in [
        ("farm", "done: cm_"),
        ("pay to=222 amount=1.2", "222    ajo    +2      102"),
        ("gamble amount=10", "done: cm_"),
        ("daily", "+32"),
        ("weekly", "+256"),
        ("discombobulate to=222 offer=50", "222    ajo    -"),
        ("roulette id=game", "game"),
        ("shot id=game", "done: cm_"),
        ("craft item=wand", "111    wand   +1      1"),
        ("trade to=222 item=herb qty=2", "222    herb   +2      2"),
        ("use-chopsticks", "chopsticks  -1      0"),
        ("use-cross", "cross  -1      0"),
        ("use-shoe", "shoe   -1      0"),
        ("use-eggplant", "eggplant  -1      0"),
        ("use-satellite", "satellite  -1      0"),
        ("set-bomb delay=28800", "bomb   -1      0"),
        ("curse to=222", "wand   -1      0"),
        ("see-inventory to=222", "herb"),
    ] {
        let (play, args) = played.split_once(' ').unwrap_or((played, ""));
        // Who has little finds nothing. A shot may burn all there is.
        let by = if play == "farm" { "333" } else { "111" };
        if play == "see-inventory" {
            shell.says("realms commit ajo --leg @mint->111:ajo:10", 0)?;
        }
        let said = shell.says(&format!("realms play ajo {play} --by {by} {args}"), 0)?;
        ensure!(said.starts_with("done: cm_") && said.contains(told), "{played}: {said}");
    }
    assert_eq!(shell.json("realms audit ajo", 0)?["clean"], true);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn realm_books_are_shown_and_add_up() -> Result<()> {
    let shell = ajo()?;
    shell.says("realms commit ajo --leg @mint->111:ajo:100 --leg @mint->222:herb:18", 0)?;
    shell.says("realms play ajo weekly --by 222", 0)?;
    let said = shell.says("realms account ajo 222", 0)?;
    ensure!(said.contains("ajo    256      256") && said.contains("timer  weekly  1      20"), "{said}");
    assert_eq!(shell.says("realms account ajo 999", 0)?.trim(), "999 has nothing");
    let said = shell.says("realms board ajo ajo", 0)?;
    assert_eq!(said, "RANK  OWNER  BALANCE\n1     222    256\n2     111    100\n\n2 in all\n");
    ensure!(shell.says("realms board ajo ajo --around 111 --limit 1", 0)?.ends_with("111 has rank 2 of 2\n"), "the rank is told");
    let board = shell.json("realms board ajo ajo --around 999", 0)?;
    ensure!(board.get("rank").is_some_and(Value::is_null), "null is a rank that there is not: {board}");
    ensure!(shell.says("realms board ajo herb", 2)?.contains("no board"), "only what has one");

    let said = shell.says("realms commit ajo --leg 111->222:ajo:60 --if balance('111','ajo')>=10", 0)?;
    ensure!(said.contains("111    ajo    -60     40"), "{said}");
    ensure!(shell.says("realms revert ajo cm_3", 0)?.starts_with("done: cm_4\n"), "it is undone");
    assert_eq!(shell.says("realms revert ajo cm_3", 1)?.trim(), "refused: reverted");
    let said = shell.says("realms commit ajo --leg 111->222:ajo:60 --if balance('111','ajo')>=1000", 1)?;
    assert_eq!(said.trim(), "refused: condition");
    let said = shell.says("realms ledger ajo --limit 2", 0)?;
    ensure!(said.contains("revert cm_3") && said.contains("222->111:ajo:60") && said.ends_with("More with --cursor 3\n"), "{said}");
    ensure!(shell.says("realms ledger ajo --limit 2 --cursor 3", 0)?.contains("@mint:weekly->222:ajo:256"), "it goes on");
    let page = shell.json("realms events ajo --stream inventory", 0)?;
    assert_eq!((&page["items"][0]["item"], &page["items"][0]["quantity"], &page["after"]), (&json!("herb"), &json!(18), &json!(4)));
    let said = shell.says("realms events ajo --stream currency --after 1 --limit 1", 0)?;
    ensure!(said.contains("timely_reward") && said.lines().nth(2) == Some("") && said.ends_with("More with --after 2\n"), "{said}");
    let said = shell.says("realms supply ajo", 0)?;
    ensure!(said.contains("commit=100 weekly=256"), "{said}");
    let audit = shell.json("realms audit ajo", 0)?;
    assert_eq!((&audit["clean"], &audit["commits"], &audit["faults"]), (&json!(true), &json!(4), &json!([])));
    ensure!(shell.says("realms audit ajo", 0)?.starts_with("clean: 4 commits, "), "it adds up");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_captured_released_and_traded() -> Result<()> {
    let shell = ajo()?;
    shell.says("realms commit ajo --leg @mint->111:ajo:100 --leg @mint->222:herb:18", 0)?;
    let hold =
        |leg: &str| -> Result<String> { Ok(text(&shell.json(&format!("realms hold ajo --leg {leg} --in 10m"), 0)?, "hold")?.to_owned()) };
    let first = hold("111->222:ajo:30")?;
    ensure!(shell.says(&format!("realms held ajo {first}"), 0)?.starts_with(&format!("{first} is open, until ")), "it is open");
    ensure!(shell.says("realms account ajo 111", 0)?.contains("ajo    100      70"), "what is on hold is not available");
    let said = shell.says("realms hold ajo --leg 111->222:ajo:71 --in 10m", 1)?;
    assert_eq!(said.trim(), "refused: funds (asset ajo, have 70, need 71)");
    let said = shell.says(&format!("realms capture ajo {first} --part ajo=3"), 0)?;
    ensure!(said.contains("111    ajo    -3      97") && said.contains("222    ajo    +3      3"), "{said}");
    assert_eq!(shell.says(&format!("realms release ajo {first}"), 1)?.trim(), "refused: captured");

    let second = hold("111->222:ajo:30")?;
    shell.says(&format!("realms release ajo {second}"), 0)?;
    assert_eq!(shell.json(&format!("realms held ajo {second}"), 0)?["status"], "released");
    let (mine, yours) = (hold("111->222:ajo:10")?, hold("222->111:herb:4")?);
    let said = shell.says(&format!("realms commit ajo --capture {mine} --capture {yours}"), 0)?;
    ensure!(said.contains("111    ajo    -10     87") && said.contains("111    herb   +4      4"), "{said}");
    assert_eq!(shell.json("realms audit ajo", 0)?["clean"], true);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_realm_does_not_understand_is_named() -> Result<()> {
    let shell = ajo()?;
    for (line, told) in [
        ("play ajo nope --by 111", "has no play nope"),
        ("play ajo vampire --by 111", "has no play vampire"),
        ("play nope daily --by 111", "realm_not_found"),
        ("play ajo daily", "--by <OWNER>"),
        ("play ajo pay --by 111 to", "NAME=VALUE"),
        ("play ajo pay --by 111 to=1 to=2", "to is given twice"),
        ("play ajo pay --by 111 to=222 amount=1 extra=1", "args.extra"),
        ("play ajo pay --by 111 to=@mint amount=1", "args.to"),
        ("play ajo daily --by @mint", "by must be an owner"),
        ("commit ajo", "--leg <LEG>"),
        ("commit ajo --leg 111-222:ajo:1", "must be FROM->TO:ASSET:QTY"),
        ("commit ajo --leg 111->222:ajo:1.5", "is not a whole number"),
        ("commit ajo --leg 111->222:gold:1", "no asset gold"),
        ("commit ajo --leg 111->@bank:ajo:1", "legs.to"),
        ("commit ajo --leg @mint->111:ajo:1 --if balance('111')>1", "takes 2"),
        ("hold ajo --leg 111->222:ajo:1", "--in <DURATION>"),
        ("hold ajo --leg @mint->222:ajo:1 --in 1m", "on hold"),
        ("capture ajo 17", "such as ho_17"),
        ("capture ajo ho_17 --part ajo", "ASSET=QTY"),
        ("revert ajo cm_17", "no such commit"),
        ("held ajo ho_17", "no such hold"),
        ("events ajo --stream money", "currency inventory"),
        ("board ajo ajo --limit 0", "limit must be between"),
        ("simulate ajo farm --by 111 -n 0", "n must be between"),
        ("audit nope", "realm_not_found"),
    ] {
        let said = shell.says(&format!("realms {line}"), 2)?;
        ensure!(said.contains(told), "{line}: {said}");
    }
    assert_eq!(shell.says("realms capture ajo ho_17", 1)?.trim(), "refused: unknown");
    assert_eq!(shell.says("realms play ajo pay --by 111 to=222 amount=nan", 1)?.trim(), "refused: err");
    ensure!(shell.says("realms ledger ajo", 0)?.lines().count() == 1, "nothing of it was done");
    Ok(())
}
