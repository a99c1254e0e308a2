//! Books that were tampered with: `audit` says what is wrong, and of whom.

use anyhow::{Context, Result, ensure};
use hermod_server::Config;
use hermod_tests::server::Redis;
use serde_json::{Value, json};

use super::play::{apply_ajo, done};
use crate::http::site::{Caller, Site};
use crate::queue::on_every_store;

const LARGEST: u64 = (1 << 53) - 1;
/// More than are read at once, and more than a store keeps in one piece.
const OWNERS: usize = 512;

/// The store of a realm as who has access to it sees it.
struct Store {
    connection: redis::Connection,
    base: String,
}

impl Store {
    fn of(redis: &Redis, space: &str) -> Result<Store> {
        let cells: Vec<String> = redis.ask(&["KEYS", &format!("hm:{{{space}/*}}:realm:ajo:cells")])?;
        let base = cells.first().and_then(|key| key.strip_suffix("cells")).context("the realm has accounts")?.to_owned();
        Ok(Store { connection: redis.connection()?, base })
    }

    fn run<T: redis::FromRedisValue>(&mut self, name: &str, part: &str, args: &[&[u8]]) -> Result<T> {
        let mut command = redis::cmd(name);
        command.arg(format!("{}{part}", self.base));
        for arg in args {
            command.arg(*arg);
        }
        Ok(command.query(&mut self.connection)?)
    }

    /// What is stored of an account: what there is, the commit that changed it last, its holds.
    fn account(&mut self, name: &str) -> Result<(i64, u64, Vec<u8>)> {
        let record: Vec<u8> = self.run("HGET", "cells", &[name.as_bytes()])?;
        let (value, rest) = record.split_first_chunk::<8>().context("a value")?;
        let (since, liens) = rest.split_first_chunk::<8>().context("a commit")?;
        Ok((i64::from_le_bytes(*value), u64::from_le_bytes(*since), liens.to_vec()))
    }

    fn set(&mut self, name: &str, value: i64, since: u64, liens: &[u8]) -> Result<()> {
        let record = [&value.to_le_bytes()[..], &since.to_le_bytes(), liens].concat();
        self.run("HSET", "cells", &[name.as_bytes(), &record])
    }

    fn show(&mut self, owner: &str, since: u64, score: &str) -> Result<()> {
        self.run("ZADD", "board:ajo", &[score.as_bytes(), &row(owner, since)])
    }

    /// Writes the ledger anew, each entry as `change` makes it.
    fn rewrite(&mut self, change: impl Fn(u64, Vec<u8>) -> Option<Vec<u8>>) -> Result<()> {
        let entries: Vec<(String, (String, Vec<u8>))> = self.run("XRANGE", "ledger", &[b"-", b"+"])?;
        self.run::<()>("DEL", "ledger", &[])?;
        for (id, (_, entry)) in entries {
            let seq = id.strip_prefix("0-").context("a number")?.parse()?;
            if let Some(entry) = change(seq, entry) {
                self.run::<()>("XADD", "ledger", &[id.as_bytes(), b"e", &entry])?;
            }
        }
        Ok(())
    }
}

/// The row of an owner on a board.
fn row(owner: &str, since: u64) -> Vec<u8> {
    [&(LARGEST - since).to_be_bytes()[..], owner.as_bytes()].concat()
}

/// A realm with many owners, a draw, and a hold on 10 of the 100 that 111 has.
async fn settle(team: &Caller) -> Result<String> {
    apply_ajo(team)?;
    for part in 0..OWNERS / 64 {
        let legs: Vec<Value> =
            (0..64).map(|n| json!({"from": "@mint", "to": format!("o{}", part * 64 + n), "asset": "herb", "qty": 1 + n % 20})).collect();
        done(&team.ask("commits", &json!({"key": format!("many-{part}"), "legs": legs})).await?)?;
    }
    team.mint("111", "ajo", 100).await?;
    team.mint("222", "ajo", 50).await?;
    done(&team.play("roulette", "111", "game", json!({"id": "game"})).await?)?;
    let legs = json!([{"from": "111", "to": "222", "asset": "ajo", "qty": 10}]);
    let held = team.ask("holds", &json!({"key": "held", "legs": legs, "in": "1h"})).await?;
    Ok(held["hold"].as_str().context("a hold")?.to_owned())
}

