//! Schedules: read from memory; put, delete.

use std::collections::HashMap;
use std::sync::Arc;

use hermod_core::queue::{Queue, Schedule};
use hermod_core::{Invalid, Name, QueueId, SpaceId};
use sqlx::any::AnyRow;

use crate::catalog::Catalog;
use crate::change::{Change, Kind};
use crate::database::{CALL_TIMEOUT, Database, sql_int, text, within};
use crate::definition::{CatalogOnce, Saved};
use crate::error::CatalogError;
use crate::queues::refuse_beyond;
use crate::refresh::{readable, space_of};
use crate::snapshot::Schedules;
use crate::write::{Answer, Begun, Write, conflict};

/// The most schedules of a space: every server keeps them all in memory.
pub(crate) const SCHEDULES_MAX: u64 = 1_000;

impl Catalog {
    /// All schedules of a space by queue and name, from memory.
    pub fn schedules(&self, space: &SpaceId) -> Arc<Vec<Arc<Schedule>>> {
        self.inner.snapshot.load().schedules.get(space).cloned().unwrap_or_default()
    }

    /// Every space that has schedules, and them by queue and name, from memory.
    pub fn all_schedules(&self) -> Vec<(SpaceId, Arc<Vec<Arc<Schedule>>>)> {
        let snapshot = self.inner.snapshot.load();
        snapshot.schedules.iter().map(|(space, schedules)| (space.clone(), Arc::clone(schedules))).collect()
    }

    /// One schedule, from memory.
    pub fn schedule(&self, space: &SpaceId, queue: &QueueId, name: &Name) -> Option<Arc<Schedule>> {
        let schedules = self.schedules(space);
        let at = schedules.binary_search_by(|known| (&known.queue, &known.name).cmp(&(queue, name))).ok()?;
        schedules.get(at).cloned()
    }

    /// Saves a schedule, in place of the one of the same queue and name if there is one. Its version grows by one.
    pub async fn put_schedule(
        &self,
        space: &SpaceId,
        mut schedule: Schedule,
        once: Option<&CatalogOnce>,
    ) -> Result<Saved<Schedule>, CatalogError> {
        schedule.check()?;
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(Answer::Schedule { schedule, created }) => return Ok(Saved { value: *schedule, created, replayed: true }),
                Begun::Replayed(_) => return Err(conflict(once)),
            };
            write.subject_rules(space).await?;
            let room = payload_max(&mut write, space, &schedule.queue).await?;
            if u64::try_from(schedule.payload.len()).is_ok_and(|length| length > u64::from(room)) {
                return Err(Invalid::new("payload", format!("is longer than the {room} bytes that the queue takes")).into());
            }
            let version = version(&mut write, space, &schedule.queue, &schedule.name).await?;
            let created = version.is_none();
            if created {
                let count = write.query("SELECT COUNT(*) AS n FROM schedules WHERE space = ?").bind(space.as_str());
                refuse_beyond(&mut write, count, "schedule", SCHEDULES_MAX).await?;
            }
            schedule.version = version.unwrap_or(0).saturating_add(1);
            // The order of the values is that of both statements.
            let statement = match created {
                true => "INSERT INTO schedules (body, version, space, queue, name) VALUES (?, ?, ?, ?, ?)",
                false => "UPDATE schedules SET body = ?, version = ? WHERE space = ? AND queue = ? AND name = ?",
            };
            let body = serde_json::to_string(&schedule);
            let body = body.map_err(|fault| CatalogError::corrupt("schedule", schedule.name.as_str(), fault))?;
            let query = write.query(statement).bind(body).bind(sql_int(schedule.version)).bind(space.as_str());
            let query = query.bind(schedule.queue.as_str()).bind(schedule.name.as_str());
            write.execute(query).await?;
            let answer = Answer::Schedule { schedule: Box::new(schedule.clone()), created };
            write.commit(&[Change::of(Kind::Schedule, space)], &answer).await?;
            Ok(Saved { value: schedule.clone(), created, replayed: false })
        })
        .await
    }

    /// Deletes a schedule. False if there was none.
    pub async fn delete_schedule(
        &self,
        space: &SpaceId,
        queue: &QueueId,
        name: &Name,
        once: Option<&CatalogOnce>,
    ) -> Result<bool, CatalogError> {
        within(CALL_TIMEOUT, async {
            let mut write = match Write::begin(self, once).await? {
                Begun::New(write) => write,
                Begun::Replayed(Answer::ScheduleDeleted) => return Ok(true),
                Begun::Replayed(_) => return Err(conflict(once)),
            };
            write.subject_rules(space).await?;
            let delete = write.query("DELETE FROM schedules WHERE space = ? AND queue = ? AND name = ?");
            let delete = delete.bind(space.as_str()).bind(queue.as_str()).bind(name.as_str());
            if write.execute(delete).await? == 0 {
                return Ok(false);
            }
            write.commit(&[Change::of(Kind::Schedule, space)], &Answer::ScheduleDeleted).await?;
            Ok(true)
        })
        .await
    }
}

/// How many bytes a delivery of the queue may have; an error if there is no such queue.
async fn payload_max(write: &mut Write<'_>, space: &SpaceId, queue: &QueueId) -> Result<u32, CatalogError> {
    let query = write.query("SELECT body FROM queues WHERE space = ? AND id = ?").bind(space.as_str()).bind(queue.as_str());
    let Some(row) = write.fetch(query).await? else {
        return Err(CatalogError::NotFound { what: "queue", id: queue.to_string() });
    };
    let stored: Queue =
        serde_json::from_str(&text(&row, "body")?).map_err(|fault| CatalogError::corrupt("queue", queue.as_str(), fault))?;
    Ok(stored.max_payload)
}

async fn version(write: &mut Write<'_>, space: &SpaceId, queue: &QueueId, name: &Name) -> Result<Option<u64>, CatalogError> {
    let query = write.query("SELECT version FROM schedules WHERE space = ? AND queue = ? AND name = ?");
    let query = query.bind(space.as_str()).bind(queue.as_str()).bind(name.as_str());
    write.fetch(query).await?.map(|row| crate::database::int(&row, "version")).transpose()
}

/// A schedule, from its `name` and `body`.
fn from_row(row: &AnyRow) -> Result<Schedule, CatalogError> {
    let name = text(row, "name")?;
    serde_json::from_str(&text(row, "body")?).map_err(|fault| CatalogError::corrupt("schedule", name, fault))
}

/// One space's schedules, from the database.
pub(crate) async fn of_space(database: &Database, space: &SpaceId) -> Result<Schedules, CatalogError> {
    let query = database.query("SELECT name, body FROM schedules WHERE space = ? ORDER BY queue, name").bind(space.as_str());
    let rows = query.fetch_all(database.pool()).await?;
    Ok(rows.iter().filter_map(|row| readable(from_row(row))).map(Arc::new).collect())
}

/// All schedules, from the database.
pub(crate) async fn read_all(database: &Database) -> Result<HashMap<SpaceId, Arc<Schedules>>, CatalogError> {
    let query = database.query("SELECT space, name, body FROM schedules ORDER BY space, queue, name");
    let rows = query.fetch_all(database.pool()).await?;
    let mut spaces: HashMap<SpaceId, Schedules> = HashMap::new();
    for row in &rows {
        let Some(schedule) = readable(from_row(row)) else { continue };
        spaces.entry(space_of(row)?).or_default().push(Arc::new(schedule));
    }
    Ok(spaces.into_iter().map(|(space, schedules)| (space, Arc::new(schedules))).collect())
}
