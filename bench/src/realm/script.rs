//! What realms replace, after its design: a script written by hand for one kind of payment, on a sorted set that is the
//! balances and the leaderboard in one, with an event for each side.
//!
//! Through the same client as the engine: one connection of all callers, on which commands go out together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Client, cmd};

use super::town::name;
use super::{Crowd, FUNDS, OWNERS};

const PAY: &str = r"
local bus, lb = KEYS[1], KEYS[2]
local from, to, amount, guild = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
if not amount or amount < 1 then return 'err' end
if from == to then return 'futile' end
local balance = tonumber(redis.call('ZSCORE', lb, from) or 0)
if balance < amount then return 'funds' end
redis.call('ZINCRBY', lb, -amount, from)
redis.call('ZINCRBY', lb, amount, to)
redis.call('XADD', bus, '*', 'version', 1, 'type', 'payer', 'user_id', from, 'guild_id', guild, 'amount', -amount)
redis.call('XADD', bus, '*', 'version', 1, 'type', 'payee', 'user_id', to, 'guild_id', guild, 'amount', amount)
return 'OK'
";

/// The same for who may have to ask twice: the answer is kept under a key, as long as Hermod keeps it.
const PAY_ONCE: &str = r"
local kept = redis.call('GET', KEYS[3])
if kept then return kept end
local bus, lb = KEYS[1], KEYS[2]
local from, to, amount, guild = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
if not amount or amount < 1 then return 'err' end
if from == to then return 'futile' end
local balance = tonumber(redis.call('ZSCORE', lb, from) or 0)
if balance < amount then return 'funds' end
redis.call('ZINCRBY', lb, -amount, from)
redis.call('ZINCRBY', lb, amount, to)
redis.call('XADD', bus, '*', 'version', 1, 'type', 'payer', 'user_id', from, 'guild_id', guild, 'amount', -amount)
redis.call('XADD', bus, '*', 'version', 1, 'type', 'payee', 'user_id', to, 'guild_id', guild, 'amount', amount)
redis.call('SET', KEYS[3], 'OK', 'PX', 259200000)
return 'OK'
";

/// Which of the two.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Asking twice pays twice.
    Plain,
    /// Asking twice pays once.
    Once,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Plain => "EVALSHA of a pay script, same client",
            Kind::Once => "the same that keeps its answer",
        }
    }
}

/// The scripts, with everybody on the leaderboard. Cheap to clone.
#[derive(Clone)]
pub(super) struct Script {
    store: MultiplexedConnection,
    hashes: [Arc<str>; 2],
    count: Arc<AtomicU64>,
}

impl Script {
    pub(super) async fn open(url: &str) -> Result<Script> {
        let mut store = Client::open(url)?.get_multiplexed_async_connection().await?;
        let rows: Vec<(i64, String)> = (0..OWNERS).map(|owner| (FUNDS, name(owner))).collect();
        let _: i64 = store.zadd_multiple("lb", &rows).await?;
        let plain: String = cmd("SCRIPT").arg("LOAD").arg(PAY).query_async(&mut store).await?;
        let once: String = cmd("SCRIPT").arg("LOAD").arg(PAY_ONCE).query_async(&mut store).await?;
        Ok(Script { store, hashes: [plain.into(), once.into()], count: Arc::default() })
    }

    pub(super) async fn pay(&self, kind: Kind) -> Result<()> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let (from, to) = Crowd::Uniform.pair(number);
        let ([plain, once], mut command) = (&self.hashes, cmd("EVALSHA"));
        match kind {
            Kind::Plain => command.arg(&**plain).arg(2).arg("ajobus").arg("lb"),
            Kind::Once => command.arg(&**once).arg(3).arg("ajobus").arg("lb").arg(format!("once:interaction-{number}")),
        };
        command.arg(name(from)).arg(name(to)).arg(1).arg(0);
        let said: String = command.query_async(&mut self.store.clone()).await?;
        ensure!(said == "OK", "it said {said}");
        Ok(())
    }
}
