//! What the catalog holds besides rules, and how it answers writes.

use std::fmt;

use hermod_core::queue::{Queue, Secret};
use hermod_core::{Micros, SpaceId};

use crate::scope::Scope;

/// An isolated tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Its identifier.
    pub id: SpaceId,
    /// When it was made.
    pub created_at: Micros,
}

/// An API key, without its secret: that is stored nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its identifier, the second part of the key's text.
    pub id: String,
    /// The space it opens.
    pub space: SpaceId,
    /// What people call it.
    pub name: String,
    /// What it may do, sorted, each once.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: Micros,
}

impl ApiKey {
    /// Whether the key may do what `scope` stands for. `admin` implies all but `spaces`.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || (scope != Scope::Spaces && self.scopes.contains(&Scope::Admin))
    }

    /// Whether it makes keys for all spaces, its own successors among them.
    pub(crate) fn rules_all(&self) -> bool {
        self.allows(Scope::Admin) && self.allows(Scope::Spaces)
    }
}

/// An API key that was just made.
#[derive(Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The key.
    pub key: ApiKey,
    /// The text to present, `hk_<id>_<secret>`. It is shown once: `None` on a replay, because only its hash is stored.
    pub secret: Option<String>,
}

// By hand, because of the secret.
impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.secret.as_ref().map(|_| "hidden");
        f.debug_struct("NewKey").field("key", &self.key).field("secret", &secret).finish()
    }
}

/// A queue that was just saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedQueue {
    /// The queue; on a replay, with its secrets masked.
    pub queue: Queue,
    /// The webhook's secret, if it was made up by this write. It is shown once: `None` on a replay.
    pub secret: Option<Secret>,
}

/// The answer of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved<T> {
    /// What is stored now; on a replay, what was stored then.
    pub value: T,
    /// Whether it was created; otherwise it replaced another.
    pub created: bool,
    /// Whether it was done before, under the same idempotency key.
    pub replayed: bool,
}

/// The idempotency key of a write, and the fingerprint of the request it came with.
///
/// Answers are kept for 72 hours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogOnce {
    /// The space of the caller, to which the key belongs, whatever space the write is about.
    pub space: SpaceId,
    /// The caller's key: 1 to 128 printable ASCII characters.
    pub key: String,
    /// Of everything that must be the same next time, the kind of request included.
    pub fingerprint: u128,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(scopes: &[Scope]) -> ApiKey {
        ApiKey {
            id: String::from("a"),
            space: SpaceId::default_space(),
            name: String::from("bot"),
            scopes: scopes.to_vec(),
            created_at: Micros::ZERO,
        }
    }

    #[test]
    fn admin_implies_all_but_spaces() {
        for scope in Scope::ALL {
            assert_eq!(key(&[Scope::Admin]).allows(scope), scope != Scope::Spaces, "{scope}");
            assert!(key(&[scope]).allows(scope));
            assert!(!key(&[]).allows(scope));
        }
        assert!(!key(&[Scope::Spaces]).allows(Scope::RulesRead));
    }

    #[test]
    fn a_new_keys_secret_is_not_in_its_debug_text() {
        let new = NewKey { key: key(&[]), secret: Some(String::from("hk_a_s3cret")) };
        assert!(!format!("{new:?}").contains("s3cret"));
    }
}
