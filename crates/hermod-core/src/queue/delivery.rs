//! A delivery: what is pushed, how it is named, and the bytes it is stored as on both engines.

use std::fmt;
use std::str::FromStr;

use crate::id::{Invalid, Recipient, Tag};
use crate::int::Micros;
use crate::limit::limited::{take_text, write_text};
use crate::once::Once;
use crate::record;

/// A delivery may carry so many tags.
pub const TAGS_MAX: usize = 10;
/// The largest payload, in bytes.
pub const PAYLOAD_MAX: usize = 256 << 10;
/// A delivery may be attempted so often.
pub const ATTEMPTS_MAX: u16 = 100;

/// A delivery's number within its queue and partition: it grows with every insertion.
pub type Number = u64;

/// A fencing token. Of one delivery each is greater than those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// A delivery's name within its queue: where it lives, and its number there. Text: `dl_` and 16 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId {
    /// The partition.
    pub partition: u16,
    /// Its number there.
    pub number: Number,
}

const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// What a character is as a digit.
fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'h' => byte - b'a' + 10,
        b'j' | b'k' => byte - b'j' + 18,
        b'm' | b'n' => byte - b'm' + 20,
        b'p'..=b't' => byte - b'p' + 22,
        b'v'..=b'z' => byte - b'v' + 27,
        _ => return None,
    })
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 80 bits are 16 digits of 5.
        let bits = u128::from(self.partition) << 64 | u128::from(self.number);
        let mut text = *b"dl_0000000000000000";
        for (place, slot) in text.iter_mut().skip(3).rev().enumerate() {
            let digit = usize::try_from((bits >> (5 * place)) & 31).unwrap_or(0);
            *slot = DIGITS.get(digit).copied().unwrap_or(b'0');
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or(""))
    }
}

impl FromStr for DeliveryId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<DeliveryId, Invalid> {
        let bad = || Invalid::new("id", "is no delivery's; they are dl_ and 16 letters and digits");
        let digits = text.strip_prefix("dl_").filter(|digits| digits.len() == 16).ok_or_else(bad)?;
        let mut bits = 0_u128;
        for byte in digits.bytes() {
            bits = bits << 5 | u128::from(digit(byte).ok_or_else(bad)?);
        }
        let partition = u16::try_from(bits >> 64).map_err(|_| bad())?;
        let number = u64::try_from(bits & u128::from(u64::MAX)).map_err(|_| bad())?;
        Ok(DeliveryId { partition, number })
    }
}

/// What becomes of a push whose key names a delivery that is not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfExists {
    /// The one that is there stays as it is. Also a finished one counts, for three days: asking twice is safe.
    #[default]
    Keep,
    /// It is made anew from this push, under the same id.
    Replace,
    /// The same, but its time is put off and never brought forward.
    Debounce,
}

impl IfExists {
    pub(super) fn number(self) -> u8 {
        match self {
            IfExists::Keep => 0,
            IfExists::Replace => 1,
            IfExists::Debounce => 2,
        }
    }
}

/// When a delivery is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At this time; the past means at once.
    At(Micros),
    /// So long from now.
    In(Micros),
}

impl Due {
    /// The time itself.
    pub fn from(self, now: Micros) -> Micros {
        match self {
            Due::At(time) => time,
            Due::In(span) => now.plus(span),
        }
    }

    /// As scripts read it: `is_span u8, time u64`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        let (is_span, time) = match self {
            Due::At(time) => (0, time),
            Due::In(span) => (1, span),
        };
        out.push(is_span);
        out.extend_from_slice(&time.get().to_le_bytes());
    }
}

