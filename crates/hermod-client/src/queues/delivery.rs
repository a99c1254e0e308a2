//! A delivery: as it is pushed, as it is handed out, as it is looked at.

use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::words::{DeliveryState, IfExists};
use crate::time::{Time, exact, span};

/// When something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At this time; the past means at once.
    At(Time),
    /// So long from now, by the server's clock.
    In(Duration),
}

impl From<Time> for Due {
    fn from(time: Time) -> Due {
        Due::At(time)
    }
}

impl From<SystemTime> for Due {
    fn from(time: SystemTime) -> Due {
        Due::At(time.into())
    }
}

impl From<Duration> for Due {
    fn from(span: Duration) -> Due {
        Due::In(span)
    }
}

/// A delivery to be pushed, with any payload that can be written as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NewDelivery<P = Value> {
    /// What it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<P>,
    /// What it carries if that is not JSON: bytes in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// When it is due.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "exact")]
    pub at: Option<Time>,
    /// How long until it is due; at once if neither is there.
    #[serde(rename = "in", skip_serializing_if = "Option::is_none", serialize_with = "span")]
    pub within: Option<Duration>,
    /// Its recipient: those of one recipient are handed out in order, one at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What it is known by to you.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What becomes of one of this key that is there; it stays if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_exists: Option<IfExists>,
    /// What it can be found by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How often it may be attempted, if not as often as the queue says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Not to be handed out from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

impl<P> NewDelivery<P> {
    /// Carries this, and is due at once.
    pub fn new(payload: P) -> NewDelivery<P> {
        NewDelivery { payload: Some(payload), ..NewDelivery::empty() }
    }

    fn empty() -> NewDelivery<P> {
        NewDelivery {
            payload: None,
            base64: None,
            at: None,
            within: None,
            to: None,
            key: None,
            if_exists: None,
            tags: Vec::new(),
            max_attempts: None,
            expires_at: None,
        }
    }

    /// Due then: a `SystemTime`, or a `Duration` from now by the server's clock.
    #[must_use]
    pub fn due(mut self, due: impl Into<Due>) -> NewDelivery<P> {
        (self.at, self.within) = match due.into() {
            Due::At(at) => (Some(at), None),
            Due::In(span) => (None, Some(span)),
        };
        self
    }

    /// To this recipient.
    #[must_use]
    pub fn to(mut self, to: impl Into<String>) -> NewDelivery<P> {
        self.to = Some(to.into());
        self
    }

    /// Known by this key: pushed once, however often it is asked for.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> NewDelivery<P> {
        self.key = Some(key.into());
        self
    }

    /// What becomes of one of the same key that is there.
    #[must_use]
    pub fn if_exists(mut self, if_exists: IfExists) -> NewDelivery<P> {
        self.if_exists = Some(if_exists);
        self
    }

    /// Found by this, too.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> NewDelivery<P> {
        self.tags.push(tag.into());
        self
    }

    /// Whether pushing it twice is pushing it once.
    pub(super) fn is_repeatable(&self) -> bool {
        self.key.is_some() && matches!(self.if_exists, None | Some(IfExists::Keep))
    }
}

impl NewDelivery {
    /// Carries these bytes, given as base64.
    pub fn base64(bytes: impl Into<String>) -> NewDelivery {
        NewDelivery { base64: Some(bytes.into()), ..NewDelivery::empty() }
    }
}

/// A delivery that was handed out: its holder's until `lease_until`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Claimed {
    /// Its id.
    pub id: String,
    /// With this it is finished, given back or kept for longer.
    pub token: u64,
    /// The how many'th attempt this is.
    pub attempt: u32,
    /// When it was to be delivered.
    pub due: Time,
    /// Until when it is held.
    pub lease_until: Time,
    /// Its recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The key it was pushed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it can be found by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What it carries, as it was written. See [`Claimed::payload`].
    #[serde(default, rename = "payload", skip_serializing_if = "Option::is_none")]
    pub json: Option<Box<RawValue>>,
    /// What it carries if that is not JSON: bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl Claimed {
    /// What it carries. One that does not fit is an error of this delivery alone, and is to be given back.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        read(self.json.as_deref())
    }
}

/// A delivery that is looked at.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivery {
    /// Its id.
    pub id: String,
    /// Where it is in its life.
    pub state: DeliveryState,
    /// How often it was attempted.
    #[serde(default)]
    pub attempts: u32,
    /// When it was to be delivered.
    pub due: Time,
    /// When it can be claimed, if that is not when it is due: after an attempt that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// Until when it is held, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Time>,
    /// Since when it is dead, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_since: Option<Time>,
    /// Its recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The key it was pushed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it can be found by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How often it may be attempted, if it has a bound of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// When it is not to be handed out any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// What it carries, as it was written. See [`Delivery::payload`].
    #[serde(default, rename = "payload", skip_serializing_if = "Option::is_none")]
    pub json: Option<Box<RawValue>>,
    /// What it carries if that is not JSON: bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl Delivery {
    /// What it carries.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        read(self.json.as_deref())
    }
}

fn read<T: DeserializeOwned>(json: Option<&RawValue>) -> Result<T, serde_json::Error> {
    serde_json::from_str(json.map_or("null", RawValue::get))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_written_as_the_api_has_it() {
        let written = |delivery: &NewDelivery| serde_json::to_string(delivery).unwrap();
        assert_eq!(written(&NewDelivery::base64("AAE=")), r#"{"base64":"AAE="}"#);
        let full = NewDelivery::new(serde_json::json!({"n": 1})).due(Duration::from_secs(90)).to("ann").key("k").tag("a").tag("b");
        assert_eq!(
            written(&full.if_exists(IfExists::Debounce)),
            r#"{"payload":{"n":1},"in":"1m 30s","to":"ann","key":"k","if_exists":"debounce","tags":["a","b"]}"#
        );
        let at: Time = serde_json::from_str("\"2026-02-03T04:05:06.789Z\"").unwrap();
        assert_eq!(written(&NewDelivery::new(Value::Null).due(at)), r#"{"payload":null,"at":"2026-02-03T04:05:06.789000Z"}"#);
    }

    #[test]
    fn only_a_key_that_keeps_makes_a_push_repeatable() {
        let plain = NewDelivery::new(1);
        assert!(!plain.is_repeatable() && plain.clone().key("k").is_repeatable());
        assert!(!plain.key("k").if_exists(IfExists::Replace).is_repeatable());
    }

    #[test]
    fn a_payload_is_kept_as_written_and_read_as_wanted() {
        let text = r#"{"id":"dl_1","token":7,"attempt":1,"due":"2026-02-03T04:05:06.789Z","lease_until":"2026-02-03T04:05:36.789Z","payload":{"b":1.50,"a":[2]}}"#;
        let claimed: Claimed = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&claimed).unwrap(), text);
        assert_eq!(claimed.payload::<Value>().unwrap(), serde_json::json!({"a": [2], "b": 1.5}));
        assert!(claimed.payload::<Vec<u8>>().is_err());
        let bytes: Claimed = serde_json::from_str(&text.replace(r#""payload":{"b":1.50,"a":[2]}"#, r#""base64":"AAE=""#)).unwrap();
        assert_eq!((bytes.base64.as_deref(), bytes.payload::<Option<u8>>().unwrap()), (Some("AAE="), None));
    }
}
