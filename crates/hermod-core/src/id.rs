//! Names and identifiers, checked once at the border and trusted afterwards.
//!
//! Two kinds: *names* (spaces, policies, rule ids) are short, printable and free of the separators
//! used in keys; *free text* (subjects, actions) is any UTF-8 of 1-256 bytes and therefore always
//! stands last in a key.
//!
//! What is at most 23 bytes long, as most of them are, stands in the identifier itself: to make one allocates nothing, to clone one
//! counts no references, which all threads would do at once, and to read one waits for memory once and not twice.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

/// Why a value was not accepted, and in which field it stood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
#[non_exhaustive]
pub struct Invalid {
    /// The field's name, as the caller spelled it.
    pub field: &'static str,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl Invalid {
    /// A fault in `field`.
    pub fn new(field: &'static str, reason: impl Into<String>) -> Invalid {
        Invalid { field, reason: reason.into() }
    }
}

/// The longest subject or action, in bytes.
pub const TEXT_MAX: usize = 256;
/// The longest tag, in bytes.
pub const TAG_MAX: usize = 128;
/// The longest name, in bytes.
pub const NAME_MAX: usize = 64;

fn check_text(field: &'static str, text: &str) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(field, "must not be empty"));
    }
    if text.len() > TEXT_MAX {
        return Err(Invalid::new(field, format!("is {} bytes long; at most {TEXT_MAX} are allowed", text.len())));
    }
    if text.chars().any(char::is_control) {
        return Err(Invalid::new(field, "must not contain control characters"));
    }
    Ok(())
}

fn check_name(field: &'static str, name: &str) -> Result<(), Invalid> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(Invalid::new(field, format!("must be 1 to {NAME_MAX} characters long")));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.chars().all(fits) {
        return Err(Invalid::new(field, "may hold letters, digits, '_', '-' and '.' only"));
    }
    Ok(())
}

fn check_tag(field: &'static str, tag: &str) -> Result<(), Invalid> {
    if tag.is_empty() || tag.len() > TAG_MAX || tag.chars().any(char::is_control) {
        return Err(Invalid::new(field, format!("must each be 1 to {TAG_MAX} bytes long, without control characters")));
    }
    Ok(())
}

macro_rules! text_type {
    ($(#[$doc:meta])* $type:ident, $field:literal, $check:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(SmolStr);

        impl $type {
            /// Checks `text` and keeps it.
            pub fn new(text: impl AsRef<str>) -> Result<$type, Invalid> {
                let text = text.as_ref();
                $check($field, text)?;
                Ok($type(SmolStr::new(text)))
            }

            /// The text itself.
            #[inline]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<$type, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                $type::new(text).map_err(|fault| serde::de::Error::custom(fault.reason))
            }
        }
    };
}

text_type!(
    /// An isolated tenant.
    SpaceId, "space", check_name
);
text_type!(
    /// A rule's identifier within its space.
    RuleId, "id", check_name
);
text_type!(
    /// The name of a policy: rules of one name override each other, rules of different names add up.
    Name, "name", check_name
);
text_type!(
    /// A queue's name within its space.
    QueueId, "queue", check_name
);
text_type!(
    /// A deck's name within its space.
    DeckId, "deck", check_name
);
text_type!(
    /// A message's name within its deck.
    MessageId, "id", check_name
);
text_type!(
    /// A realm's name within its space.
    RealmId, "realm", check_name
);
text_type!(
    /// Who has something in a realm. Those that begin with `@` are the realm's own.
    Owner, "owner", check_text
);
text_type!(
    /// A worker of a sticky queue.
    WorkerId, "worker", check_name
);
text_type!(
    /// Who acts or is addressed: a user, an agent, an IP.
    Subject, "subject", check_text
);
text_type!(
    /// Whom a delivery is for: the unit of order.
    Recipient, "to", check_text
);
text_type!(
    /// What deliveries are found by: `campaign:7`.
    Tag, "tags", check_tag
);
text_type!(
    /// What a subject does: `tasks/create`.
    Action, "action", check_text
);

impl SpaceId {
    /// The space every installation starts with.
    pub fn default_space() -> SpaceId {
        SpaceId(SmolStr::new_static("default"))
    }
}

impl Name {
    /// The policy of a rule that names none.
    pub fn default_name() -> Name {
        Name(SmolStr::new_static("default"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_1_to_256_bytes_without_control_characters() {
        assert!(Subject::new("").is_err());
        assert!(Subject::new("a".repeat(256)).is_ok());
        assert!(Subject::new("a".repeat(257)).is_err());
        assert!(Subject::new("Grüße/ΑΩ:{}").is_ok());
        assert!(Subject::new("a\nb").is_err());
    }

    #[test]
    fn names_hold_no_separator() {
        for bad in ["", "a/b", "a:b", "a{b", "ä", "a b"] {
            assert!(SpaceId::new(bad).is_err(), "{bad:?}");
        }
        assert!(SpaceId::new("team-1.prod_eu").is_ok());
    }
}
