//! How often the vampire comes, what it takes and for how long it is remembered, level by level.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{advance, seconds};
use crate::http::site::Caller;
use crate::queue::on_every_store;
use crate::realm::play::{apply_ajo, done, refused};

/// A level; the highest of 0..99 at which its vampire appears; from how many to how many percent it takes; and the seconds after
/// which its next level is forgotten.
const LEVELS: [(i64, i64, [i64; 2], u64); 8] = [
    (1, 1, [1, 2], 600),
    (2, 6, [2, 4], 1_200),
    (3, 9, [3, 6], 1_800),
    (10, 20, [12, 20], 6_000),
    (12, 21, [14, 24], 7_200),
    (13, 22, [15, 26], 7_200),
    (25, 27, [30, 40], 7_200),
    (69, 36, [30, 40], 7_200),
];

impl Caller {
    /// A key under which a farm draws this for the vampire.
    async fn appearing(&self, owner: &str, appear: i64) -> Result<String> {
        self.key_for("farm", owner, json!({}), |would| would["draws"]["vampire.appear"] == appear).await
    }

    /// What became of the vampire of a farm under this key, without farming.
    async fn would_bite(&self, owner: &str, key: &str) -> Result<Value> {
        let would = self.ask("plays/farm", &json!({"by": owner, "key": key, "dry_run": true})).await?;
        Ok(would["also"][0].clone())
    }

    async fn level(&self, owner: &str) -> Result<Value> {
        Ok(self.get(&format!("/v1/realms/ajo/accounts/{owner}")).await?.expect(200)?["counters"]["vampire"].clone())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vampire_grows_until_nobody_can_farm_any_more() -> Result<()> {
    let nobody = json!({"play": "vampire", "status": "refused", "code": "none"});
    on_every_store(async |_, team| {
        apply_ajo(team)?;
        for level in 1..=69 {
            let known = LEVELS.iter().find(|(one, ..)| *one == level);
            let key = match known {
                Some((_, chance, ..)) if [2, 10].contains(&level) => {
                    let key = team.appearing("111", chance + 1).await?;
                    assert_eq!(team.would_bite("111", &key).await?, nobody, "level {level}");
                    team.appearing("111", *chance).await?
                }
                _ => team.key_for("farm", "111", json!({}), |would| would["also"][0]["status"] == "done").await?,
            };
            let told = team.play("farm", "111", &key, json!({})).await?;
            assert_eq!(told["also"][0], json!({"play": "vampire", "status": "done"}), "level {level}");
            let Some((_, chance, taken, lasts)) = known else { continue };
            let appear = told["draws"]["vampire.appear"].as_i64().context("whether it appears was drawn")?;
            assert!(appear <= *chance, "level {level}: {told}");
            let next = team.level("111").await?;
            assert_eq!((&next["value"], seconds(&next["until"])?), (&json!(level + 1), *lasts));
            let last = team.get("/v1/realms/ajo/ledger?limit=1").await?.expect(200)?["items"][0].clone();
            let p = last["draws"].as_array().into_iter().flatten().find(|drawn| drawn["name"] == "vampire.p").context("p was drawn")?;
            assert_eq!((&p["from"], &p["to"]), (&json!(taken[0]), &json!(taken[1])), "level {level}");
        }
        refused(&team.play("farm", "111", "tired", json!({})).await?, "err")?;
        // One level less, and they can; from the first again, with chopsticks.
        team.mint("111", "cross", 1).await?;
        done(&team.play("use-cross", "111", "c1", json!({})).await?)?;
        let next = team.level("111").await?;
        assert_eq!((&next["value"], seconds(&next["until"])?), (&json!(69), 7_200), "it is forgotten no later for that");
        done(&team.play("farm", "111", "again", json!({})).await?)?;
        team.mint("111", "chopsticks", 1).await?;
        done(&team.play("use-chopsticks", "111", "c2", json!({})).await?)?;
        assert_eq!(team.level("111").await?, Value::Null);
        for (play, key) in [("use-cross", "c3"), ("use-chopsticks", "c4")] {
            refused(&team.play(play, "111", key, json!({})).await?, "err")?;
        }
        // Below the first there is none.
        team.mint("222", "cross", 1).await?;
        done(&team.play("use-cross", "222", "c5", json!({})).await?)?;
        assert_eq!(team.level("222").await?["value"], 1);
        team.audited().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_curse_brings_the_vampire_for_two_hours() -> Result<()> {
    let bites = json!({"play": "vampire", "status": "done"});
    on_every_store(async |site, team| {
        apply_ajo(team)?;
        team.mint("111", "wand", 1).await?;
        done(&team.play("curse", "111", "curse", json!({"to": "222"})).await?)?;
        // 1 of the first level, and 12 points.
        let (last, none) = (team.appearing("222", 13).await?, team.appearing("222", 14).await?);
        assert_eq!(team.would_bite("222", &last).await?, bites);
        assert_eq!(team.would_bite("222", &none).await?["code"], "none");
        advance(site, 7_200 - 1);
        assert_eq!(team.would_bite("222", &last).await?, bites);
        advance(site, 1);
        assert_eq!(team.would_bite("222", &last).await?["code"], "none");
        Ok(())
    })
    .await
}
