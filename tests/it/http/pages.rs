//! Lists come in pages, and the pages together are the whole.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::site::{Caller, Site};

/// The ids of all pages of `limit` each, and how many pages there were.
async fn walk(caller: &Caller, limit: usize) -> Result<(Vec<String>, usize)> {
    let (mut ids, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = caller.get(&format!("/v1/rules?limit={limit}{cursor}")).await?.expect(200)?;
        let items = page["items"].as_array().context("a list")?;
        ensure!(items.len() <= limit, "{} items are more than {limit}", items.len());
        ids.extend(items.iter().filter_map(|rule| rule["id"].as_str()).map(str::to_owned));
        pages += 1;
        ensure!(pages < 10_000, "the pages do not end");
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok((ids, pages)),
        }
    }
}

/// Rules of one subject each, of which a server keeps nothing in memory: a thousand of everyone's would be slow to make.
async fn fill(caller: &Caller, ids: std::ops::Range<usize>) -> Result<Vec<String>> {
    let ids: Vec<String> = ids.map(|n| format!("r{n:04}")).collect();
    for id in &ids {
        caller.put(&format!("/v1/rules/{id}"), &json!({"action": "a", "subject": id, "limit": 1, "per": "1s"})).await?.expect(201)?;
    }
    Ok(ids)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_any_size_give_each_rule_once_in_order() -> Result<()> {
    let site = Site::start().await?;
    let empty = site.admin.get("/v1/rules").await?.expect(200)?;
    assert_eq!(empty, json!({"items": [], "next": null}));
    let ids = fill(&site.admin, 0..7).await?;
    for (limit, pages) in [(1, 7), (2, 4), (6, 2), (7, 1), (8, 1), (1_000, 1)] {
        assert_eq!(walk(&site.admin, limit).await?, (ids.clone(), pages), "in pages of {limit}");
    }
    // What is deleted meanwhile is missed, and nothing else is.
    let page = site.admin.get("/v1/rules?limit=2").await?.expect(200)?;
    for gone in ["r0001", "r0002"] {
        site.admin.delete(&format!("/v1/rules/{gone}")).await?.expect(204)?;
    }
    let next = site.admin.get(&format!("/v1/rules?limit=2&cursor={}", page["next"].as_str().context("a cursor")?)).await?.expect(200)?;
    assert_eq!((&next["items"][0]["id"], &next["items"][1]["id"]), (&json!("r0003"), &json!("r0004")));
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_page_does_not_hide_what_comes_after_it() -> Result<()> {
    let site = Site::start().await?;
    let ids = fill(&site.admin, 0..1_001).await?;
    for limit in [999, 1_000] {
        let (walked, _) = walk(&site.admin, limit).await?;
        ensure!(walked == ids, "in pages of {limit}, {} of {} rules are found", walked.len(), ids.len());
    }
    let unasked = site.admin.get("/v1/rules").await?.expect(200)?;
    ensure!(unasked["items"].as_array().is_some_and(|items| items.len() == 100) && unasked["next"].is_string());
    site.server.shutdown().await;
    Ok(())
}
