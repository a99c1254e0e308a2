//! A transaction that writes, and may be given up at any point.
//!
//! Not sqlx's own: that knows of one only once BEGIN is answered, so who gave up before gave back a connection that was in a
//! transaction and stayed in it, with all its locks.

use sqlx::any::{AnyArguments, AnyRow};
use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::{Any, AnyConnection};

use crate::database::{CALL_TIMEOUT, within};
use crate::options::Dialect;

/// A transaction that writes. Dropped without [`Writing::commit`], it did nothing.
pub(crate) struct Writing {
    /// Until it is over.
    connection: Option<PoolConnection<Any>>,
    dialect: Dialect,
    /// A statement is under way.
    is_asking: bool,
}

impl Writing {
    pub(crate) async fn begin(connection: PoolConnection<Any>, dialect: Dialect) -> Result<Writing, sqlx::Error> {
        let mut writing = Writing { connection: Some(connection), dialect, is_asking: false };
        let begin = match dialect {
            // A plain BEGIN would only find out at its first write that it must wait, and then be refused.
            Dialect::Sqlite => "BEGIN IMMEDIATE",
            Dialect::Postgres | Dialect::Mysql => "BEGIN",
        };
        writing.tell(begin).await?;
        Ok(writing)
    }

    pub(crate) async fn execute(&mut self, query: Query<'_, Any, AnyArguments>) -> Result<u64, sqlx::Error> {
        let done = query.execute(self.ask()).await;
        self.is_asking = false;
        Ok(done?.rows_affected())
    }

    pub(crate) async fn fetch(&mut self, query: Query<'_, Any, AnyArguments>) -> Result<Option<AnyRow>, sqlx::Error> {
        let row = query.fetch_optional(self.ask()).await;
        self.is_asking = false;
        row
    }

    pub(crate) async fn fetch_all(&mut self, query: Query<'_, Any, AnyArguments>) -> Result<Vec<AnyRow>, sqlx::Error> {
        let rows = query.fetch_all(self.ask()).await;
        self.is_asking = false;
        rows
    }

    pub(crate) async fn commit(mut self) -> Result<(), sqlx::Error> {
        self.tell("COMMIT").await?;
        self.connection = None;
        Ok(())
    }

    pub(crate) async fn rollback(mut self) -> Result<(), sqlx::Error> {
        self.tell("ROLLBACK").await?;
        self.connection = None;
        Ok(())
    }

    async fn tell(&mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        let told = sqlx::raw_sql(statement).execute(self.ask()).await;
        self.is_asking = false;
        told.map(|_| ())
    }

    /// The connection, to ask it something.
    fn ask(&mut self) -> &mut AnyConnection {
        self.is_asking = true;
        self.connection.as_mut().expect("there is one until it is over")
    }
}

impl Drop for Writing {
    /// It was given up: what it did is taken back.
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let is_sqlite = self.dialect == Dialect::Sqlite;
        // Nobody knows what the database will answer next; it ends the transaction with the connection. That of SQLite does what it is
        // told in order, and the data may be in it.
        if self.is_asking && !is_sqlite {
            connection.close_on_drop();
            return;
        }
        tokio::spawn(async move {
            let told = within(CALL_TIMEOUT, async { Ok(sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await?) }).await;
            if told.is_err() && !is_sqlite {
                connection.close_on_drop();
            }
        });
    }
}
