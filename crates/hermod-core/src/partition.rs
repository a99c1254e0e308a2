//! Where state lives: the partition is the unit of atomicity, of order and of scale.

use std::fmt;
use std::ops::Deref;

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
        Place { space: space.clone(), partition: self.partition(space, home) }
    }

    fn partition(self, space: &SpaceId, home: &str) -> u16 {
        self.partition_of(home_hash(space.as_str(), home))
    }

    #[inline]
    fn partition_of(self, hash: u64) -> u16 {
        let count = u64::from(self.0);
        // A division takes longer than the hash; the usual number needs none.
        let partition = if count.is_power_of_two() { hash & (count - 1) } else { hash % count };
        u16::try_from(partition).unwrap_or(0)
    }
}

/// What the partition of a home follows from, and what its counters are found by.
pub(crate) fn home_hash(space: &str, home: &str) -> u64 {
    xxh3_64(&joined([space, home]))
}

/// A hash to spread by, the same in every release.
pub fn hash(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The parts of a key in one.
#[derive(Debug)]
pub(crate) enum Joined {
    /// As most are: nothing is allocated for it.
    Short {
        bytes: [u8; SHORT_MAX],
        length: usize,
    },
    Long(Vec<u8>),
}

/// The longest key that is joined without an allocation.
const SHORT_MAX: usize = 128;

impl Deref for Joined {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Joined::Short { bytes, length } => bytes.get(..*length).unwrap_or_default(),
            Joined::Long(bytes) => bytes,
        }
    }
}

/// Joins the parts of a key. No name holds a NUL, so `("ab", "c")` and `("a", "bc")` differ; free text stands last.
///
/// To copy them together and hash them at once is several times as fast as a streaming hash, whose state is larger
/// than they are, and as a list that grows by each.
pub(crate) fn joined<const N: usize>(parts: [&str; N]) -> Joined {
    let mut bytes = [0; SHORT_MAX];
    let mut length = 0;
    for (i, part) in parts.into_iter().enumerate() {
        // The NUL between them is there already.
        let start = length + usize::from(i > 0);
        length = start + part.len();
        match bytes.get_mut(start..length) {
            Some(place) => copy_short(place, part.as_bytes()),
            None => return Joined::Long(parts.join("\0").into_bytes()),
        }
    }
    Joined::Short { bytes, length }
}

/// Copies a text to a place of its length: a short one as two words that may overlap, as to call the library's copy takes longer.
#[inline]
fn copy_short(place: &mut [u8], text: &[u8]) {
    match (text.len(), text.first_chunk::<8>(), text.last_chunk::<8>()) {
        (8..=16, Some(first), Some(last)) => {
            if let Some(place) = place.first_chunk_mut() {
                *place = *first;
            }
            if let Some(place) = place.last_chunk_mut() {
                *place = *last;
            }
        }
        _ => place.copy_from_slice(text),
    }
}

/// All places of one space, made once: who asks often has his place by reference, and counts no references to the
/// space's name, which all threads would do at once.
#[derive(Clone, Debug)]
pub struct Places {
    places: Box<[Place]>,
    space: SpaceId,
    partitions: Partitions,
    /// The space's name, NUL, and room for a home: what is hashed, for homes that fit.
    begun: [u8; SHORT_MAX],
}

impl Places {
    /// Those of `space`.
    pub fn new(partitions: Partitions, space: &SpaceId) -> Places {
        let place = |partition| Place { space: space.clone(), partition };
        let mut begun = [0; SHORT_MAX];
        // A name is far shorter than that; if it were not, no home would fit.
        if let Some(name) = begun.get_mut(..space.as_str().len()) {
            name.copy_from_slice(space.as_str().as_bytes());
        }
        Places { places: (0..partitions.count()).map(place).collect(), space: space.clone(), partitions, begun }
    }

    /// [`home_hash`], without putting the name together again for each.
    #[inline]
    fn hash_of(&self, home: &str) -> u64 {
        // Most fit into half a line, and to copy four times as much takes as long as the hash.
        let short = self.hash_in::<32>(home).or_else(|| self.hash_in::<SHORT_MAX>(home));
        short.unwrap_or_else(|| home_hash(self.space.as_str(), home))
    }

    /// The same, if space and home fit into so many bytes.
    #[inline]
    fn hash_in<const N: usize>(&self, home: &str) -> Option<u64> {
        let mut bytes = *self.begun.first_chunk::<N>()?;
        let start = self.space.as_str().len() + 1;
        let end = start + home.len();
        copy_short(bytes.get_mut(start..end)?, home.as_bytes());
        bytes.get(..end).map(xxh3_64)
    }

    /// The place of everything that belongs to `home`.
    #[inline]
    pub fn of(&self, home: &str) -> Home<'_> {
        let hash = self.hash_of(home);
        let partition = self.partitions.partition_of(hash);
        Home { place: self.places.get(usize::from(partition)).expect("there is a place for every partition"), hash }
    }
}

/// The place of a home whose hash is known: what the place was found by finds its counters too.
#[derive(Clone, Copy, Debug)]
pub struct Home<'a> {
    place: &'a Place,
    hash: u64,
}

/// Where an operation acts.
pub trait Placed {
    /// The place.
    fn place(&self) -> &Place;

    /// The hash of the home that it is the place of.
    fn hash_of(&self, home: &str) -> u64 {
        home_hash(self.place().space.as_str(), home)
    }
}

impl Placed for Place {
    fn place(&self) -> &Place {
        self
    }
}

impl Placed for &Place {
    fn place(&self) -> &Place {
        self
    }
}

impl Placed for Home<'_> {
    #[inline]
    fn place(&self) -> &Place {
        self.place
    }

    #[inline]
    fn hash_of(&self, home: &str) -> u64 {
        debug_assert_eq!(self.hash, home_hash(self.place.space.as_str(), home), "the hash of another home");
        self.hash
    }
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
    fn a_place_made_before_is_the_same() {
        let space = SpaceId::default_space();
        let places = Places::new(Partitions::DEFAULT, &space);
        for length in 0..300 {
            let home = "bot-7".repeat(60).split_off(300 - length);
            assert_eq!(*places.of(&home).place(), Partitions::DEFAULT.place(&space, &home));
            assert_eq!(places.of(&home).hash, home_hash(space.as_str(), &home));
        }
    }

    #[test]
    fn parts_are_joined_at_every_length() {
        for (space, home) in
            [("", ""), ("", "b"), ("a", ""), ("a", "b"), ("default", "bot-7"), ("s", &"x".repeat(126)), ("s", &"x".repeat(127))]
        {
            assert_eq!(&*joined([space, home]), [space, home].join("\0").as_bytes());
        }
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
