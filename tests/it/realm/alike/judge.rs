//! What everybody has, by what the answers tell: by another hand than the store's and the audit's.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::SECOND;

/// What everybody has, by the events of the answers.
#[derive(Default)]
pub(super) struct Judge {
    books: BTreeMap<(String, String), i64>,
    pub(super) commits: u64,
    /// When bombs are armed.
    bombs: Vec<u64>,
    pub(super) holds: Vec<String>,
    /// How often what came of what.
    pub(super) came: BTreeMap<String, u64>,
}

impl Judge {
    pub(super) fn add(&mut self, owner: &str, asset: &str, qty: i64) {
        *self.books.entry((owner.to_owned(), asset.to_owned())).or_default() += qty;
    }

    pub(super) fn has(&self, owner: &str, asset: &str) -> i64 {
        self.books.get(&(owner.to_owned(), asset.to_owned())).copied().unwrap_or(0)
    }

    /// Takes in an answer, and holds it against what was answered before. How often somebody gets a gift for it.
    pub(super) fn take_in(&mut self, told: &Value, now: u64, delay: i64) -> Result<Vec<String>> {
        let mut gifts = Vec::new();
        if told["status"] != "done" || told["dry_run"] == true || told["replayed"] == true {
            return Ok(gifts);
        }
        self.commits += 1;
        ensure!(told["seq"] == self.commits, "it is commit {}: {told}", self.commits);
        for event in told["events"].as_array().into_iter().flatten() {
            let text = |field: &str| event[field].as_str().unwrap_or_default();
            let (asset, qty) =
                if event["item"].is_string() { (text("item"), &event["quantity"]) } else { (text("asset"), &event["amount"]) };
            self.add(text("user_id"), asset, qty.as_i64().with_context(|| format!("how many: {event}"))?);
            if text("type") == "lucky" {
                gifts.push(text("user_id").to_owned());
            }
        }
        for (owner, assets) in told["balances"].as_object().into_iter().flatten() {
            for (asset, balance) in assets.as_object().into_iter().flatten() {
                ensure!(*balance == self.has(owner, asset), "{owner} has {} of {asset} by the events: {told}", self.has(owner, asset));
            }
        }
        if let Some(jitter) = told["draws"]["set-bomb.jitter"].as_i64() {
            self.bombs.push(now + u64::try_from((delay + jitter).max(0))? * SECOND);
        }
        self.holds.extend(told["hold"].as_str().map(str::to_owned));
        Ok(gifts)
    }

    /// The bombs that are armed by now, which are commits.
    pub(super) fn armed(&mut self, now: u64) -> bool {
        let before = self.bombs.len();
        self.bombs.retain(|due| *due > now);
        self.commits += u64::try_from(before - self.bombs.len()).unwrap_or(0);
        before > self.bombs.len()
    }
}
