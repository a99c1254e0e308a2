//! How the server itself consumes a queue: it logs, or it calls a webhook.
//!
//! Secrets are those of Standard Webhooks, `whsec_` and base64. They are written once and never shown
//! again: answers have a mask, `whsec_…` and the last four characters. A mask can stand where a secret
//! does, so that what was read can be sent back; it signs nothing.

use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::definition::{between, span_text, within};
use crate::id::Invalid;
use crate::int::Micros;

const PREFIX: &str = "whsec_";
const MASK: &str = "whsec_…";
/// How many characters of a secret its mask shows.
const SHOWN: usize = 4;
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
const URL_MAX: usize = 2_048;
/// The most requests of one queue at once.
pub const CONCURRENCY_MAX: u32 = 64;
const TIMEOUT: (Micros, Micros) = (Micros::saturating(1_000_000), Micros::saturating(30_000_000));

/// Senders disagree about padding; both are the same key.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent));

/// How the server itself consumes a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Push {
    /// It prints each delivery.
    Log,
    /// It sends each delivery there.
    Webhook(Webhook),
}

/// Where deliveries are sent, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// An `http` or `https` address.
    pub url: String,
    /// What requests are signed with: one, or two while a new one takes the old one's place.
    pub secrets: Vec<Secret>,
    /// How many requests of this queue may be under way; 1 to 64.
    pub concurrency: u32,
    /// How long a request may take; 1 s to 30 s, and shorter than the lease.
    #[serde(with = "span_text")]
    pub timeout: Micros,
}

impl Webhook {
    /// A webhook with the defaults, and no secret yet.
    pub fn new(url: impl Into<String>) -> Webhook {
        Webhook { url: url.into(), secrets: Vec::new(), concurrency: 8, timeout: Micros::saturating(10_000_000) }
    }

    /// That every field is within its bounds. `lease` is the queue's.
    pub fn check(&self, lease: Micros) -> Result<(), Invalid> {
        check_url(&self.url)?;
        if !(1..=2).contains(&self.secrets.len()) {
            return Err(Invalid::new("push.webhook.secrets", "must be one, or two while a new one takes the old one's place"));
        }
        if self.secrets.iter().any(Secret::is_mask) {
            return Err(Invalid::new("push.webhook.secrets", "holds a mask of a secret that is not stored; send the secret itself"));
        }
        between("push.webhook.concurrency", self.concurrency, CONCURRENCY_MAX)?;
        within("push.webhook.timeout", self.timeout, TIMEOUT, "must be between 1s and 30s")?;
        // Else the delivery would be somebody else's while its request is still under way.
        if self.timeout >= lease {
            return Err(Invalid::new("push.webhook.timeout", "must be shorter than the lease"));
        }
        Ok(())
    }
}

/// What a webhook's requests are signed with, or the mask of it. Its text is in no log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Checks `text`: `whsec_` and the base64 of 24 to 64 bytes, or a mask.
    pub fn new(text: &str) -> Result<Secret, Invalid> {
        let secret = Secret(Arc::from(text));
        if secret.is_mask() || secret.key().is_some_and(|key| KEY_BYTES.contains(&key.len())) {
            return Ok(secret);
        }
        Err(Invalid::new("push.webhook.secret", "must be whsec_ and the base64 of 24 to 64 bytes"))
    }

    /// The secret of these bytes.
    pub fn from_bytes(key: &[u8]) -> Secret {
        Secret(format!("{PREFIX}{}", BASE64.encode(key)).into())
    }

    /// The bytes to sign with; none if it is a mask.
    pub fn key(&self) -> Option<Vec<u8>> {
        BASE64.decode(self.0.strip_prefix(PREFIX)?).ok()
    }

    /// Whether it is only the mask of a secret.
    pub fn is_mask(&self) -> bool {
        self.0.strip_prefix(MASK).is_some_and(|end| end.len() == SHOWN)
    }

    /// What may be shown of it.
    #[must_use]
    pub fn masked(&self) -> Secret {
        let end = self.0.len().saturating_sub(SHOWN);
        Secret(format!("{MASK}{}", self.0.get(end..).unwrap_or("")).into())
    }

    /// The whole text. For the one answer that shows it, for storage, and for masks.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hidden")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Secret, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Secret::new(&text).map_err(|fault| serde::de::Error::custom(fault.reason))
    }
}

