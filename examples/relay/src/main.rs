//! A relay, three workers, and packed DIDComm messages for many recipients. One worker is killed on the way; the others go on with its
//! recipients, and every message is processed, in order for each of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use clap::Parser;
use hermod_client::{Claimed, Client, DeliveryStream, HeldOutcome, OwnerReason, QueueDraft, QueueMode};
use hermod_server::{Config, Mode, Server};
use serde_json::{Value, json};

const WORKERS: [&str; 3] = ["w1", "w2", "w3"];
/// So many messages, each of another recipient, are on their way to a worker at once.
const CREDITS: u32 = 4;
/// How long a message takes to be processed.
const WORK: Duration = Duration::from_millis(2);
/// Far more than all of it takes.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Parser)]
struct Args {
    /// How many recipients there are.
    #[arg(long, default_value_t = 30)]
    recipients: u64,
    /// How many messages each of them is sent.
    #[arg(long, default_value_t = 20)]
    messages: u64,
    /// A Hermod server; without it there is one in this process.
    #[arg(long, value_name = "URL", env = "HERMOD_URL")]
    hermod: Option<String>,
    /// Its API key.
    #[arg(long, value_name = "KEY", env = "HERMOD_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Where the server in this process keeps messages: embedded (in a folder that goes when it ends), or redis://host.
    #[arg(long, default_value = "embedded")]
    store: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let Some(url) = &args.hermod else {
        let folder = tempfile::tempdir()?;
        let listen = ([127, 0, 0, 1], 0).into();
        let config = Config { listen, data: folder.path().into(), store: args.store.clone(), ..Config::default() };
        // Open: it asks for no keys, and only this machine can reach it.
        let server = Server::start(config, Mode { open: true, ..Mode::default() }).await?;
        let ran = run(&Client::new(&server.url())?, &args).await;
        server.shutdown().await;
        return ran;
    };
    let hermod = Client::new(url)?;
    run(&if let Some(key) = &args.key { hermod.with_key(key) } else { hermod }, &args).await
}

async fn run(hermod: &Client, args: &Args) -> anyhow::Result<()> {
    // A queue of its own, so that a second run finds nothing of the first.
    let queue = format!("relay-{}", SystemTime::UNIX_EPOCH.elapsed()?.as_millis());
    let draft = QueueDraft::new().mode(QueueMode::Sticky).worker_ttl("5s");
    hermod.queues().put(&queue, &draft).await.context("making the queue")?;
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut workers = Vec::new();
    for name in WORKERS {
        // It registers by itself, and lives for as long as its stream is open.
        let stream = hermod.queues().stream_by(&queue, CREDITS, name, None).await?;
        workers.push(tokio::spawn(work(hermod.clone(), queue.clone(), name, stream, Arc::clone(&ledger))));
    }
    let watched = watch(hermod, &queue, args, &ledger).await;
    workers.iter().for_each(tokio::task::JoinHandle::abort);
    // What was lost may still be in the queue, which then stays: the verdict comes first.
    let deleted = hermod.queues().delete(&queue).await;
    watched.and(deleted.map_err(Into::into))
}

