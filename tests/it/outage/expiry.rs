//! Everything that is kept on Redis goes away by itself when it means nothing any more.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use hermod_core::Micros;
use hermod_core::limit::Meter;
use hermod_core::limit::meter::Bucket;
use hermod_tests::server::Redis;
use serde_json::{Value, json};

use super::charger::Charger;
use super::served::Served;

/// A key is kept this much longer than it means something, in milliseconds: put off seldom, by more than it must be.
const SLACK_MS: std::ops::RangeInclusive<i64> = 9_000..=20_500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_without_expiry() -> Result<()> {
    let redis = Redis::start()?;
    let charger = Charger::open(&redis.url(), |_| {}).await?;
    let second = 1_000_000;
    let meters = [(3, second, 3), (100, 60 * second, 1), (7, 3_600 * second, 50), (1_000_000_000, 86_400 * second, 1_000_000_000)];
    for (number, (limit, per, burst)) in (0..).zip(meters) {
        let charger = charger.under(Meter::Bucket(Bucket::new(limit, Micros::saturating(per), burst, 0)?))?;
        for n in 0..50 {
            // Some are refused, some are replayed, some are conflicts; nothing of that may leave a key behind.
            let (subject, key) = (format!("bot-{number}-{}", n % 10), format!("key-{}", n % 7));
            charger.charge(&subject).await?;
            charger.charge_once(&subject, Some(&key)).await?;
        }
    }
    let kept = all_kept(&redis)?;
    kept.iter().try_for_each(|kept| kept.ensure_ends_with(SLACK_MS))?;
    ensure!(kept.len() > 80, "only {} keys were there long enough to be looked at", kept.len());
    ensure!(redis.ask::<i64>(&["PTTL", hermod_core::key::META])? == -1, "what the data was created with must stay");
    Ok(())
}

/// A key that is kept for some time.
#[derive(Debug)]
#[expect(dead_code, reason = "what it holds is shown where something is wrong")]
struct Kept {
    key: String,
    /// What it holds, as far as anything in it means something the longest.
    text: String,
    ttl_ms: i64,
    /// How much longer it is kept than it means something.
    slack_ms: i64,
}

impl Kept {
    /// What is behind the partition in its name, as `limit`.
    fn kind(&self) -> &str {
        self.key.split_once("}:").and_then(|(_, rest)| rest.split(':').next()).unwrap_or_default()
    }

