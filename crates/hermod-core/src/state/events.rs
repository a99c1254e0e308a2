//! The logs of a partition: what changed, for each space, in order.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::event::{KEEP, TRIM};
use crate::id::SpaceId;
use crate::int::Micros;
use crate::key;
use crate::record::{self, Damaged, Family, Record};

/// The logs of a partition.
///
/// By number, as the journal gives records back in any order. All numbers between the first and the last are there.
#[derive(Debug)]
pub struct Events {
    partition: u16,
    logs: HashMap<String, BTreeMap<u64, Box<[u8]>>>,
    urgent: Vec<u8>,
    bytes: usize,
}

/// What an event takes beside its own bytes, about.
const BESIDE: usize = 40;

impl Events {
    pub(super) fn new(partition: u16) -> Events {
        Events { partition, logs: HashMap::new(), urgent: Vec::new(), bytes: 0 }
    }

    /// Appends an event. At times what is too many is forgotten.
    pub(crate) fn append(&mut self, space: &SpaceId, event: Box<[u8]>) {
        let log = self.logs.entry_ref(space.as_str()).or_default();
        let number = log.last_key_value().map_or(0, |(number, _)| *number) + 1;
        let value = |out: &mut Vec<u8>| out.extend_from_slice(&event);
        record::write(&mut self.urgent, Family::Event, self.partition, &spell(space.as_str(), number), Some(&value));
        self.bytes += event.len() + BESIDE;
        log.insert(number, event);
        while number.is_multiple_of(TRIM)
            && log.len() > KEEP
            && let Some((number, event)) = log.pop_first()
        {
            self.bytes -= event.len() + BESIDE;
            record::write(&mut self.urgent, Family::Event, self.partition, &spell(space.as_str(), number), None);
        }
    }

    /// The numbers of the oldest and of the newest; 0: there is none.
    pub(crate) fn bounds(&self, space: &SpaceId) -> (u64, u64) {
        let log = self.logs.get(space.as_str());
        let ends = log.and_then(|log| Some((*log.first_key_value()?.0, *log.last_key_value()?.0)));
        ends.unwrap_or_default()
    }

    /// Those whose numbers are above `after`.
    pub(crate) fn after(&self, space: &SpaceId, after: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let log = self.logs.get(space.as_str()).into_iter();
        log.flat_map(move |log| log.range(after.saturating_add(1)..).map(|(number, event)| (*number, &**event)))
    }

    pub(super) fn load(&mut self, record: &Record<'_>) -> Result<(), Damaged> {
        let (space, number) = record.key.split_last_chunk().ok_or(Damaged)?;
        let space = space.strip_suffix(&[0]).and_then(|space| std::str::from_utf8(space).ok()).ok_or(Damaged)?;
        let number = u64::from_be_bytes(*number);
        let log = self.logs.entry_ref(space).or_default();
        let before = match record.value {
            Some(event) => {
                self.bytes += event.len() + BESIDE;
                log.insert(number, event.into())
            }
            None => log.remove(&number),
        };
        self.bytes -= before.map_or(0, |event| event.len() + BESIDE);
        Ok(())
    }

    pub(super) fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    pub(super) fn take_urgent(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.urgent);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn records(&self) -> usize {
        self.logs.values().map(BTreeMap::len).sum()
    }

    pub(super) fn dump(&self, out: &mut BTreeMap<String, (String, Micros)>) {
        for (space, log) in &self.logs {
            for (number, event) in log {
                out.insert(format!("{} 0-{number}", key::events_in(space, self.partition)), (key::hex(event), Micros::MAX));
            }
        }
    }
}

fn spell(space: &str, number: u64) -> Vec<u8> {
    let mut name = Vec::with_capacity(space.len() + 9);
    name.extend_from_slice(space.as_bytes());
    name.push(0);
    name.extend_from_slice(&number.to_be_bytes());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_read_back_from_the_journal() {
        let (mut events, mut again, space) = (Events::new(7), Events::new(7), SpaceId::default_space());
        let trimmed = (u64::try_from(KEEP).unwrap() + 5).next_multiple_of(TRIM);
        let (many, first) = (trimmed + 5, trimmed - u64::try_from(KEEP).unwrap() + 1);
        for number in 1..=many {
            events.append(&space, number.to_le_bytes().into());
        }
        assert_eq!((events.bounds(&space), events.records()), ((first, many), KEEP + 5));
        assert_eq!(events.after(&space, 3).next().map(|(number, _)| number), Some(first));
        assert_eq!(events.after(&space, many - 1).collect::<Vec<_>>(), [(many, &many.to_le_bytes()[..])]);
        assert_eq!(events.after(&space, u64::MAX).count(), 0);
        let mut journal = Vec::new();
        events.take_urgent(&mut journal);
        record::read(&journal).for_each(|record| again.load(&record.unwrap()).unwrap());
        assert_eq!((again.bounds(&space), again.bytes()), (events.bounds(&space), events.bytes()));
        let dumps = [&events, &again].map(|events| {
            let mut dump = BTreeMap::new();
            events.dump(&mut dump);
            dump
        });
        assert_eq!(dumps[0], dumps[1]);
        assert!(dumps[0].contains_key(&format!("hm:{{default/7}}:events 0-{first}")));
        // It goes on where it was.
        again.append(&space, Box::default());
        assert_eq!(again.bounds(&space), (first, many + 1));
    }
}
