//! Queues: read from memory; create, put, delete; switch a webhook off.

use std::collections::HashMap;
use std::sync::Arc;

use hermod_core::queue::{Push, Queue, Secret, Webhook};
use hermod_core::{Invalid, QueueId, SpaceId};
use sqlx::any::AnyRow;

use crate::catalog::Catalog;
use crate::change::{Change, Kind};
use crate::database::{CALL_TIMEOUT, Database, int, sql_int, text, within};
use crate::definition::{CatalogOnce, Saved, SavedQueue};
use crate::error::CatalogError;
use crate::refresh::{readable, space_of};
use crate::secret;
use crate::snapshot::Queues;
use crate::write::{Answer, Begun, Write, conflict};

/// The most queues of a space: every server keeps them all in memory.
pub(crate) const QUEUES_MAX: u64 = 1_000;

const SELECT_ONE: &str = "SELECT id, body FROM queues WHERE space = ? AND id = ?";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Create,
    Put,
}

impl Catalog {
    /// One queue, from memory.
    pub fn queue(&self, space: &SpaceId, id: &QueueId) -> Option<Arc<Queue>> {
        self.inner.snapshot.load().queues.get(space)?.get(id).cloned()
    }

    /// All queues of a space by id, from memory.
    pub fn queues(&self, space: &SpaceId) -> Vec<Arc<Queue>> {
        let snapshot = self.inner.snapshot.load();
        snapshot.queues.get(space).map(|queues| queues.values().cloned().collect()).unwrap_or_default()
    }

    /// Every space that has queues, and them by id, from memory.
    pub fn all_queues(&self) -> Vec<(SpaceId, Vec<Arc<Queue>>)> {
        let snapshot = self.inner.snapshot.load();
        snapshot.queues.iter().map(|(space, queues)| (space.clone(), queues.values().cloned().collect())).collect()
    }

    /// Saves a queue that is not there yet. Its version will be 1, whatever `queue` says.
    pub async fn create_queue(&self, space: &SpaceId, queue: Queue, once: Option<&CatalogOnce>) -> Result<Saved<SavedQueue>, CatalogError> {
        within(CALL_TIMEOUT, self.save_queue(space, queue, once, Mode::Create)).await
    }

    /// Saves a queue, in place of the one with the same id if there is one. Its version grows by one.
    ///
    /// A webhook without secrets keeps those it has, or is given a new one, which is in the answer
    /// and can be had nowhere else. A mask among its secrets stands for the stored one that looks like it.
    pub async fn put_queue(&self, space: &SpaceId, queue: Queue, once: Option<&CatalogOnce>) -> Result<Saved<SavedQueue>, CatalogError> {
        within(CALL_TIMEOUT, self.save_queue(space, queue, once, Mode::Put)).await
    }

    /// Whether a queue was deleted under this key before.
    pub async fn has_deleted_queue(&self, once: &CatalogOnce) -> Result<bool, CatalogError> {
        within(CALL_TIMEOUT, async {
            match Write::begin(self, Some(once)).await? {
                Begun::New(_) => Ok(false),
                Begun::Replayed(Answer::QueueDeleted) => Ok(true),
                Begun::Replayed(_) => Err(conflict(Some(once))),
            }
        })
        .await
    }

