//! A schedule: a delivery that recurs. Only what it is; whoever creates the deliveries asks its [`Cron`] when.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::cron::{Cron, Dst};
use super::delivery::TAGS_MAX;
use crate::id::{Invalid, Name, QueueId, Recipient, Tag};

/// The largest payload of a schedule, in bytes. Less than a delivery's: every server keeps all schedules in memory.
pub const SCHEDULE_PAYLOAD_MAX: usize = 65_536;

/// A delivery that recurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The queue it goes to.
    pub queue: QueueId,
    /// Its name within the queue.
    pub name: Name,
    /// When it is due.
    pub cron: Cron,
    /// What is delivered: the text of a JSON value.
    pub payload: Box<str>,
    /// The recipient, if any.
    pub to: Option<Recipient>,
    /// By which its deliveries are found.
    pub tags: Vec<Tag>,
    /// Whether it runs.
    pub enabled: bool,
    /// Grows with every change.
    pub version: u64,
}

impl Schedule {
    /// That every field is within its bounds.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.payload.is_empty() || self.payload.len() > SCHEDULE_PAYLOAD_MAX {
            return Err(Invalid::new("payload", format!("must be JSON of at most {SCHEDULE_PAYLOAD_MAX} bytes")));
        }
        // Its runs have one more, by which they are found.
        if self.tags.len() >= TAGS_MAX {
            return Err(Invalid::new("tags", format!("must be at most {}", TAGS_MAX - 1)));
        }
        Ok(())
    }
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<'a> {
    queue: QueueId,
    name: Name,
    cron: std::borrow::Cow<'a, str>,
    zone: std::borrow::Cow<'a, str>,
    dst: Dst,
    payload: std::borrow::Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<Recipient>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<Tag>,
    enabled: bool,
    version: u64,
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let stored = Stored {
            queue: self.queue.clone(),
            name: self.name.clone(),
            cron: self.cron.expression().into(),
            zone: self.cron.zone().into(),
            dst: self.cron.dst(),
            payload: (&*self.payload).into(),
            to: self.to.clone(),
            tags: self.tags.clone(),
            enabled: self.enabled,
            version: self.version,
        };
        stored.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Schedule, D::Error> {
        let stored = Stored::deserialize(d)?;
        let cron = Cron::new(&stored.cron, &stored.zone, stored.dst).map_err(serde::de::Error::custom)?;
        Ok(Schedule {
            queue: stored.queue,
            name: stored.name,
            cron,
            payload: stored.payload.into(),
            to: stored.to,
            tags: stored.tags,
            enabled: stored.enabled,
            version: stored.version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_named() {
        let good = Schedule {
            queue: QueueId::new("mail").unwrap(),
            name: Name::new("daily").unwrap(),
            cron: "@daily".parse().unwrap(),
            payload: "null".into(),
            to: None,
            tags: vec![Tag::new("user:42").unwrap()],
            enabled: true,
            version: 0,
        };
        good.check().unwrap();
        let bad = [
            ("payload", Schedule { payload: "".into(), ..good.clone() }),
            ("payload", Schedule { payload: "1".repeat(65_537).into(), ..good.clone() }),
            ("tags", Schedule { tags: vec![Tag::new("a").unwrap(); 10], ..good.clone() }),
        ];
        for (field, schedule) in bad {
            assert_eq!(schedule.check().unwrap_err().field, field);
        }
    }
}
