//! The same transfer in PostgreSQL, each caller with a connection of its own.
//!
//! Written as one would who knows it: numbers for names, statements that are prepared once, rows with room to be updated in
//! place, in a transaction the lower number first so that none waits for another in a circle, and, as the other way, everything
//! in one statement. A transfer leaves a row of its own in a ledger. There is no idempotency key.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use hermod_tests::server;
use sqlx::{Connection, Executor, PgConnection};
use tokio::sync::Mutex;

use super::{Crowd, FUNDS, OWNERS};
use crate::load::closed_loop;
use crate::ratio::Measured;

const SCHEMA: &str = "
CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0)) WITH (fillfactor = 50);
CREATE TABLE ledger (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(),
                     payer bigint NOT NULL, payee bigint NOT NULL, amount bigint NOT NULL);";
const TAKE: &str = "UPDATE account SET balance = balance - $2 WHERE id = $1 AND balance >= $2";
const GIVE: &str = "UPDATE account SET balance = balance + $2 WHERE id = $1";
const WRITE: &str = "INSERT INTO ledger (payer, payee, amount) VALUES ($1, $2, $3)";
const WHOLE: &str = "
WITH taken AS (UPDATE account SET balance = balance - $3 WHERE id = $1 AND balance >= $3 RETURNING id),
     given AS (UPDATE account SET balance = balance + $3 WHERE id = $2 AND EXISTS (SELECT FROM taken) RETURNING id)
INSERT INTO ledger (payer, payee, amount) SELECT $1, $2, $3 FROM given";

/// How a transfer is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// `BEGIN`, two `UPDATE`, `INSERT`, `COMMIT`.
    Transaction,
    /// One statement.
    Statement,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Transaction => "PostgreSQL, BEGIN to COMMIT",
            Way::Statement => "PostgreSQL, in one statement",
        }
    }
}

/// A server, and a connection of each caller.
pub(super) struct Postgres {
    server: server::Postgres,
    callers: Vec<Arc<Mutex<PgConnection>>>,
    count: Arc<AtomicU64>,
}

impl Postgres {
    pub(super) async fn open(parent: &Path, callers: usize) -> Result<Postgres> {
        let parent = parent.to_owned();
        let server = tokio::task::spawn_blocking(move || server::Postgres::start_durable(&parent)).await??;
        let mut first = PgConnection::connect(&server.url()).await?;
        first.execute(SCHEMA).await?;
        let people = "INSERT INTO account SELECT n, $2 FROM generate_series(0, $1 - 1) AS n";
        sqlx::query(people).bind(i64::try_from(OWNERS)?).bind(FUNDS).execute(&mut first).await?;
        first.execute("VACUUM ANALYZE account").await?;
        first.execute("CHECKPOINT").await?;
        let mut connections = Vec::new();
        for _ in 0..callers {
            connections.push(Arc::new(Mutex::new(PgConnection::connect(&server.url()).await?)));
        }
        Ok(Postgres { server, callers: connections, count: Arc::default() })
    }

    pub(super) async fn measure(&self, way: Way, span: Duration) -> Result<Measured> {
        closed_loop(self.server.pid(), self.callers.len(), span, |caller| {
            let (own, count) = (self.callers.get(caller).cloned().expect("each caller has one"), Arc::clone(&self.count));
            move |_| {
                let own = Arc::clone(&own);
                let (from, to) = Crowd::Uniform.pair(count.fetch_add(1, Ordering::Relaxed));
                async move {
                    let mut own = own.lock().await;
                    match way {
                        Way::Transaction => in_steps(&mut own, i64::try_from(from)?, i64::try_from(to)?).await,
                        Way::Statement => at_once(&mut own, i64::try_from(from)?, i64::try_from(to)?).await,
                    }
                }
            }
        })
        .await
    }

    /// Nothing was lost and nothing was made; every transfer is in the ledger.
    pub(super) async fn check(&self) -> Result<()> {
        let sum = self.server.run("SELECT sum(balance) FROM account")?;
        ensure!(sum == (i64::try_from(OWNERS)? * FUNDS).to_string(), "there is {sum}");
        let entries: u64 = self.server.run("SELECT count(*) FROM ledger")?.parse()?;
        ensure!(entries == self.count.load(Ordering::Relaxed), "{entries} are in the ledger");
        Ok(())
    }
}

async fn in_steps(connection: &mut PgConnection, from: i64, to: i64) -> Result<()> {
    let mut transaction = connection.begin().await?;
    let mut changed = 0;
    let (take, give) = ((TAKE, from), (GIVE, to));
    for (statement, account) in if from < to { [take, give] } else { [give, take] } {
        changed += sqlx::query(statement).bind(account).bind(1_i64).execute(&mut *transaction).await?.rows_affected();
    }
    ensure!(changed == 2, "there was not enough");
    sqlx::query(WRITE).bind(from).bind(to).bind(1_i64).execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}

async fn at_once(connection: &mut PgConnection, from: i64, to: i64) -> Result<()> {
    loop {
        match sqlx::query(WHOLE).bind(from).bind(to).bind(1_i64).execute(&mut *connection).await {
            Ok(done) => {
                ensure!(done.rows_affected() == 1, "there was not enough");
                return Ok(());
            }
            // Two that wait for each other in a circle: one of them is told to come again.
            Err(sqlx::Error::Database(fault)) if fault.code().as_deref() == Some("40P01") => {}
            Err(fault) => return Err(fault.into()),
        }
    }
}