    /// Deletes a queue and its schedules. False if there was none.
    pub async fn delete_queue(&self, space: &SpaceId, id: &QueueId, once: Option<&CatalogOnce>) -> Result<bool, CatalogError> {
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(Answer::QueueDeleted) => return Ok(true),
                Begun::Replayed(_) => return Err(conflict(once)),
            };
            write.subject_rules(space).await?;
            let delete = write.query("DELETE FROM schedules WHERE space = ? AND queue = ?").bind(space.as_str()).bind(id.as_str());
            write.execute(delete).await?;
            let delete = write.query("DELETE FROM queues WHERE space = ? AND id = ?").bind(space.as_str()).bind(id.as_str());
            if write.execute(delete).await? == 0 {
                return Ok(false);
            }
            let changes = [Change::of(Kind::Schedule, space), Change::of(Kind::Queue, space)];
            write.commit(&changes, &Answer::QueueDeleted).await?;
            Ok(true)
        })
        .await
    }

    /// Switches the webhook of a queue off, and notes why. False, and nothing changes, if the queue is
    /// not of that `version` any more: what was edited meanwhile deserves its own try.
    pub async fn disable_queue(&self, space: &SpaceId, id: &QueueId, version: u64, why: &str) -> Result<bool, CatalogError> {
        within(CALL_TIMEOUT, async {
            let Begun::New(mut write) = Write::begin(self, None).await? else { return Ok(false) };
            let Some(mut queue) = stored(&mut write, space, id).await?.filter(|queue| queue.version == version) else {
                return Ok(false);
            };
            queue.disabled = Some(why.to_owned());
            queue.check()?;
            queue.version = queue.version.saturating_add(1);
            save(&mut write, space, &queue, false).await?;
            // Nobody asks for this answer again: there is no key to keep it under.
            let answer = Answer::Queue { queue: Box::new(queue.masked()), created: false };
            write.commit(&[Change::of(Kind::Queue, space)], &answer).await?;
            Ok(true)
        })
        .await
    }

    async fn save_queue(
        &self,
        space: &SpaceId,
        mut queue: Queue,
        once: Option<&CatalogOnce>,
        mode: Mode,
    ) -> Result<Saved<SavedQueue>, CatalogError> {
        precheck(&queue)?;
        let mut write = match Write::begin(self, once).await? {
            Begun::New(write) => write,
            Begun::Replayed(Answer::Queue { queue, created }) => {
                return Ok(Saved { value: SavedQueue { queue: *queue, secret: None }, created, replayed: true });
            }
            Begun::Replayed(_) => return Err(conflict(once)),
        };
        write.subject_rules(space).await?;
        let old = stored(&mut write, space, &queue.id).await?;
        if old.is_some() && mode == Mode::Create {
            return Err(CatalogError::Exists { what: "queue", id: queue.id.to_string() });
        }
        if old.is_none() {
            let count = write.query("SELECT COUNT(*) AS n FROM queues WHERE space = ?").bind(space.as_str());
            refuse_beyond(&mut write, count, "queue", QUEUES_MAX).await?;
        }
        let secret = match &mut queue.push {
            Some(Push::Webhook(webhook)) => settle_secrets(webhook, old.as_ref())?,
            _ => None,
        };
        queue.check()?;
        queue.version = old.as_ref().map_or(1, |old| old.version.saturating_add(1));
        let created = old.is_none();
        save(&mut write, space, &queue, created).await?;
        let answer = Answer::Queue { queue: Box::new(queue.masked()), created };
        write.commit(&[Change::of(Kind::Queue, space)], &answer).await?;
        Ok(Saved { value: SavedQueue { queue, secret }, created, replayed: false })
    }
}

/// Whether it is right but for secrets that are still to be settled: what is wrong need not wait for its turn.
fn precheck(queue: &Queue) -> Result<(), Invalid> {
    let mut settled = queue.clone();
    if let Some(Push::Webhook(webhook)) = &mut settled.push {
        let any = Secret::from_bytes(&[0; 32]);
        webhook.secrets.iter_mut().filter(|secret| secret.is_mask()).for_each(|secret| *secret = any.clone());
        if webhook.secrets.is_empty() {
            webhook.secrets.push(any);
        }
    }
    settled.check()
}

/// Puts the stored secrets where none or their masks were given. The secret that was made up, if one was.
fn settle_secrets(webhook: &mut Webhook, old: Option<&Queue>) -> Result<Option<Secret>, CatalogError> {
    let stored = match old.and_then(|old| old.push.as_ref()) {
        Some(Push::Webhook(old)) => old.secrets.as_slice(),
        _ => &[],
    };
    if webhook.secrets.is_empty() {
        webhook.secrets = stored.to_vec();
    }
    if webhook.secrets.is_empty() {
        let secret = secret::generate_webhook().map_err(CatalogError::Chance)?;
        webhook.secrets.push(secret.clone());
        return Ok(Some(secret));
    }
    for given in webhook.secrets.iter_mut().filter(|given| given.is_mask()) {
        let Some(known) = stored.iter().find(|known| known.masked() == *given) else {
            let what = "holds the mask of a secret that is not stored; send the secret itself";
            return Err(Invalid::new("push.webhook.secret", what).into());
        };
        *given = known.clone();
    }
    Ok(None)
}

async fn stored(write: &mut Write<'_>, space: &SpaceId, id: &QueueId) -> Result<Option<Queue>, CatalogError> {
    let query = write.query(SELECT_ONE).bind(space.as_str()).bind(id.as_str());
    write.fetch(query).await?.as_ref().map(from_row).transpose()
}

async fn save(write: &mut Write<'_>, space: &SpaceId, queue: &Queue, created: bool) -> Result<(), CatalogError> {
    // The order of the values is that of both statements.
    let statement = match created {
        true => "INSERT INTO queues (body, version, space, id) VALUES (?, ?, ?, ?)",
        false => "UPDATE queues SET body = ?, version = ? WHERE space = ? AND id = ?",
    };
    let body = serde_json::to_string(queue).map_err(|fault| CatalogError::corrupt("queue", queue.id.as_str(), fault))?;
    let query = write.query(statement).bind(body).bind(sql_int(queue.version)).bind(space.as_str()).bind(queue.id.as_str());
    write.execute(query).await?;
    Ok(())
}

