//! A server in this process, with the realm of `examples/ajo/ajo.yaml` and people in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use hermod_core::realm::args::Raw;
use hermod_core::realm::definition::Overflow;
use hermod_core::realm::{Deed, Leg, Legs, Ranked};
use hermod_core::{Once, RealmId};
use hermod_server::app::{App, Caller, EnactAsk, RealmAnswer};
use hermod_server::{Config, Mode, Server};
use hermod_tests::server::hermod_binary;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::{CALLERS, Crowd};

const REALM: &str = "ajo";
const ASSET: &str = "ajo";
/// So many people get something in one commit.
const LEGS: u64 = 60;

/// Beside the build, not in a folder that may be in memory: the disk is what is measured.
pub(super) fn beside_the_build() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.parent().context("the build has a folder")?.to_owned())
}

/// The name of the how many'th owner: as long as those of a chat are.
pub(super) fn name(owner: u64) -> String {
    (100_000_000_000_000_000 + owner).to_string()
}

/// The realm, on one store. Cheap to clone.
#[derive(Clone)]
pub(super) struct Town {
    app: App,
    caller: Caller,
    /// How many keys were used.
    keys: Arc<AtomicU64>,
    kept: Arc<(Server, TempDir)>,
}

impl Town {
    pub(super) async fn open(store: &str) -> Result<Town> {
        let folder = tempfile::tempdir_in(beside_the_build()?)?;
        let (data, memory_max) = (folder.path().join("data"), "8GiB".to_owned());
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), data, store: store.to_owned(), memory_max, ..Config::default() };
        let server = Server::start(config, Mode::default()).await?;
        let (url, key) = (server.url(), server.admin_key().context("the first start makes a key")?.to_owned());
        tokio::task::spawn_blocking(move || apply_file(&url, &key)).await??;
        let app = server.app().clone();
        let caller = app.caller(server.admin_key()).map_err(|problem| anyhow::anyhow!("{problem:?}"))?;
        Ok(Town { app, caller, keys: Arc::default(), kept: Arc::new((server, folder)) })
    }

    pub(super) async fn close(self) {
        let (server, _folder) = Arc::into_inner(self.kept).expect("all callers are done");
        server.shutdown().await;
    }

    /// What is asked for under the how many'th key.
    fn ask(&self, number: u64, by: &str, operation: &str) -> Result<EnactAsk> {
        let once = Once::new(&format!("interaction-{number}"), operation.as_bytes())?;
        let ask = EnactAsk { realm: RealmId::new(REALM)?, once, by: "".into(), guild: "".into(), note: "".into(), is_dry: false };
        Ok(ask.checked(by, "", "")?)
    }

    /// One payment.
    pub(super) async fn pay(&self, crowd: Crowd) -> Result<()> {
        let number = self.keys.fetch_add(1, Ordering::Relaxed);
        let (from, to) = crowd.pair(number);
        let (from, to) = (name(from), name(to));
        let ask = self.ask(number, &from, &format!(r#"plays pay {{"by":"{from}","args":{{"to":"{to}","amount":1}}}}"#))?;
        let args = BTreeMap::from([("to".into(), Raw::Text(to.into())), ("amount".into(), Raw::Int(1))]);
        done(self.app.play(&self.caller, &ask, "pay", args).await)
    }

    /// Gives so many owners what they are to have.
    pub(super) async fn people(&self, owners: u64, funds: fn(u64) -> i64) -> Result<()> {
        let next = Arc::new(AtomicU64::new(0));
        let mut set = JoinSet::<Result<()>>::new();
        for _ in 0..CALLERS {
            let (town, next) = (self.clone(), Arc::clone(&next));
            set.spawn(async move {
                loop {
                    let first = next.fetch_add(LEGS, Ordering::Relaxed);
                    if first >= owners {
                        return Ok(());
                    }
                    town.give(first..owners.min(first + LEGS), funds).await?;
                }
            });
        }
        while let Some(ended) = set.join_next().await {
            ended??;
        }
        Ok(())
    }

    async fn give(&self, owners: std::ops::Range<u64>, funds: fn(u64) -> i64) -> Result<()> {
        let types: (Arc<str>, Arc<str>) = ("grant".into(), "grant".into());
        let leg =
            |owner: u64| Leg { asset: ASSET.into(), from: "@mint".into(), to: name(owner).into(), qty: funds(owner), types: types.clone() };
        let legs: Vec<_> = owners.map(|owner| (leg(owner), Overflow::default())).collect();
        let ask = self.ask(self.keys.fetch_add(1, Ordering::Relaxed), "", "commits")?;
        done(self.app.commit_to(&self.caller, &ask, |_| Ok(Deed::Legs(Box::new(Legs { legs: legs.clone(), ..Legs::default() })))).await)
    }

    /// The first so many of the board.
    pub(super) async fn top(&self, limit: usize) -> Result<Ranked> {
        self.board(None, limit).await
    }

    /// The rank of an owner.
    pub(super) async fn rank(&self, owner: u64) -> Result<Ranked> {
        self.board(Some(&name(owner)), 1).await
    }

    async fn board(&self, around: Option<&str>, limit: usize) -> Result<Ranked> {
        let ranked = self.app.board(&self.caller, &RealmId::new(REALM)?, ASSET, (around, 0), limit).await;
        ranked.map_err(|problem| anyhow::anyhow!("{problem:?}"))
    }
}

fn done(answer: Result<RealmAnswer, hermod_server::Problem>) -> Result<()> {
    match answer.map_err(|problem| anyhow::anyhow!("{problem:?}"))? {
        RealmAnswer::Done(done) => {
            ensure!(!done.is_replayed, "each has a key of its own");
            Ok(())
        }
        RealmAnswer::Refused { refusal, .. } => bail!("refused: {refusal:?}"),
    }
}

/// The file itself, by the program that people apply it with.
fn apply_file(url: &str, key: &str) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ajo/ajo.yaml");
    let applied = Command::new(hermod_binary()?)
        .args(["realms", "apply", "-f"])
        .arg(file)
        .env("HERMOD_SERVER", url)
        .env("HERMOD_KEY", key)
        .output()?;
    ensure!(applied.status.success(), "the realm was not applied: {}", String::from_utf8_lossy(&applied.stderr));
    Ok(())
}
