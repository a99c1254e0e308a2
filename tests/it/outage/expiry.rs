//! Everything that is kept on Redis goes away by itself when it means nothing any more.

use anyhow::{Context, Result, bail, ensure};
use hermod_core::Micros;
use hermod_core::limit::Meter;
use hermod_core::limit::meter::Bucket;
use hermod_tests::server::Redis;

use super::charger::Charger;

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
    let keys: Vec<String> = redis.ask(&["KEYS", "*"])?;
    ensure!(keys.len() > 100, "only {} keys", keys.len());
    ensure!(keys.iter().all(|key| key.starts_with("hm:")), "{keys:?}");
    let mut connection = redis.connection()?;
    let mut seen = 0;
    for key in keys.iter().filter(|key| *key != hermod_core::key::META) {
        let mut asked = redis::pipe();
        let is_counter = key.contains(":limit:");
        asked.atomic().cmd("PTTL").arg(key).cmd("GET").arg(key).cmd("TIME");
        let (ttl_ms, value, (s, us)): (i64, Option<Vec<u8>>, (i64, i64)) = asked.query(&mut connection)?;
        // The quick ones may be gone by now.
        let Some(value) = value else { continue };
        let shown = hermod_core::key::shown_string(key, &value);
        let [(_, value)] = shown.as_slice() else { bail!("{key} holds {shown:?}") };
        ensure!(ttl_ms > 0, "{key} = {value} stays for ever ({ttl_ms})");
        // A bucket ends with the time from which it means nothing, a kept answer begins with it.
        let until = if is_counter { value.split(' ').next_back() } else { value.split(' ').next() };
        let until: i64 = until.context("a value has words")?.parse()?;
        let slack = ttl_ms - (until - s * 1_000_000 - us) / 1_000;
        ensure!(SLACK_MS.contains(&slack), "{key} = {value} is kept for {slack} ms too long");
        seen += 1;
    }
    ensure!(seen > 80, "only {seen} keys were there long enough to be looked at");
    ensure!(redis.ask::<i64>(&["PTTL", hermod_core::key::META])? == -1, "what the data was created with must stay");
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
