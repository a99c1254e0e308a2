//! The scripts beside their native twins: what a reader, and the equality of both engines, rely on.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::Finding;
use super::tree::Source;

/// The opening of every script. It alone may ask the server for the time, on the branch for `now = 0`.
const OPENING: &str = "crates/hermod-core/src/operation.lua";
const SCRIPTS: &str = "crates/hermod-core/src";

/// Checks all scripts of the core.
pub(crate) fn check(tree: &[Source]) -> Vec<Finding> {
    let paths: HashSet<PathBuf> = tree.iter().map(|source| source.path.clone()).collect();
    let scripts = tree.iter().filter(|source| source.is("lua") && source.path.starts_with(SCRIPTS));
    scripts.flat_map(|script| [header(script), twin(script, &paths), calls(script)].concat()).collect()
}

/// The header is the script's signature.
fn header(script: &Source) -> Vec<Finding> {
    let opening = script.text.lines().skip_while(|line| line.starts_with("#!"));
    let header: Vec<&str> = opening.take_while(|line| line.starts_with("--")).collect();
    let names = |word: &str| header.iter().any(|line| line.trim_start_matches(['-', ' ']).starts_with(word));
    let missing: Vec<&str> = ["KEYS", "ARGV", "REPLY"].into_iter().filter(|word| !names(word)).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    vec![format!("{}: the header names no {}; begin a comment line with each", script.path.display(), missing.join(", "))]
}

fn twin(script: &Source, paths: &HashSet<PathBuf>) -> Vec<Finding> {
    let twin = script.path.with_extension("rs");
    if paths.contains(&twin) {
        return Vec::new();
    }
    vec![format!("{}: has no native twin; write {}", script.path.display(), twin.display())]
}

/// Calls that would make the engines answer differently.
fn calls(script: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(script.text.lines()) {
        let code = line.split("--").next().unwrap_or_default();
        let mut found = |what: &str| findings.push(format!("{}:{number}: {what}", script.path.display()));
        if names_time(code) && script.path != Path::new(OPENING) {
            found("asks for TIME; use `now`, which operation.lua sets");
        }
        if code.contains("math.random") {
            found("draws by itself; chance is an input, so draw from the seed in ARGV");
        }
        if code.contains("tostring(") {
            found("tostring keeps 14 digits only; print numbers by string.format('%.0f', n)");
        }
    }
    findings
}

/// Redis reads command names in any case.
fn names_time(code: &str) -> bool {
    let code = code.to_ascii_lowercase();
    code.contains("'time'") || code.contains("\"time\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "-- limit/check.lua, twin of limit/check.rs\n-- KEYS[1] a\n-- ARGV    b\n-- REPLY   c\n";

    fn findings(path: &str, text: &str) -> Vec<Finding> {
        let twin = path.replace(".lua", ".rs");
        check(&[Source::new(path, text), Source::new(&twin, "")])
    }

    fn in_check(code: &str) -> Vec<Finding> {
        findings("crates/hermod-core/src/limit/check.lua", &format!("{HEADER}{code}\n"))
    }

    #[test]
    fn a_good_script_passes() {
        assert_eq!(in_check("return string.format('%.0f', now) -- not tostring(now), not 'TIME'"), [""; 0]);
    }

    #[test]
    fn finds_what_the_header_does_not_name() {
        let found = findings("crates/hermod-core/src/limit/check.lua", "#!lua\n-- KEYS a\n\n-- ARGV b\n-- REPLY c\n");
        assert!(found.len() == 1 && found[0].contains("ARGV, REPLY"), "{found:?}");
    }

    #[test]
    fn finds_a_script_without_twin() {
        let found = check(&[Source::new("crates/hermod-core/src/limit/check.lua", HEADER)]);
        assert!(found.len() == 1 && found[0].contains("limit/check.rs"), "{found:?}");
    }

    #[test]
    fn only_the_opening_asks_for_the_time() {
        let code = "local time = redis.call('TIME')";
        assert_eq!(findings(OPENING, &format!("#!lua\n{HEADER}{code}\n")), [""; 0]);
        let found = in_check(code);
        assert!(found.len() == 1 && found[0].contains("check.lua:5") && found[0].contains("TIME"), "{found:?}");
        assert_eq!(in_check("redis.call(\"time\")").len(), 1);
    }

    #[test]
    fn finds_chance_and_lost_digits() {
        assert!(in_check("local n = math.random(3)")[0].contains("seed"));
        assert!(in_check("return tostring(now)")[0].contains("%.0f"));
    }
}