/// A delivery to push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When.
    pub due: Due,
    /// To whom.
    pub to: Option<Recipient>,
    /// What it is known by to whoever pushes it.
    pub key: Option<String>,
    /// What becomes of it if the key is there already.
    pub if_exists: IfExists,
    /// What it can be found by.
    pub tags: Vec<Tag>,
    /// How often it may be attempted, if not as often as the queue says.
    pub max_attempts: Option<u16>,
    /// Not to be handed out from then on.
    pub expires_at: Option<Micros>,
    /// How long the holder's reply is kept for whoever waits for it; none: nobody does.
    pub reply: Option<Micros>,
    /// Whether the payload is JSON; otherwise it is bytes.
    pub is_json: bool,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Delivery {
    /// A plain one.
    pub fn new(due: Due, is_json: bool, payload: impl Into<Vec<u8>>) -> Delivery {
        Delivery {
            due,
            to: None,
            key: None,
            if_exists: IfExists::Keep,
            tags: Vec::new(),
            max_attempts: None,
            expires_at: None,
            reply: None,
            is_json,
            payload: payload.into(),
        }
    }

    /// Checks what came from outside.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.payload.len() > PAYLOAD_MAX {
            return Err(Invalid::new("payload", format!("is {} bytes; at most {PAYLOAD_MAX} are allowed", self.payload.len())));
        }
        if self.tags.len() > TAGS_MAX {
            return Err(Invalid::new("tags", format!("are {}; at most {TAGS_MAX} are allowed", self.tags.len())));
        }
        if self.max_attempts.is_some_and(|max| max == 0 || max > ATTEMPTS_MAX) {
            return Err(Invalid::new("max_attempts", format!("must be between 1 and {ATTEMPTS_MAX}")));
        }
        if let Some(key) = &self.key {
            Once::check_key(key).map_err(|fault| Invalid::new("key", fault.reason))?;
        }
        Ok(())
    }

    /// Where it belongs: with its recipient; else with others of its key; else anywhere.
    pub fn home(&self) -> Option<&str> {
        self.to.as_ref().map(Recipient::as_str).or(self.key.as_deref())
    }

    /// As it is stored, due at `due`.
    pub(super) fn body(&self, due: Micros) -> Box<[u8]> {
        // As much as it takes if it is a plain one: what is stored is not moved again.
        let mut out = Vec::with_capacity(BODY_MIN + self.payload.len());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&due.get().to_le_bytes());
        self.write_rest(&mut out);
        let length = u16::try_from(out.len() - 2).expect("a recipient, a key and ten tags are short").to_le_bytes();
        for (slot, byte) in out.iter_mut().zip(length) {
            *slot = byte;
        }
        out.extend_from_slice(&self.payload);
        out.into_boxed_slice()
    }

    /// What is stored between the due time and the payload.
    pub(super) fn write_rest(&self, out: &mut Vec<u8>) {
        let expires = self.expires_at.filter(|at| *at > Micros::ZERO);
        let max_attempts = self.max_attempts.filter(|max| *max > 0);
        let to = self.to.as_ref().map_or("", Recipient::as_str);
        let key = self.key.as_deref().unwrap_or("");
        let parts = [(JSON, self.is_json), (EXPIRES, expires.is_some()), (ATTEMPTS, max_attempts.is_some()), (TO, !to.is_empty())];
        let reply = self.reply.filter(|span| *span > Micros::ZERO);
        let parts = parts.into_iter().chain([(KEY, !key.is_empty()), (TAGS, !self.tags.is_empty()), (REPLY, reply.is_some())]);
        out.push(parts.filter(|(_, is_there)| *is_there).map(|(flag, _)| flag).sum());
        if let Some(expires) = expires {
            out.extend_from_slice(&expires.get().to_le_bytes());
        }
        if let Some(max) = max_attempts {
            out.extend_from_slice(&max.to_le_bytes());
        }
        if let Some(reply) = reply {
            out.extend_from_slice(&reply.get().to_le_bytes());
        }
        if !to.is_empty() {
            out.extend_from_slice(&u16::try_from(to.len()).expect("recipients are short").to_le_bytes());
            out.extend_from_slice(to.as_bytes());
        }
        if !key.is_empty() {
            write_text(out, key);
        }
        if !self.tags.is_empty() {
            let tags: std::collections::BTreeSet<&str> = self.tags.iter().map(Tag::as_str).collect();
            out.push(u8::try_from(tags.len()).expect("tags are few"));
            for tag in tags {
                write_text(out, tag);
            }
        }
    }
}

