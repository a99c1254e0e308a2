//! What a charge survives.

use serde::{Deserialize, Serialize};

/// How safe a charge was when its answer was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Durability {
    /// It will be on disk within a second.
    Deferred,
    /// It is on disk.
    Disk,
    /// It is in the store's memory.
    Memory,
    /// It is in the memory of this many replicas, too.
    Replicas(u32),
    /// A degree that this client does not know, by the server's name for it.
    Other(String),
}

impl From<String> for Durability {
    fn from(text: String) -> Durability {
        match text.as_str() {
            "deferred" => Durability::Deferred,
            "disk" => Durability::Disk,
            "memory" => Durability::Memory,
            other => match other.strip_prefix("replicas:").and_then(|n| n.parse().ok()) {
                Some(replicas) => Durability::Replicas(replicas),
                None => Durability::Other(text),
            },
        }
    }
}

impl From<Durability> for String {
    fn from(durability: Durability) -> String {
        match durability {
            Durability::Deferred => "deferred".to_owned(),
            Durability::Disk => "disk".to_owned(),
            Durability::Memory => "memory".to_owned(),
            Durability::Replicas(replicas) => format!("replicas:{replicas}"),
            Durability::Other(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_reads_back_as_written() {
        for text in ["deferred", "disk", "memory", "replicas:2", "replicas:many", "moon"] {
            assert_eq!(String::from(Durability::from(text.to_owned())), text);
        }
        assert_eq!(Durability::from("replicas:2".to_owned()), Durability::Replicas(2));
    }
}
