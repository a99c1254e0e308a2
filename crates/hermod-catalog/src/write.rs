//! The one way to change the catalog: a transaction that takes a number, and says what it changed.
//!
//! It begins by incrementing the version. That row's lock makes all writes of all servers wait for
//! each other, so what is read afterwards cannot change before the commit: "does it exist?" and
//! "insert it" need no unique index to be safe, and versions are committed in order.
//!
//! The answer is kept under the idempotency key in the same transaction; there is no moment at
//! which the change is there and the record is not. Refusals keep nothing.

use std::time::Duration;

use hermod_core::limit::Rule;
use hermod_core::pick::{Deck, Message};
use hermod_core::queue::{Queue, Schedule};
use hermod_core::realm::Definition;
use hermod_core::{Micros, Once, RealmId, SpaceId, once};
use serde::{Deserialize, Serialize};
use sqlx::Any;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use tokio::sync::MutexGuard;

use crate::catalog::{Catalog, Inner};
use crate::change::Change;
use crate::clock;
use crate::database::{Database, int, sql_int, text, within};
use crate::definition::CatalogOnce;
use crate::error::CatalogError;
use crate::scope::Scope;
use crate::writing::Writing;

/// How many versions' changes are kept. A server that is further behind reads everything again.
const CHANGES_KEPT: u64 = 10_000;

/// How long a committed write waits to be seen here. Well below the limit of the whole call.
const TAKE_IN_TIMEOUT: Duration = Duration::from_secs(3);

/// What a write answered, as it is kept for a replay.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Rule {
        rule: Box<Rule>,
        created: bool,
    },
    RuleDeleted,
    Space {
        id: SpaceId,
        created_at_us: u64,
    },
    Key {
        id: String,
        space: SpaceId,
        name: String,
        scopes: Vec<Scope>,
        created_at_us: u64,
    },
    KeyDeleted,
    /// With its secrets masked: they are kept in one place only.
    Queue {
        queue: Box<Queue>,
        created: bool,
    },
    QueueDeleted,
    Schedule {
        schedule: Box<Schedule>,
        created: bool,
    },
    ScheduleDeleted,
    Deck {
        deck: Box<Deck>,
        created: bool,
    },
    DeckDeleted,
    /// All were created.
    Messages {
        messages: Vec<Message>,
    },
    Message {
        message: Box<Message>,
        created: bool,
    },
    MessageDeleted,
    Realm {
        realm: RealmId,
        version: u64,
        hash: String,
        definition: Box<Definition>,
        changed: Vec<String>,
        created: bool,
    },
}

/// A write, or what it answered before.
pub(crate) enum Begun<'a> {
    New(Write<'a>),
    Replayed(Answer),
}

/// A write under way. Dropped without [`Write::commit`], it did nothing.
pub(crate) struct Write<'a> {
    inner: &'a Inner,
    turn: MutexGuard<'a, ()>,
    tx: Writing,
    version: u64,
    now: Micros,
    once: Option<&'a CatalogOnce>,
}

