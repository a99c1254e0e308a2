//! What the README and the guides show is what happens.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use hermod_tests::server::Hermod;

const README: &str = include_str!("../../README.md");
const QUEUE: &str = include_str!("../../docs/queue.md");
const PICK: &str = include_str!("../../docs/pick.md");
const REALM: &str = include_str!("../../docs/realm.md");

/// The code blocks of one language, in order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

fn sh(command: &str, env: &[(&str, &str)]) -> Result<Output> {
    let mut sh = Command::new("sh");
    sh.arg("-c").arg(command).envs(env.iter().copied());
    sh.output().with_context(|| command.to_owned())
}

/// Times differ from run to run, and nothing else does.
fn without_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_time = rest.get(..24).is_some_and(|t| {
            t.ends_with('Z')
                && t.chars().zip("0000-00-00T00:00:00.000Z".chars()).all(|(c, p)| if p == '0' { c.is_ascii_digit() } else { c == p })
        });
        let taken = if is_time { 24 } else { c.len_utf8() };
        out.push_str(if is_time { "TIME" } else { rest.get(..taken).unwrap_or("") });
        rest = rest.get(taken..).unwrap_or("");
    }
    out
}

/// The ids, tokens and other numbers that name something in an answer, in order.
fn names(text: &str) -> Vec<String> {
    let after = |label: &str| -> Vec<String> {
        let rest = text.split(label).skip(1);
        rest.map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()).collect()
    };
    ["\"id\":\"dl_", "\"token\":", "\"incarnation\":", "\"epoch\":"].map(after).concat()
}

