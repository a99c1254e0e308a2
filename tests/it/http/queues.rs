//! Queues and schedules over HTTP: what is saved comes back, what is wrong is named, what is secret stays so.

use anyhow::{Context, Result, ensure};
use hermod_tests::server::Hermod;
use serde_json::{Value, json};

use super::site::{Ask, Caller, Site};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const OLD_MASK: &str = "whsec_…LaSw";
const NEW_MASK: &str = "whsec_…b7oD";

fn webhook(fields: &Value) -> Value {
    let mut webhook = json!({"url": "https://example.com/hook"});
    for (name, value) in fields.as_object().into_iter().flatten() {
        webhook[name] = value.clone();
    }
    json!({"push": {"webhook": webhook}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_saved_with_its_defaults_and_can_be_sent_back_as_it_is() -> Result<()> {
    let site = Site::start().await?;
    let made = site.admin.put("/v1/queues/mail", &json!({})).await?.expect(201)?;
    let expected = json!({"queue": "mail", "mode": "shared", "order": "recipient", "lease": "30s", "worker_ttl": "15s", "idle_after": "1day", "max_attempts": 5,
        "backoff": {"first": "1s", "factor": 2.0, "max": "10m", "jitter": 0.2}, "on_exhausted": "dead", "on_failure": "block",
        "overdue": "deliver", "max_payload": 262144, "push": null, "version": 1});
    assert_eq!(made, expected);
    let full = json!({"mode": "shared", "order": "total", "lease": "1m 30s", "worker_ttl": "1h", "idle_after": "2h", "max_attempts": 100,
        "backoff": {"first": "250ms", "factor": 1.125, "max": "30days", "jitter": 1}, "on_exhausted": "drop", "on_failure": "skip",
        "overdue": {"drop_after": "1h"}, "catch_up_per_second": 7, "max_payload": 1,
        "push": {"webhook": {"url": "http://[::1]:8080/x?y=z", "secrets": [NEW, OLD], "concurrency": 64, "timeout": "30s"}},
        "disabled": "410 Gone"});
    site.admin.put("/v1/queues/full", &full).await?.expect(201)?;
    for path in ["/v1/queues/mail", "/v1/queues/full"] {
        let read = site.admin.get(path).await?.expect(200)?;
        let mut again = site.admin.put(path, &read).await?.expect(200)?;
        again["version"] = read["version"].clone();
        assert_eq!(again, read);
    }
    let mut read = site.admin.get("/v1/queues/full").await?.expect(200)?;
    assert_eq!(read["push"]["webhook"]["secrets"], json!([NEW_MASK, OLD_MASK]));
    for (name, value) in full.as_object().context("an object")?.iter().filter(|(name, _)| !matches!(name.as_str(), "push" | "backoff")) {
        assert_eq!(read[name].take(), *value, "{name}");
    }
    let log = site.admin.put("/v1/queues/log", &json!({"queue": "log", "push": {"log": true}})).await?.expect(201)?;
    assert_eq!(log["push"], json!({"log": true}));

    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().cloned().unwrap_or_default();
        items.iter().filter_map(|queue| queue["queue"].as_str().map(str::to_owned)).collect()
    };
    let first = site.admin.get("/v1/queues?limit=2").await?.expect(200)?;
    assert_eq!((names(&first), &first["next"]), (vec!["full".to_owned(), "log".to_owned()], &json!("log")));
    let rest = site.admin.get("/v1/queues?limit=2&cursor=log").await?.expect(200)?;
    assert_eq!((names(&rest), &rest["next"]), (vec!["mail".to_owned()], &Value::Null));
    site.admin.get("/v1/queues?limit=0").await?.problem(400, "invalid_field", Some("limit"))?;

    site.admin.delete("/v1/queues/mail").await?.expect(204)?;
    site.admin.delete("/v1/queues/mail").await?.problem(404, "not_found", None)?;
    site.admin.get("/v1/queues/mail").await?.problem(404, "not_found", None)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_queue_is_named_and_nothing_is_saved() -> Result<()> {
    let site = Site::start().await?;
    let backoff = |fields: Value| json!({"backoff": fields});
    let rows: Vec<(Value, &str, &str)> = vec![
        (json!({"queue": "other"}), "invalid_field", "queue"),
        (json!({"mode": "lonely"}), "invalid_field", "mode"),
        (json!({"mode": 1}), "invalid_field", "mode"),
        (json!({"order": "none"}), "invalid_field", "order"),
        (json!({"lease": "99ms"}), "invalid_field", "lease"),
        (json!({"lease": "13h"}), "invalid_field", "lease"),
        (json!({"lease": "soon"}), "invalid_field", "lease"),
        (json!({"lease": 30}), "invalid_field", "lease"),
        (json!({"worker_ttl": "61m"}), "invalid_field", "worker_ttl"),
        (json!({"max_attempts": 0}), "invalid_field", "max_attempts"),
        (json!({"max_attempts": 101}), "invalid_field", "max_attempts"),
        (json!({"max_attempts": "5"}), "invalid_field", "max_attempts"),
        (backoff(json!({"factor": 0.5})), "invalid_field", "backoff.factor"),
        (backoff(json!({"factor": 100.001})), "invalid_field", "backoff.factor"),
        (backoff(json!({"factor": 1.0001})), "invalid_field", "backoff.factor"),
        (backoff(json!({"factor": "2"})), "invalid_field", "backoff.factor"),
        (backoff(json!({"factor": -2})), "invalid_field", "backoff.factor"),
        (backoff(json!({"jitter": 1.1})), "invalid_field", "backoff.jitter"),
        (backoff(json!({"first": "1h"})), "invalid_field", "backoff.first"),
        (backoff(json!({"first": "1us"})), "invalid_field", "backoff.first"),
        (backoff(json!({"max": "31days"})), "invalid_field", "backoff.max"),
        (backoff(json!({"least": 1})), "unknown_field", "least"),
        (backoff(json!(2)), "invalid_field", "backoff"),
        (json!({"on_exhausted": "cry"}), "invalid_field", "on_exhausted"),
        (json!({"on_failure": "cry"}), "invalid_field", "on_failure"),
        (json!({"overdue": "drop"}), "invalid_field", "overdue"),
        (json!({"overdue": 1}), "invalid_field", "overdue"),
        (json!({"overdue": {"drop_after": "0s"}}), "invalid_field", "overdue.drop_after"),
        (json!({"catch_up_per_second": 0}), "invalid_field", "catch_up_per_second"),
        (json!({"max_payload": 262_145}), "invalid_field", "max_payload"),
        (json!({"push": {}}), "invalid_field", "push"),
        (json!({"push": {"log": false}}), "invalid_field", "push"),
        (json!({"push": {"log": true, "webhook": {"url": "https://h"}}}), "invalid_field", "push"),
        (json!({"push": {"webhook": {}}}), "missing_field", "url"),
        (webhook(&json!({"url": "ftp://h"})), "invalid_field", "push.webhook.url"),
        (webhook(&json!({"url": "https://me:pass@h"})), "invalid_field", "push.webhook.url"),
        (webhook(&json!({"secret": "s3cret"})), "invalid_field", "push.webhook.secret"),
        (webhook(&json!({"secret": "whsec_c2hvcnQ="})), "invalid_field", "push.webhook.secret"),
        (webhook(&json!({"secret": "whsec_…none"})), "invalid_field", "push.webhook.secret"),
        (webhook(&json!({"secrets": []})), "invalid_field", "push.webhook.secrets"),
        (webhook(&json!({"secrets": [OLD, NEW, OLD]})), "invalid_field", "push.webhook.secrets"),
        (webhook(&json!({"secrets": ["x"]})), "invalid_field", "push.webhook.secrets"),
        (webhook(&json!({"secret": OLD, "secrets": [OLD]})), "invalid_field", "push.webhook.secret"),
        (webhook(&json!({"concurrency": 65})), "invalid_field", "push.webhook.concurrency"),
        (webhook(&json!({"timeout": "31s"})), "invalid_field", "push.webhook.timeout"),
        (webhook(&json!({"timeout": "500ms"})), "invalid_field", "push.webhook.timeout"),
        (json!({"disabled": "why"}), "invalid_field", "disabled"),
        (json!({"leese": "1m"}), "unknown_field", "leese"),
    ];
    for (body, code, field) in rows {
        let problem = site.admin.put("/v1/queues/q", &body).await?.problem(400, code, Some(field)).with_context(|| body.to_string())?;
        ensure!(!problem.to_string().contains("s3cret") && !problem.to_string().contains(OLD), "{problem}");
    }
    // A time-out as long as the lease would let two hold one delivery.
    let mut body = webhook(&json!({"timeout": "5s"}));
    body["lease"] = json!("5s");
    site.admin.put("/v1/queues/q", &body).await?.problem(400, "invalid_field", Some("push.webhook.timeout"))?;
    for path in ["/v1/queues/a%20b", "/v1/queues/%C3%A4", &format!("/v1/queues/{}", "a".repeat(65))] {
        site.admin.put(path, &json!({})).await?.problem(400, "invalid_field", Some("queue"))?;
        site.admin.get(path).await?.problem(400, "invalid_field", Some("queue"))?;
    }
    assert_eq!(site.admin.get("/v1/queues").await?.expect(200)?["items"], json!([]));
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_made_up_secret_is_shown_once_and_given_ones_never() -> Result<()> {
    let site = Site::start().await?;
    let ask = Ask::json("PUT", "/v1/queues/hook", &webhook(&json!({}))).once("k");
    let made = site.admin.send(&ask).await?.expect(201)?;
    let secret = made["push"]["webhook"]["secret"].as_str().context("the first answer shows it")?.to_owned();
    ensure!(secret.starts_with("whsec_") && secret.len() == 6 + 44, "{made}");
    let mask = format!("whsec_…{}", &secret[secret.len() - 4..]);
    let replayed = site.admin.send(&ask).await?.expect(201)?;
    assert_eq!((&replayed["push"]["webhook"]["secret"], &replayed["version"]), (&json!(mask), &json!(1)), "a replay has the mask");
    site.admin.send(&Ask::json("PUT", "/v1/queues/hook", &json!({})).once("k")).await?.problem(
        422,
        "idempotency_conflict",
        Some("Idempotency-Key"),
    )?;
    // Saved again without one it stays, which its mask tells; then it is changed in two steps.
    for (given, shown) in [
        (json!({}), json!({"secret": mask})),
        (json!({"timeout": "5s"}), json!({"secret": mask})),
        (json!({"secret": mask}), json!({"secret": mask})),
        (json!({"secrets": [NEW, mask]}), json!({"secrets": [NEW_MASK, mask]})),
        (json!({}), json!({"secrets": [NEW_MASK, mask]})),
        (json!({"secret": NEW}), json!({"secret": NEW_MASK})),
        (json!({"secret": OLD}), json!({"secret": OLD_MASK})),
    ] {
        let saved = site.admin.put("/v1/queues/hook", &webhook(&given)).await?.expect(200)?;
        let read = site.admin.get("/v1/queues/hook").await?.expect(200)?;
        let listed = site.admin.get("/v1/queues").await?.expect(200)?;
        for seen in [&saved, &read, &listed["items"][0]] {
            for name in ["secret", "secrets"] {
                assert_eq!(seen["push"]["webhook"].get(name), shown.get(name), "{given}");
            }
        }
        for text in [saved.to_string(), read.to_string(), listed.to_string()] {
            ensure!(![secret.as_str(), OLD, NEW].iter().any(|secret| text.contains(secret)), "{text}");
        }
    }
    site.admin.put("/v1/queues/hook", &webhook(&json!({"secret": mask}))).await?.problem(
        400,
        "invalid_field",
        Some("push.webhook.secret"),
    )?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_of_a_webhook_reaches_the_log() -> Result<()> {
    let mut hermod = Hermod::serve(["--log", "trace"])?;
    let admin = Caller::new(hermod.url()?, Some(&hermod.admin_key()?));
    let made = admin.put("/v1/queues/made", &webhook(&json!({}))).await?.expect(201)?;
    let secret = made["push"]["webhook"]["secret"].as_str().context("a secret")?.to_owned();
    admin.put("/v1/queues/given", &webhook(&json!({"secrets": [NEW, OLD]}))).await?.expect(201)?;
    let bad = format!("{OLD}!");
    admin.put("/v1/queues/bad", &webhook(&json!({"secret": bad}))).await?.problem(400, "invalid_field", Some("push.webhook.secret"))?;
    admin.get("/v1/queues").await?.expect(200)?;
    ensure!(hermod.terminate()?.success());
    let log = hermod.lines();
    ensure!(log.iter().any(|line| line.contains("answered")), "the log is as talkative as was asked for");
    for secret in [secret.as_str(), OLD, NEW] {
        let hidden = secret.trim_start_matches("whsec_");
        ensure!(!log.iter().any(|line| line.contains(hidden)), "a secret is in the log");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_space_sees_and_changes_nothing() -> Result<()> {
    let site = Site::start().await?;
    let (red, blue) = (site.admin.space("red").await?, site.admin.space("blue").await?);
    red.put("/v1/queues/mail", &webhook(&json!({"secret": OLD}))).await?.expect(201)?;
    red.put("/v1/queues/mail/schedules/daily", &json!({"cron": "@daily"})).await?.expect(201)?;
    let state = async || -> Result<Vec<Value>> {
        Ok(vec![red.get("/v1/queues").await?.expect(200)?, red.get("/v1/queues/mail/schedules/daily").await?.expect(200)?])
    };
    let before = state().await?;
    assert_eq!(blue.get("/v1/queues").await?.expect(200)?["items"], json!([]));
    for path in ["/v1/queues/mail", "/v1/queues/mail/schedules/daily"] {
        blue.get(path).await?.problem(404, "not_found", None)?;
        blue.delete(path).await?.problem(404, "not_found", None)?;
    }
    blue.get("/v1/queues/mail/schedules").await?.problem(404, "not_found", None)?;
    blue.put("/v1/queues/mail/schedules/daily", &json!({"cron": "@daily"})).await?.problem(404, "not_found", None)?;
    // A mask of another space's secret is worth nothing.
    blue.put("/v1/queues/mail", &webhook(&json!({"secret": OLD_MASK}))).await?.problem(
        400,
        "invalid_field",
        Some("push.webhook.secret"),
    )?;
    blue.put("/v1/queues/mail", &json!({})).await?.expect(201)?;
    assert_eq!(blue.get("/v1/queues/mail/schedules").await?.expect(200)?["items"], json!([]));
    blue.delete("/v1/queues/mail").await?.expect(204)?;
    assert_eq!(state().await?, before);
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_tells_its_next_runs() -> Result<()> {
    let site = Site::start().await?;
    site.admin.put("/v1/queues/mail", &json!({})).await?.expect(201)?;
    let path = "/v1/queues/mail/schedules/digest";
    let body = json!({"cron": "0 9 * * MON-FRI", "zone": "Europe/Berlin", "payload": {"z": 1, "a": [1.50, 12345678901234567890u64]},
        "to": "ann", "tags": ["user:42"]});
    let made = site.admin.put(path, &body).await?.expect(201)?;
    for (name, value) in body.as_object().context("an object")? {
        assert_eq!(made[name], *value, "{name}");
    }
    assert_eq!((&made["dst"], &made["enabled"], &made["version"]), (&json!("shift"), &json!(true), &json!(1)));
    // The clock stands at 2017-07-14T02:40:00Z, a Friday.
    assert_eq!(made["next"], json!(["2017-07-14T07:00:00.000Z", "2017-07-17T07:00:00.000Z", "2017-07-18T07:00:00.000Z"]));
    let read = site.admin.get(path).await?.expect(200)?;
    assert_eq!(read, made);
    site.at_ms(2 * 86_400_000);
    assert_eq!(site.admin.get(path).await?.expect(200)?["next"][0], "2017-07-17T07:00:00.000Z");
    let mut off = read;
    off["enabled"] = json!(false);
    let off = site.admin.put(path, &off).await?.expect(200)?;
    assert_eq!((&off["next"], &off["version"]), (&json!([]), &json!(2)), "what was read can be sent back");
    let raw = Ask::new("PUT", "/v1/queues/mail/schedules/raw", r#"{"cron": "@hourly", "payload": {"b":1.10, "a":99999999999999999999}}"#);
    ensure!(
        site.admin.send(&raw).await?.text().contains(r#""payload":{"b":1.10, "a":99999999999999999999}"#),
        "a payload stays as written"
    );
    let listed = site.admin.get("/v1/queues/mail/schedules?limit=1").await?.expect(200)?;
    assert_eq!((&listed["items"][0]["name"], &listed["next"]), (&json!("digest"), &json!("digest")));
    let listed = site.admin.get("/v1/queues/mail/schedules?cursor=digest").await?.expect(200)?;
    assert_eq!((&listed["items"][0]["name"], &listed["next"]), (&json!("raw"), &Value::Null));
    let delete = Ask::new("DELETE", path, "").once("d");
    for _ in 0..2 {
        site.admin.send(&delete).await?.expect(204)?;
    }
    site.admin.delete(path).await?.problem(404, "not_found", None)?;
    site.admin.delete("/v1/queues/mail").await?.expect(204)?;
    site.admin.get("/v1/queues/mail/schedules/raw").await?.problem(404, "not_found", None)?;
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_schedule_is_named() -> Result<()> {
    let site = Site::start().await?;
    site.admin.put("/v1/queues/mail", &json!({"max_payload": 1000})).await?.expect(201)?;
    let path = "/v1/queues/mail/schedules/s";
    let mut deep = json!(null);
    (0..126).for_each(|_| deep = json!([deep]));
    for (body, code, field) in [
        (json!({}), "missing_field", "cron"),
        (json!({"cron": "0 25 * * *"}), "invalid_field", "cron"),
        (json!({"cron": "0 0 30 2 *"}), "invalid_field", "cron"),
        (json!({"cron": ",, * * * *"}), "invalid_field", "cron"),
        (json!({"cron": "x".repeat(250) + " * * * *"}), "invalid_field", "cron"),
        (json!({"cron": "@daily", "zone": "Mars/Olympus"}), "invalid_field", "zone"),
        (json!({"cron": "@daily", "zone": "+02:00"}), "invalid_field", "zone"),
        (json!({"cron": "@daily", "dst": "double"}), "invalid_field", "dst"),
        (json!({"cron": "@daily", "payload": "x".repeat(999)}), "invalid_field", "payload"),
        (json!({"cron": "@daily", "to": ""}), "invalid_field", "to"),
        (json!({"cron": "@daily", "tags": [""]}), "invalid_field", "tags"),
        (json!({"cron": "@daily", "tags": "a"}), "invalid_field", "tags"),
        (json!({"cron": "@daily", "enabled": "yes"}), "invalid_field", "enabled"),
        (json!({"cron": "@daily", "name": "t"}), "invalid_field", "name"),
        (json!({"cron": "@daily", "queue": "t"}), "invalid_field", "queue"),
        (json!({"cron": "@daily", "every": "1h"}), "unknown_field", "every"),
    ] {
        site.admin.put(path, &body).await?.problem(400, code, Some(field)).with_context(|| body.to_string())?;
    }
    let positioned = site.admin.put(path, &json!({"cron": "0 25 * * *"})).await?.problem(400, "invalid_field", Some("cron"))?;
    ensure!(positioned["detail"].as_str().is_some_and(|detail| detail.contains("character 3")), "{positioned}");
    site.admin.put("/v1/queues/none/schedules/s", &json!({"cron": "@daily"})).await?.problem(404, "not_found", None)?;
    site.admin.put("/v1/queues/mail/schedules/a%20b", &json!({"cron": "@daily"})).await?.problem(400, "invalid_field", Some("name"))?;
    let nested = format!(r#"{{"cron": "@daily", "payload": {}1{}}}"#, "[".repeat(200), "]".repeat(200));
    site.admin.send(&Ask::new("PUT", path, nested)).await?.problem(400, "invalid_field", Some("payload"))?;
    assert_eq!(site.admin.get("/v1/queues/mail/schedules").await?.expect(200)?["items"], json!([]));
    site.admin.put(path, &json!({"cron": "@daily", "payload": deep})).await?.expect(201)?;
    site.server.shutdown().await;
    Ok(())
}
