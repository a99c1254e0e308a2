//! What a play is given: whole numbers, owners, assets, texts, as they come from outside.

use std::sync::Arc;

use super::definition::ArgKind;
use super::formula::Datum;
use super::plan::AMOUNT_MAX;
use crate::id::TEXT_MAX;

/// An argument as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// A whole number.
    Int(i64),
    /// A text; a number that is not whole, as it was written.
    Text(Arc<str>),
    /// Something else: what it is.
    Other(&'static str),
}

/// An argument that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Datum(Datum),
    /// Everything the player has.
    All,
}

/// Understands an argument, or says what it must be.
pub(crate) fn understand(raw: &Raw, kind: ArgKind, may_be_all: bool, round_up: bool) -> Result<Given, &'static str> {
    let whole =
        if may_be_all { "must be a whole number of at most 2^53 - 1, or \"all\"" } else { "must be a whole number of at most 2^53 - 1" };
    let datum = |datum: Datum| Ok(Given::Datum(datum));
    match (kind, raw) {
        (ArgKind::Amount, Raw::Int(number)) => in_bounds(*number).map(|number| Given::Datum(Datum::Int(number))).ok_or(whole),
        (ArgKind::Amount, Raw::Text(text)) if may_be_all && &**text == "all" => Ok(Given::All),
        (ArgKind::Amount, Raw::Text(text)) => {
            number(text, round_up).and_then(in_bounds).map(|number| Given::Datum(Datum::Int(number))).ok_or(whole)
        }
        (ArgKind::Amount, Raw::Other(_)) => Err(whole),
        (ArgKind::Owner, Raw::Int(number)) => datum(Datum::Text(number.to_string().into())),
        (ArgKind::Owner, Raw::Text(text)) if is_owner(text) => datum(Datum::Text(Arc::clone(text))),
        (ArgKind::Owner, _) => {
            Err("must be an owner: 1 to 256 bytes without control characters, and not one of the realm's own, with an @")
        }
        (_, Raw::Text(text)) if is_text(text) => datum(Datum::Text(Arc::clone(text))),
        (_, Raw::Int(number)) => datum(Datum::Text(number.to_string().into())),
        (ArgKind::Asset, _) => Err("must be the name of an asset"),
        (ArgKind::Text, _) => Err("must be a text of at most 256 bytes without control characters"),
    }
}

/// Whether somebody can be called this.
pub fn is_owner(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('@') && is_text(text)
}

fn is_text(text: &str) -> bool {
    text.len() <= TEXT_MAX && !text.chars().any(char::is_control)
}

fn in_bounds(number: i64) -> Option<i64> {
    Some(number).filter(|number| (-AMOUNT_MAX..=AMOUNT_MAX).contains(number))
}

/// A number as people write it: digits, perhaps with a point and more digits. Nothing else is one: no exponents, no `0x10`, no `nan`.
fn number(text: &str, round_up: bool) -> Option<i64> {
    // A longer one is looked at no further: a play may be run a hundred thousand times with it.
    if text.len() > TEXT_MAX {
        return None;
    }
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(whole, fraction)| (whole, Some(fraction)));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !fraction.is_none_or(is_digits) {
        return None;
    }
    let number = whole.parse::<i64>().ok()?.checked_mul(sign)?;
    match fraction.is_some_and(|fraction| fraction.bytes().any(|digit| digit != b'0')) {
        false => Some(number),
        true if !round_up => None,
        true => Some(if sign > 0 { number.checked_add(1)? } else { number }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_inf_hex_and_huge_are_refused() {
        for text in [
            "nan",
            "NaN",
            "inf",
            "-inf",
            "infinity",
            "0x10",
            "1e309",
            "1e3",
            "9223372036854775808",
            "9007199254740992",
            "",
            " ",
            " 1",
            "1 ",
            "+1",
            "1_000",
            "1,000",
            "--1",
            "-",
            ".",
            "1.",
            ".5",
            "1.2.3",
            "\u{661}",
            "all",
        ] {
            for round_up in [false, true] {
                assert!(understand(&Raw::Text(text.into()), ArgKind::Amount, false, round_up).is_err(), "{text}");
            }
        }
        for raw in [Raw::Other("null"), Raw::Int(i64::MAX), Raw::Int(i64::MIN), Raw::Int(1 << 53)] {
            assert!(understand(&raw, ArgKind::Amount, true, true).is_err(), "{raw:?}");
        }
    }

    #[test]
    fn amounts_are_exact_integers() {
        let amount = |text: &str, round_up| understand(&Raw::Text(text.into()), ArgKind::Amount, true, round_up);
        let int = |number| Ok(Given::Datum(Datum::Int(number)));
        assert_eq!(amount("1.2", true), int(2));
        assert_eq!(amount("-1.2", true), int(-1));
        assert_eq!(amount("2.000", false), int(2));
        assert!(amount("1.2", false).is_err());
        assert_eq!(amount("9007199254740991", false), int(AMOUNT_MAX));
        assert!(amount("9007199254740991.5", true).is_err());
        assert_eq!(amount("007", false), int(7));
        assert_eq!(amount("all", false), Ok(Given::All));
        assert!(understand(&Raw::Text("@mint".into()), ArgKind::Owner, false, false).is_err());
        assert_eq!(understand(&Raw::Int(111), ArgKind::Owner, false, false), Ok(Given::Datum(Datum::Text("111".into()))));
    }
}
