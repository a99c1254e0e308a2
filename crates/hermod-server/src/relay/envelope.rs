//! The recipients of a packed message, out of the few members of it that name them.
//!
//! | form | where the `kid`s are |
//! |---|---|
//! | version 1 (Aries RFC 0019) | `recipients[].header.kid` of the JSON that `protected` is the base64url of |
//! | version 2 (JWE, general) | `recipients[].header.kid` |
//! | version 2 (JWE, flattened) | `header.kid` |
//!
//! All that is not on the way to a `kid` is passed over, so an envelope costs one pass whatever else it holds.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hermod_core::Recipient;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

use super::identity;
use crate::code::{Code, Problem};

/// A `protected` header has at most so many bytes when it is decoded.
const PROTECTED_MAX: usize = 64 << 10;
/// A message names at most so many recipients.
const RECIPIENTS_MAX: usize = 100;

/// Agents of version 1 pad, others do not.
const BASE64URL: GeneralPurpose =
    GeneralPurpose::new(&URL_SAFE, GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent));

/// How a `kid` is read, or why it cannot be.
type Read = fn(&str) -> Result<Recipient, String>;

/// Those of an object's members that lead to a `kid`, at whatever depth the object is. One that is null is not there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Members<'a> {
    #[serde(borrow)]
    protected: Option<&'a RawValue>,
    #[serde(borrow)]
    recipients: Option<&'a RawValue>,
    #[serde(borrow)]
    header: Option<&'a RawValue>,
    #[serde(borrow)]
    kid: Option<&'a RawValue>,
}

