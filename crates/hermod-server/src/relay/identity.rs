//! The identity a `kid` names. One identity has one name here, however a message spells it, because the name is the route.
//!
//! A bare Ed25519 key and its `did:key` are one: the `did:key` is the name, because the bare key says neither what it is nor
//! how it is written. An X25519 `did:key` is another identity: which Ed25519 key it was made from cannot be known.

use hermod_core::Recipient;

/// How an Ed25519 key begins within a `did:key` (multicodec `ed25519-pub`).
const ED25519: [u8; 2] = [0xed, 0x01];
/// The same for X25519 (`x25519-pub`).
const X25519: [u8; 2] = [0xec, 0x01];
/// So long are keys of both kinds.
const KEY_BYTES: usize = 32;
/// More than a recipient's name can hold. Base58 takes time by the square of its length, so there must be a bound.
const DECODED_MAX: usize = 256;

/// The identity of a `kid` of version 1: a key in base58, or a DID URL.
pub(super) fn of_key(kid: &str) -> Result<Recipient, String> {
    if kid.starts_with("did:") {
        return of_did_url(kid);
    }
    let mut key = [0; KEY_BYTES];
    match bs58::decode(kid).onto(&mut key) {
        Ok(KEY_BYTES) => {}
        _ => return Err(format!("must be a key of {KEY_BYTES} bytes in base58, or a DID URL")),
    }
    let text = bs58::encode([&ED25519[..], &key].concat()).into_string();
    Recipient::new(format!("did:key:z{text}")).map_err(|fault| fault.reason)
}

/// The identity of a `kid` of version 2, a DID URL: the DID without what selects one of its keys.
pub(super) fn of_did_url(kid: &str) -> Result<Recipient, String> {
    let did = kid.split(['#', '?', '/']).next().unwrap_or("");
    let name = did.strip_prefix("did:").and_then(|rest| rest.split_once(':')).filter(|(method, id)| is_method(method) && is_id(id));
    let Some((method, id)) = name else { return Err("must be a DID URL such as did:example:bob#key-1".to_owned()) };
    let recipient = Recipient::new(did).map_err(|fault| format!("has a DID that cannot be a recipient: it {}", fault.reason))?;
    if method == "key" && !is_key(id) {
        return Err("has a did:key that is none: after did:key:z comes a key in base58".to_owned());
    }
    Ok(recipient)
}

fn is_method(method: &str) -> bool {
    !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Whether it is what may follow a method. Escapes are not read: methods that have them are compared as they are written.
fn is_id(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'%');
    !id.is_empty() && !id.ends_with(':') && id.bytes().all(fits)
}

/// Whether it is a key as `did:key` has it. Kinds that are not known here may have any length.
fn is_key(id: &str) -> bool {
    let mut decoded = [0; DECODED_MAX];
    let Some(length) = id.strip_prefix('z').and_then(|text| bs58::decode(text).onto(&mut decoded).ok()) else { return false };
    let is_known = [ED25519, X25519].iter().any(|kind| decoded.starts_with(kind));
    if is_known { length == ED25519.len() + KEY_BYTES } else { length > ED25519.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kid_names_one_identity() {
        let (ed, x) =
            ("did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp", "did:key:z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc");
        let secp256k1 = "did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme";
        for (kid, identity) in [
            ("4zvwRjXUKGfvwnParsHAS3HuSVzV5cA4McphgmoCtajS", ed),
            (ed, ed),
            (&format!("{ed}#z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc"), ed),
            (&format!("{x}#{x}"), x),
            (&format!("{secp256k1}#k"), secp256k1),
            // A key may begin with zeros.
            ("1thX6LZfHDZZKUs92febYZhYRcXddmzfzF2NvTkPNE", "did:key:z6MkeTGwHmLmuCmgg4ABYhzWVh6ZX7hTwWt8gguAretUfc9c"),
            ("did:example:bob#key-x25519-1", "did:example:bob"),
            ("did:web:example.com%3A3000:user:alice?versionId=1#k", "did:web:example.com%3A3000:user:alice"),
            ("did:example:bob/path#k", "did:example:bob"),
        ] {
            assert_eq!(of_key(kid).as_ref().map(Recipient::as_str), Ok(identity), "{kid}");
            assert_eq!(of_did_url(kid).is_ok(), kid.starts_with("did:"), "{kid}");
        }
    }

    #[test]
    fn what_names_nobody_is_refused() {
        let long = format!("did:example:{}#k", "a".repeat(245));
        let many = "2".repeat(100_000);
        for kid in [
            "",
            "#key-1",
            "did:",
            "did:example",
            "did:example:",
            "did:example:bob:#k",
            "did::bob#k",
            "did:Example:bob#k",
            "did:example:b ob#k",
            "did:example:b\u{7}ob#k",
            "did:example:bób#k",
            "did:key:6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
            "did:key:z",
            "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooW0",
            // An Ed25519 key of 31 bytes.
            "did:key:z2DQUyFVAEfvDjYRPtvHSJtztMsCSrYpntBE51RxhhkqQhb",
            // 31 and 33 bytes.
            "thX6LZfHDZZKUs92febYZhYRcXddmzfzF2NvTkPNE",
            "14wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4VigW",
            "4zvwRjXUKGfvwnParsHAS3HuSVzV5cA4McphgmoCtaj0",
            &long,
            &many,
        ] {
            let short: String = kid.chars().take(60).collect();
            assert!(of_key(kid).is_err(), "{short}");
            assert!(of_did_url(kid).is_err(), "{short}");
        }
        assert_eq!(of_did_url(&long).unwrap_err(), "has a DID that cannot be a recipient: it is 257 bytes long; at most 256 are allowed");
    }
}
