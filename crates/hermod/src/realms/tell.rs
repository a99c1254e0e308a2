//! What came of a play, a commit or a hold, in words.

use std::collections::BTreeMap;

use hermod_client::{RealmAnswer, RealmLeg, RealmStatus};
use serde_json::Value;

use crate::file::text;
use crate::output::{about, or_dash, table, verdict};

/// An answer: what was done and what there is now, or why it was refused.
pub(super) fn answered(answer: &RealmAnswer, explain: bool) -> String {
    let mut told = verdict(answer.is_done(), &sentence(answer));
    if answer.replayed {
        told += "\nThis is the answer given earlier for the same idempotency key.";
    }
    if !answer.returns.is_empty() {
        told += &format!("\nreturns {}", named(&answer.returns, "="));
    }
    for also in &answer.also {
        told += &match &also.code {
            Some(code) => format!("\nthen {}: {}", also.play, refusal(code, &also.with)),
            None => format!("\nthen {}: {}", also.play, also.status),
        };
    }
    if explain && !answer.draws.is_empty() {
        let draws = answer.draws.iter().map(|(name, value)| format!("{name}={value}"));
        told += &format!("\ndrew {}", draws.collect::<Vec<_>>().join(", "));
    }
    let changes = changes(answer);
    if !changes.is_empty() {
        told += &format!("\n\n{}", table(["OWNER", "ASSET", "CHANGE", "NOW"], changes));
    }
    if let Some(legs) = answer.legs.as_deref().filter(|legs| explain && !legs.is_empty()) {
        told += &format!("\n\n{}", leg_rows(legs));
    }
    told
}

fn sentence(answer: &RealmAnswer) -> String {
    let would = if answer.dry_run { "would be " } else { "" };
    if answer.status == RealmStatus::Refused {
        let why = refusal(answer.code.as_deref().unwrap_or("-"), &answer.with);
        let (at, retry_at) = (answer.at.map(|at| at.to_system_time()), answer.retry_at);
        // An earlier answer was given at another time than now.
        let at = at.filter(|_| !answer.replayed);
        let left = retry_at.and_then(|retry_at| retry_at.to_system_time().duration_since(at?).ok());
        return match (left, retry_at) {
            (Some(left), _) => format!("{would}{why}, ask again in {}", about(left)),
            (None, Some(retry_at)) => format!("{would}{why}, ask again at {retry_at}"),
            (None, None) => format!("{would}{why}"),
        };
    }
    let made = [&answer.commit, &answer.hold].into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ");
    if made.is_empty() { format!("{would}{}", answer.status) } else { format!("{would}{}: {made}", answer.status) }
}

/// A refusal with what else it says.
fn refusal(code: &str, with: &BTreeMap<String, Value>) -> String {
    if with.is_empty() { format!("refused: {code}") } else { format!("refused: {code} ({})", named(with, " ")) }
}

fn named(values: &BTreeMap<String, Value>, between: &str) -> String {
    values.iter().map(|(name, value)| format!("{name}{between}{}", text(value))).collect::<Vec<_>>().join(", ")
}

/// By owner and asset: what changed, and what there is now.
fn changes(answer: &RealmAnswer) -> Vec<[String; 4]> {
    let mut changes = BTreeMap::<(&str, &str), (Option<i64>, Option<i64>)>::new();
    for event in answer.events.iter().flatten() {
        let Some(asset) = event.asset.as_deref().or(event.item.as_deref()) else { continue };
        let change = event.amount.or(event.quantity).unwrap_or(0);
        let sum = &mut changes.entry((&event.user_id, asset)).or_default().0;
        *sum = Some(sum.unwrap_or(0).saturating_add(change));
    }
    for (owner, assets) in answer.balances.iter().flatten() {
        for (asset, balance) in assets {
            changes.entry((owner, asset)).or_default().1 = Some(*balance);
        }
    }
    let rows = changes.into_iter().map(|((owner, asset), (change, now))| {
        [owner.to_owned(), asset.to_owned(), or_dash(change.map(|change| format!("{change:+}"))), or_dash(now)]
    });
    rows.collect()
}

fn leg_rows(legs: &[RealmLeg]) -> String {
    table(["FROM", "TO", "ASSET", "QTY"], legs.iter().map(|leg| [leg.from.clone(), leg.to.clone(), leg.asset.clone(), leg.qty.to_string()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(answer: &str) -> String {
        answered(&serde_json::from_str(answer).unwrap(), true)
    }

    #[test]
    fn a_refusal_says_its_code_what_else_there_is_and_the_time_left() {
        let at = r#""at":"2026-02-03T04:05:06.000Z""#;
        for (answer, sentence) in [
            (r#"{"status":"refused","code":"funds"}"#.to_owned(), "refused: funds"),
            (r#"{"status":"refused","code":"offer","with":{"least":350,"of":"ajo"}}"#.to_owned(), "refused: offer (least 350, of ajo)"),
            (
                format!(r#"{{"status":"refused","code":"ttl","retry_at":"2026-02-04T04:05:05.500Z",{at}}}"#),
                "refused: ttl, ask again in 23h 59m",
            ),
            (
                format!(r#"{{"status":"refused","code":"ttl","retry_at":"2026-02-03T04:05:06.100Z",{at},"dry_run":true}}"#),
                "would be refused: ttl, ask again in 1s",
            ),
            (
                format!(r#"{{"status":"refused","code":"ttl","retry_at":"2026-02-04T04:05:06.000Z",{at},"replayed":true}}"#),
                "refused: ttl, ask again at 2026-02-04T04:05:06.000Z\nThis is the answer given earlier for the same idempotency key.",
            ),
        ] {
            assert_eq!(told(&answer), sentence);
        }
    }

    #[test]
    fn what_was_done_is_told_by_owner() {
        let event = |user: &str, of: &str| {
            format!(r#"{{"id":"1-0","version":1,"type":"t","user_id":"{user}","guild_id":"0",{of},"at":"2026-02-03T04:05:06.000Z"}}"#)
        };
        let events = [
            event("111", r#""asset":"ajo","amount":-5"#),
            event("222", r#""asset":"ajo","amount":5"#),
            event("111", r#""asset":"ajo","amount":2"#),
            event("111", r#""item":"herb","quantity":1"#),
        ];
        let answer = format!(
            r#"{{"status":"done","commit":"cm_1","hold":"ho_2","return":{{"won":true,"s":"x"}},"draws":{{"p.r":3}},
                "also":[{{"play":"drop","status":"refused","code":"none"}},{{"play":"vampire","status":"done"}}],
                "balances":{{"111":{{"ajo":7}},"222":{{"ajo":5}}}},"events":[{}]}}"#,
            events.join(",")
        );
        assert_eq!(
            told(&answer),
            "done: cm_1, ho_2\nreturns s=x, won=true\nthen drop: refused: none\nthen vampire: done\ndrew p.r=3\n\n\
             OWNER  ASSET  CHANGE  NOW\n111    ajo    -3      7\n111    herb   +1      -\n222    ajo    +5      5"
        );
    }
}
