//! API keys as text, `hk_<id>_<secret>`, and what is stored of them.
//!
//! Both parts are base62, so that a double click selects the whole key and `_` can only separate.
//! The secret is 43 characters, a little over 256 bits. Only the SHA-256 of the whole text is
//! stored; a slow hash would add nothing, since nobody can guess 256 bits, and it would be paid on
//! every request.

use std::fmt::Write as _;

use hermod_core::queue::Secret;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ID_LENGTH: usize = 12;
const SECRET_LENGTH: usize = 43;
/// What is longer is no key of ours, and is not hashed.
const TEXT_MAX: usize = 3 + ID_LENGTH + 1 + SECRET_LENGTH;

/// The SHA-256 of a key's text.
#[derive(Clone, Copy)]
pub(crate) struct SecretHash([u8; 32]);

impl SecretHash {
    pub(crate) fn of(text: &str) -> SecretHash {
        SecretHash(Sha256::digest(text.as_bytes()).into())
    }

    /// Whether `text` is the key. Takes as long for a wrong one.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.ct_eq(&SecretHash::of(text).0).into()
    }

    pub(crate) fn to_hex(self) -> String {
        hex(&self.0)
    }

    pub(crate) fn from_hex(hex: &str) -> Option<SecretHash> {
        unhex(hex).map(SecretHash)
    }
}

/// 32 bytes as they are stored.
pub(crate) fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// 32 bytes from their stored form.
pub(crate) fn unhex(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// A new key: its id, and its whole text.
pub(crate) fn generate() -> Result<(String, String), getrandom::Error> {
    let id = base62(ID_LENGTH)?;
    let text = format!("hk_{id}_{}", base62(SECRET_LENGTH)?);
    Ok((id, text))
}

/// A new secret of a webhook, of 256 bits.
pub(crate) fn generate_webhook() -> Result<Secret, getrandom::Error> {
    Ok(Secret::from_bytes(&generate_seed()?))
}

/// What all draws of a new realm are made of.
pub(crate) fn generate_seed() -> Result<[u8; 32], getrandom::Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    Ok(seed)
}

/// The id in a key's text, if it looks like a key at all.
pub(crate) fn id_of(text: &str) -> Option<&str> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let (id, _secret) = text.strip_prefix("hk_")?.split_once('_')?;
    Some(id)
}

fn base62(length: usize) -> Result<String, getrandom::Error> {
    let mut text = String::with_capacity(length);
    let mut bytes = [0; 64];
    while text.len() < length {
        getrandom::fill(&mut bytes)?;
        // Bytes of 248 and above are thrown away: with them the first characters would be likelier.
        let drawn = bytes.iter().filter(|&&byte| byte < 248).filter_map(|byte| ALPHABET.get(usize::from(byte % 62)));
        text.extend(drawn.take(length - text.len()).map(|&byte| char::from(byte)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_id_and_is_recognised_by_its_hash() {
        let (id, text) = generate().unwrap();
        assert_eq!(text.len(), TEXT_MAX);
        assert_eq!(id_of(&text), Some(id.as_str()));
        let stored = SecretHash::from_hex(&SecretHash::of(&text).to_hex()).unwrap();
        assert!(stored.matches(&text));
        assert!(!stored.matches(&text[..text.len() - 1]));
        assert_ne!(generate().unwrap().1, text);
    }

    #[test]
    fn what_is_no_key_has_no_id() {
        for text in ["", "hk_", "hk_abc", "sk_abc_def", &"hk_a_".repeat(20)] {
            assert_eq!(id_of(text), None, "{text}");
        }
        assert!(SecretHash::from_hex(&"zz".repeat(32)).is_none());
        assert!(SecretHash::from_hex("é").is_none());
    }
}
