//! Reads documents that go deep, such as the definition of a realm: a fault names the whole path of its field.
//!
//! The text becomes a tree first. So what is no JSON is told apart from what is only of another shape, which serde's own reader of
//! text mixes up where one of several names is wanted.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::sent::{explain, no_object};
use crate::code::{Code, Problem};

/// Reads a document.
pub(super) fn parse<T: DeserializeOwned>(raw: &[u8]) -> Result<T, Problem> {
    let value: Value = serde_json::from_slice(raw).map_err(|fault| explain::<Value>(raw, &fault))?;
    if !value.is_object() {
        return Err(no_object());
    }
    serde_path_to_error::deserialize(&value).map_err(|located| told(located.path().to_string(), &located.inner().to_string()))
}

fn told(path: String, message: &str) -> Problem {
    let quoted = message.split('`').nth(1).unwrap_or("");
    if message.starts_with("missing field") {
        let path = if path == "." { quoted.to_owned() } else { format!("{path}.{quoted}") };
        return Problem::new(Code::MissingField, format!("The field {path} is needed.")).in_field(path);
    }
    if message.starts_with("unknown field") {
        let known = expected(message).map(|known| format!("; there may be {known}")).unwrap_or_default();
        return Problem::new(Code::UnknownField, format!("There is no field {path}{known}.")).in_field(path);
    }
    Problem::new(Code::InvalidField, format!("{path} {}.", reason(message))).in_field(path)
}

/// What is wrong, without Rust's names of types and without the value, which may be long.
fn reason(message: &str) -> String {
    if let Some(form) = message.strip_prefix("data did not match any variant of untagged enum ") {
        return match form {
            "ArgForm" => "must be amount, owner, asset or text, or an object with type, else, all, round_up and default",
            "Types" => "must be the type of an event, or a list of two of them",
            "Return" => "must be a formula, or an object with upcoming and limit",
            _ => "must be of another kind",
        }
        .to_owned();
    }
    if message.starts_with("unknown variant") {
        return format!("must be {}", expected(message).unwrap_or_default());
    }
    if !["invalid type", "invalid value", "invalid length"].iter().any(|opening| message.starts_with(opening)) {
        // Said by Hermod's own types: it begins with "must" or "may".
        return message.to_owned();
    }
    let wanted = message.rsplit_once("expected ").map_or("", |(_, wanted)| wanted);
    let wanted = match wanted {
        "u64" | "usize" => "a whole number of at least 0",
        "i64" => "a whole number",
        "a string" => "a string",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a tuple of size 2" | "tuple of 2 elements" => "a list of two: from which number to which",
        "a whole number, or a formula as text" => wanted,
        _ if wanted.starts_with("struct ") || wanted == "a map" => "an object",
        _ if wanted.contains("variant") => "an object",
        "enum Step" | "map with a single key" => "an object with one name",
        _ if wanted.starts_with("enum ") => "a word",
        _ => "of another kind",
    };
    format!("must be {wanted}")
}

/// `one of a, b, c` or `a or b`, as serde lists what it knows.
fn expected(message: &str) -> Option<String> {
    message.rsplit_once(", expected ").map(|(_, known)| known.replace('`', "")).filter(|known| !known.is_empty())
}

#[cfg(test)]
mod tests {
    use hermod_core::realm::Definition;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fault_names_the_whole_path_and_what_is_wanted() {
        let play = |play: Value| json!({"plays": {"gamble": play}});
        let step = |step: Value| play(json!({"do": [{"claim": {"timer": "t"}}, step]}));
        let rows = [
            (json!({"asets": {}}), "unknown_field", "asets", "There is no field asets; there may be one of description, timezone, assets"),
            (
                json!({"assets": {"bone": {"mx": 1}}}),
                "unknown_field",
                "assets.bone.mx",
                "There is no field assets.bone.mx; there may be one of kind",
            ),
            (
                json!({"assets": {"bone": {"max": -1}}}),
                "invalid_field",
                "assets.bone.max",
                "assets.bone.max must be a whole number of at least 0.",
            ),
            (
                json!({"assets": {"bone": {"kind": "gold"}}}),
                "invalid_field",
                "assets.bone.kind",
                "assets.bone.kind must be item or currency.",
            ),
            (json!({"assets": {"a b": {}}}), "invalid_field", "assets.a b", "assets.a b may hold letters, digits"),
            (json!({"assets": {"bone": 1}}), "invalid_field", "assets.bone", "assets.bone must be an object."),
            (json!({"assets": []}), "invalid_field", "assets", "assets must be an object."),
            (json!({"timezone": "Mars/Base"}), "invalid_field", "timezone", "timezone "),
            (json!({"tables": {"t": {"drops": {}}}}), "missing_field", "tables.t.of", "The field tables.t.of is needed."),
            (play(json!({"roll": {"n": [1]}})), "invalid_field", "plays.gamble.roll.n", "plays.gamble.roll.n must be a list of two"),
            (play(json!({"need": [{"if": "true"}]})), "missing_field", "plays.gamble.need[0].else", "The field plays.gamble.need[0].else"),
            (
                play(json!({"args": {"n": {"type": "amount", "al": 1}}})),
                "invalid_field",
                "plays.gamble.args.n",
                "plays.gamble.args.n must be amount",
            ),
            (play(json!({"return": {"n": [1]}})), "invalid_field", "plays.gamble.return.n", "plays.gamble.return.n must be a formula"),
            (step(json!("claim")), "invalid_field", "plays.gamble.do[1].claim", "plays.gamble.do[1].claim must be"),
            (
                step(json!({"claim": {"timer": "t"}, "move": {}})),
                "invalid_field",
                "plays.gamble.do[1]",
                "plays.gamble.do[1] must be an object with one name.",
            ),
            (step(json!({"steal": {}})), "invalid_field", "plays.gamble.do[1]", "plays.gamble.do[1] must be one of move, claim"),
            (
                step(json!({"move": {"from": "a", "to": "b", "asset": "c", "qty": 1.5}})),
                "invalid_field",
                "plays.gamble.do[1].move.qty",
                "plays.gamble.do[1].move.qty must be a whole number, or a formula as text.",
            ),
            (
                step(json!({"if": {"when": "x", "then": [{"move": {"form": "a"}}]}})),
                "unknown_field",
                "plays.gamble.do[1].if.then[0].move.form",
                "There is no field plays.gamble.do[1].if.then[0].move.form; there may be one of from, to",
            ),
        ];
        for (body, code, field, detail) in rows {
            let problem = parse::<Definition>(body.to_string().as_bytes()).unwrap_err();
            assert_eq!((problem.code.text(), problem.field.as_deref()), (code, Some(field)), "{body}: {problem:?}");
            assert!(problem.detail.starts_with(detail), "{body}: {problem:?}");
        }
    }

    #[test]
    fn what_is_no_json_is_told_as_such() {
        for (text, detail) in [
            ("", "The body is empty; a JSON object is needed."),
            ("[]", "The body must be a JSON object."),
            ("7", "The body must be a JSON object."),
            ("{\"plays\": {\n\"a\" 1}}", "The body is not valid JSON: line 2, column 5."),
        ] {
            let problem = parse::<Definition>(text.as_bytes()).unwrap_err();
            assert_eq!((problem.code, problem.detail.as_str()), (Code::InvalidJson, detail), "{text}");
        }
        let problem = parse::<Definition>(br#"{"assets": {"bone": {"max": 1e999}}}"#).unwrap_err();
        assert_eq!((problem.code, problem.field.as_deref()), (Code::InvalidField, Some("assets.bone.max")));
    }
}
