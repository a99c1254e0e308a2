//! A realm as tests play in it.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use hermod_tests::server::hermod_binary;
use serde_json::{Value, json};

use crate::http::site::{Ask, Caller};

/// Defines ajo from its file, as people do.
pub(super) fn apply_ajo(team: &Caller) -> Result<()> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ajo/ajo.yaml");
    let mut command = Command::new(hermod_binary()?);
    command
        .args(["realms", "apply", "-f"])
        .arg(file)
        .env("HERMOD_SERVER", team.url())
        .env("HERMOD_KEY", team.key_text().unwrap_or_default());
    let done = command.output()?;
    ensure!(done.status.success(), "{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    Ok(())
}

impl Caller {
    /// Plays under a key.
    pub(super) async fn play(&self, play: &str, by: &str, key: &str, args: Value) -> Result<Value> {
        self.post(&format!("/v1/realms/ajo/plays/{play}"), &json!({"by": by, "key": key, "args": args})).await?.expect(200)
    }

    /// Gives somebody something.
    pub(super) async fn mint(&self, owner: &str, asset: &str, qty: u64) -> Result<()> {
        let key = format!("mint-{owner}-{asset}-{qty}");
        let leg = json!({"from": "@mint", "to": owner, "asset": asset, "qty": qty});
        let done = self.post("/v1/realms/ajo/commits", &json!({"key": key, "legs": [leg]})).await?.expect(200)?;
        ensure!(done["status"] == "done", "{done}");
        Ok(())
    }

    /// What somebody has.
    pub(super) async fn has(&self, owner: &str, asset: &str) -> Result<i64> {
        let account = self.get(&format!("/v1/realms/ajo/accounts/{owner}")).await?.expect(200)?;
        Ok(account["assets"][asset]["balance"].as_i64().unwrap_or(0))
    }

    /// The books add up: what the audit says.
    pub(super) async fn audited(&self) -> Result<Value> {
        let audit = self.get("/v1/realms/ajo/audit").await?.expect(200)?;
        ensure!(audit["clean"] == true, "{audit}");
        Ok(audit)
    }

    /// A key under which a play draws what is wanted. Nothing is changed by looking for it.
    pub(super) async fn key_for(&self, play: &str, by: &str, args: Value, wanted: impl Fn(&Value) -> bool) -> Result<String> {
        // A key that was used would only give its answer again.
        static KEYS: AtomicU64 = AtomicU64::new(0);
        for _ in 0..20_000 {
            let key = format!("{play}-{}", KEYS.fetch_add(1, Ordering::Relaxed));
            let body = json!({"by": by, "key": key, "args": args, "dry_run": true});
            let would = self.post(&format!("/v1/realms/ajo/plays/{play}"), &body).await?.expect(200)?;
            if wanted(&would) {
                return Ok(key);
            }
        }
        anyhow::bail!("no key of {play} draws that")
    }

    /// All commits of the realm, the newest first.
    pub(super) async fn ledger(&self) -> Result<Vec<Value>> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("/v1/realms/ajo/ledger?limit=200{cursor}")).await?.expect(200)?;
            all.extend(page["items"].as_array().context("a page has items")?.iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(all),
            }
        }
    }

    pub(super) async fn ask(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(&Ask::json("POST", format!("/v1/realms/ajo/{path}"), body)).await?.expect(200)
    }
}

/// It was refused with this.
pub(super) fn refused(told: &Value, code: &str) -> Result<()> {
    ensure!(told["status"] == "refused" && told["code"] == code, "refused with {code}? {told}");
    Ok(())
}

/// It was done.
pub(super) fn done(told: &Value) -> Result<()> {
    ensure!(told["status"] == "done", "{told}");
    Ok(())
}
