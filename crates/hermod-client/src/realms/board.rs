//! Leaderboards.

use serde::{Deserialize, Deserializer, Serialize};

/// Which part of a leaderboard; the first ten by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BoardRequest {
    /// At most so many, 200 at most; 10 if absent.
    pub limit: Option<u32>,
    /// From this rank on; 1 if absent.
    pub from: Option<u64>,
    /// Those around this owner instead.
    pub around: Option<String>,
}

impl BoardRequest {
    /// The first so many.
    pub fn top(limit: u32) -> BoardRequest {
        BoardRequest { limit: Some(limit), ..BoardRequest::default() }
    }

    /// Those around this owner, so many in all.
    pub fn around(owner: impl Into<String>, limit: u32) -> BoardRequest {
        BoardRequest { limit: Some(limit), from: None, around: Some(owner.into()) }
    }

    /// From this rank on.
    #[must_use]
    pub fn from(mut self, rank: u64) -> BoardRequest {
        self.from = Some(rank);
        self
    }

    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let limit = self.limit.map(|limit| ("limit", limit.to_string()));
        let from = self.from.map(|from| ("from", from.to_string()));
        let around = self.around.clone().map(|around| ("around", around));
        limit.into_iter().chain(from).chain(around).collect()
    }
}

/// A part of a leaderboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmBoard {
    /// Of which asset.
    pub asset: String,
    /// How many owners have something.
    pub total: u64,
    /// The rank of the owner it was asked for, `Some(None)` if they have nothing; absent if nobody was asked for.
    #[serde(default, deserialize_with = "asked", skip_serializing_if = "Option::is_none")]
    pub rank: Option<Option<u64>>,
    /// In order: who has the most first, among equals who got there first.
    pub items: Vec<RealmRank>,
}

/// What is there is there, also if it is null.
fn asked<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// One row of a leaderboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RealmRank {
    /// From 1.
    pub rank: u64,
    /// Who.
    pub owner: String,
    /// How much.
    pub balance: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_was_asked_for_is_told_from_one_that_was_not() {
        for (text, rank) in [
            (r#"{"asset":"ajo","total":0,"items":[]}"#, None),
            (r#"{"asset":"ajo","total":0,"rank":null,"items":[]}"#, Some(None)),
            (r#"{"asset":"ajo","total":9,"rank":7,"items":[{"rank":7,"owner":"111","balance":-3}]}"#, Some(Some(7))),
        ] {
            let board: RealmBoard = serde_json::from_str(text).unwrap();
            assert_eq!(board.rank, rank);
            assert_eq!(serde_json::to_string(&board).unwrap(), text);
        }
    }
}
