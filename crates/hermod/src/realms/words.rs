//! What is moved and given, as words on a command line.

use std::collections::BTreeMap;

use hermod_client::RealmLeg;
use serde_json::Value;

/// Reads `@mint->111:ajo:100`. An owner may hold colons, so asset and number are read from the end.
pub(super) fn leg(text: &str) -> Result<RealmLeg, String> {
    let wrong = || "must be FROM->TO:ASSET:QTY, such as @mint->111:ajo:100".to_owned();
    let (from, rest) = text.split_once("->").ok_or_else(wrong)?;
    let (rest, qty) = rest.rsplit_once(':').ok_or_else(wrong)?;
    let (to, asset) = rest.rsplit_once(':').ok_or_else(wrong)?;
    if [from, to, asset].contains(&"") {
        return Err(wrong());
    }
    Ok(RealmLeg::new(from, to, asset, whole(qty).ok_or_else(|| format!("{qty:?} is not a whole number of at least 1"))?))
}

/// Writes it again.
pub(super) fn leg_text(leg: &RealmLeg) -> String {
    format!("{}->{}:{}:{}", leg.from, leg.to, leg.asset, leg.qty)
}

/// Reads `amount=all`. What a value means is for the play to say, so it stays a text.
pub(super) fn arg(text: &str) -> Result<(String, String), String> {
    let named = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = named.ok_or("must be NAME=VALUE, such as amount=100")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Arguments by their name; none is given twice.
pub(super) fn args(given: &[(String, String)]) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut args = BTreeMap::new();
    for (name, value) in given {
        anyhow::ensure!(args.insert(name.clone(), Value::from(value.as_str())).is_none(), "{name} is given twice");
    }
    Ok(args)
}

/// Reads `ajo=3`.
pub(super) fn part(text: &str) -> Result<(String, u64), String> {
    let named = text.split_once('=').filter(|(asset, _)| !asset.is_empty());
    let part = named.and_then(|(asset, qty)| Some((asset.to_owned(), whole(qty)?)));
    part.ok_or_else(|| "must be ASSET=QTY, such as ajo=3".to_owned())
}

/// Digits only: a sign or a fraction is a slip.
fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok())?.filter(|qty| *qty > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_reads_back_as_written() {
        for (text, from, to, asset, qty) in [
            ("@mint->111:ajo:100", "@mint", "111", "ajo", 100),
            ("discord:1->guild:7:u:herb:3", "discord:1", "guild:7:u", "herb", 3),
            ("a b->c->d:ajo:9007199254740991", "a b", "c->d", "ajo", 9_007_199_254_740_991),
        ] {
            let read = leg(text).unwrap();
            assert_eq!(read, RealmLeg::new(from, to, asset, qty));
            assert_eq!(leg_text(&read), text);
        }
    }

    #[test]
    fn a_bad_leg_is_told_what_one_looks_like() {
        for text in ["", "111", "111->222", "111->222:3", "->222:ajo:3", "111->:ajo:3", "111->222::3", "111>222:ajo:3"] {
            assert!(leg(text).unwrap_err().contains("@mint->111:ajo:100"), "{text}");
        }
        for qty in ["", "0", "-1", "+1", "1.5", "1e3", "all", "99999999999999999999"] {
            assert!(leg(&format!("111->222:ajo:{qty}")).unwrap_err().contains("whole number"), "{qty}");
        }
    }

    #[test]
    fn arguments_stay_texts_and_have_a_name_each() {
        let read = |words: &[&str]| args(&words.iter().map(|word| arg(word).unwrap()).collect::<Vec<_>>());
        let given = read(&["amount=all", "to=222", "say=a=b", "empty="]).unwrap();
        assert_eq!(serde_json::to_string(&given).unwrap(), r#"{"amount":"all","empty":"","say":"a=b","to":"222"}"#);
        assert!(read(&["to=1", "to=2"]).unwrap_err().to_string().contains("to is given twice"));
        for word in ["amount", "=3", ""] {
            assert!(arg(word).unwrap_err().contains("NAME=VALUE"), "{word}");
        }
    }

    #[test]
    fn a_part_is_an_asset_and_a_number() {
        assert_eq!(part("ajo=3"), Ok(("ajo".to_owned(), 3)));
        for word in ["ajo", "=3", "ajo=", "ajo=0", "ajo=-3", "ajo=all"] {
            assert!(part(word).unwrap_err().contains("ASSET=QTY"), "{word}");
        }
    }
}
