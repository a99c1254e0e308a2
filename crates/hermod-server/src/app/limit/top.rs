//! Who is refused most: a bounded sketch, as there may be millions of subjects.
//!
//! The Space-Saving algorithm: so many counters; a subject without one takes over the smallest. Counts
//! may be too high, never too low, and whoever is refused more than one time in as many as there are
//! counters is in it for sure.

use std::collections::HashMap;

use hermod_core::SpaceId;
use parking_lot::Mutex;

/// Counters for each space.
const COUNTERS: usize = 256;
/// Spaces that are followed.
const SPACES_MAX: usize = 1_000;

/// The subjects that are refused most, by space.
#[derive(Debug, Default)]
pub(crate) struct Top(Mutex<HashMap<SpaceId, HashMap<String, u64>>>);

impl Top {
    pub(super) fn add(&self, space: &SpaceId, subject: &str) {
        let mut spaces = self.0.lock();
        if !spaces.contains_key(space) && spaces.len() >= SPACES_MAX {
            return;
        }
        let counts = spaces.entry(space.clone()).or_default();
        if let Some(count) = counts.get_mut(subject) {
            *count += 1;
            return;
        }
        let mut count = 0;
        if counts.len() >= COUNTERS {
            let smallest = counts.iter().min_by_key(|(_, count)| **count).map(|(subject, count)| (subject.clone(), *count));
            if let Some((subject, smallest)) = smallest {
                counts.remove(&subject);
                count = smallest;
            }
        }
        counts.insert(subject.to_owned(), count + 1);
    }

    /// The first `most` of them, most refused first.
    pub(super) fn most(&self, space: &SpaceId, most: usize) -> Vec<(String, u64)> {
        let spaces = self.0.lock();
        let counts = spaces.get(space).into_iter().flatten();
        let mut all: Vec<_> = counts.map(|(subject, count)| (subject.clone(), *count)).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_refused_are_found_among_very_many() {
        let (top, space) = (Top::default(), SpaceId::default_space());
        for i in 0..20_000 {
            top.add(&space, &format!("user-{i}"));
            if i % 4 == 0 {
                top.add(&space, "bot-7");
            }
        }
        let most = top.most(&space, 3);
        assert_eq!(most[0].0, "bot-7");
        assert!(most[0].1 >= 5_000);
        assert_eq!(top.0.lock()[&space].len(), COUNTERS);
        assert!(top.most(&SpaceId::new("other").unwrap(), 3).is_empty());
    }
}
