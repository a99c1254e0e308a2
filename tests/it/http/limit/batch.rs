//! Many checks in one request, each by itself.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::super::site::Caller;
use super::on_every_store;

async fn batch(team: &Caller, checks: Value) -> Result<Vec<Value>> {
    let count = checks.as_array().map(Vec::len);
    let answered = team.limit("batch", json!({"checks": checks})).await?;
    let answers = answered["answers"].as_array().context("a list")?.clone();
    ensure!(Some(answers.len()) == count, "one answer for each: {answered}");
    Ok(answers)
}

fn check(subject: &str, fields: Value) -> Value {
    let mut body = json!({"subject": subject, "action": "act"});
    body.as_object_mut().into_iter().zip(fields.as_object()).for_each(|(body, fields)| body.extend(fields.clone()));
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_answered_in_its_place_and_a_bad_one_harms_nobody() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("r", "act", 2, "1day", json!({})).await?;
        let answers = batch(
            team,
            json!([
                check("bot", json!({})),
                check("", json!({})),
                check("other", json!({"cost": 2})),
                check("seen", json!({"peek": true})),
                check("bot", json!({"cost": 0})),
                check("bot", json!({})),
                check("bot", json!({})),
                check("third", json!({"cost": 3})),
                check("fourth", json!({"key": "two words"})),
                {"subject": "bot", "action": "free", "cost": 7},
            ]),
        )
        .await?;
        let left = |answer: &Value| answer["rules"][0]["remaining"].clone();
        for (nth, field) in [(1, "subject"), (4, "cost"), (8, "key")] {
            let problem = &answers[nth]["problem"];
            assert_eq!(
                (&problem["code"], &problem["field"], &problem["retryable"]),
                (&json!("invalid_field"), &json!(field), &json!(false))
            );
            ensure!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{problem}");
            assert!(answers[nth].get("allowed").is_none(), "no answer is given to it: {}", answers[nth]);
        }
        assert_eq!((&answers[2]["allowed"], left(&answers[2])), (&json!(true), json!(0)));
        assert_eq!((&answers[3]["allowed"], left(&answers[3])), (&json!(true), json!(2)));
        // Which of three for one that has two is refused is left to the store.
        let (allowed, refused): (Vec<&Value>, Vec<_>) =
            [0, 5, 6].map(|nth| &answers[nth]).into_iter().partition(|one| one["allowed"] == true);
        assert_eq!((allowed.len(), refused.len(), &refused[0]["bound_by"]), (2, 1, &json!("r")));
        assert_eq!(answers[7]["never"], true);
        assert_eq!((&answers[9]["allowed"], &answers[9]["rules"]), (&json!(true), &json!([])));
        assert_eq!((team.left("bot", "act", "r").await?, team.left("other", "act", "r").await?), (0, 0));
        assert_eq!((team.left("third", "act", "r").await?, team.left("seen", "act", "r").await?), (2, 2));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_sent_twice_charges_once_what_has_a_key() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("r", "act", 10, "1day", json!({})).await?;
        let checks = || json!([check("bot", json!({"key": "k1"})), check("bot", json!({"key": "k2", "cost": 2})), check("bot", json!({}))]);
        let first = batch(team, checks()).await?;
        assert!(first.iter().all(|answer| answer["replayed"] == false), "{first:?}");
        assert_eq!(team.left("bot", "act", "r").await?, 6);
        let again = batch(team, checks()).await?;
        assert_eq!([&again[0]["replayed"], &again[1]["replayed"], &again[2]["replayed"]], [true, true, false]);
        assert_eq!([&again[0]["rules"], &again[1]["rules"]], [&first[0]["rules"], &first[1]["rules"]], "what was answered then");
        assert_eq!(team.left("bot", "act", "r").await?, 5, "only the one without a key was charged again");
        let conflict = batch(team, json!([check("bot", json!({"key": "k1", "cost": 3})), check("bot", json!({"key": "k3"}))])).await?;
        assert_eq!((&conflict[0]["problem"]["code"], &conflict[1]["allowed"]), (&json!("idempotency_conflict"), &json!(true)));
        assert_eq!(team.left("bot", "act", "r").await?, 4);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_checks_of_one_counter_admit_exactly_what_fits() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("r", "act", 300, "1day", json!({})).await?;
        team.rule("all", "act", 700, "1day", json!({"scope": "global"})).await?;
        let subjects = ["a", "b", "c", "d"];
        let checks: Vec<Value> = (0..1_000).map(|n| check(subjects[n % 4], json!({}))).collect();
        let answers = batch(team, Value::Array(checks)).await?;
        let allowed = answers.iter().filter(|answer| answer["allowed"] == true).count();
        ensure!(allowed == 700, "{allowed} of 1000 were allowed, where all share 700");
        assert_eq!(team.left("a", "act", "all").await?, 0);
        Ok(())
    })
    .await
}
