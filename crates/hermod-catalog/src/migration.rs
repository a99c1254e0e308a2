//! Brings a database to the shape this version needs. Any number of servers may start at once.
//!
//! sqlx keeps the record of what was applied; the lock around it is ours on two of three databases.
//! SQLite has no lock by name, so everything happens inside one `BEGIN IMMEDIATE`. MariaDB refuses
//! the endless wait that sqlx asks of `GET_LOCK`, and sqlx does not notice, so we ask for a minute.
//! PostgreSQL's advisory lock is taken by sqlx.

use std::borrow::Cow;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AnyConnection, AnyPool, Row, SqlSafeStr};

use crate::error::CatalogError;
use crate::options::Dialect;

/// Where sqlx notes what was applied. Named after us, since a database may be shared.
const TABLE: &str = "hermod_migrations";

/// How often SQLite is asked to change a new file's journal mode, which ignores its busy timeout.
const WAL_TRIES: u32 = 200;

/// The lock's name holds the database's: MySQL's locks are known to the whole server.
const MYSQL_LOCK: &str = "SELECT GET_LOCK(CONCAT('hermod:', SHA1(DATABASE())), 60) AS taken";
const MYSQL_UNLOCK: &str = "SELECT RELEASE_LOCK(CONCAT('hermod:', SHA1(DATABASE())))";

/// Every migration there is: number, name, and its text for SQLite, PostgreSQL and MySQL.
const MIGRATIONS: [(i64, &str, &str, &str, &str); 4] = [
    (
        1,
        "catalog",
        include_str!("../migrations/sqlite/0001_catalog.sql"),
        include_str!("../migrations/postgres/0001_catalog.sql"),
        include_str!("../migrations/mysql/0001_catalog.sql"),
    ),
    (
        3,
        "queues",
        include_str!("../migrations/sqlite/0003_queues.sql"),
        include_str!("../migrations/postgres/0003_queues.sql"),
        include_str!("../migrations/mysql/0003_queues.sql"),
    ),
    (
        4,
        "decks",
        include_str!("../migrations/sqlite/0004_decks.sql"),
        include_str!("../migrations/postgres/0004_decks.sql"),
        include_str!("../migrations/mysql/0004_decks.sql"),
    ),
    (
        5,
        "realms",
        include_str!("../migrations/sqlite/0005_realms.sql"),
        include_str!("../migrations/postgres/0005_realms.sql"),
        include_str!("../migrations/mysql/0005_realms.sql"),
    ),
];

pub(crate) async fn run(pool: &AnyPool, dialect: Dialect) -> Result<(), CatalogError> {
    let migrator = migrator(dialect);
    match dialect {
        Dialect::Sqlite => {
            write_ahead(pool).await?;
            let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
            apply(&migrator, &mut tx).await?;
            tx.commit().await?;
        }
        Dialect::Postgres => {
            let mut connection = pool.acquire().await?;
            apply(&migrator, &mut connection).await?;
        }
        Dialect::Mysql => {
            let mut connection = pool.acquire().await?;
            let taken: Option<i64> = sqlx::query(MYSQL_LOCK).fetch_one(&mut *connection).await?.try_get("taken")?;
            match taken {
                Some(1) => {}
                Some(_) => return Err(CatalogError::Unavailable("another server has been migrating for a minute".into())),
                None => return Err(CatalogError::configuration("the catalog's URL names no database; write \"mysql://host/database\"")),
            }
            apply(&migrator, &mut connection).await?;
            sqlx::query(MYSQL_UNLOCK).execute(&mut *connection).await?;
        }
    }
    Ok(())
}

fn migrator(dialect: Dialect) -> Migrator {
    let migrations = MIGRATIONS.iter().map(|&(version, name, sqlite, postgres, mysql)| {
        let sql = match dialect {
            Dialect::Sqlite => sqlite,
            Dialect::Postgres => postgres,
            Dialect::Mysql => mysql,
        };
        Migration::new(version, Cow::Borrowed(name), MigrationType::Simple, sql.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    migrator.dangerous_set_table_name(TABLE);
    migrator.set_locking(dialect == Dialect::Postgres);
    migrator
}

async fn apply(migrator: &Migrator, connection: &mut AnyConnection) -> Result<(), CatalogError> {
    // Not `run`: its bounds lose the connection's lifetime, and the whole future could not be spawned.
    migrator.run_direct(None, connection, false).await.map_err(refused)
}

fn refused(fault: MigrateError) -> CatalogError {
    let reason = match &fault {
        MigrateError::Execute(_) => return CatalogError::Unavailable(fault.into()),
        MigrateError::VersionMissing(_) | MigrateError::VersionMismatch(_) => {
            "the catalog was migrated by another version of Hermod; run that one, or a newer one"
        }
        MigrateError::Dirty(_) => "a migration of the catalog was interrupted; restore the database, or drop its tables if it is new",
        _ => "the catalog's tables cannot be made; the database user must be allowed to create tables",
    };
    CatalogError::Configuration { reason: reason.to_owned(), source: Some(fault.into()) }
}

/// Lets readers go on while somebody writes. The file remembers it.
async fn write_ahead(pool: &AnyPool) -> Result<(), CatalogError> {
    let mut tries = 0;
    loop {
        match sqlx::raw_sql("PRAGMA journal_mode = WAL").execute(pool).await {
            Ok(_) => return Ok(()),
            // Another server is doing the same to the same new file.
            Err(fault) if is_busy(&fault) && tries < WAL_TRIES => tries += 1,
            Err(fault) => return Err(fault.into()),
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

fn is_busy(fault: &sqlx::Error) -> bool {
    let code = fault.as_database_error().and_then(|said| said.code()).and_then(|code| code.parse::<u32>().ok());
    // The low byte of SQLite's extended codes is the plain one: 5 is busy, 6 is locked.
    matches!(code.map(|code| code & 0xff), Some(5 | 6))
}