/// Relays all messages, sees to it that a worker dies on the way, waits for the rest, and tells what happened.
async fn watch(hermod: &Client, queue: &str, args: &Args, ledger: &Mutex<Ledger>) -> anyhow::Result<()> {
    let (all, begun) = (args.recipients * args.messages, Instant::now());
    println!("{all} messages for {} recipients, to {}", args.recipients, WORKERS.join(", "));
    for number in 0..args.messages {
        for recipient in 0..args.recipients {
            hermod.queues().relay(queue, packed(recipient, number).to_string()).await?;
        }
        locked(ledger).is_time_to_die = number >= args.messages / 3;
    }
    while locked(ledger).finished() < all {
        ensure!(begun.elapsed() < PATIENCE, "LOST: {} of {all} messages were processed, no more come", locked(ledger).finished());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (killed, faults, share) = {
        let ledger = locked(ledger);
        (ledger.killed.clone(), ledger.faults.clone(), ledger.by_worker.clone())
    };
    let killed = killed.context("no worker was killed")?;
    println!("{} was killed while it had message {} of {}, and said nothing to anybody", killed.worker, killed.number, killed.recipient);
    let (heir, after) = killed.taken_over.context("nobody has taken over")?;
    println!("{heir} went on with that message {:.1} s later\n", after.as_secs_f64());
    let explained = hermod.queues().explain(queue, &killed.recipient).await?;
    println!("{explained}\n");
    for (worker, count) in &share {
        println!("{worker} processed {count}");
    }
    ensure!(faults.is_empty(), "OUT OF ORDER: {}", faults.join("; "));
    let stats = hermod.queues().stats(queue).await?;
    ensure!(stats.ready + stats.scheduled + stats.leased + stats.dead == 0, "something is left: {stats:?}");
    let why = explained.changes.first().map(|change| (&change.why, change.worker.as_deref()));
    ensure!(why == Some((&OwnerReason::Closed, Some(heir))), "the takeover is explained otherwise: {why:?}");
    println!("all {all} messages were processed, in order for each recipient, in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Processes what the relay has for the recipients of one worker. Finished only when it is processed: who dies before is followed by another.
async fn work(hermod: Client, queue: String, name: &'static str, mut stream: DeliveryStream, ledger: Arc<Mutex<Ledger>>) {
    let works = async {
        while let Some(delivery) = stream.next().await? {
            let (recipient, number) = unpacked(&delivery)?;
            locked(&ledger).begin(name, &recipient, number);
            tokio::time::sleep(WORK).await;
            if locked(&ledger).kills(name, &recipient, number) {
                // It neither settles what it has nor leaves: what is dropped here is its connection.
                return Ok(());
            }
            if hermod.queues().ack(&queue, &delivery).await?.outcome == HeldOutcome::Done {
                locked(&ledger).finish(name, recipient);
            }
        }
        anyhow::Ok(())
    };
    if let Err(fault) = works.await {
        eprintln!("{name}: {fault:#}");
    }
}

/// A message as a sender packs it: only whom it is for can be read on the way. Here the number stands where the secret would.
fn packed(recipient: u64, number: u64) -> Value {
    let whom = json!({"header": {"kid": format!("did:example:bot-{recipient:02}#key-1")}, "encrypted_key": "a2V5"});
    json!({"protected": "eyJlbmMiOiJYQzIwUCJ9", "recipients": [whom], "iv": "aXY", "ciphertext": number.to_string(), "tag": "dGFn"})
}

fn unpacked(delivery: &Claimed) -> anyhow::Result<(String, u64)> {
    let recipient = delivery.to.clone().context("a message without a recipient")?;
    Ok((recipient, delivery.payload::<Value>()?.get("ciphertext").and_then(Value::as_str).context("a message without a text")?.parse()?))
}

/// What was processed, by whom, and what was wrong with it.
#[derive(Default)]
struct Ledger {
    /// The number of the next message of each recipient.
    next: HashMap<String, u64>,
    by_worker: BTreeMap<&'static str, u64>,
    faults: Vec<String>,
    is_time_to_die: bool,
    killed: Option<Killed>,
}

/// A worker that died while it had this message.
#[derive(Clone)]
struct Killed {
    worker: &'static str,
    recipient: String,
    number: u64,
    at: Instant,
    taken_over: Option<(&'static str, Duration)>,
}

impl Ledger {
    fn begin(&mut self, worker: &'static str, recipient: &str, number: u64) {
        let expected = self.next.get(recipient).copied().unwrap_or_default();
        if number != expected {
            self.faults.push(format!("{worker} was given message {number} of {recipient} when {expected} was next"));
        }
        if let Some(killed) = self.killed.as_mut().filter(|killed| killed.recipient == recipient && killed.taken_over.is_none()) {
            killed.taken_over = Some((worker, killed.at.elapsed()));
        }
    }

    /// Whether a worker dies here: the first that is at work when it is time.
    fn kills(&mut self, worker: &'static str, recipient: &str, number: u64) -> bool {
        let is_killed = self.is_time_to_die && self.killed.is_none();
        if is_killed {
            self.killed = Some(Killed { worker, recipient: recipient.to_owned(), number, at: Instant::now(), taken_over: None });
        }
        is_killed
    }

    fn finish(&mut self, worker: &'static str, recipient: String) {
        *self.next.entry(recipient).or_default() += 1;
        *self.by_worker.entry(worker).or_default() += 1;
    }

    fn finished(&self) -> u64 {
        self.by_worker.values().sum()
    }
}

fn locked(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}