/// Does what is shown, and looks whether the same is printed; how many commands there were.
fn play(shown: &str, hermod: &Hermod) -> Result<usize> {
    let address = hermod.url()?.trim_start_matches("http://").to_owned();
    let mut steps = 0;
    // What a delivery is called differs from run to run, but is the same in all that is printed of it.
    let mut called: Vec<(String, String)> = Vec::new();
    for step in shown.split("$ ").filter(|step| !step.trim().is_empty()) {
        let step = called.iter().fold(step.to_owned(), |step, (shown, real)| step.replace(shown, real));
        let (command, expected) = step.split_once('\n').context("a command and what it prints")?;
        let done = sh(&format!("{} -s", command.replace("localhost:7700", &address)), &[])?;
        let printed = String::from_utf8(done.stdout)?;
        let new: Vec<_> = names(expected).into_iter().zip(names(&printed)).filter(|(shown, real)| shown != real).collect();
        let expected = new.iter().fold(expected.to_owned(), |text, (shown, real)| text.replace(shown, real));
        called.extend(new);
        ensure!(without_times(printed.trim()) == without_times(expected.trim()), "{command}\nprinted {printed}\nshown   {expected}");
        steps += 1;
    }
    Ok(steps)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_minute_is_as_printed() -> Result<()> {
    let steps = play(&blocks(README, "console").concat(), &Hermod::dev::<&str>([])?)?;
    ensure!(steps == 6, "the README shows {steps} commands");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_to_sticky_queues_is_as_printed() -> Result<()> {
    let (_, section) = QUEUE.split_once("## Sticky queues").context("the section")?;
    let shown = blocks(section, "console").into_iter().next().context("a walkthrough")?;
    let steps = play(&shown, &Hermod::dev::<&str>([])?)?;
    ensure!(steps == 10, "the guide shows {steps} commands");
    Ok(())
}

/// The client commands of "For real", against a real server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_a_real_server_work() -> Result<()> {
    let hermod = Hermod::serve::<&str>([])?;
    let key = hermod.admin_key()?;
    let binary = hermod_tests::server::hermod_binary()?;
    let block = blocks(README, "sh").into_iter().find(|block| block.contains("hermod rules create")).context("the client commands")?;
    let mut commands = 0;
    for line in block.lines().filter(|line| line.starts_with("hermod ")) {
        let command = line.replacen("hermod", &binary.to_string_lossy(), 1);
        let done = sh(&command, &[("HERMOD_SERVER", hermod.url()?), ("HERMOD_KEY", &key)])?;
        ensure!(done.status.success(), "{line}\n{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        commands += 1;
    }
    ensure!(commands == 3, "the README shows {commands} commands");
    Ok(())
}

/// The doctor finds nothing before the first start, in a folder and on a port that nobody has, and leaves nothing for others to read.
#[test]
fn the_doctor_finds_nothing_wrong_at_first() -> Result<()> {
    ensure!(blocks(README, "sh").iter().any(|block| block.lines().any(|line| line.starts_with("hermod doctor "))), "it is not shown");
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("hermod-data").to_string_lossy().into_owned();
    let command = format!("{} doctor", hermod_tests::server::hermod_binary()?.display());
    let done = sh(&command, &[("HERMOD_DATA", &data), ("HERMOD_LISTEN", "127.0.0.1:0")])?;
    ensure!(done.status.success(), "{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&data)?.permissions());
    ensure!(mode & 0o077 == 0, "others can read it: {mode:o}");
    Ok(())
}

/// The commands of "The next message", and the ones of its guide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_a_pick_work() -> Result<()> {
    let hermod = Hermod::dev::<&str>([])?;
    let binary = hermod_tests::server::hermod_binary()?;
    let block = blocks(README, "sh").into_iter().find(|block| block.contains("hermod decks pick")).context("the commands")?;
    let mut codes = Vec::new();
    for line in block.lines() {
        let done = sh(&line.replacen("hermod", &binary.to_string_lossy(), 1), &[("HERMOD_SERVER", hermod.url()?)])?;
        codes.push(done.status.code());
        if let Some((_, told)) = line.split_once("# none: ") {
            let (told, printed) = (told.split(" ...").next().unwrap_or_default(), String::from_utf8(done.stdout)?);
            ensure!(printed.starts_with(&format!("none: {told}")), "{line}\n{printed}");
        }
    }
    ensure!(codes == [Some(0), Some(0), Some(0), Some(0), Some(1)], "{codes:?}");

    let hermod = Hermod::dev::<&str>([])?;
    let address = hermod.url()?.trim_start_matches("http://").to_owned();
    let block = blocks(PICK, "sh").into_iter().next().context("the commands of the guide")?;
    let mut last = String::new();
    for line in block.lines() {
        last = String::from_utf8(sh(&format!("{} -s", line.replace("localhost:7700", &address)), &[])?.stdout)?;
    }
    ensure!(last.contains(r#""status":"picked""#), "{last}");
    Ok(())
}

/// The commands of "An economy as data", and the ones of its guide on the file that it shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_a_realm_work() -> Result<()> {
    let hermod = Hermod::dev::<&str>([])?;
    let binary = hermod_tests::server::hermod_binary()?;
    let run = |line: &str| sh(&line.replacen("hermod", &binary.to_string_lossy(), 1), &[("HERMOD_SERVER", hermod.url()?)]);
    let block = blocks(README, "sh").into_iter().find(|block| block.contains("hermod realms play")).context("the commands")?;
    let mut codes = Vec::new();
    for line in block.lines() {
        let done = run(&line.replace(" examples/", " ../examples/"))?;
        codes.push(done.status.code());
        if let Some((_, told)) = line.split_once("# refused: ") {
            let (told, printed) = (told.split(';').next().unwrap_or_default(), String::from_utf8(done.stdout)?);
            ensure!(printed.trim() == format!("refused: {told}"), "{line}\n{printed}");
        }
    }
    ensure!(codes == [0, 0, 0, 0, 0, 1, 0, 0].map(Some), "{codes:?}");

    let folder = tempfile::tempdir()?;
    let file = folder.path().join("tavern.yaml");
    std::fs::write(&file, blocks(REALM, "yaml").into_iter().next().context("the file of the guide")?)?;
    let block = blocks(REALM, "sh").into_iter().next().context("the commands of the guide")?;
    for line in block.lines() {
        let done = run(&line.replace("tavern.yaml", &file.to_string_lossy()))?;
        ensure!(done.status.success(), "{line}\n{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}

/// Every flag the README shows for `serve` exists.
#[test]
fn the_flags_of_serve_are_real() -> Result<()> {
    let binary = hermod_tests::server::hermod_binary()?;
    let help = Command::new(binary).args(["serve", "--help"]).output()?;
    let help = String::from_utf8(help.stdout)?;
    let shown: Vec<&str> = README.lines().filter(|line| line.starts_with("hermod serve")).collect();
    ensure!(!shown.is_empty());
    for flag in shown.iter().flat_map(|line| line.split_whitespace()).filter(|word| word.starts_with("--")) {
        ensure!(help.contains(flag), "hermod serve has no {flag}");
    }
    Ok(())
}