async fn faults(team: &Caller) -> Result<Vec<String>> {
    let audit = team.get("/v1/realms/ajo/audit").await?.expect(200)?;
    let faults: Vec<String> = serde_json::from_value(audit["faults"].clone())?;
    ensure!(audit["clean"] == faults.is_empty(), "{audit}");
    Ok(faults)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_there_is_is_compared() -> Result<()> {
    on_every_store(async |_, team| {
        let hold = settle(team).await?;
        let audit = team.audited().await?;
        // With what the realm itself has: two that mint, by what they minted.
        assert_eq!(audit["accounts"], json!(OWNERS + 2 + 2), "{audit}");
        done(&team.ask(&format!("holds/{hold}/capture"), &json!({"key": "c", "part": {"ajo": 4}})).await?)?;
        assert_eq!(faults(team).await?, [""; 0]);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_names_whatever_was_tampered_with() -> Result<()> {
    let redis = Redis::start()?;
    let site = Site::start_with(|config| Config { store: redis.url(), ..config }).await?;
    let team = site.admin.space("books").await?;
    let hold = settle(&team).await?;
    team.audited().await?;
    let mut store = Store::of(&redis, "books")?;
    let mark = format!("mark:{}", hold.replace("ho_", "h:"));
    let kept = ["cells", "board:ajo", "ledger", &mark].map(|part| anyhow::Ok((part, store.run::<Vec<u8>>("DUMP", part, &[])?)));
    let kept = kept.into_iter().collect::<Result<Vec<_>>>()?;
    let (value, since, liens) = store.account("ajo:111")?;
    ensure!(value == 100 && liens.len() == 24, "it has a hold");
    let (_, theirs, _) = store.account("ajo:222")?;

    type Tamper<'a> = Box<dyn Fn(&mut Store) -> Result<()> + 'a>;
    let rows: Vec<(Tamper<'_>, Vec<String>)> = vec![
        (
            Box::new(|store| store.set("ajo:111", 105, since, &liens)),
            vec![
                "all accounts of ajo add up to 5, and not to 0".into(),
                "111 has 105 of ajo, and 100 by the ledger".into(),
                "111 has 105 of ajo, and 100 on the board".into(),
            ],
        ),
        // What comes in here goes out there: the sum tells nothing.
        (
            Box::new(|store| {
                let (_, since, _) = store.account("herb:o1")?;
                store.set("herb:o1", 1, since, &[])?;
                store.set("herb:o2", 4, since, &[])
            }),
            vec!["o1 has 1 of herb, and 2 by the ledger".into(), "o2 has 4 of herb, and 3 by the ledger".into()],
        ),
        (
            Box::new(|store| store.set("herb:ghost", 7, 3, &[])),
            vec!["all accounts of herb add up to 7, and not to 0".into(), "ghost has 7 of herb, and 0 by the ledger".into()],
        ),
        (
            Box::new(|store| store.run("HDEL", "cells", &[b"herb:o260"])),
            vec!["all accounts of herb add up to -5, and not to 0".into(), "o260 has 0 of herb, and 5 by the ledger".into()],
        ),
        (
            Box::new(|store| store.run("HSET", "cells", &[b"herb:o5", b"x"])),
            vec!["the herb of o5 cannot be read; by the ledger there are 6".into()],
        ),
        (
            Box::new(|store| store.set("ajo:111", 100, since - 1, &liens)),
            vec![
                format!("the ajo of 111 was changed last by cm_{}, and by cm_{since} by the ledger", since - 1),
                "111 has 100 of ajo, and is not on the board with it".into(),
            ],
        ),
        (
            Box::new(|store| store.show("ghost", 1, "70")),
            vec![
                "3 owners are on the board of ajo, and 2 have any by the ledger".into(),
                "ghost is on the board of ajo with 70, and has 0 by the ledger".into(),
            ],
        ),
        (Box::new(|store| store.show("222", theirs, "51")), vec!["222 has 50 of ajo, and 51 on the board".into()]),
        (
            Box::new(|store| store.run("ZREM", "board:ajo", &[&row("222", theirs)])),
            vec![
                "1 owners are on the board of ajo, and 2 have any by the ledger".into(),
                "222 has 50 of ajo, and is not on the board with it".into(),
            ],
        ),
        // A hold that an account knows nothing of, and one that there is not.
        (
            Box::new(|store| store.set("ajo:111", 100, since, &[])),
            vec![format!("0 ajo of 111 are on hold by {hold}, and 10 by the hold itself")],
        ),
        (Box::new(|store| store.run("DEL", &mark, &[])), vec![format!("10 ajo of 111 are on hold by {hold}, and 0 by the hold itself")]),
        // The last entry but the hold is the game's; its last number is what was drawn.
        (
            Box::new(|store| {
                store.rewrite(|seq, mut entry| {
                    if seq == theirs + 1 {
                        let at = entry.len() - 8;
                        entry.get_mut(at..)?.copy_from_slice(&77_i64.to_le_bytes());
                    }
                    Some(entry)
                })
            }),
            vec![format!("cm_{} drew 77 as roulette.chamber, which it does not come to", theirs + 1)],
        ),
        (
            Box::new(|store| store.rewrite(|seq, entry| (seq != theirs + 1).then_some(entry))),
            vec![format!("cm_{} is not in the ledger", theirs + 1)],
        ),
    ];
    for (number, (tamper, named)) in rows.iter().enumerate() {
        tamper(&mut store)?;
        let mut found = faults(&team).await?;
        found.sort();
        let mut named = named.clone();
        named.sort();
        ensure!(found == named, "row {number}: {found:#?}\ninstead of {named:#?}");
        for (part, dump) in &kept {
            store.run::<()>("RESTORE", part, &[b"0", dump, b"REPLACE"])?;
        }
    }
    team.audited().await?;
    site.server.shutdown().await;
    Ok(())
}
