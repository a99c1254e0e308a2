//! Periods as people write them, the units of the first design among them.

use anyhow::Result;
use serde_json::json;

use super::super::site::Site;
use super::at_ms;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unit_and_requests_per_unit_are_accepted_for_per_and_limit() -> Result<()> {
    let site = Site::start().await?;
    for (unit, per) in [("second", "1s"), ("minute", "1m"), ("hour", "1h"), ("day", "1day")] {
        let saved = site.admin.post("/v1/rules", &json!({"action": unit, "unit": unit, "requests_per_unit": 10})).await?.expect(201)?;
        assert_eq!((&saved["per"], &saved["limit"]), (&json!(per), &json!(10)));
        assert!(saved.get("unit").is_none() && saved.get("requests_per_unit").is_none(), "one spelling comes back: {saved}");
        assert_eq!(site.admin.check("bot", unit, 10).await?["allowed"], true);
        assert_eq!(site.admin.check("bot", unit, 1).await?["allowed"], false);
    }
    site.server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_calendar_day_ends_at_midnight_where_it_is_counted() -> Result<()> {
    let site = Site::start().await?;
    // 14 July 2017, 02:40 UTC: 04:40 in Berlin, and still the day before in New York.
    for (zone, midnight) in [
        ("UTC", "2017-07-15T00:00:00.000Z"),
        ("Europe/Berlin", "2017-07-14T22:00:00.000Z"),
        ("America/New_York", "2017-07-14T04:00:00.000Z"),
    ] {
        let body = json!({"action": zone, "limit": 1, "per": format!("day@{zone}")});
        assert_eq!(site.admin.post("/v1/rules", &body).await?.expect(201)?["algorithm"], "fixed_window", "the only one that fits");
        site.at_ms(0);
        assert_eq!(site.admin.check("bot", zone, 1).await?["allowed"], true);
        let refused = site.admin.check("bot", zone, 1).await?;
        assert_eq!(refused["retry_at"], midnight, "{zone}");
        assert_eq!(refused["rules"][0]["window_ms"], 86_400_000);
        site.at_ms(at_ms(&refused["retry_at"])? - 1);
        assert_eq!(site.admin.check("bot", zone, 1).await?["allowed"], false, "{zone}");
        site.at_ms(at_ms(&refused["retry_at"])?);
        assert_eq!(site.admin.check("bot", zone, 1).await?["allowed"], true, "{zone}");
    }
    site.server.shutdown().await;
    Ok(())
}
