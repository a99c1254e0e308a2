//! What a server says about itself: to those who run it, to those who build on it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::site::{Ask, Caller, Site, rule};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_says_that_it_lives_and_that_it_is_ready() -> Result<()> {
    let site = Site::start().await?;
    let nobody = site.admin.with_key(None);
    assert_eq!(nobody.get("/healthz").await?.expect(200)?, json!({"status": "ok"}));
    assert_eq!(nobody.get("/readyz").await?.expect(200)?, json!({"status": "ok", "store": "ok", "catalog": "ok"}));
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(nobody.send(&Ask::new("HEAD", path, "")).await?.status, 200, "{path} is asked with HEAD by some");
    }
    let front = nobody.get("/").await?;
    ensure!(front.status == 307 && front.header("location") == "/docs/", "the front page leads to the documentation");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_keeps_its_id_if_it_is_fit_to_be_logged() -> Result<()> {
    let site = Site::start().await?;
    let longest = "x".repeat(128);
    for id in ["trace-1", "7", "a/b:c=d,e", &longest] {
        for path in ["/healthz", "/v1/nothing", "/v1/rules", "/docs/"] {
            assert_eq!(site.admin.send(&Ask::new("GET", path, "").header("x-request-id", id)).await?.header("x-request-id"), id);
        }
    }
    let mut made = std::collections::BTreeSet::new();
    let unfit: [&[u8]; 6] = [b"", b"two words", "schlüssel".as_bytes(), b"\xff", b"a\tb", &[b'x'; 129]];
    for id in unfit {
        let reply = site.admin.send(&Ask::new("GET", "/v1/nothing", "").header("x-request-id", id)).await?;
        reply.problem(404, "not_found", None)?;
        ensure!(reply.header("x-request-id").as_bytes() != id && reply.header("x-request-id").len() == 16, "{:?}", reply.headers);
        made.insert(reply.header("x-request-id").to_owned());
        made.insert(site.admin.get("/healthz").await?.header("x-request-id").to_owned());
    }
    assert_eq!(made.len(), 2 * unfit.len(), "no two requests have one id");
    site.server.shutdown().await;
    Ok(())
}

/// The samples of a text in Prometheus' format, read as strictly as Prometheus does.
fn samples(text: &str) -> Result<BTreeMap<String, f64>> {
    let is_name =
        |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let mut kinds = BTreeMap::new();
    let mut samples = BTreeMap::new();
    ensure!(text.ends_with('\n'), "the last line is cut off");
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix("# ") {
            match comment.splitn(3, ' ').collect::<Vec<_>>()[..] {
                ["HELP", name, _] => ensure!(is_name(name), "{line}"),
                ["TYPE", name, "counter" | "gauge" | "histogram"] => ensure!(kinds.insert(name, ()).is_none(), "{line} comes twice"),
                _ => bail!("{line} is no comment"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').context("a value")?;
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        ensure!(is_name(name) && labels.ends_with('}'), "{line}");
        let family =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).filter(|family| kinds.contains_key(family));
        ensure!(kinds.contains_key(family.unwrap_or(name)), "{name} has no type");
        for label in labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty()) {
            let (label, text) = label.split_once("=\"").with_context(|| format!("a label in {line}"))?;
            ensure!(is_name(label) && !text.trim_end_matches('"').contains(['"', '\\', '\n']), "{line}");
        }
        ensure!(samples.insert(series.to_owned(), value.parse()?).is_none(), "{series} comes twice");
    }
    Ok(samples)
}

