//! The command line as people use it: rules from a file, and what it says.

mod decks;
mod events;
mod queues;
mod realm_plays;
mod realms;
mod subjects;
mod workers;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_tests::server::{Hermod, hermod_binary};
use hermod_tests::until;

const RULES: &str = "\
rules:
  - id: burst
    name: burst
    action: mail/send
    limit: 3
    per: 10s
    algorithm: token_bucket
  - id: daily
    name: daily
    action: mail/*
    when: attributes.plan == 'free'
    limit: 250
    per: day@Europe/Berlin
";

struct Shell {
    hermod: Hermod,
    folder: tempfile::TempDir,
}

impl Shell {
    fn start() -> Result<Shell> {
        Ok(Shell { hermod: Hermod::dev(["--no-demo"])?, folder: tempfile::tempdir()? })
    }

    /// What a command wrote.
    fn read(&self, name: &str) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.path().join(name))?)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(std::fs::write(self.folder.path().join(name), text)?)
    }

    fn command(&self, line: &str) -> Result<Command> {
        let folder: &Path = self.folder.path();
        let mut command = Command::new(hermod_binary()?);
        command.args(line.split_whitespace()).env("HERMOD_SERVER", self.hermod.url()?).current_dir(folder);
        Ok(command)
    }

    fn run(&self, line: &str) -> Result<Output> {
        Ok(self.command(line)?.output()?)
    }

    /// Its exit code where nobody reads what it prints.
    fn unread(&self, line: &str) -> Result<Option<i32>> {
        let (reader, writer) = std::io::pipe()?;
        drop(reader);
        let mut command = self.command(line)?;
        Ok(command.stdout(writer).stderr(Stdio::null()).status()?.code())
    }

    /// What it prints, where it must end with this code.
    fn says(&self, line: &str, code: i32) -> Result<String> {
        let done = self.run(line)?;
        let said = format!("{}{}", String::from_utf8(done.stdout)?, String::from_utf8(done.stderr)?);
        ensure!(done.status.code() == Some(code), "{line} ended with {:?}, not {code}:\n{said}", done.status.code());
        Ok(said)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_come_from_a_file_and_go_back_to_one() -> Result<()> {
    let shell = Shell::start()?;
    shell.write("rules.yaml", RULES)?;
    let said = shell.says("rules apply -f rules.yaml --dry-run", 0)?;
    ensure!(said.contains("+ burst") && said.contains("+ daily") && said.contains("Nothing was changed"), "{said}");
    ensure!(shell.says("rules export", 0)?.contains("rules: []"), "a dry run made rules");
    let said = shell.says("rules apply -f rules.yaml", 0)?;
    ensure!(said.contains("2 created"), "{said}");
    ensure!(shell.says("rules apply -f rules.yaml", 0)?.contains("2 unchanged"), "a second time changes nothing");
    shell.write("rules.yaml", &RULES.replace("limit: 3", "limit: 5"))?;
    let said = shell.says("rules apply -f rules.yaml", 0)?;
    ensure!(said.contains("~ burst  limit: 3 -> 5") && said.contains("1 changed, 1 unchanged"), "{said}");
    shell.says("rules export -o copy.yaml", 0)?;
    ensure!(shell.says("rules apply -f copy.yaml --prune --yes", 0)?.contains("2 unchanged"), "what was exported is what is there");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_faults_names_their_places_and_changes_nothing() -> Result<()> {
    let shell = Shell::start()?;
    let faulty = RULES.replace("limit: 250", "limt: 250").replace("per: 10s", "per: day@Nowhere/Else");
    shell.write("rules.yaml", &faulty)?;
    let said = shell.says("rules apply -f rules.yaml", 1)?;
    ensure!(said.contains("rules.yaml:12:5: rule daily: there is no field \"limt\"") && said.contains("did you mean limit?"), "{said}");
    ensure!(said.contains("rules.yaml:6:10: rule burst: per"), "{said}");
    ensure!(shell.says("rules export", 0)?.contains("rules: []"), "nothing of it was applied");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_say_why_and_until_when() -> Result<()> {
    let shell = Shell::start()?;
    shell.write("rules.yaml", RULES)?;
    shell.says("rules apply -f rules.yaml", 0)?;
    shell.says("limit check bot-7 mail/send --cost 3", 0)?;
    let said = shell.says("limit check bot-7 mail/send", 1)?;
    ensure!(said.starts_with("refused by burst until "), "{said}");
    let said = shell.says("limit check bot-7 mail/send --peek --attribute plan=free --explain", 1)?;
    ensure!(said.starts_with("would be refused by burst") && said.contains("daily"), "{said}");
    ensure!(shell.says("limit refund bot-7 mail/send --cost 3", 0)?.starts_with("gave back 3"), "a refund says what it gave back");
    shell.says("limit check bot-7 mail/send", 0)?;
    ensure!(shell.says("limit check bot-7 mail/send --cost 4", 1)?.contains("never fits"), "what never fits is told so");
    ensure!(shell.says("limit reset bot-7 mail/send", 0)?.contains("bot-7"), "a reset names whom");
    ensure!(shell.says("limit refused", 0)?.contains("bot-7"), "who is refused most");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_who_leaves_changes_neither_what_is_done_nor_the_exit_code() -> Result<()> {
    let shell = Shell::start()?;
    shell.write("rules.yaml", RULES)?;
    assert_eq!(shell.unread("rules apply -f rules.yaml")?, Some(0));
    ensure!(shell.says("rules apply -f rules.yaml", 0)?.contains("2 unchanged"), "all of it was applied");
    assert_eq!(shell.unread("limit check bot-7 mail/send --cost 3")?, Some(0));
    assert_eq!(shell.unread("limit check bot-7 mail/send")?, Some(1), "it is refused");
    shell.write("checks.ndjson", "{\"subject\":\"ann\",\"action\":\"mail/send\",\"cost\":2}\n".repeat(2).as_str())?;
    assert_eq!(shell.unread("limit batch -f checks.ndjson")?, Some(1), "the second is refused");
    assert_eq!(shell.unread("rules get none")?, Some(2));
    // What nobody has seen is not finished.
    shell.says("queues push mail 1", 0)?;
    assert_eq!(shell.unread("queues claim mail --wait 5s --lease 100ms --ack")?, Some(1));
    let claimed = shell.json("queues claim mail --wait 5s --lease 100ms", 0)?;
    assert_eq!(claimed["deliveries"][0]["attempt"], 2);
    // Who prints for as long as somebody reads ends then, without a fault.
    assert_eq!(shell.unread("queues tail mail")?, Some(0));
    assert_eq!(shell.json("queues claim mail --wait 5s --ack", 0)?["deliveries"][0]["payload"], 1, "nor is this one");
    let client = hermod_client::Client::new(shell.hermod.url()?)?;
    client.decks().put("news", &hermod_client::DeckDraft::new().subject_cap(None)).await?;
    client.decks().messages("news").put("m1", &hermod_client::MessageDraft::new("Hello.")).await?;
    let began = shell.json("events list", 0)?["next"].as_str().context("a cursor")?.to_owned();
    client.decks().pick("news", &hermod_client::PickRequest::new("ann")).await?;
    assert_eq!(shell.unread(&format!("events tail --after {began}"))?, Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_and_what_recurs_in_them_are_managed_by_name() -> Result<()> {
    let shell = Shell::start()?;
    let said = shell.says("queues put mail --lease 1m --max-attempts 8 --drop-after 1h", 0)?;
    ensure!(said.contains("mail") && said.contains("1m") && said.contains("drop_after=1h"), "{said}");
    let made = shell.says("queues put hook --webhook https://example.com/in", 0)?;
    let secret = made.lines().find_map(|line| line.strip_prefix("secret: ")).map(str::to_owned);
    let secret = secret.filter(|secret| secret.starts_with("whsec_")).with_context(|| made.clone())?;
    ensure!(made.contains("shown once"), "{made}");
    let again = shell.says("queues put hook --webhook https://example.com/in --webhook-timeout 5s", 0)?;
    ensure!(!again.contains("secret:") && !again.contains(&secret), "{again}");
    // An answer that is repeated has the secret no more, and says so.
    let put = "queues put lost --webhook https://example.com/in --idempotency-key once";
    ensure!(shell.says(put, 0)?.contains("secret: whsec_"), "the first time");
    let again = shell.says(put, 1)?;
    ensure!(again.contains("was shown with the first") && again.contains("--secret"), "{again}");
    shell.says("queues put later", 0)?;
    let put = "queues put later --webhook https://example.com/in --idempotency-key later";
    ensure!(shell.says(put, 0)?.contains("secret: whsec_"), "the first time");
    ensure!(shell.says(put, 0)?.contains("was shown with the first"), "of a webhook that came later, too");
    // A secret that lies in the environment is for webhooks alone.
    let done = shell.command("queues put plain")?.env("HERMOD_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let given = "queues put given --webhook https://example.com/in --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    ensure!(!shell.says(given, 0)?.contains("lost"), "who gave it has it");
    let shown = shell.says("queues get hook --json", 0)?;
    let hook: serde_json::Value = serde_json::from_str(&shown)?;
    let masked = format!("whsec_…{}", &secret[secret.len() - 4..]);
    assert_eq!((&hook["push"]["webhook"]["secret"], &hook["version"]), (&serde_json::json!(masked), &serde_json::json!(2)));
    let listed = shell.says("queues list", 0)?;
    ensure!(listed.starts_with("QUEUE") && listed.contains("hook") && listed.contains("mail"), "{listed}");

    let said =
        shell.says("queues schedule put mail digest --cron @daily --zone Europe/Berlin --payload {\"n\":1} --to ann --tag a,b", 0)?;
    ensure!(said.contains("digest") && said.contains("Europe/Berlin") && said.contains("ann"), "{said}");
    let digest: serde_json::Value = serde_json::from_str(&shell.says("queues schedule get mail digest --json", 0)?)?;
    assert_eq!((&digest["payload"], &digest["tags"]), (&serde_json::json!({"n": 1}), &serde_json::json!(["a", "b"])));
    ensure!(digest["next"].as_array().is_some_and(|next| next.len() == 3), "{digest}");
    shell.says("queues schedule put mail off --cron @hourly --disabled", 0)?;
    ensure!(shell.says("queues schedule list mail", 0)?.contains("disabled"), "what does not run says so");
    let said = shell.says("queues schedule put mail bad --cron @never", 2)?;
    ensure!(said.contains("Correct `cron`"), "{said}");
    let said = shell.says("queues put mail --lease 1us", 2)?;
    ensure!(said.contains("Correct `lease`"), "{said}");
    shell.says("queues schedule delete mail digest", 0)?;
    ensure!(shell.says("queues delete mail", 0)?.contains("mail is removed"), "it says what it did");
    ensure!(shell.says("queues schedule list mail", 2)?.contains("There is no queue mail"), "its schedules went with it");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_answer_says_that_it_lacks_the_secret_of_a_key() -> Result<()> {
    let shell = Shell::start()?;
    let create = "keys create bot --scope limit:check --idempotency-key once --json";
    ensure!(shell.says(create, 0)?.contains("\"secret\": \"hk_"), "the first time");
    let again = shell.run(create)?;
    let (key, told) = (serde_json::from_slice::<serde_json::Value>(&again.stdout)?, String::from_utf8(again.stderr)?);
    assert_eq!((again.status.code(), key.get("secret")), (Some(1), None));
    let id = key["id"].as_str().context("its id")?;
    ensure!(told.contains("was shown with the first") && told.contains(&format!("hermod keys delete {id}")), "{told}");
    Ok(())
}

#[test]
fn an_empty_variable_names_no_configuration_file() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let done = Command::new(hermod_binary()?).arg("config").env("HERMOD_CONFIG", "").current_dir(folder.path()).output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

#[test]
fn an_admin_key_that_nobody_reads_on_stdout_is_on_stderr() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let mut command = Command::new(hermod_binary()?);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", "data"]).current_dir(folder.path());
    let log = folder.path().join("log");
    let mut server = command.stdout(writer).stderr(std::fs::File::create(&log)?).spawn()?;
    let told = || std::fs::read_to_string(&log).unwrap_or_default().contains("admin key: hk_");
    let told = until(Duration::from_secs(60), "the key to be told", told);
    server.kill()?;
    server.wait()?;
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_is_made_committed_and_cancelled() -> Result<()> {
    let shell = Shell::start()?;
    shell.write("rules.yaml", "rules: [{id: llm, action: llm/tokens, limit: 100, per: day, on_expiry: refund}]")?;
    shell.says("rules apply -f rules.yaml", 0)?;
    ensure!(shell.says("rules export", 0)?.contains("on_expiry: refund"), "an export holds the policy");
    ensure!(shell.says("rules list", 0)?.contains("on_expiry=refund"), "and so does the list");
    shell.write("rules.yaml", "rules: [{id: llm, action: llm/tokens, limit: 100, per: day}]")?;
    ensure!(shell.says("rules apply -f rules.yaml", 0)?.contains("~ llm  on_expiry: refund -> keep"), "a change of it is told");
    let reserve = |cost: u64, code: i32| shell.says(&format!("limit reserve bot-7 llm/tokens --cost {cost} --ttl 2m"), code);
    let said = reserve(60, 0)?;
    ensure!(said.starts_with("allowed") && said.contains("is to be committed or cancelled until "), "{said}");
    let id = |said: &str| said.lines().find(|line| line.starts_with("rs_")).unwrap_or_default().trim().to_owned();
    let first = id(&said);
    ensure!(reserve(50, 1)?.starts_with("refused by default until "), "a refusal makes none");
    let said = shell.says(&format!("limit commit {first} --actual 40"), 0)?;
    ensure!(said.starts_with("settled: 40 are charged instead of 60"), "{said}");
    let said = shell.says(&format!("limit cancel {first}"), 0)?;
    ensure!(said.starts_with("it was settled before: 40 are charged"), "{said}");
    let said = shell.says(&format!("limit cancel {} --json", id(&reserve(60, 0)?)), 0)?;
    ensure!(said.contains("\"outcome\":\"settled\"") || said.contains("\"outcome\": \"settled\""), "{said}");
    ensure!(
        shell.says("limit commit rs_00000000000000000000000000000007_Ym90LTc", 2)?.contains("no such reservation"),
        "what is unknown is told"
    );
    Ok(())
}