/// What every client of HTTP can be given; whether the address may be called is decided when it is.
fn check_url(url: &str) -> Result<(), Invalid> {
    let fault = |what: &str| Err(Invalid::new("push.webhook.url", what));
    if url.len() > URL_MAX || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return fault("must be at most 2048 printable ASCII characters, others percent-encoded");
    }
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return fault("must begin with https:// or http://");
    };
    if url.contains('#') {
        return fault("must not have a fragment, which is never sent");
    }
    let authority = rest.split(['/', '?', '\\']).next().unwrap_or("");
    if authority.contains('@') {
        return fault("must not hold a user or a password; requests are signed with the secret");
    }
    match is_authority(authority) {
        true => Ok(()),
        false => fault("must name a host, and a port between 1 and 65535 if any"),
    }
}

fn is_authority(authority: &str) -> bool {
    let (is_host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => (address.parse::<Ipv6Addr>().is_ok(), port),
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let (host, port) = authority.split_at(end);
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
            (!host.is_empty() && host.bytes().all(fits), port)
        }
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_host && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_24_to_64_bytes_and_never_printed() {
        for length in [24, 25, 26, 32, 64] {
            let secret = Secret::from_bytes(&vec![b'k'; length]);
            assert_eq!(Secret::new(secret.reveal()).unwrap().key().unwrap(), vec![b'k'; length]);
            let unpadded = secret.reveal().trim_end_matches('=');
            assert_eq!(Secret::new(unpadded).unwrap().key(), secret.key(), "padding is optional");
            assert!(!secret.is_mask());
            assert_eq!(format!("{secret:?}"), "hidden");
        }
        let (short, long) = (Secret::from_bytes(&[1; 23]), Secret::from_bytes(&[1; 65]));
        for bad in ["", "whsec_", "whsec_!!", "s3cret", short.reveal(), long.reveal(), "whsec_…", "whsec_…abcde"] {
            let fault = Secret::new(bad).unwrap_err();
            assert_eq!(fault.field, "push.webhook.secret", "{bad}");
            assert!(bad.is_empty() || bad == "whsec_" || !fault.reason.contains(bad), "{fault}");
        }
    }

    #[test]
    fn a_mask_shows_the_end_only_and_is_its_own_mask() {
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let mask = secret.masked();
        assert_eq!(mask.reveal(), "whsec_…LaSw");
        assert!(mask.is_mask() && mask.key().is_none());
        assert_eq!(mask.masked(), mask);
        assert_eq!(Secret::new(mask.reveal()).unwrap(), mask);
    }

    #[test]
    fn addresses_are_checked_as_far_as_text_goes() {
        for good in [
            "https://example.com",
            "http://localhost:8080/hook?a=b",
            "https://[::1]:443/x",
            "http://10.0.0.1",
            "https://a_b.example/%20",
            "https://h?x=@",
        ] {
            check_url(good).unwrap_or_else(|fault| panic!("{good}: {fault}"));
        }
        for bad in [
            "",
            "example.com",
            "ftp://example.com",
            "https://",
            "https:///path",
            "https://user:pass@example.com",
            "https://example.com/#top",
            "https://example.com:0",
            "https://example.com:65536",
            "https://example.com:",
            "https://exa mple.com",
            "https://[::zz]/",
            "https://bücher.example",
            "https://[::1",
        ] {
            assert_eq!(check_url(bad).unwrap_err().field, "push.webhook.url", "{bad}");
        }
        assert!(check_url(&format!("https://h/{}", "a".repeat(2_048))).is_err());
    }

    #[test]
    fn one_or_two_secrets_and_a_time_out_below_the_lease() {
        let lease = Micros::saturating(5_000_000);
        let mut webhook = Webhook::new("https://example.com");
        webhook.timeout = Micros::saturating(4_999_000);
        let secret = Secret::from_bytes(&[1; 32]);
        for (count, is_good) in [(0, false), (1, true), (2, true), (3, false)] {
            webhook.secrets = vec![secret.clone(); count];
            assert_eq!(webhook.check(lease).is_ok(), is_good, "{count}");
        }
        webhook.secrets = vec![secret.masked()];
        assert_eq!(webhook.check(lease).unwrap_err().field, "push.webhook.secrets");
        webhook.secrets = vec![secret];
        webhook.timeout = lease;
        assert_eq!(webhook.check(lease).unwrap_err().field, "push.webhook.timeout");
        webhook.timeout = Micros::saturating(999_000);
        assert_eq!(webhook.check(lease).unwrap_err().field, "push.webhook.timeout");
        webhook.timeout = Micros::saturating(1_000_000);
        webhook.concurrency = 65;
        assert_eq!(webhook.check(lease).unwrap_err().field, "push.webhook.concurrency");
    }
}