pub(crate) async fn metrics(caller: &Caller) -> Result<(String, BTreeMap<String, f64>)> {
    let reply = caller.get("/metrics").await?;
    ensure!(reply.status == 200 && reply.header("content-type").starts_with("text/plain; version=0.0.4"), "{:?}", reply.headers);
    let text = reply.text();
    let samples = samples(&text)?;
    Ok((text, samples))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count_what_happened_and_name_nobody() -> Result<()> {
    let site = Site::start().await?;
    let team = site.admin.space("team-zeta").await?;
    team.put("/v1/rules/for-all", &rule("action-zeta", 2, "1day")).await?.expect(201)?;
    let mut own = rule("action-zeta", 2, "1day");
    (own["subject"], own["name"]) = (json!("subject-zeta"), json!("more"));
    team.put("/v1/rules/rule-zeta", &own).await?.expect(201)?;
    for _ in 0..3 {
        team.check("subject-zeta", "action-zeta", 1).await?;
    }
    team.get("/v1/rules/none-zeta").await?.problem(404, "not_found", None)?;
    team.get("/path-zeta").await?.problem(404, "not_found", None)?;
    metrics(&team).await?;
    let (_, before) = metrics(&team).await?;
    for n in 0..100 {
        for _ in 0..3 {
            team.check(&format!("subject-zeta-{n}"), "action-zeta", 1).await?;
        }
        team.get(&format!("/v1/rules/none-zeta-{n}")).await?.problem(404, "not_found", None)?;
        team.get(&format!("/path-zeta-{n}")).await?.problem(404, "not_found", None)?;
    }
    let (text, after) = metrics(&team).await?;
    let grew = |series: &str| after.get(series).copied().unwrap_or(f64::NAN) - before.get(series).copied().unwrap_or(f64::NAN);
    for (series, by) in [
        (r#"hermod_limit_checks_total{outcome="allowed"}"#, 200.0),
        (r#"hermod_limit_checks_total{outcome="refused"}"#, 100.0),
        (r#"hermod_limit_decisions_total{policy="default",rule="for-all",outcome="allowed"}"#, 200.0),
        (r#"hermod_limit_decisions_total{policy="default",rule="for-all",outcome="refused"}"#, 100.0),
        (r#"hermod_http_requests_total{route="/v1/limit/check",status="200"}"#, 300.0),
        (r#"hermod_http_requests_total{route="/v1/rules/{id}",status="404"}"#, 100.0),
        (r#"hermod_http_requests_total{route="other",status="404"}"#, 100.0),
        (r#"hermod_http_request_seconds_count{route="/v1/limit/check"}"#, 300.0),
        ("hermod_store_records", 100.0),
    ] {
        ensure!((grew(series) - by).abs() < 0.5, "{series} grew by {} and not by {by}:\n{text}", grew(series));
    }
    assert_eq!((after.get("hermod_store_ready"), after.get("hermod_catalog_ready")), (Some(&1.0), Some(&1.0)));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "no series is made for a subject");
    for name in ["zeta", "hk_", team.key_text().unwrap_or("hk_")] {
        ensure!(!text.contains(name), "{name} is in the metrics:\n{text}");
    }
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documentation_is_served_whole_and_by_nobody_else() -> Result<()> {
    let site = Site::start().await?;
    let nobody = site.admin.with_key(None);
    assert_eq!(nobody.get("/docs").await?.header("location"), "/docs/");
    let page = nobody.get("/docs/").await?;
    ensure!(page.status == 200 && page.header("content-type").starts_with("text/html"), "{:?}", page.headers);
    let html = page.text();
    let quoted = |attribute: &str| -> Vec<String> {
        html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    };
    let assets: Vec<String> = quoted("src=\"").into_iter().chain(quoted("href=\"")).collect();
    ensure!(assets.len() >= 5, "{assets:?}");
    for asset in &assets {
        ensure!(!asset.contains("//"), "{asset} is elsewhere");
        let path = if asset.starts_with('/') { asset.clone() } else { format!("/docs/{}", asset.trim_start_matches("./")) };
        let served = nobody.get(&path).await?;
        ensure!(served.status == 200 && !served.body.is_empty(), "{path} gives {}", served.status);
    }
    let start = nobody.get("/docs/swagger-initializer.js").await?.text();
    ensure!(start.contains(r#""url": "/openapi.json""#) && !start.contains("http"), "{start}");
    ensure!(start.contains(r#""validatorUrl": "none""#), "a stranger's server would be asked about the document: {start}");
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_type_of_a_problem_leads_to_its_explanation() -> Result<()> {
    let site = Site::start().await?;
    let nobody = site.admin.with_key(None);
    let problem = nobody.get("/v1/rules").await?.problem(401, "unauthorized", None)?;
    let (path, anchor) = problem["type"].as_str().and_then(|link| link.split_once('#')).context("a link")?;
    let page = nobody.get(path).await?;
    ensure!(page.status == 200 && page.header("content-type").starts_with("text/html"), "{path} gives {}", page.status);
    ensure!(page.text().contains(&format!("id=\"{anchor}\"")), "{anchor} is not explained");
    for code in hermod_server::Code::ALL {
        ensure!(page.text().contains(&format!("id=\"{code}\"")) && page.text().contains(code.title()), "{code} is not explained");
    }
    site.server.shutdown().await;
    Ok(())
}
