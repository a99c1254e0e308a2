//! Where a reader of events is: one number for each partition.
//!
//! Written as numbers of seven bits a byte, the lowest first, in base64url. Most are small: a cursor has about a hundred
//! characters. It holds nothing that a caller may not know, and one that was made up reads what its maker may read.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hermod_core::INT_MAX;

/// One number for each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// None: it was not read yet, and is read from the oldest that is kept.
    after: Vec<Option<u64>>,
}

impl Cursor {
    /// Before everything.
    pub(super) fn oldest(partitions: u16) -> Cursor {
        Cursor { after: vec![None; usize::from(partitions)] }
    }

    pub(super) fn get(&self, partition: u16) -> Option<u64> {
        self.after.get(usize::from(partition)).copied().flatten()
    }

    pub(super) fn set(&mut self, partition: u16, number: u64) {
        if let Some(after) = self.after.get_mut(usize::from(partition)) {
            *after = Some(number);
        }
    }

    /// Reads one back; it has one spelling.
    pub(super) fn read(text: &str, partitions: u16) -> Option<Cursor> {
        let longest = usize::from(partitions) * 8 * 4 / 3 + 4;
        let bytes = URL_SAFE_NO_PAD.decode(Some(text).filter(|text| text.len() <= longest)?).ok()?;
        let mut bytes = bytes.into_iter();
        let mut number = || {
            let mut number = 0;
            for shift in (0..).step_by(7).take(8) {
                let byte = bytes.next()?;
                number |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    return Some(number.checked_sub(1)).filter(|_| number <= INT_MAX + 1);
                }
            }
            None
        };
        let after = (0..partitions).map(|_| number()).collect::<Option<Vec<_>>>()?;
        Some(Cursor { after }).filter(|cursor| cursor.to_string() == text)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(self.after.len() * 2);
        for after in &self.after {
            let mut rest = after.map_or(0, |number| number.saturating_add(1));
            while rest >= 0x80 {
                bytes.push(u8::try_from(rest & 0x7f).unwrap_or(0) | 0x80);
                rest >>= 7;
            }
            bytes.push(u8::try_from(rest).unwrap_or(0));
        }
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_has_one_spelling() {
        let mut cursor = Cursor::oldest(5);
        for (partition, number) in [(0, 0), (1, 126), (2, 127), (3, INT_MAX)] {
            cursor.set(partition, number);
        }
        let text = cursor.to_string();
        assert_eq!(Cursor::read(&text, 5), Some(cursor.clone()));
        assert_eq!((cursor.get(0), cursor.get(3), cursor.get(4), cursor.get(5)), (Some(0), Some(INT_MAX), None, None));
        for (bad, partitions) in
            [(text.as_str(), 4), (text.as_str(), 6), ("", 5), ("AAAA", 5), ("gAAAAAA", 5), ("____________", 1), ("!", 1)]
        {
            assert_eq!(Cursor::read(bad, partitions), None, "{bad} for {partitions}");
        }
        assert_eq!(Cursor::read(&Cursor::oldest(3).to_string(), 3), Some(Cursor::oldest(3)));
    }
}
