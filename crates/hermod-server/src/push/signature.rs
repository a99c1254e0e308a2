//! Who sent it: the symmetric scheme of Standard Webhooks.
//!
//! `v1,<base64 of HMAC-SHA256(secret, "id.timestamp.body")>`, one for each secret, separated by spaces. It
//! needs nothing of the server, so that a client can verify with the same lines.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hermod_core::Micros;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How far the clocks of sender and receiver may differ; what is older may be a replay.
pub const TOLERANCE: Duration = Duration::from_mins(5);

/// What every secret starts with as text.
const PREFIX: &str = "whsec_";
/// How many bytes a secret has.
const LENGTH: std::ops::RangeInclusive<usize> = 24..=64;
/// So many signatures of one request are looked at; each costs a hash of the body per secret.
const SIGNATURES_MAX: usize = 8;

/// What sender and receiver share. Never printed, unless it is asked for with [`Secret::reveal`].
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

/// A text that is no secret. It does not say what the text was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret is whsec_ followed by the base64 of 24 to 64 bytes")]
pub struct BadSecret;

impl Secret {
    /// Reads `whsec_<base64>`.
    pub fn parse(text: &str) -> Result<Secret, BadSecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(BadSecret)?;
        // What is longer than the longest secret need not be decoded.
        if encoded.len() > LENGTH.end().div_ceil(3) * 4 {
            return Err(BadSecret);
        }
        Secret::from_bytes(&BASE64_STANDARD.decode(encoded).map_err(|_| BadSecret)?)
    }

    /// A secret of 24 to 64 bytes that were drawn at random.
    pub fn from_bytes(bytes: &[u8]) -> Result<Secret, BadSecret> {
        if LENGTH.contains(&bytes.len()) { Ok(Secret(bytes.into())) } else { Err(BadSecret) }
    }

    /// The secret as text, to be shown to its owner once or kept where secrets are kept.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", BASE64_STANDARD.encode(&self.0))
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.chain_update(id).chain_update(".").chain_update(timestamp).chain_update(".").chain_update(body)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The value of `webhook-signature`: one signature for each secret. `at_s` is that of the attempt, in
/// seconds since the Unix epoch.
pub fn sign(secrets: &[Secret], id: &str, at_s: u64, body: &[u8]) -> String {
    let timestamp = at_s.to_string();
    let signed = secrets.iter().map(|secret| secret.mac(id, &timestamp, body).finalize().into_bytes());
    signed.map(|mac| format!("v1,{}", BASE64_STANDARD.encode(mac))).collect::<Vec<_>>().join(" ")
}

/// A request as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// `webhook-id`.
    pub id: &'a str,
    /// `webhook-timestamp`, as it was sent.
    pub timestamp: &'a str,
    /// `webhook-signature`.
    pub signature: &'a str,
    /// The body, byte for byte.
    pub body: &'a [u8],
}

/// Why a request is not to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unverified {
    /// The timestamp is no number.
    #[error("webhook-timestamp is not a number of seconds")]
    BadTimestamp,
    /// It is too old, or from the future.
    #[error("webhook-timestamp is too far from now")]
    OutOfTime,
    /// No signature fits any of the secrets.
    #[error("webhook-signature fits none of the secrets")]
    NoMatch,
}

