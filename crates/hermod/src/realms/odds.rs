//! What a realm's tables and plays give, for whoever writes its file.

use serde_json::Value;

use super::form::Economy;
use crate::output::{Output, table};
use crate::server::realm_odds;

/// Prints the odds of a definition: of its tables, and what each play that draws is worth.
pub(super) fn print(economy: &Economy) -> anyhow::Result<()> {
    let odds = realm_odds(&economy.realm, economy.definition.to_string().as_bytes()).map_err(|problem| anyhow::anyhow!(problem.detail))?;
    let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let mut rows = Vec::new();
    for (name, drops) in fields(&odds["tables"]) {
        let drops = fields(&drops);
        let drops = drops.iter().map(|(asset, percent)| format!("{asset} {percent} %")).collect::<Vec<_>>().join(", ");
        rows.push([format!("table {name}"), drops]);
    }
    for (play, outlook) in fields(&odds["plays"]) {
        let gains = fields(&outlook["gains"]);
        let number = |spread: &Value, field: &str| spread[field].as_f64().unwrap_or(0.0);
        let gain = |asset: &str, spread: &Value| {
            format!("{asset} {:+.2} on average, from {} to {}", number(spread, "mean"), number(spread, "min"), number(spread, "max"))
        };
        let refused = fields(&outlook["refused"]);
        let refused = refused.iter().map(|(code, many)| format!("{many} of {} refused as {code}", outlook["runs"]));
        let told: Vec<_> = gains.iter().map(|(asset, spread)| gain(asset, spread)).chain(refused).collect();
        rows.push([format!("play {play}"), told.join("; ")]);
    }
    if !rows.is_empty() {
        Output::new(false).text(&table(["odds of", "what it gives, to somebody who has plenty"], rows))?;
    }
    Ok(())
}
