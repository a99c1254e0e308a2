//! A pick's id: `pk_` and, in base64url, its number, its deck and its subject.
//!
//! It alone is enough to find the pick; the space is the caller's.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::id::{DeckId, Invalid, Subject};
use crate::record;

/// A pick's id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PickId {
    /// Which of the subject's; below 2^53.
    pub number: u64,
    /// Of which deck.
    pub deck: DeckId,
    /// Of which of the decks that had this name.
    pub epoch: u64,
    /// Whose.
    pub subject: Subject,
}

impl fmt::Display for PickId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(32 + self.deck.as_str().len() + self.subject.as_str().len());
        record::put(&mut bytes, [self.number, self.epoch]);
        crate::limit::limited::write_text(&mut bytes, self.deck.as_str());
        bytes.extend_from_slice(self.subject.as_str().as_bytes());
        write!(f, "pk_{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for PickId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<PickId, Invalid> {
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix("pk_").filter(|rest| rest.len() <= 512)?).ok()?;
            let mut rest = bytes.as_slice();
            let (number, epoch) = (record::take_number(&mut rest)?, record::take_number(&mut rest)?);
            let deck = DeckId::new(crate::limit::limited::take_text(&mut rest)?).ok()?;
            let subject = Subject::new(std::str::from_utf8(rest).ok()?).ok()?;
            Some(PickId { number, deck, epoch, subject }).filter(|id| number.max(epoch) <= crate::int::INT_MAX && id.to_string() == text)
        };
        read().ok_or_else(|| Invalid::new("id", "is none that was ever given out"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_and_has_one_spelling() {
        let (deck, subject) = (DeckId::new("tips").unwrap(), Subject::new("Grüße/7").unwrap());
        let id = PickId { number: 7, deck, epoch: 3, subject };
        assert_eq!(id.to_string().parse::<PickId>().unwrap(), id);
        for bad in ["", "pk_", "pk_AAAA", "rs_x", &format!("{id}="), &id.to_string().replace("pk_", "pk-")] {
            assert!(bad.parse::<PickId>().is_err(), "{bad}");
        }
    }
}