    fn ensure_ends_with(&self, slack_ms: impl std::ops::RangeBounds<i64>) -> Result<()> {
        ensure!(self.ttl_ms > 0, "it stays for ever: {self:?}");
        ensure!(slack_ms.contains(&self.slack_ms), "it is kept for too long, or not for long enough: {self:?}");
        Ok(())
    }
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// All keys but the one that stays. What stands beside a string counts with it, as both end together.
fn all_kept(redis: &Redis) -> Result<Vec<Kept>> {
    let keys: Vec<String> = redis.ask(&["KEYS", "*"])?;
    ensure!(keys.iter().all(|key| key.starts_with("hm:")), "{keys:?}");
    let mut connection = redis.connection()?;
    let mut kept = Vec::new();
    for key in keys.into_iter().filter(|key| key != hermod_core::key::META) {
        // Only a counter's key has something beside it.
        let here = key.replacen("}:more:", "}:limit:", 1);
        let beside = if here.contains("}:limit:") { hermod_core::key::more(&here) } else { "nothing".to_owned() };
        let mut asked = redis::pipe();
        asked.atomic().cmd("PTTL").arg(&key).cmd("GET").arg(&here).cmd("HGETALL").arg(&beside).cmd("TIME");
        let (ttl_ms, value, fields, (s, us)): (i64, Option<Vec<u8>>, Fields, (i64, i64)) = asked.query(&mut connection)?;
        let mut texts: Vec<_> = value.iter().flat_map(|value| hermod_core::key::shown_string(&here, value)).collect();
        texts.extend(fields.iter().flat_map(|(field, value)| hermod_core::key::shown(&beside, field, value, false)));
        let ends = texts.into_iter().map(|(_, text)| Ok((end_of(&key, &text)?, text))).collect::<Result<Vec<_>>>()?;
        // The quick ones may be gone by now.
        let Some((until, text)) = ends.into_iter().max() else { continue };
        let slack_ms = ttl_ms - (until - s * 1_000_000 - us) / 1_000;
        kept.push(Kept { key, text, ttl_ms, slack_ms });
    }
    Ok(kept)
}

/// From when on what is shown so means nothing.
fn end_of(key: &str, text: &str) -> Result<i64> {
    let word = |text: &str, nth: usize| -> Result<i64> {
        let word = text.split(' ').nth(nth).with_context(|| format!("{key} = {text} has too few words"))?;
        word.parse().with_context(|| format!("{word} in {key} = {text}"))
    };
    // Of several the one that ends last.
    let latest = |nth: usize| -> Result<i64> {
        let ends = text.split(", ").map(|one| word(one, nth)).collect::<Result<Vec<_>>>()?;
        ends.into_iter().max().context("there is one")
    };
    match key.split_once("}:").map_or("", |(_, rest)| rest).split(':').next() {
        Some("limit" | "more") => word(text, 4),
        Some("once") => word(text, 0),
        Some("lease") => latest(2),
        // A reservation is remembered for an hour after it has expired.
        Some("reserve") => Ok(latest(3)? + 3_600_000_000),
        other => bail!("{other:?} is no kind: {key} = {text}"),
    }
}

/// A rule of each kind, alone on an action that is called so, and all together.
async fn every_kind(served: &Served) -> Result<Vec<String>> {
    let kinds = [
        ("bucket", json!({"algorithm": "token_bucket"})),
        ("queue", json!({"algorithm": "leaky_bucket", "queue": 3})),
        ("ring", json!({"per": "3s"})),
        ("log", json!({"algorithm": "sliding_log"})),
        ("fixed", json!({"algorithm": "fixed_window"})),
        ("calendar", json!({"per": "day@Europe/Berlin"})),
        ("approximate", json!({"approximate": true})),
        ("all-share", json!({"algorithm": "sliding_log", "scope": "global"})),
    ];
    for (kind, fields) in &kinds {
        for (action, limit) in [(*kind, 5), ("all", 15)] {
            let mut rule = json!({"name": kind, "action": action, "limit": limit, "per": "1h"});
            rule.as_object_mut().into_iter().zip(fields.as_object()).for_each(|(rule, fields)| rule.extend(fields.clone()));
            served.put_rule(&format!("{kind}-{action}"), &rule).await?;
        }
        let lease = json!({"name": "leases", "action": kind, "limit": 2, "per": "2h", "algorithm": "concurrency"});
        served.put_rule(&format!("{kind}-leases"), &lease).await?;
    }
    let all = json!({"name": "all-leases", "action": "all", "limit": 2, "per": "30s", "algorithm": "concurrency", "scope": "global"});
    served.put_rule("all-leases", &all).await?;
    Ok(kinds.iter().map(|(kind, _)| (*kind).to_owned()).chain(["all".to_owned()]).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_of_any_kind_without_expiry() -> Result<()> {
    let redis = Redis::start()?;
    let url = redis.url();
    let served = Served::start(|config| config.store = url).await?;
    let actions = every_kind(&served).await?;
    let limit = async |verb: &str, body: Value, key: Option<&str>| -> Result<Value> {
        let told = served.post_once(&format!("/v1/limit/{verb}"), &body, key).await?;
        ensure!(told.status == 200, "{verb} {body}: {told:?}");
        told.json()
    };
    for action in &actions {
        let ask = |subject: &str, more: Value| {
            let mut ask = json!({"subject": format!("{subject}-{action}"), "action": action});
            ask.as_object_mut().into_iter().zip(more.as_object()).for_each(|(ask, more)| ask.extend(more.clone()));
            ask
        };
        // Some are refused, some replayed.
        for n in 0..12 {
            limit("check", ask("bot", json!({})), (n % 4 == 0).then_some("k")).await?;
        }
        limit("check", ask("bot", json!({"force": true, "cost": 2})), None).await?;
        limit("check", ask("new", json!({"peek": true})), None).await?;
        limit("check", ask("new", json!({"cost": 1_000})), None).await?;
        for (n, ttl) in ["10s", "20m"].iter().enumerate() {
            limit("reserve", ask("agent", json!({"cost": 1, "ttl": ttl})), Some(&format!("r{n}"))).await?;
        }
        for (n, ttl) in ["10s", "40m", "1h"].iter().enumerate() {
            limit("acquire", ask("agent", json!({"lease": format!("l{n}"), "ttl": ttl})), Some(&format!("l{n}"))).await?;
        }
        // What gives back: what is left means something for a shorter time than before.
        limit("check", ask("back", json!({"cost": 3})), None).await?;
        limit("refund", ask("back", json!({"cost": 2})), Some("refund")).await?;
        for (verb, more) in [("commit", json!({"actual": 0})), ("cancel", json!({}))] {
            let reserved = limit("reserve", ask("back", json!({"cost": 1})), None).await?;
            let mut body = json!({"reservation": reserved["reservation"]});
            body.as_object_mut().into_iter().zip(more.as_object()).for_each(|(body, more)| body.extend(more.clone()));
            if !body["reservation"].is_null() {
                limit(verb, body, Some(verb)).await?;
            }
        }
        for lease in ["kept", "left"] {
            limit("acquire", ask("back", json!({"lease": lease, "ttl": "1h"})), None).await?;
        }
        let of = |lease: &str| json!({"subject": format!("back-{action}"), "lease": lease});
        limit("release", of("left"), Some("release")).await?;
        let mut shorter = of("kept");
        shorter["ttl"] = json!("5s");
        limit("renew", shorter, Some("renew")).await?;
        limit("check", ask("gone", json!({})), None).await?;
        limit("reset", ask("gone", json!({})), Some("reset")).await?;
    }
    let mut seen = BTreeMap::new();
    for kept in all_kept(&redis)? {
        // What all share is given back, too.
        let gives_back = kept.key.contains("back-") || kept.key.ends_with(':');
        let slack_ms = if gives_back && matches!(kept.kind(), "limit" | "more") { 9_000..=90_000_000 } else { SLACK_MS };
        kept.ensure_ends_with(slack_ms)?;
        *seen.entry(kept.kind().to_owned()).or_insert(0) += 1;
    }
    for kind in ["limit", "more", "lease", "reserve", "once"] {
        ensure!(seen.get(kind).is_some_and(|count| *count > 0), "no key is about {kind}: {seen:?}");
    }
    served.shutdown().await;
    Ok(())
}

/// Of a subject with many counters some stand in a hash beside its string. Both end together, also where one that stands in the other lasts
/// longer than all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_beside_a_string_ends_with_it() -> Result<()> {
    let redis = Redis::start()?;
    let charger = Charger::open(&redis.url(), |_| {}).await?;
    let charge = async |number: u64, hours: u64| -> Result<(i64, i64)> {
        let meter = Meter::Bucket(Bucket::new(1, Micros::saturating(hours * 3_600_000_000), 100, 0)?);
        charger.under_rule(&format!("r{number}"), meter)?.charge("crowd").await?;
        let here = charger.key("crowd")?;
        let beside = hermod_core::key::more(&here);
        Ok((redis.ask(&["PTTL", &here])?, redis.ask(&["PTTL", &beside])?))
    };
    for number in 0..16 {
        let (here, beside) = charge(number, 1).await?;
        ensure!(here > 0 && beside == -2, "the string has {here} ms, what stands beside it {beside}");
    }
    let is_kept_alike = |here: i64, beside: i64| {
        ensure!(here > 0 && (here - beside).abs() < 21_000, "the string has {here} ms, what stands beside it {beside}");
        Ok(())
    };
    for (number, hours) in [(16, 1), (17, 1), (16, 3), (0, 1), (17, 5), (3, 7), (17, 1)] {
        let (here, beside) = charge(number, hours).await?;
        is_kept_alike(here, beside)?;
    }
    // The string ended a little earlier: what it left behind is not taken up again, nor is its end.
    let here = charger.key("crowd")?;
    redis.ask::<()>(&["DEL", &here])?;
    redis.ask::<()>(&["PEXPIRE", &hermod_core::key::more(&here), "9000"])?;
    for number in 0..16 {
        charge(number, 1).await?;
    }
    let (here, beside) = charge(17, 1).await?;
    is_kept_alike(here, beside)
}