/// Whether one of the signatures was made with one of the secrets, at most `tolerance` away from `now`.
/// Comparing takes as long for a wrong signature as for a right one.
pub fn verify(signed: &Signed<'_>, secrets: &[Secret], now: Micros, tolerance: Duration) -> Result<(), Unverified> {
    let at_s: u64 = signed.timestamp.parse().map_err(|_| Unverified::BadTimestamp)?;
    let apart_s = at_s.abs_diff(now.get() / 1_000_000);
    if apart_s > tolerance.as_secs() {
        return Err(Unverified::OutOfTime);
    }
    let ours = signed.signature.split(' ').filter_map(|text| text.strip_prefix("v1,")).take(SIGNATURES_MAX);
    let decoded = ours.filter_map(|text| BASE64_STANDARD.decode(text).ok());
    let fits = |mac: &[u8]| secrets.iter().any(|secret| secret.mac(signed.id, signed.timestamp, signed.body).verify_slice(mac).is_ok());
    if decoded.into_iter().any(|mac| fits(&mac)) { Ok(()) } else { Err(Unverified::NoMatch) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the reference libraries.
    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const ID: &str = "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk";
    const AT_S: u64 = 1_649_367_553;
    const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;
    const SIGNATURE: &str = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";

    fn published() -> Secret {
        Secret::parse(SECRET).unwrap()
    }

    fn other() -> Secret {
        Secret::from_bytes(&[7; 32]).unwrap()
    }

    fn now() -> Micros {
        Micros::saturating(AT_S * 1_000_000)
    }

    #[test]
    fn the_published_vector_is_signed_and_verified() {
        assert_eq!(sign(&[published()], ID, AT_S, BODY), SIGNATURE);
        let signed = Signed { id: ID, timestamp: "1649367553", signature: SIGNATURE, body: BODY };
        assert_eq!(verify(&signed, &[published()], now(), TOLERANCE), Ok(()));
    }

    #[test]
    fn while_secrets_rotate_either_is_enough() {
        let both = sign(&[other(), published()], ID, AT_S, BODY);
        assert_eq!(both.split(' ').count(), 2);
        assert!(both.ends_with(SIGNATURE));
        let signed = Signed { id: ID, timestamp: "1649367553", signature: &both, body: BODY };
        for knows in [vec![published()], vec![other()], vec![Secret::from_bytes(&[1; 24]).unwrap(), published()]] {
            assert_eq!(verify(&signed, &knows, now(), TOLERANCE), Ok(()));
        }
    }

    #[test]
    fn whatever_was_changed_is_noticed() {
        let good = Signed { id: ID, timestamp: "1649367553", signature: SIGNATURE, body: BODY };
        let v1a = format!("v1a,{}", &SIGNATURE[3..]);
        let late = format!("{}{SIGNATURE}", "v1,AAAA ".repeat(SIGNATURES_MAX));
        let cases = [
            (Signed { id: "msg_2", ..good }, Unverified::NoMatch),
            (Signed { timestamp: "1649367554", ..good }, Unverified::NoMatch),
            (Signed { timestamp: "01649367553", ..good }, Unverified::NoMatch),
            (Signed { timestamp: "soon", ..good }, Unverified::BadTimestamp),
            (Signed { timestamp: "-1", ..good }, Unverified::BadTimestamp),
            (Signed { timestamp: "1649367253", ..good }, Unverified::NoMatch),
            (Signed { timestamp: "1649367252", ..good }, Unverified::OutOfTime),
            (Signed { timestamp: "1649367854", ..good }, Unverified::OutOfTime),
            (Signed { body: b"{}", ..good }, Unverified::NoMatch),
            (Signed { signature: "", ..good }, Unverified::NoMatch),
            (Signed { signature: "v1,", ..good }, Unverified::NoMatch),
            (Signed { signature: &SIGNATURE[..12], ..good }, Unverified::NoMatch),
            (Signed { signature: &v1a, ..good }, Unverified::NoMatch),
            (Signed { signature: &late, ..good }, Unverified::NoMatch),
        ];
        for (signed, why) in cases {
            assert_eq!(verify(&signed, &[published()], now(), TOLERANCE), Err(why), "{signed:?}");
        }
        assert_eq!(verify(&good, &[other()], now(), TOLERANCE), Err(Unverified::NoMatch));
        assert_eq!(verify(&good, &[], now(), TOLERANCE), Err(Unverified::NoMatch));
    }

    #[test]
    fn a_secret_is_read_and_never_printed() {
        assert_eq!(published().reveal(), SECRET);
        let short = format!("whsec_{}", BASE64_STANDARD.encode([1; 23]));
        let long = format!("whsec_{}", BASE64_STANDARD.encode([1; 65]));
        for text in ["", "whsec_", "C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7o!", &short, &long] {
            let fault = Secret::parse(text).unwrap_err();
            assert!(text.len() < 10 || !format!("{fault} {fault:?}").contains(text.trim_start_matches(PREFIX)));
        }
        assert_eq!(format!("{:?}", published()), "Secret(..)");
    }
}
