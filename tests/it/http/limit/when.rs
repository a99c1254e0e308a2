//! Conditions on what else is known of a call.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::site::Site;
use super::on_every_store;

fn with(attributes: Value) -> Value {
    json!({"subject": "bot", "action": "act", "attributes": attributes})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_with_a_condition_wins_over_one_without() -> Result<()> {
    on_every_store(async |_, team| {
        team.rule("plain", "act", 10, "1day", json!({"name": "daily"})).await?;
        team.rule("free", "act", 2, "1day", json!({"name": "daily", "when": "attributes.plan == 'free'"})).await?;
        for (attributes, id, left) in [
            (json!({"plan": "free"}), "free", 1),
            (json!({"plan": "free", "more": [1, {"a": null}]}), "free", 0),
            (json!({"plan": "paid"}), "plain", 9),
            // What is not there is not free.
            (json!({}), "plain", 8),
            (json!({"plan": null}), "plain", 7),
            (json!({"plan": ["free"]}), "plain", 6),
        ] {
            let answer = team.limit("check", with(attributes.clone())).await?;
            assert_eq!(answer["rules"].as_array().map(Vec::len), Some(1), "of one name one counts: {answer}");
            let rule = &answer["rules"][0];
            assert_eq!((&rule["id"], &rule["remaining"]), (&json!(id), &json!(left)), "{attributes}");
        }
        let refused = team.limit("check", with(json!({"plan": "free"}))).await?;
        assert_eq!((&refused["allowed"], &refused["rules"][0]["id"]), (&json!(false), &json!("free")));
        // Given back to the rule that was charged, which the same attributes find.
        assert_eq!(team.limit("refund", with(json!({"plan": "free"}))).await?["rules"][0]["id"], "free");
        assert_eq!(team.limit("check", with(json!({"plan": "free"}))).await?["allowed"], true);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_sees_the_whole_call() -> Result<()> {
    let site = Site::start().await?;
    let team = &site.admin;
    team.rule("big", "files/*", 1, "1day", json!({"when": "cost >= 100 && action.endsWith('put') && subject.startsWith('u:')"})).await?;
    team.rule("roles", "files/*", 1, "1day", json!({"when": "'guest' in attributes.roles && attributes.age < 18"})).await?;
    let ids = async |body: Value| {
        let answer = team.limit("check", body).await?;
        let ids = answer["rules"].as_array().into_iter().flatten().filter_map(|rule| rule["id"].as_str().map(str::to_owned));
        anyhow::Ok(ids.collect::<Vec<_>>())
    };
    let call = |subject: &str, action: &str, cost: u64| json!({"subject": subject, "action": action, "cost": cost, "peek": true});
    assert_eq!(ids(call("u:1", "files/put", 100)).await?, ["big"]);
    for (subject, action, cost) in [("u:1", "files/put", 99), ("u:1", "files/get", 100), ("v:1", "files/put", 100)] {
        assert_eq!(ids(call(subject, action, cost)).await?, [""; 0], "{subject} {action} {cost}");
    }
    let guest = |attributes: Value| json!({"subject": "u:1", "action": "files/get", "attributes": attributes});
    assert_eq!(ids(guest(json!({"roles": ["guest"], "age": 17}))).await?, ["roles"]);
    for attributes in [json!({"roles": ["guest"]}), json!({"roles": "guest", "age": 17}), json!({"roles": ["guest"], "age": "17"})] {
        assert_eq!(ids(guest(attributes.clone())).await?, [""; 0], "{attributes}");
    }
    site.server.shutdown().await;
    Ok(())
}
