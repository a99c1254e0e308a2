//! A write that is given up, wherever it stands, leaves nothing behind.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use hermod_core::SpaceId;
use sqlx::Row;

use super::{eventually, space};
use crate::Catalog;
use crate::options::Dialect;

pub(super) async fn all(a: &Catalog, b: &Catalog) {
    a_write_may_be_given_up_wherever_it_stands(a, b).await;
}

async fn a_write_may_be_given_up_wherever_it_stands(a: &Catalog, b: &Catalog) {
    // Twice: at first the statements are made ready, which takes steps of its own.
    for turn in 0..2 {
        for waits in 0.. {
            let space = SpaceId::new(format!("left-{turn}-{waits}")).unwrap();
            let is_done = is_done_after(waits, a.create_space(&space, None)).await;
            // Each time: the next write would end what this one began.
            let what = format!("no transaction is left open after {waits} waits");
            eventually(&what, Duration::from_secs(5), async || open_transactions(a).await == Some(0)).await;
            if is_done {
                break;
            }
        }
    }
    space(b, "after-leaving").await;
    space(a, "after-both").await;
}

/// Gives `call` up when it waits once more than `waits` times. Whether it was done before.
async fn is_done_after<T>(waits: usize, call: impl Future<Output = T>) -> bool {
    let mut call = pin!(call);
    let mut waited = 0;
    std::future::poll_fn(move |context| match call.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending if waited == waits => Poll::Ready(false),
        Poll::Pending => {
            waited += 1;
            Poll::Pending
        }
    })
    .await
}

/// How many connections are in a transaction, as far as the database tells; none while one of them is in use.
async fn open_transactions(catalog: &Catalog) -> Option<i64> {
    let database = &catalog.inner.database;
    let statement = match database.dialect() {
        // Who writes next waits for it in vain.
        Dialect::Sqlite => return Some(0),
        Dialect::Postgres => {
            "SELECT COUNT(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        }
        Dialect::Mysql => "SELECT CAST(@@in_transaction AS SIGNED) AS n",
    };
    let mut idle: Vec<_> = std::iter::from_fn(|| database.pool().try_acquire()).collect();
    if idle.len() != usize::try_from(database.pool().size()).unwrap() {
        return None;
    }
    let mut open = 0;
    for connection in &mut idle {
        let row = database.query(statement).fetch_one(&mut **connection).await.unwrap();
        open += row.get::<i64, _>("n");
    }
    Some(open)
}