/// The bytes of a body with a due time and a payload only.
const BODY_MIN: usize = 11;

/// Where a body says what it has.
const FLAGS_AT: usize = 10;

// What a delivery has; most have little, and memory is what a queue needs most of.
const JSON: u8 = 1;
const EXPIRES: u8 = 2;
const ATTEMPTS: u8 = 4;
const TO: u8 = 8;
const KEY: u8 = 16;
const TAGS: u8 = 32;
const REPLY: u8 = 64;

/// What is stored of a delivery besides its payload: `due u64, flags u8`, and what the flags say is there:
/// `expires u64, max_attempts u16, reply u64, to (u16 length), key (u8 length), tags u8, each (u8 length)`, little endian. A body is
/// the length of this as u16, this, and the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    /// When it is due, whatever became of it since.
    pub due: Micros,
    /// Not to be handed out from then on.
    pub expires_at: Option<Micros>,
    /// How often it may be attempted, if not as often as the queue says.
    pub max_attempts: Option<u16>,
    /// How long the holder's reply is kept.
    pub reply: Option<Micros>,
    /// Whether the payload is JSON.
    pub is_json: bool,
    /// To whom; empty: to nobody in particular.
    pub to: &'a str,
    /// What it is known by; empty: nothing.
    pub key: &'a str,
    /// What it can be found by.
    pub tags: Vec<&'a str>,
}

impl Meta<'_> {
    /// What it is looked up by, if it has a key. A key belongs to its recipient.
    pub fn known_by(&self) -> Option<Box<str>> {
        known_by(self.key, self.to)
    }
}

/// What the delivery of a key is looked up by. No key holds a NUL.
pub(super) fn known_by(key: &str, to: &str) -> Option<Box<str>> {
    (!key.is_empty()).then(|| [key, "\0", to].concat().into())
}

/// A stored body: what is known of a delivery, and its payload.
pub fn read_body(body: &[u8]) -> Option<(Meta<'_>, &[u8])> {
    let mut rest = body;
    let length = u16::from_le_bytes(record::take(&mut rest)?);
    let (mut meta, payload) = rest.split_at_checked(usize::from(length))?;
    let due = record::take_micros(&mut meta)?;
    let [flags] = record::take(&mut meta)?;
    let mut read =
        Meta { due, expires_at: None, max_attempts: None, reply: None, is_json: flags & JSON != 0, to: "", key: "", tags: Vec::new() };
    if flags & EXPIRES != 0 {
        read.expires_at = Some(record::take_micros(&mut meta)?);
    }
    if flags & ATTEMPTS != 0 {
        read.max_attempts = Some(u16::from_le_bytes(record::take(&mut meta)?));
    }
    if flags & REPLY != 0 {
        read.reply = Some(record::take_micros(&mut meta)?);
    }
    if flags & TO != 0 {
        let length = u16::from_le_bytes(record::take(&mut meta)?);
        let (to, rest) = meta.split_at_checked(usize::from(length))?;
        (read.to, meta) = (std::str::from_utf8(to).ok()?, rest);
    }
    if flags & KEY != 0 {
        read.key = take_text(&mut meta)?;
    }
    if flags & TAGS != 0 {
        let [count] = record::take(&mut meta)?;
        read.tags = (0..count).map(|_| take_text(&mut meta)).collect::<Option<Vec<_>>>()?;
    }
    // Anything else is not of this version.
    (flags < 2 * REPLY && meta.is_empty()).then_some((read, payload))
}

/// The body, due at another time.
pub(super) fn with_due(mut body: Box<[u8]>, due: Micros) -> Option<Box<[u8]>> {
    body.get_mut(2..10)?.copy_from_slice(&due.get().to_le_bytes());
    Some(body)
}

/// The body with another payload.
pub(super) fn with_payload(body: &[u8], is_json: bool, payload: &[u8]) -> Option<Box<[u8]>> {
    let (_, old) = read_body(body)?;
    let mut body = body.get(..body.len() - old.len())?.to_vec();
    let flags = body.get_mut(FLAGS_AT)?;
    *flags = *flags & !JSON | u8::from(is_json);
    body.extend_from_slice(payload);
    Some(body.into_boxed_slice())
}

