//! The connection to the SQL database: one body of code for SQLite, PostgreSQL and MySQL/MariaDB.
//!
//! sqlx's `Any` driver hides the three; what it does not hide is here. Statements are written with
//! `?` and get PostgreSQL's `$n` in [`Database::query`]. Text is read by [`text`], because MySQL's
//! VARBINARY comes back as bytes. Statements are kept to what all three understand.

use std::str::FromStr;
use std::time::Duration;

use sqlx::any::{AnyArguments, AnyConnectOptions, AnyPoolOptions, AnyRow, AnyTypeInfoKind};
use sqlx::query::Query;
use sqlx::{Any, AnyPool, AssertSqlSafe, ConnectOptions, Row, SqlSafeStr, TypeInfo, ValueRef};

use crate::error::CatalogError;
use crate::migration;
use crate::options::{Dialect, Target};
use crate::writing::Writing;

/// How long a call waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long one call of the catalog may take in all.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What every SQLite connection is told. The file's journal mode is set once, by the migration.
const SQLITE_SETTINGS: &str = "PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000; PRAGMA synchronous = FULL;";

/// An open database, with all migrations applied.
pub(crate) struct Database {
    pool: AnyPool,
    dialect: Dialect,
}

impl Database {
    pub(crate) async fn open(target: &Target) -> Result<Database, CatalogError> {
        sqlx::any::install_default_drivers();
        let options = AnyConnectOptions::from_str(&target.url)
            .map_err(|fault| CatalogError::Configuration {
                reason: String::from("the catalog's URL cannot be read"),
                source: Some(fault.into()),
            })?
            .disable_statement_logging();
        let is_sqlite = target.dialect == Dialect::Sqlite;
        let mut pool = AnyPoolOptions::new().acquire_timeout(ACQUIRE_TIMEOUT).max_connections(if is_sqlite { 4 } else { 8 });
        if target.is_memory {
            // The data is in the connection: there must be one, and it must stay.
            pool = pool.max_connections(1).min_connections(1).idle_timeout(None).max_lifetime(None);
        }
        if is_sqlite {
            pool = pool.after_connect(|connection, _| {
                Box::pin(async move { sqlx::raw_sql(SQLITE_SETTINGS).execute(connection).await.map(|_| ()) })
            });
        }
        let pool = pool.connect_with(options).await?;
        let database = Database { pool, dialect: target.dialect };
        if let Err(fault) = migration::run(&database.pool, database.dialect).await {
            // Closing also gives back whatever lock the failed migration held.
            database.pool.close().await;
            return Err(fault);
        }
        Ok(database)
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    #[cfg(any(test, feature = "exercise"))]
    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(crate) fn pool(&self) -> &AnyPool {
        &self.pool
    }

    /// A statement, with `?` for each value to bind.
    pub(crate) fn query(&self, statement: &'static str) -> Query<'static, Any, AnyArguments> {
        match self.dialect {
            Dialect::Sqlite | Dialect::Mysql => sqlx::query(statement),
            // Safe: a static text, of which only the placeholders were spelled anew.
            Dialect::Postgres => sqlx::query(AssertSqlSafe(numbered(statement)).into_sql_str()),
        }
    }

    /// A statement of which a part comes `times` over, with commas between.
    pub(crate) fn repeated(
        &self,
        before: &'static str,
        part: &'static str,
        times: usize,
        after: &'static str,
    ) -> Query<'static, Any, AnyArguments> {
        let statement = format!("{before}{}{after}", vec![part; times].join(", "));
        let statement = match self.dialect {
            Dialect::Sqlite | Dialect::Mysql => statement,
            Dialect::Postgres => numbered(&statement),
        };
        // Safe: put together from our own texts. Their shape changes with the number of parts, so it is not worth keeping.
        sqlx::query(AssertSqlSafe(statement).into_sql_str()).persistent(false)
    }

    /// Begins a transaction that will write.
    pub(crate) async fn begin(&self) -> Result<Writing, sqlx::Error> {
        Writing::begin(self.pool.acquire().await?, self.dialect).await
    }
}

/// Gives up on `call` after `span`.
pub(crate) async fn within<T>(span: Duration, call: impl Future<Output = Result<T, CatalogError>>) -> Result<T, CatalogError> {
    tokio::time::timeout(span, call).await?
}

/// `?, ?` as `$1, $2`. No statement of ours has a question mark in a literal.
fn numbered(statement: &str) -> String {
    let mut text = String::with_capacity(statement.len() + 16);
    for (number, piece) in statement.split('?').enumerate() {
        if number > 0 {
            text.push('$');
            text.push_str(&number.to_string());
        }
        text.push_str(piece);
    }
    text
}

/// A text column, whichever of its types the database chose.
pub(crate) fn text(row: &AnyRow, column: &str) -> Result<String, CatalogError> {
    text_or_null(row, column)?.ok_or_else(|| CatalogError::corrupt("column", column, "is null"))
}

/// A text column that may be null.
pub(crate) fn text_or_null(row: &AnyRow, column: &str) -> Result<Option<String>, CatalogError> {
    let value = row.try_get_raw(column)?;
    if value.is_null() || value.type_info().is_null() {
        return Ok(None);
    }
    if value.type_info().kind() == AnyTypeInfoKind::Blob {
        let bytes: Vec<u8> = row.try_get(column)?;
        return String::from_utf8(bytes).map(Some).map_err(|fault| CatalogError::corrupt("column", column, fault));
    }
    Ok(Some(row.try_get(column)?))
}

/// An integer column. None of the catalog's is negative.
pub(crate) fn int(row: &AnyRow, column: &str) -> Result<u64, CatalogError> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|fault| CatalogError::corrupt("column", column, fault))
}

/// An integer column that may be null.
pub(crate) fn int_or_null(row: &AnyRow, column: &str) -> Result<Option<u64>, CatalogError> {
    let value: Option<i64> = row.try_get(column)?;
    value.map(u64::try_from).transpose().map_err(|fault| CatalogError::corrupt("column", column, fault))
}

/// An integer as SQL has it. What is beyond is held at the largest.
pub(crate) fn sql_int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_for_postgresql() {
        assert_eq!(numbered("SELECT 1"), "SELECT 1");
        assert_eq!(numbered("SET a = ?, b = ? WHERE c = ?"), "SET a = $1, b = $2 WHERE c = $3");
    }
}
