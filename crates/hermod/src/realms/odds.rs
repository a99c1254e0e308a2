//! What a realm's tables and plays give, for whoever writes its file.

use std::collections::BTreeMap;

use hermod_client::RealmOutlook;
use serde::Deserialize;

use super::form::Economy;
use crate::output::{Output, table};
use crate::server::realm_odds;

/// What a definition gives: of each table how likely each asset is, in percent, and what each play that draws comes to.
#[derive(Debug, Deserialize)]
struct Odds {
    tables: BTreeMap<String, BTreeMap<String, f64>>,
    plays: BTreeMap<String, RealmOutlook>,
    unknown: BTreeMap<String, String>,
}

/// Prints the odds of a definition.
pub(super) fn print(economy: &Economy) -> anyhow::Result<()> {
    let odds = realm_odds(&economy.realm, economy.definition.to_string().as_bytes()).map_err(|problem| anyhow::anyhow!(problem.detail))?;
    let odds: Odds = serde_json::from_value(odds)?;
    let tables = odds.tables.iter().map(|(name, drops)| {
        let drops: Vec<_> = drops.iter().map(|(asset, percent)| format!("{asset} {percent} %")).collect();
        [format!("table {name}"), drops.join(", ")]
    });
    let plays = odds.plays.iter().map(|(name, outlook)| {
        let gains = outlook.gains.iter();
        let gains = gains.map(|(asset, is)| format!("{asset} {:+.2} on average, from {} to {}", is.mean, is.min, is.max));
        let refused = outlook.refused.iter().map(|(code, many)| format!("{many} of {} refused as {code}", outlook.runs));
        [format!("play {name}"), gains.chain(refused).collect::<Vec<_>>().join("; ")]
    });
    let unknown = odds.unknown.iter().map(|(name, what)| [format!("play {name}"), format!("odds: unknown, {what}")]);
    let rows: Vec<_> = tables.chain(plays).chain(unknown).collect();
    if rows.is_empty() {
        return Ok(());
    }
    Output::new(false).text(&table(["ODDS OF", "WHAT IT GIVES, TO SOMEBODY WHO HAS PLENTY"], rows))
}