/// The body without a key; none if it has none.
pub(super) fn without_key(body: &[u8]) -> Option<Box<[u8]>> {
    let (meta, _) = read_body(body)?;
    let length = Some(meta.key.len()).filter(|length| *length > 0)?;
    let to_length = if meta.to.is_empty() { 0 } else { 2 + meta.to.len() };
    let numbers_length = meta.expires_at.map_or(0, |_| 8) + meta.max_attempts.map_or(0, |_| 2) + meta.reply.map_or(0, |_| 8);
    let at = BODY_MIN + numbers_length + to_length;
    let mut out = body.get(..at)?.to_vec();
    out.extend_from_slice(body.get(at + 1 + length..)?);
    *out.get_mut(FLAGS_AT)? &= !KEY;
    let meta_length = u16::from_le_bytes(body.get(..2)?.try_into().ok()?) - u16::try_from(1 + length).ok()?;
    out.get_mut(..2)?.copy_from_slice(&meta_length.to_le_bytes());
    Some(out.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_and_sort_as_their_numbers_do() {
        let ids = [(0, 0), (0, 1), (0, u64::MAX), (1, 0), (63, 1_763_270_000_000_000), (4095, 7)];
        let ids = ids.map(|(partition, number)| DeliveryId { partition, number });
        let texts = ids.map(|id| id.to_string());
        assert!(texts.is_sorted(), "{texts:?}");
        for (id, text) in ids.iter().zip(&texts) {
            assert_eq!(text.parse::<DeliveryId>().as_ref(), Ok(id));
        }
        for bad in ["", "dl_", "dl_0000000000000000000", "pk_0000000000000000", "dl_000000000000000u", "dl_zzzzzzzzzzzzzzzé"] {
            assert!(bad.parse::<DeliveryId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_body_reads_back() {
        let mut delivery = Delivery::new(Due::In(Micros::ZERO), true, "{}");
        delivery.to = Some(Recipient::new("Grüße").unwrap());
        delivery.key = Some(String::from("k1"));
        delivery.tags = ["b", "a", "b"].map(|tag| Tag::new(tag).unwrap()).to_vec();
        let body = delivery.body(Micros::saturating(7));
        let (meta, payload) = read_body(&body).unwrap();
        assert_eq!((meta.due.get(), meta.to, meta.key, payload), (7, "Grüße", "k1", b"{}".as_slice()));
        assert_eq!(meta.tags, ["a", "b"]);
        assert_eq!((meta.expires_at, meta.max_attempts), (None, None));
        assert_eq!(read_body(&body[..20]), None);
        let plain = Delivery::new(Due::In(Micros::ZERO), true, "{}").body(Micros::saturating(7));
        assert_eq!((plain.len(), read_body(&plain).unwrap().0.is_json), (BODY_MIN + 2, true));
        let all =
            Delivery { max_attempts: Some(3), reply: Some(Micros::saturating(5)), expires_at: Some(Micros::saturating(11)), ..delivery };
        let other = without_key(&all.body(Micros::saturating(7))).unwrap();
        let (meta, payload) = read_body(&other).unwrap();
        assert_eq!((meta.max_attempts, meta.expires_at.map(Micros::get), meta.to, meta.key), (Some(3), Some(11), "Grüße", ""));
        assert_eq!((meta.tags, meta.reply.map(Micros::get), payload), (vec!["a", "b"], Some(5), b"{}".as_slice()));
        let other = without_key(&with_payload(&with_due(body, Micros::saturating(9)).unwrap(), false, b"xyz").unwrap()).unwrap();
        let (meta, payload) = read_body(&other).unwrap();
        assert_eq!((meta.due.get(), meta.to, meta.key, meta.is_json, payload), (9, "Grüße", "", false, b"xyz".as_slice()));
        assert_eq!(meta.tags, ["a", "b"]);
        assert_eq!(without_key(&other), None);
    }
}
