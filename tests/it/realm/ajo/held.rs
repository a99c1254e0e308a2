//! What is on hold is not there to be taken: everything else is, and nothing is refused for it.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{advance, types, until_counter};
use crate::http::site::Caller;
use crate::queue::on_every_store;
use crate::realm::play::{apply_ajo, done};

impl Caller {
    /// Puts so many of what somebody has on hold, for longer than a test takes.
    async fn set_aside(&self, owner: &str, asset: &str, qty: u64) -> Result<()> {
        let leg = json!({"from": owner, "to": "@house", "asset": asset, "qty": qty});
        done(&self.ask("holds", &json!({"key": format!("hold-{owner}-{asset}-{qty}"), "legs": [leg], "in": "7d"})).await?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bomb_takes_its_part_of_what_is_not_on_hold() -> Result<()> {
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        for owner in ["111", "222"] {
            team.mint(owner, "bomb", 1).await?;
            done(&team.play("set-bomb", owner, &format!("bomb-{owner}"), json!({"delay": 0})).await?)?;
        }
        advance(site, 210);
        until_counter(team, "bombs", 2).await?;
        team.mint("333", "ajo", 101).await?;
        team.set_aside("333", "ajo", 50).await?;
        // 18 % of 51 are 9.18.
        let told = team.play("farm", "333", "f1", json!({})).await?;
        done(&told)?;
        assert_eq!((types(&told), &told["balances"]["333"]["ajo"]), (vec!["bomb"], &json!(92)));
        // With nothing to lose, it goes off all the same.
        team.set_aside("333", "ajo", 42).await?;
        let told = team.play("farm", "333", "f2", json!({})).await?;
        done(&told)?;
        assert_eq!(team.has("333", "ajo").await?, 92);
        until_counter(team, "bombs", 0).await?;
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vampire_bites_who_has_all_but_a_little_on_hold() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        team.mint("111", "ajo", 200).await?;
        team.mint("111", "ribbon", 1).await?;
        team.set_aside("111", "ajo", 150).await?;
        // A ribbon that is set aside keeps nobody away.
        team.set_aside("111", "ribbon", 1).await?;
        let key = team.key_for("farm", "111", json!({}), |would: &Value| would["draws"]["vampire.appear"] == 0).await?;
        let told = team.play("farm", "111", &key, json!({})).await?;
        assert_eq!(told["also"][0], json!({"play": "vampire", "status": "done"}));
        let p = told["draws"]["vampire.p"].as_i64().context("p was drawn")?;
        assert_eq!(
            (types(&told)[..2].to_vec(), &told["balances"]["111"]["ajo"]),
            (vec!["farm", "vampire"], &json!(201 - (51 * p + 99) / 100))
        );
        assert_eq!(team.has("111", "ribbon").await?, 1);
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_discombobulated_loses_at_most_what_is_not_on_hold() -> Result<()> {
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        for owner in ["111", "222"] {
            team.mint(owner, "ajo", 1000).await?;
        }
        team.set_aside("222", "ajo", 900).await?;
        // The least offer is by what the target has, not by what can be taken.
        let short = team.play("discombobulate", "111", "low", json!({"to": "222", "offer": 349})).await?;
        assert_eq!((&short["code"], &short["with"]["least"]), (&json!("offer"), &json!(350)));
        let told = team.play("discombobulate", "111", "high", json!({"to": "222", "offer": 350})).await?;
        done(&told)?;
        assert_eq!((&told["return"]["damage"], &told["balances"]), (&json!(100), &json!({"111": {"ajo": 650}, "222": {"ajo": 900}})));
        team.audited().await?;
        Ok(())
    })
    .await
}
