//! A reservation's id: `rs_<32 hexadecimal digits>_<the subject in base64url>`.
//!
//! It carries the subject, so that it alone is enough to find the reservation; the space is the caller's.

use std::fmt;
use std::str::FromStr;

use crate::id::{Invalid, Subject, TEXT_MAX};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The longest id, in bytes.
pub const RESERVATION_ID_MAX: usize = 36 + (TEXT_MAX * 4).div_ceil(3);

/// A reservation's id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReservationId {
    /// Which of the subject's.
    pub number: u128,
    /// Whose.
    pub subject: Subject,
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rs_{:032x}_{}", self.number, encode(self.subject.as_str().as_bytes()))
    }
}

impl FromStr for ReservationId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<ReservationId, Invalid> {
        let read = || {
            let (number, subject) = text.strip_prefix("rs_").filter(|_| text.len() <= RESERVATION_ID_MAX)?.split_once('_')?;
            let subject = Subject::new(String::from_utf8(decode(subject)?).ok()?).ok()?;
            Some(ReservationId { number: u128::from_str_radix(number, 16).ok()?, subject })
        };
        // An id has one spelling.
        read().filter(|id| id.to_string() == text).ok_or_else(|| Invalid::new("reservation", "is none that was ever given out"))
    }
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            let six = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or(0);
            text.push(ALPHABET.get(six).copied().map_or('A', char::from));
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for character in group {
            let six = ALPHABET.iter().position(|known| known == character)?;
            bits = bits << 6 | u32::try_from(six).ok()?;
        }
        let [_, triple @ ..] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        bytes.extend(triple.iter().take(group.len() - 1));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_whatever_the_subject() {
        for subject in ["a", "ab", "abc", "abcd", "Grüße/ΑΩ:{}_-", &"ü".repeat(128)] {
            let id = ReservationId { number: 0x0123_4567_89ab_cdef, subject: Subject::new(subject).unwrap() };
            let text = id.to_string();
            assert!(text.len() <= RESERVATION_ID_MAX && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            assert_eq!(text.parse::<ReservationId>(), Ok(id));
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let good = ReservationId { number: 7, subject: Subject::new("bot-7").unwrap() }.to_string();
        assert_eq!(good, "rs_00000000000000000000000000000007_Ym90LTc");
        for bad in
            ["", "rs_", "rs_7_Ym90LTc", &good.replace("rs_", "ls_"), &format!("{good}="), &good[..good.len() - 1], &good.to_uppercase()]
        {
            assert!(bad.parse::<ReservationId>().is_err(), "{bad}");
        }
        assert!(format!("{good}{}", "A".repeat(400)).parse::<ReservationId>().is_err());
    }
}