/// Refuses one more where `count` says that there are `max`.
pub(crate) async fn refuse_beyond(
    write: &mut Write<'_>,
    count: sqlx::query::Query<'_, sqlx::Any, sqlx::any::AnyArguments>,
    what: &'static str,
    max: u64,
) -> Result<(), CatalogError> {
    let row = write.fetch(count).await?;
    match row.map(|row| int(&row, "n")).transpose()? {
        Some(count) if count >= max => Err(CatalogError::TooMany { whole: "space", what, max }),
        _ => Ok(()),
    }
}

/// A queue, from its `id` and `body`.
fn from_row(row: &AnyRow) -> Result<Queue, CatalogError> {
    let id = text(row, "id")?;
    serde_json::from_str(&text(row, "body")?).map_err(|fault| CatalogError::corrupt("queue", id, fault))
}

/// One space's queues, from the database.
pub(crate) async fn of_space(database: &Database, space: &SpaceId) -> Result<Queues, CatalogError> {
    let query = database.query("SELECT id, body FROM queues WHERE space = ?").bind(space.as_str());
    let rows = query.fetch_all(database.pool()).await?;
    let queues = rows.iter().filter_map(|row| readable(from_row(row)));
    Ok(queues.map(|queue| (queue.id.clone(), Arc::new(queue))).collect())
}

/// All queues, from the database.
pub(crate) async fn read_all(database: &Database) -> Result<HashMap<SpaceId, Arc<Queues>>, CatalogError> {
    let rows = database.query("SELECT space, id, body FROM queues").fetch_all(database.pool()).await?;
    let mut spaces: HashMap<SpaceId, Queues> = HashMap::new();
    for row in &rows {
        let Some(queue) = readable(from_row(row)) else { continue };
        spaces.entry(space_of(row)?).or_default().insert(queue.id.clone(), Arc::new(queue));
    }
    Ok(spaces.into_iter().map(|(space, queues)| (space, Arc::new(queues))).collect())
}

#[cfg(test)]
mod tests {
    use hermod_core::Name;
    use hermod_core::queue::Schedule;

    use super::*;
    use crate::Options;

    /// A catalog in which the default space has so many queues, `q0` and so on, each with one schedule.
    async fn with(count: u64) -> Catalog {
        let catalog = Catalog::open(Options::default()).await.unwrap();
        let space = SpaceId::default_space();
        let queue = Queue::new(QueueId::new("q").unwrap());
        for number in 0..count {
            let id = QueueId::new(format!("q{number}")).unwrap();
            let schedule = Schedule {
                queue: id.clone(),
                name: Name::default_name(),
                cron: "@daily".parse().unwrap(),
                payload: "null".into(),
                to: None,
                tags: Vec::new(),
                enabled: true,
                version: 1,
            };
            let queue = Queue { id, ..queue.clone() };
            let body = serde_json::to_string(&queue).unwrap();
            let pool = catalog.inner.database.pool();
            let insert = catalog.inner.database.query("INSERT INTO queues (space, id, body, version) VALUES ('default', ?, ?, 1)");
            insert.bind(queue.id.as_str()).bind(body).execute(pool).await.unwrap();
            let statement = "INSERT INTO schedules (space, queue, name, body, version) VALUES ('default', ?, 'default', ?, 1)";
            let insert = catalog.inner.database.query(statement).bind(queue.id.as_str());
            insert.bind(serde_json::to_string(&schedule).unwrap()).execute(pool).await.unwrap();
        }
        catalog.inner.reload().await.unwrap();
        assert_eq!(u64::try_from(catalog.queues(&space).len()).unwrap(), count);
        catalog
    }

    #[tokio::test]
    async fn a_space_has_a_thousand_queues_and_schedules_at_most() {
        let catalog = with(QUEUES_MAX - 1).await;
        let space = SpaceId::default_space();
        let new = |id: &str| Queue::new(QueueId::new(id).unwrap());
        catalog.put_queue(&space, new("last"), None).await.unwrap();
        let refused = catalog.put_queue(&space, new("more"), None).await;
        assert!(matches!(refused, Err(CatalogError::TooMany { what: "queue", max: 1_000, .. })), "{refused:?}");
        // What is there can still be changed, and another space has its own thousand.
        catalog.put_queue(&space, new("last"), None).await.unwrap();
        let other = SpaceId::new("other").unwrap();
        catalog.create_space(&other, None).await.unwrap();
        catalog.put_queue(&other, new("more"), None).await.unwrap();
        let schedule = |name: &str| {
            let known = Schedule::clone(catalog.schedules(&space).first().unwrap());
            Schedule { name: Name::new(name).unwrap(), ..known }
        };
        catalog.put_schedule(&space, schedule("last"), None).await.unwrap();
        let refused = catalog.put_schedule(&space, schedule("more"), None).await;
        assert!(matches!(refused, Err(CatalogError::TooMany { what: "schedule", max: 1_000, .. })), "{refused:?}");
        catalog.delete_queue(&space, &QueueId::new("q0").unwrap(), None).await.unwrap();
        assert_eq!(catalog.schedules(&space).len(), 998, "both of its schedules went with it");
    }
}