impl<'a> Members<'a> {
    fn read(text: &'a str) -> Result<Members<'a>, serde_json::Error> {
        // Serde would take a list for an object whose names were left out.
        if text.trim_start().starts_with('[') {
            return Err(serde_json::Error::custom("a list"));
        }
        serde_json::from_str(text)
    }

    /// The members of an object within another; `part` is its place.
    fn within(object: &'a RawValue, part: &str) -> Result<Members<'a>, Problem> {
        Members::read(object.get()).map_err(|_| wrong(part, "must be an object that has each name once"))
    }
}

/// All whom a packed message is for, each once, in the order they appear. Empty only if its list of them is.
pub(crate) fn candidates(envelope: &str) -> Result<Vec<Recipient>, Problem> {
    let members = Members::read(envelope).map_err(|fault| no_envelope(&fault))?;
    if let Some(list) = members.recipients {
        return of_list(list, "recipients", identity::of_did_url);
    }
    if let Some(header) = members.header {
        return Ok(vec![of_header(header, "header", identity::of_did_url)?]);
    }
    let protected = decode(members.protected.ok_or_else(|| missing("protected"))?)?;
    let inner = Members::read(&protected).map_err(|_| wrong("protected", "must be the base64url of a JSON object"))?;
    match inner.recipients {
        Some(list) => of_list(list, "protected.recipients", identity::of_key),
        None => Err(missing("recipients")),
    }
}

/// The text that `protected` stands for.
fn decode(protected: &RawValue) -> Result<String, Problem> {
    let text = string(protected, "protected")?;
    let length = text.trim_end_matches('=').len() * 3 / 4;
    if length > PROTECTED_MAX {
        return Err(wrong("protected", format!("is {length} bytes when decoded; {PROTECTED_MAX} are taken at most")));
    }
    let bytes = BASE64URL.decode(text).map_err(|_| wrong("protected", "is not base64url"))?;
    String::from_utf8(bytes).map_err(|_| wrong("protected", "must be the base64url of a JSON object"))
}

fn of_list(list: &RawValue, part: &str, read: Read) -> Result<Vec<Recipient>, Problem> {
    let entries: Vec<&RawValue> = serde_json::from_str(list.get()).map_err(|_| wrong(part, "must be a list"))?;
    if entries.len() > RECIPIENTS_MAX {
        return Err(wrong(part, format!("has {} entries; {RECIPIENTS_MAX} are taken at most", entries.len())));
    }
    let mut candidates = Vec::with_capacity(entries.len());
    for (position, entry) in entries.into_iter().enumerate() {
        let part = format!("{part}[{position}]");
        let entry = Members::within(entry, &part)?;
        let part = format!("{part}.header");
        let candidate = of_header(entry.header.ok_or_else(|| missing(&part))?, &part, read)?;
        if !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    Ok(candidates)
}

fn of_header(header: &RawValue, part: &str, read: Read) -> Result<Recipient, Problem> {
    let header = Members::within(header, part)?;
    let part = format!("{part}.kid");
    let kid = string(header.kid.ok_or_else(|| missing(&part))?, &part)?;
    read(&kid).map_err(|reason| wrong(&part, reason))
}

fn string(value: &RawValue, part: &str) -> Result<String, Problem> {
    serde_json::from_str(value.get()).map_err(|_| wrong(part, "must be a string"))
}

fn no_envelope(fault: &serde_json::Error) -> Problem {
    let what = if fault.is_data() {
        "The body must be a JSON object that has each name once.".to_owned()
    } else {
        format!("The body is not valid JSON: line {}, column {}.", fault.line(), fault.column())
    };
    Problem::new(Code::InvalidJson, what)
}

fn missing(part: &str) -> Problem {
    let what = match part {
        "recipients" => "Neither the envelope nor its protected header has recipients.".to_owned(),
        "protected" => "This is no packed message: it has neither protected nor recipients.".to_owned(),
        _ => format!("The field {part} is needed."),
    };
    Problem::new(Code::MissingField, what).in_field(part)
}

fn wrong(part: &str, reason: impl std::fmt::Display) -> Problem {
    Problem::new(Code::InvalidField, format!("{part} {reason}.")).in_field(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const ED: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
    const VERKEY: &str = "4zvwRjXUKGfvwnParsHAS3HuSVzV5cA4McphgmoCtajS";

    /// An envelope of version 1 around this header.
    fn v1(protected: &Value) -> Value {
        let protected = BASE64URL.encode(protected.to_string());
        json!({"protected": protected, "iv": "ZpxQUtyaZJfDKRGD", "ciphertext": "x6JQ0N7Yq8Lt", "tag": "2FqZMMQuNPYfL0JsSkj8LQ=="})
    }

    /// One of version 2, with these members as well. Its `protected` names nobody.
    fn v2(members: Value) -> Value {
        let protected = BASE64URL.encode(r#"{"typ":"application/didcomm-encrypted+json","alg":"ECDH-ES+A256KW","enc":"XC20P"}"#);
        let mut envelope = json!({"protected": protected, "iv": "ESpmcyGiZpRjc5urDela21TOOTW8Wqd1", "ciphertext": "KWS7gJU7TbyJ", "tag": "6ylC_iAs4JvDQzXeY6MuYQ"});
        envelope.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        envelope
    }

    fn kid(kid: &str) -> Value {
        json!({"header": {"kid": kid, "alg": "x"}, "encrypted_key": "3n1olyBR3nY7ZGAprOx-b7wYAKza6cvO"})
    }

    fn read(envelope: &Value) -> Vec<String> {
        candidates(&envelope.to_string()).unwrap().iter().map(|recipient| recipient.as_str().to_owned()).collect()
    }

    #[test]
    fn every_form_names_its_recipients_in_order_and_once() {
        let bob = "did:example:bob";
        for (envelope, expected) in [
            (v1(&json!({"enc": "xchacha20poly1305_ietf", "typ": "JWM/1.0", "alg": "Anoncrypt", "recipients": [kid(VERKEY)]})), vec![ED]),
            (v1(&json!({"recipients": [kid("did:example:bob#1"), kid(VERKEY), kid(ED)]})), vec![bob, ED]),
            (v1(&json!({"recipients": []})), vec![]),
            (v2(json!({"recipients": [kid("did:example:bob#key-x25519-1"), kid("did:example:bob#key-x25519-2")]})), vec![bob]),
            (v2(json!({"recipients": [kid(&format!("{ED}#z6LS")), kid("did:example:bob#1")]})), vec![ED, bob]),
            (v2(json!({"header": {"kid": "did:example:bob#1"}, "encrypted_key": "k"})), vec![bob]),
            (v2(json!({"recipients": null, "header": {"kid": "did:example:bob#1"}})), vec![bob]),
        ] {
            assert_eq!(read(&envelope), expected, "{envelope}");
        }
    }

    #[test]
    fn padding_is_optional() {
        for spaces in 0..3 {
            let header = format!("{{\"recipients\":[{{\"header\":{{\"kid\":\"{VERKEY}\"}}}}]}}{}", " ".repeat(spaces));
            let padded = BASE64URL.encode(header);
            for protected in [&padded, padded.trim_end_matches('=')] {
                assert_eq!(read(&json!({"protected": protected})), [ED]);
            }
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let many = vec![kid("did:example:bob#1"); RECIPIENTS_MAX + 1];
        let large = BASE64URL.encode(format!("{{\"recipients\":[],\"x\":\"{}\"}}", "x".repeat(PROTECTED_MAX)));
        for (envelope, code, part) in [
            (json!([]), Code::InvalidJson, None),
            (json!("text"), Code::InvalidJson, None),
            (json!({}), Code::MissingField, Some("protected")),
            (json!({"protected": null}), Code::MissingField, Some("protected")),
            (json!({"protected": 7}), Code::InvalidField, Some("protected")),
            (json!({"protected": "a+b/"}), Code::InvalidField, Some("protected")),
            (json!({"protected": BASE64URL.encode("no JSON")}), Code::InvalidField, Some("protected")),
            (json!({"protected": BASE64URL.encode([0xff])}), Code::InvalidField, Some("protected")),
            (json!({"protected": BASE64URL.encode("[]")}), Code::InvalidField, Some("protected")),
            (json!({"protected": large}), Code::InvalidField, Some("protected")),
            (v2(json!({})), Code::MissingField, Some("recipients")),
            (v1(&json!({"recipients": {}})), Code::InvalidField, Some("protected.recipients")),
            (
                v1(&json!({"recipients": [kid("did:example:bob#1"), kid("bob")]})),
                Code::InvalidField,
                Some("protected.recipients[1].header.kid"),
            ),
            (v2(json!({"recipients": many})), Code::InvalidField, Some("recipients")),
            (v2(json!({"recipients": [7]})), Code::InvalidField, Some("recipients[0]")),
            (v2(json!({"recipients": [[]]})), Code::InvalidField, Some("recipients[0]")),
            (v2(json!({"recipients": [{}]})), Code::MissingField, Some("recipients[0].header")),
            (v2(json!({"recipients": [{"header": []}]})), Code::InvalidField, Some("recipients[0].header")),
            (v2(json!({"recipients": [{"header": {}}]})), Code::MissingField, Some("recipients[0].header.kid")),
            (v2(json!({"recipients": [{"header": {"kid": 7}}]})), Code::InvalidField, Some("recipients[0].header.kid")),
            (v2(json!({"recipients": [kid(VERKEY)]})), Code::InvalidField, Some("recipients[0].header.kid")),
            (v2(json!({"header": {}})), Code::MissingField, Some("header.kid")),
        ] {
            let problem = candidates(&envelope.to_string()).unwrap_err();
            assert_eq!((problem.code, problem.field.as_deref()), (code, part), "{problem:?}");
        }
        for text in ["", "{", "{\"recipients\":[]", "{\"recipients\":[],\"recipients\":[]}", "{} {}"] {
            assert_eq!(candidates(text).unwrap_err().code, Code::InvalidJson, "{text}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        for (text, part) in [
            (format!("{{\"x\":{deep}}}"), "protected"),
            (format!("{{\"protected\":{deep}}}"), "protected"),
            (format!("{{\"recipients\":{deep}}}"), "recipients[0]"),
            (format!("{{\"header\":{{\"kid\":{deep}}}}}"), "header.kid"),
        ] {
            assert_eq!(candidates(&text).unwrap_err().field.as_deref(), Some(part));
        }
    }

    #[test]
    fn the_largest_header_is_read() {
        let header = format!("{{\"recipients\":[{}]}}", kid(VERKEY));
        for (length, is_read) in [(PROTECTED_MAX, true), (PROTECTED_MAX + 1, false)] {
            let padded = format!("{header}{}", " ".repeat(length - header.len()));
            assert_eq!(candidates(&json!({"protected": BASE64URL.encode(padded)}).to_string()).is_ok(), is_read, "{length}");
        }
    }
}
