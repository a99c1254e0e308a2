//! The catalog on all three databases, and what a server makes of it: two servers on one, and one without it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hermod_catalog::exercise::{exercise, exercise_outage};
use hermod_tests::server::{MariaDb, Postgres};
use hermod_tests::unique;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::outage::served::Served;
use crate::outage::until;

/// The promise: a change is seen by all servers within a second.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_passes() -> Result<()> {
    let folder = tempfile::tempdir()?;
    exercise(&format!("sqlite:{}/catalog.db", folder.path().display())).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_passes() -> Result<()> {
    exercise(&Postgres::shared()?.database(&unique("catalog"))?).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_passes() -> Result<()> {
    exercise(&MariaDb::shared()?.database(&unique("catalog"))?).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_may_go_and_come_back() -> Result<()> {
    let mut postgres = Postgres::start()?;
    let url = postgres.database("catalog")?;
    let server = std::cell::RefCell::new(&mut postgres);
    exercise_outage(
        &url,
        async || server.borrow_mut().stop().expect("it stops"),
        async || server.borrow_mut().restart().expect("it starts"),
    )
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_may_go_and_come_back() -> Result<()> {
    let mut mariadb = MariaDb::start()?;
    let url = mariadb.database("catalog")?;
    let server = std::cell::RefCell::new(&mut mariadb);
    exercise_outage(
        &url,
        async || server.borrow_mut().stop().expect("it stops"),
        async || server.borrow_mut().restart().expect("it starts"),
    )
    .await;
    Ok(())
}

/// The limits that a check was judged by, and whether they were all there are.
async fn judged_by(served: &Served, subject: &str) -> Result<(Vec<u64>, bool)> {
    let told = served.check(subject, "post").await?;
    ensure!(told.status == 200, "{told:?}");
    let body = told.json()?;
    let limits = body["rules"].as_array().into_iter().flatten().filter_map(|rule| rule["limit"].as_u64()).collect();
    Ok((limits, body["degraded"] == true))
}

fn rule(limit: u64, subject: Option<&str>) -> Value {
    let mut rule = json!({"action": "post", "limit": limit, "per": "1h"});
    if let Some(subject) = subject {
        rule["subject"] = json!(subject);
    }
    rule
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_changed_on_one_server_is_applied_by_the_other_within_a_second() -> Result<()> {
    let url = Postgres::shared()?.database(&unique("catalog"))?;
    let (a, b) = (Served::start(|config| config.catalog = url.clone()).await?, Served::start(|config| config.catalog = url.clone()).await?);
    let applied = async |on: &Served, subject: &str, limit: u64| {
        let what = format!("{subject} to be held to {limit}");
        until(SEEN_WITHIN, &what, async || judged_by(on, subject).await.is_ok_and(|judged| judged == (vec![limit], false))).await
    };
    a.put_rule("all", &rule(5, None)).await?;
    applied(&b, "bot", 5).await?;
    b.put_rule("all", &rule(6, None)).await?;
    applied(&a, "bot", 6).await?;
    // Both know by now that "vip" has no rule of its own; one is made, changed and deleted.
    applied(&b, "vip", 6).await?;
    a.put_rule("vip", &rule(50, Some("vip"))).await?;
    applied(&a, "vip", 50).await?;
    applied(&b, "vip", 50).await?;
    b.put_rule("vip", &rule(60, Some("vip"))).await?;
    applied(&a, "vip", 60).await?;
    applied(&a, "bot", 6).await?;
    // Another subject that is known to have none, in a space where some have.
    applied(&a, "agent", 6).await?;
    b.put_rule("agent", &rule(70, Some("agent"))).await?;
    applied(&a, "agent", 70).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_goes_on_without_its_catalog_and_finds_it_again() -> Result<()> {
    let mut postgres = Postgres::start()?;
    let url = postgres.database("catalog")?;
    let served = Arc::new(Served::start(|config| config.catalog = url).await?);
    served.put_rule("all", &rule(5, None)).await?;
    served.put_rule("vip", &rule(50, Some("vip"))).await?;
    served.put_rule("agent", &rule(70, Some("agent"))).await?;
    assert_eq!(judged_by(&served, "vip").await?, (vec![50], false));
    assert_eq!(judged_by(&served, "bot").await?, (vec![5], false));

    postgres.stop()?;
    // At once, before anybody noticed, and afterwards.
    let (limits, is_degraded) = judged_by(&served, "agent").await?;
    assert_eq!((limits, is_degraded), (vec![5], true));
    until(Duration::from_secs(4), "the loss to be noticed", async || !served.is_ready().await).await?;
    let ready = served.get("/readyz").await?;
    assert_eq!((ready.status, &ready.json()?["store"], &ready.json()?["catalog"]), (503, &json!("ok"), &json!("unavailable")));
    assert_eq!(served.get("/healthz").await?.status, 200);
    for (subject, judged) in [("vip", (vec![50], false)), ("bot", (vec![5], false)), ("agent", (vec![5], true)), ("new", (vec![5], true))] {
        assert_eq!(judged_by(&served, subject).await?, judged, "{subject}");
        let taken = served.post("/v1/limit/acquire", &json!({"subject": subject, "action": "run"})).await?.json()?;
        assert_eq!((&taken["allowed"], &taken["degraded"]), (&json!(true), &json!(judged.1)), "{taken}");
    }
    // Many who want to write are all told so, soon, and none of them is left waiting for the others.
    let began = Instant::now();
    let writing: Vec<_> = (0..8)
        .map(|n| {
            let served = Arc::clone(&served);
            tokio::spawn(async move {
                served.post("/v1/rules", &json!({"id": format!("w{n}"), "action": format!("a{n}"), "limit": 1, "per": "1s"})).await
            })
        })
        .collect();
    for told in writing {
        told.await??.expect_problem(503, "catalog_unavailable")?;
    }
    served.get("/v1/rules").await?.expect_problem(503, "catalog_unavailable")?;
    ensure!(began.elapsed() < Duration::from_secs(5), "took {:?}", began.elapsed());

    postgres.restart()?;
    until(Duration::from_secs(4), "the return to be noticed", async || served.is_ready().await).await?;
    assert_eq!(judged_by(&served, "agent").await?, (vec![70], false));
    served.put_rule("all", &rule(6, None)).await?;
    assert_eq!(judged_by(&served, "new").await?, (vec![6], false));
    Ok(())
}

/// A connection to the database that is left in a transaction would see everything as it was then, deleted keys too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_while_something_is_saved_leaves_no_transaction_open() -> Result<()> {
    let (database, name) = (MariaDb::shared()?, unique("catalog"));
    let url = database.database(&name)?;
    let (a, b) = (Served::start(|config| config.catalog = url.clone()).await?, Served::start(|config| config.catalog = url.clone()).await?);
    for n in 0..200 {
        let body = json!({"action": "other", "limit": n + 1, "per": "1h"}).to_string();
        let mut stream = TcpStream::connect(a.address()).await?;
        let head = format!("PUT /v1/rules/left-{n} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await?;
        // At another moment each time.
        tokio::time::sleep(Duration::from_micros(n * 20)).await;
        drop(stream);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let open = format!(
        "SELECT COUNT(*) FROM information_schema.innodb_trx JOIN information_schema.processlist ON id = trx_mysql_thread_id WHERE db = '{name}'"
    );
    until(SEEN_WITHIN * 5, "all transactions to end", async || database.run(&open).is_ok_and(|count| count.trim() == "0")).await?;
    for limit in 1_000..1_010 {
        b.put_rule("left", &rule(limit, None)).await?;
        let is_seen = async || judged_by(&a, "bot").await.is_ok_and(|judged| judged == (vec![limit], false));
        until(SEEN_WITHIN, "the change to be seen", is_seen).await?;
    }
    a.shutdown().await;
    b.shutdown().await;
    Ok(())
}