impl<'a> Write<'a> {
    /// Takes a number, unless the answer is known.
    pub(crate) async fn begin(catalog: &'a Catalog, once: Option<&'a CatalogOnce>) -> Result<Begun<'a>, CatalogError> {
        if let Some(once) = once {
            Once::check_key(&once.key)?;
        }
        let inner: &'a Inner = &catalog.inner;
        let turn = inner.writing.lock().await;
        // Nobody waits for a database that is known to be away, least of all one after the other; the poller finds it again.
        if !catalog.is_healthy() {
            return Err(CatalogError::Unavailable("it did not answer last time".into()));
        }
        let mut tx = inner.database.begin().await?;
        tx.execute(inner.database.query("UPDATE catalog_version SET version = version + 1")).await?;
        let row = tx.fetch(inner.database.query("SELECT version FROM catalog_version")).await?.ok_or(sqlx::Error::RowNotFound)?;
        let version = int(&row, "version")?;
        let mut write = Write { inner, turn, tx, version, now: clock::now(), once };
        match write.kept().await? {
            Some(answer) => {
                write.tx.rollback().await?;
                Ok(Begun::Replayed(answer))
            }
            None => Ok(Begun::New(write)),
        }
    }

    /// The time of this write.
    pub(crate) fn now(&self) -> Micros {
        self.now
    }

    /// The catalog's version once this is committed.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn database(&self) -> &'a Database {
        &self.inner.database
    }

    pub(crate) fn query(&self, statement: &'static str) -> Query<'static, Any, AnyArguments> {
        self.inner.database.query(statement)
    }

    pub(crate) async fn execute(&mut self, query: Query<'_, Any, AnyArguments>) -> Result<u64, CatalogError> {
        Ok(self.tx.execute(query).await?)
    }

    pub(crate) async fn fetch(&mut self, query: Query<'_, Any, AnyArguments>) -> Result<Option<AnyRow>, CatalogError> {
        Ok(self.tx.fetch(query).await?)
    }

    pub(crate) async fn fetch_all(&mut self, query: Query<'_, Any, AnyArguments>) -> Result<Vec<AnyRow>, CatalogError> {
        Ok(self.tx.fetch_all(query).await?)
    }

    /// How many rules for one subject `space` has; an error if there is no such space.
    pub(crate) async fn subject_rules(&mut self, space: &SpaceId) -> Result<u64, CatalogError> {
        let query = self.query("SELECT subject_rules FROM spaces WHERE space = ?").bind(space.as_str().to_owned());
        match self.fetch(query).await? {
            Some(row) => int(&row, "subject_rules"),
            None => Err(CatalogError::space_not_found(space.as_str())),
        }
    }

    /// Commits, and takes the change in: whoever writes here reads it here.
    pub(crate) async fn commit(mut self, changes: &[Change], answer: &Answer) -> Result<(), CatalogError> {
        for (part, change) in (0..).zip(changes) {
            let statement = "INSERT INTO changes (version, part, space, kind, subject, subject_rules, deck, ordinal, realm) \
                             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
            let query = self.query(statement).bind(sql_int(self.version)).bind(sql_int(part)).bind(change.space.as_str());
            let subject = change.subject.as_ref().map(|subject| subject.as_str());
            let query = query.bind(change.kind.as_str()).bind(subject).bind(sql_int(change.subject_rules));
            let query = query.bind(change.deck.as_ref().map(|deck| deck.as_str())).bind(change.ordinal.map(sql_int));
            let query = query.bind(change.realm.as_ref().map(|realm| realm.as_str()));
            self.execute(query).await?;
        }
        let trim = self.query("DELETE FROM changes WHERE version <= ?").bind(sql_int(self.version.saturating_sub(CHANGES_KEPT)));
        self.execute(trim).await?;
        self.keep(answer).await?;
        self.tx.commit().await?;
        // Others may write while this one reads.
        drop(self.turn);
        if let Err(fault) = within(TAKE_IN_TIMEOUT, self.inner.refresh(Some(self.version))).await {
            // It is committed, so it must not be answered with an error; the poller will take it in.
            tracing::debug!(version = self.version, "{fault}; a change made here was not taken in yet");
        }
        Ok(())
    }

    /// What was answered under this idempotency key.
    async fn kept(&mut self) -> Result<Option<Answer>, CatalogError> {
        let Some(once) = self.once else { return Ok(None) };
        let statement = "SELECT fingerprint, answer FROM idempotency WHERE space = ? AND once_key = ? AND kept_until > ?";
        let query = self.query(statement).bind(once.space.as_str()).bind(&once.key).bind(sql_int(self.now.get()));
        let Some(row) = self.fetch(query).await? else { return Ok(None) };
        if text(&row, "fingerprint")? != hex(once.fingerprint) {
            return Err(once.conflict());
        }
        // What this version does not understand was another request, whatever its fingerprint.
        serde_json::from_str(&text(&row, "answer")?).map(Some).map_err(|_| once.conflict())
    }

    async fn keep(&mut self, answer: &Answer) -> Result<(), CatalogError> {
        let Some(once) = self.once else { return Ok(()) };
        let now = sql_int(self.now.get());
        // A bounded sweep. The key's own record, if it is old, must go too, or it would be in the way.
        let sweep = "DELETE FROM idempotency WHERE (space, once_key) IN (SELECT space, once_key FROM \
                     (SELECT space, once_key FROM idempotency WHERE kept_until <= ? ORDER BY kept_until LIMIT 100) AS old)";
        let sweep = self.query(sweep).bind(now);
        self.execute(sweep).await?;
        let own = self.query("DELETE FROM idempotency WHERE space = ? AND once_key = ?").bind(once.space.as_str()).bind(&once.key);
        self.execute(own).await?;
        let answer = serde_json::to_string(answer).map_err(|fault| CatalogError::Refused(fault.into()))?;
        let statement = "INSERT INTO idempotency (space, once_key, fingerprint, answer, kept_until) VALUES (?, ?, ?, ?, ?)";
        let query = self.query(statement).bind(once.space.as_str()).bind(&once.key).bind(hex(once.fingerprint));
        let query = query.bind(answer).bind(sql_int(self.now.plus(once::KEEP).get()));
        self.execute(query).await?;
        Ok(())
    }
}

fn hex(fingerprint: u128) -> String {
    format!("{fingerprint:032x}")
}

impl CatalogOnce {
    pub(crate) fn conflict(&self) -> CatalogError {
        CatalogError::IdempotencyConflict { key: self.key.clone() }
    }
}

/// The kept answer was not of the kind that the call gives: the key was another request's.
pub(crate) fn conflict(once: Option<&CatalogOnce>) -> CatalogError {
    CatalogError::IdempotencyConflict { key: once.map(|once| once.key.clone()).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[tokio::test]
    async fn old_answers_are_forgotten_in_bounded_steps_and_old_changes_are_trimmed() {
        let catalog = Catalog::open(Options::default()).await.unwrap();
        let count = async |statement: &'static str| {
            int(&catalog.inner.database.query(statement).fetch_one(catalog.inner.database.pool()).await.unwrap(), "n").unwrap()
        };
        let make = async |key: &str, fingerprint: u128| {
            let space = SpaceId::new(format!("{key}-{fingerprint}")).unwrap();
            catalog.create_space(&space, Some(&CatalogOnce { space: SpaceId::default_space(), key: key.to_owned(), fingerprint })).await
        };
        for i in 0..120 {
            make(&format!("k{i}"), 1).await.unwrap();
        }
        assert!(make("k119", 2).await.is_err());
        for statement in ["UPDATE idempotency SET kept_until = 1", "UPDATE catalog_version SET version = 10110"] {
            catalog.inner.database.query(statement).execute(catalog.inner.database.pool()).await.unwrap();
        }
        // The key is free again; a hundred others went with it, and the rest goes next time.
        assert!(!make("k119", 2).await.unwrap().replayed);
        assert!(count("SELECT COUNT(*) AS n FROM idempotency").await <= 21);
        make("k1", 2).await.unwrap();
        assert_eq!(count("SELECT COUNT(*) AS n FROM idempotency").await, 2);
        assert_eq!(count("SELECT MIN(version) AS n FROM changes").await, 113);
        assert_eq!(catalog.version(), 10_112);
    }
}
