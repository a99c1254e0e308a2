//! A record's key. A short one stands in the record itself: no trip to the heap to compare it, and less memory.

/// The longest key that stands in the record itself.
const SHORT_MAX: usize = 30;

/// A record's key.
#[derive(Debug)]
pub(super) enum Key {
    Short { length: u8, bytes: [u8; SHORT_MAX] },
    Long(Box<[u8]>),
}

impl Key {
    pub(super) fn new(key: &[u8]) -> Key {
        let mut bytes = [0; SHORT_MAX];
        match (bytes.get_mut(..key.len()), u8::try_from(key.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(key);
                Key::Short { length, bytes }
            }
            _ => Key::Long(key.into()),
        }
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Key::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Key::Long(bytes) => bytes,
        }
    }

    /// What it takes on the heap, with what the allocator adds.
    pub(super) fn heap_bytes(length: usize) -> usize {
        if length <= SHORT_MAX { 0 } else { length + 16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back_at_every_length() {
        assert_eq!(size_of::<Key>(), 32);
        for length in 0..100 {
            let bytes: Vec<u8> = (0..length).collect();
            assert_eq!(Key::new(&bytes).as_bytes(), bytes);
        }
    }
}
