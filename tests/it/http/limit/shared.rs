//! One counter for all subjects, in another partition than the subject's own.

use anyhow::{Result, ensure};
use hermod_core::{Partitions, SpaceId, key};
use hermod_server::Config;
use hermod_tests::server::Cluster;
use hermod_tests::unique;
use serde_json::{Value, json};

use super::super::site::{Ask, Caller, Site};
use super::on_every_store;
use crate::outage::cluster;

/// A limit for each, and one for all together.
async fn rules(team: &Caller, own: u64, all: u64) -> Result<()> {
    team.rule("own", "act", own, "1day", json!({})).await?;
    team.rule("all", "act", all, "1day", json!({"scope": "global"})).await?;
    Ok(())
}

fn ask(subject: &str, fields: Value) -> Value {
    let mut body = json!({"subject": subject, "action": "act"});
    body.as_object_mut().into_iter().zip(fields.as_object()).for_each(|(body, fields)| body.extend(fields.clone()));
    body
}

async fn used(team: &Caller, subject: &str) -> Result<(u64, u64)> {
    Ok((team.left(subject, "act", "own").await?, team.left(subject, "act", "all").await?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_subjects_share_one_counter() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("all", "act", 3, "1day", json!({"scope": "global"})).await?;
        for (subject, left) in [("a", 2), ("b", 1), ("c", 0)] {
            let answer = team.check(subject, "act", 1).await?;
            assert_eq!((&answer["allowed"], &answer["rules"][0]["remaining"]), (&json!(true), &json!(left)), "{answer}");
            assert_eq!(answer["rules"].as_array().map(Vec::len), Some(1));
        }
        let refused = team.check("d", "act", 1).await?;
        assert_eq!((&refused["allowed"], &refused["bound_by"]), (&json!(false), &json!("all")));
        ensure!(refused["retry_at"].is_string() && refused["durability"].is_null(), "{refused}");
        team.limit("refund", ask("a", json!({}))).await?;
        assert_eq!(team.check("d", "act", 1).await?["allowed"], true, "what one gives back another may take");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_subjects_own_rule_refuses_the_shared_one_is_not_charged() -> Result<()> {
    on_every_store(async |_, team| {
        rules(team, 2, 5).await?;
        let allowed = team.check("a", "act", 2).await?;
        assert_eq!(allowed["rules"].as_array().map(Vec::len), Some(2), "both are told: {allowed}");
        for cost in [1, 1, 2, 3] {
            let refused = team.check("a", "act", cost).await?;
            assert_eq!((&refused["allowed"], &refused["bound_by"], &refused["durability"]), (&json!(false), &json!("own"), &Value::Null));
            let all = refused["rules"].as_array().into_iter().flatten().find(|rule| rule["id"] == "all");
            assert_eq!(all.map(|rule| &rule["remaining"]), Some(&json!(3)), "it is shown as it is: {refused}");
        }
        assert_eq!(used(team, "a").await?, (0, 3));
        // Nor the other way round.
        team.check("b", "act", 2).await?;
        assert_eq!(used(team, "c").await?, (2, 1));
        let refused = team.check("c", "act", 2).await?;
        assert_eq!((&refused["allowed"], &refused["bound_by"]), (&json!(false), &json!("all")));
        assert_eq!(used(team, "c").await?, (2, 1), "neither was charged");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_check_is_answered_as_then_though_the_shared_counter_is_used_up() -> Result<()> {
    on_every_store(async |_, team| {
        rules(team, 5, 2).await?;
        let first = team.limit_once("check", ask("a", json!({"cost": 2})), "k").await?;
        assert_eq!((&first["allowed"], &first["replayed"]), (&json!(true), &json!(false)));
        assert_eq!(team.check("b", "act", 1).await?["allowed"], false, "nothing is left for anybody");
        let again = team.limit_once("check", ask("a", json!({"cost": 2})), "k").await?;
        assert_eq!((&again["allowed"], &again["replayed"]), (&json!(true), &json!(true)), "{again}");
        assert_eq!(used(team, "a").await?, (3, 0), "charged once");
        Ok(())
    })
    .await
}

/// Asked twice with one key, the shared counter is changed once; with that key for something else, not at all.
async fn once(operation: &str, body: Value, left: (u64, u64)) -> Result<()> {
    on_every_store(async |_, team| {
        rules(team, 10, 20).await?;
        team.check("a", "act", 5).await?;
        for replayed in [false, true, true] {
            let answer = team.limit_once(operation, body.clone(), "k").await?;
            assert_eq!((&answer["allowed"], &answer["replayed"]), (&json!(true), &json!(replayed)), "{answer}");
            assert_eq!(used(team, "a").await?, left, "replayed: {replayed}");
        }
        let mut other = body.clone();
        other["cost"] = json!(3);
        let other = Ask::json("POST", format!("/v1/limit/{operation}"), &other).once("k");
        team.send(&other).await?.problem(422, "idempotency_conflict", Some("Idempotency-Key"))?;
        assert_eq!(used(team, "a").await?, left, "after a conflict");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_check_charges_the_shared_counter_once() -> Result<()> {
    once("check", ask("a", json!({"cost": 2})), (3, 13)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_refund_gives_back_to_the_shared_counter_once() -> Result<()> {
    once("refund", ask("a", json!({"cost": 2})), (7, 17)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_force_charges_the_shared_counter_once() -> Result<()> {
    once("check", ask("a", json!({"cost": 2, "force": true})), (3, 13)).await
}

/// As when the shard of a subject is gone: what all share has refused already, and that stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_stands_when_the_subject_s_own_part_fails() -> Result<()> {
    let (nodes, space) = (Cluster::shared()?, unique("limit"));
    let site = Site::start_with(|config| Config { store: nodes.url(), ..config }).await?;
    let team = site.admin.space(&space).await?;
    rules(&team, 5, 1).await?;
    ensure!(team.check("ann", "act", 1).await?["allowed"] == true);
    // A key of another kind fails as a store does that is not there.
    let broken = key::limit(&Partitions::DEFAULT.place(&SpaceId::new(&space)?, "ann"), "ann");
    let spoil: [&[&str]; 2] = [&["DEL", &broken], &["LPUSH", &broken, "not a string"]];
    let broke = nodes.primaries()?.into_iter().any(|port| spoil.iter().all(|command| cluster::ask::<()>(port, command).is_ok()));
    ensure!(broke, "nobody has {broken}");
    let refused = team.check("ann", "act", 1).await?;
    ensure!(refused["allowed"] == false, "{refused}");
    site.server.shutdown().await;
    Ok(())
}
