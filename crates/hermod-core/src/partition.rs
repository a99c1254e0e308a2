//! Where state lives: the partition is the unit of atomicity, of order and of scale.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use crate::id::SpaceId;

/// How many partitions there are. Fixed when the data is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions(u16);

impl Partitions {
    /// Enough to spread over a cluster, few enough to sweep.
    pub const DEFAULT: Partitions = Partitions(64);

    /// 1 to 4096 partitions.
    pub const fn new(count: u16) -> Option<Partitions> {
        if count >= 1 && count <= 4096 { Some(Partitions(count)) } else { None }
    }

    /// The number of partitions.
    pub const fn count(self) -> u16 {
        self.0
    }

    /// The place of everything that belongs to `home` in `space`.
    ///
    /// `home` is the subject (limit, pick), the recipient (queue) or the realm.
    pub fn place(self, space: &SpaceId, home: &str) -> Place {
        // No name contains a NUL, so ("ab", "c") and ("a", "bc") differ.
        let hash = hash_of(&[space.as_str().as_bytes(), &[0], home.as_bytes()]);
        let partition = u16::try_from(hash % u64::from(self.0)).expect("a remainder of a u16 fits a u16");
        Place { space: space.clone(), partition }
    }
}

/// A hash to spread by, the same in every release.
pub fn hash(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The hash of the parts, one after the other. Copying them together first is several times as fast
/// as a streaming hash, whose state is larger than they are.
fn hash_of(parts: &[&[u8]]) -> u64 {
    let mut joined = [0; 512];
    let mut length = 0;
    for part in parts {
        match joined.get_mut(length..length + part.len()) {
            Some(slot) => slot.copy_from_slice(part),
            None => return xxh3_64(&parts.concat()),
        }
        length += part.len();
    }
    xxh3_64(joined.get(..length).unwrap_or_default())
}

/// One partition of one space: what one operation can reach.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The tenant.
    pub space: SpaceId,
    /// The partition's number, below [`Partitions::count`].
    pub partition: u16,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_stable_across_releases() {
        // These numbers are part of the data format: if this test fails, stored state is unreachable.
        let at = |space: &str, home: &str| Partitions::DEFAULT.place(&SpaceId::new(space).unwrap(), home).partition;
        assert_eq!([at("default", "bot-7"), at("default", "bot-8"), at("other", "bot-7")], [42, 6, 17]);
    }

    #[test]
    fn homes_spread_over_all_partitions() {
        let space = SpaceId::default_space();
        let mut seen = [0u32; 64];
        for i in 0..64_000 {
            seen[usize::from(Partitions::DEFAULT.place(&space, &format!("user-{i}")).partition)] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }
}
