//! An engine, called directly.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use hermod_core::limit::{Act, Check, Limited, Rule};
use hermod_core::{Once, SpaceId, Subject};
use hermod_engine::clock::ManualClock;
use hermod_engine::{Clock, Embedded, Engine, Redis, embedded, redis};

use super::{Ask, Rules, START, Seen, Store, unlimited};
use crate::model::decided;
use crate::server;
use crate::unique;

/// An engine with a clock of its own, in a space of its own.
#[derive(Debug)]
pub struct EngineLane {
    engine: Engine,
    clock: ManualClock,
    space: SpaceId,
    pub(super) rules: Rules,
    folder: Option<tempfile::TempDir>,
}

impl EngineLane {
    /// Opens a store: a folder of its own, or a space of its own on the shared servers.
    pub async fn open(store: Store) -> Result<EngineLane> {
        EngineLane::open_in(store, SpaceId::new(unique("lane"))?).await
    }

    /// Opens a store, to work in this space.
    pub async fn open_in(store: Store, space: SpaceId) -> Result<EngineLane> {
        let clock = ManualClock::new(START);
        let mut folder = None;
        let engine = match store {
            Store::Embedded => {
                let temporary = tempfile::tempdir()?;
                let engine = open_embedded(temporary.path(), &clock)?;
                folder = Some(temporary);
                engine
            }
            Store::Redis => Engine::Redis(open_redis(&server::Redis::shared()?.url(), &clock).await?),
            Store::Cluster => Engine::Redis(open_redis(&server::Cluster::shared()?.url(), &clock).await?),
        };
        Ok(EngineLane { engine, clock, space, rules: Rules::default(), folder })
    }

    /// Closes an embedded engine and opens its folder again; others stay as they are.
    pub async fn reopen(&mut self) -> Result<()> {
        let Some(folder) = self.folder.as_ref() else { return Ok(()) };
        self.engine.close().await?;
        let path = folder.path().to_owned();
        // The lock of the folder goes with the last handle, so this one must go before the next comes.
        self.engine = Engine::Embedded(Embedded::open(embedded::Options::new(tempfile::tempdir()?.path()))?);
        self.engine = open_embedded(&path, &self.clock)?;
        Ok(())
    }

    /// Its clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Its engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Its space.
    pub fn space(&self) -> &SpaceId {
        &self.space
    }

    /// A check under these rules, as an operation.
    pub fn operation(&self, subject: &str, act: Act, cost: u64, rules: &[Rule]) -> Result<Check> {
        let limited = rules.iter().map(|rule| Ok(Arc::new(Limited::new(rule)?))).collect::<Result<Vec<_>>>()?;
        let place = self.engine.partitions().place(&self.space, subject);
        Ok(Check::new(place, Some(Subject::new(subject)?), act, cost, limited.into()))
    }

    pub(super) async fn check(&self, ask: &Ask) -> Result<Seen> {
        let rules = self.rules.matching(&ask.action, &ask.subject);
        if rules.is_empty() {
            return Ok(unlimited());
        }
        let once = ask.key.as_deref().map(|key| Once::new(key, ask.body().as_bytes())).transpose()?;
        let operation = self.operation(&ask.subject, ask.act, ask.cost, &rules)?;
        let ran = self.engine.run(&operation, once.as_ref()).await?;
        Ok(Seen::new(&rules, decided(ran.outcome, operation.rules())))
    }

    pub(super) async fn close(self) -> Result<()> {
        self.engine.close().await.context("closing the engine")
    }
}

/// Its journal is folded often, so that closing it cuts that short.
fn open_embedded(path: &Path, clock: &ManualClock) -> Result<Engine> {
    let options = embedded::Options { clock: Clock::Manual(clock.clone()), fold_at: 16 << 10, ..embedded::Options::new(path) };
    Ok(Engine::Embedded(Embedded::open(options)?))
}

async fn open_redis(url: &str, clock: &ManualClock) -> Result<Redis> {
    let address = redis::Address::parse(url)?;
    Ok(Redis::open(redis::Options { clock: Clock::Manual(clock.clone()), ..redis::Options::new(address) }).await?)
}
