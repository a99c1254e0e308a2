//! What a rule is for: an exact text, or a glob in which `*` stands for any run of characters.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{Action, Invalid, Subject};

/// The most stars in a glob. Matching is linear for each, so this bounds the work.
const STARS_MAX: usize = 8;

/// An exact text or a glob. Checked like the subject or action it stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// A pattern of actions.
    pub fn action(text: impl AsRef<str>) -> Result<Pattern, Invalid> {
        Action::new(text.as_ref())?;
        Pattern::new("action", text.as_ref())
    }

    /// A pattern of subjects.
    pub fn subject(text: impl AsRef<str>) -> Result<Pattern, Invalid> {
        Subject::new(text.as_ref())?;
        Pattern::new("subject", text.as_ref())
    }

    fn new(field: &'static str, text: &str) -> Result<Pattern, Invalid> {
        if text.matches('*').count() > STARS_MAX {
            return Err(Invalid::new(field, format!("may hold {STARS_MAX} stars at most")));
        }
        Ok(Pattern(text.into()))
    }

    /// The text, stars included.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for more than one text.
    pub fn is_glob(&self) -> bool {
        self.0.contains('*')
    }

    /// What every match begins with.
    pub fn prefix(&self) -> &str {
        self.0.split('*').next().unwrap_or("")
    }

    /// What every match ends with.
    pub fn suffix(&self) -> &str {
        self.0.rsplit('*').next().unwrap_or("")
    }

    /// How many characters are spelled out: the more, the more specific.
    pub fn literal_len(&self) -> usize {
        self.0.bytes().filter(|b| *b != b'*').count()
    }

    /// Whether it stands for `text`.
    pub fn matches(&self, text: &str) -> bool {
        let Some((prefix, rest)) = self.0.split_once('*') else { return *self.0 == *text };
        let Some(mut text) = text.strip_prefix(prefix) else { return false };
        let mut parts = rest.split('*').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return text.ends_with(part);
            }
            // The earliest place leaves the most for what follows.
            match text.find(part) {
                Some(at) => text = text.get(at + part.len()..).unwrap_or(""),
                None => return false,
            }
        }
        true
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Pattern, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        // Subjects and actions are held to the same rules.
        Pattern::subject(text).map_err(|fault| serde::de::Error::custom(fault.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_run() {
        for (glob, yes, no) in [
            ("tasks/*", &["tasks/create", "tasks/"][..], &["task", "x/tasks/"][..]),
            ("*", &["", "anything"], &[]),
            ("*.admin", &["a.admin", ".admin"], &["admin", "a.admin.b"]),
            ("a*b*c", &["abc", "a--b--c", "abcbc"], &["acb", "ab", "bc"]),
            ("a*a", &["aa", "aba"], &["a"]),
            ("exact", &["exact"], &["exactly"]),
        ] {
            let pattern = Pattern::action(glob).unwrap();
            assert!(yes.iter().all(|text| pattern.matches(text)), "{glob}");
            assert!(!no.iter().any(|text| pattern.matches(text)), "{glob}");
        }
        assert!(Pattern::action("*".repeat(9)).is_err());
    }
}
