//! What an API key may do.

use std::fmt;
use std::str::FromStr;

use hermod_core::Invalid;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One permission of an API key, within the key's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Everything within the space.
    Admin,
    /// List and create spaces. Reaches beyond the key's own, so `admin` does not imply it.
    Spaces,
    /// Read rules.
    RulesRead,
    /// Create, replace and delete rules.
    RulesWrite,
    /// Check and charge limits.
    LimitCheck,
    /// Read queues, their schedules and deliveries.
    QueuesRead,
    /// Create, replace and delete queues and their schedules.
    QueuesWrite,
    /// Put deliveries into queues.
    QueuesPush,
    /// Claim deliveries and finish them.
    QueuesClaim,
    /// Read decks and their messages.
    DecksRead,
    /// Create, replace and delete decks and their messages.
    DecksWrite,
    /// Pick messages for subjects.
    DecksPick,
    /// Read the definitions of realms.
    RealmsRead,
    /// Create and change realms.
    RealmsWrite,
    /// Play in realms, and read what is owned there.
    RealmsPlay,
    /// Read events.
    EventsRead,
}

impl Scope {
    /// Every scope, in the order of the documentation.
    pub const ALL: [Scope; 16] = [
        Scope::Admin,
        Scope::Spaces,
        Scope::RulesRead,
        Scope::RulesWrite,
        Scope::LimitCheck,
        Scope::QueuesRead,
        Scope::QueuesWrite,
        Scope::QueuesPush,
        Scope::QueuesClaim,
        Scope::DecksRead,
        Scope::DecksWrite,
        Scope::DecksPick,
        Scope::RealmsRead,
        Scope::RealmsWrite,
        Scope::RealmsPlay,
        Scope::EventsRead,
    ];

    /// As it is written in JSON, SQL and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scope::Admin => "admin",
            Scope::Spaces => "spaces",
            Scope::RulesRead => "rules:read",
            Scope::RulesWrite => "rules:write",
            Scope::LimitCheck => "limit:check",
            Scope::QueuesRead => "queues:read",
            Scope::QueuesWrite => "queues:write",
            Scope::QueuesPush => "queues:push",
            Scope::QueuesClaim => "queues:claim",
            Scope::DecksRead => "decks:read",
            Scope::DecksWrite => "decks:write",
            Scope::DecksPick => "decks:pick",
            Scope::RealmsRead => "realms:read",
            Scope::RealmsWrite => "realms:write",
            Scope::RealmsPlay => "realms:play",
            Scope::EventsRead => "events:read",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Scope, Invalid> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| {
            let known = Scope::ALL.map(Scope::as_str).join(", ");
            Invalid::new("scopes", format!("must be among {known}"))
        })
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Scope, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(|fault: Invalid| serde::de::Error::custom(fault.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_read_back_as_written() {
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse::<Scope>().unwrap(), scope);
            let json = serde_json::to_string(&scope).unwrap();
            assert_eq!(serde_json::from_str::<Scope>(&json).unwrap(), scope);
        }
        assert!("Admin".parse::<Scope>().is_err());
        assert!("".parse::<Scope>().is_err());
    }
}
