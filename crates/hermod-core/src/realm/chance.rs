//! Draws: HMAC-SHA256 of the realm's seed over the key of the request and the name of the draw.
//!
//! So the same request draws the same whenever it is evaluated again, nobody without the seed can tell what a key will draw, and
//! whoever has the seed can compute every draw of the ledger again. Each number is equally likely: what would favour small ones is
//! drawn again.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A number from `from` to `to`, both included; `from` if `to` is below it.
pub fn draw(seed: &[u8; 32], key: &str, name: &str, from: i64, to: i64) -> i64 {
    let Some(span) = to.checked_sub(from).and_then(|span| u64::try_from(span).ok()) else { return from };
    let Some(many) = span.checked_add(1).filter(|many| *many > 1) else { return from };
    // The tail of the range that would favour small numbers is drawn again.
    let fair = u64::MAX - u64::MAX % many;
    let drawn = (0..u32::MAX).map(|turn| number(seed, key, name, turn)).find(|number| *number < fair).unwrap_or(0);
    from + i64::try_from(drawn % many).unwrap_or(0)
}

fn number(seed: &[u8; 32], key: &str, name: &str, turn: u32) -> u64 {
    let mut mac = Hmac::<Sha256>::new_from_slice(seed).expect("a key may have any length");
    // No key and no name holds a NUL.
    for part in [key.as_bytes(), &[0], name.as_bytes(), &[0], &turn.to_be_bytes()] {
        mac.update(part);
    }
    let bytes = mac.finalize().into_bytes();
    bytes.first_chunk().map_or(0, |chunk| u64::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_repeats_and_each_number_is_equally_likely() {
        let seed = [7; 32];
        assert_eq!(draw(&seed, "k", "p", 69, 200), draw(&seed, "k", "p", 69, 200));
        assert_eq!((draw(&seed, "k", "p", 5, 5), draw(&seed, "k", "p", 5, 4)), (5, 5));
        let mut seen = [0_u32; 6];
        for turn in 0..12_000 {
            let drawn = draw(&seed, &turn.to_string(), "die", 1, 6);
            seen[usize::try_from(drawn - 1).unwrap()] += 1;
        }
        // Chi-square with 5 degrees of freedom: 20.5 is the 0.1 % point.
        let chi: f64 = seen.iter().map(|&n| (f64::from(n) - 2_000.0).powi(2) / 2_000.0).sum();
        assert!(chi < 20.5, "chi-square {chi}, {seen:?}");
        let other = (0..100).filter(|turn| draw(&seed, &turn.to_string(), "a", 0, 9) == draw(&seed, &turn.to_string(), "b", 0, 9)).count();
        assert!(other < 30, "draws of other names are others");
    }
}
