//! Which crate may depend on which: the layers of the design, held by a machine.
//!
//! Only normal dependencies count. Tests of a crate may use what they like.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Finding;

/// One crate's place in the layers.
struct Layer {
    name: &'static str,
    /// The crates of this workspace it may use.
    may_use: &'static [&'static str],
    /// Crates from outside that would break its promise, and the promise.
    never: &'static [&'static str],
    because: &'static str,
}

const LAYERS: &[Layer] = &[
    Layer {
        name: "hermod-core",
        may_use: &[],
        never: &["tokio", "redis", "sqlx", "rusqlite", "rand", "getrandom"],
        because: "core is pure: time and chance are inputs, and I/O belongs to hermod-engine",
    },
    Layer {
        name: "hermod-engine",
        may_use: &["hermod-core"],
        never: &["axum", "hyper", "sqlx"],
        because: "the engine knows neither HTTP nor SQL: those belong to hermod-server and hermod-catalog",
    },
    Layer {
        name: "hermod-catalog",
        may_use: &["hermod-core"],
        never: &["redis", "axum", "rusqlite"],
        because: "the catalog speaks SQL through sqlx and nothing else: state belongs to hermod-engine, HTTP to hermod-server",
    },
    Layer {
        name: "hermod-server",
        may_use: &["hermod-core", "hermod-engine", "hermod-catalog", "hermod-client"],
        never: &[],
        because: "the server stands on the engine and the catalog; of the client it takes the trait of a limiter, to be one",
    },
    Layer {
        name: "hermod-client",
        may_use: &[],
        never: &[],
        because: "the client must stay light in other people's builds: repeat the few types it needs",
    },
    Layer {
        name: "hermod",
        may_use: &["hermod-server", "hermod-client"],
        never: &[],
        because: "the binary holds arguments and printing only: put the logic into hermod-server or hermod-client",
    },
    Layer {
        name: "hermod-example-echo",
        may_use: &["hermod-server", "hermod-client"],
        never: &[],
        because: "an example uses what its readers can use",
    },
    Layer {
        name: "hermod-example-iduna",
        may_use: &["hermod-server", "hermod-client"],
        never: &[],
        because: "an example uses what its readers can use",
    },
    Layer {
        name: "hermod-example-relay",
        may_use: &["hermod-server", "hermod-client"],
        never: &[],
        because: "an example uses what its readers can use",
    },
    Layer {
        name: "hermod-example-todo",
        may_use: &["hermod-server", "hermod-client"],
        never: &[],
        because: "an example uses what its readers can use",
    },
    Layer { name: "hermod-tests", may_use: ALL, never: &[], because: "" },
    Layer { name: "hermod-bench", may_use: ALL, never: &[], because: "" },
    Layer { name: "xtask", may_use: &[], never: &[], because: "xtask must build quickly, and when the rest does not" },
];

/// What tests and benchmarks may use.
const ALL: &[&str] = &["hermod-core", "hermod-engine", "hermod-catalog", "hermod-server", "hermod-client", "hermod-tests"];

/// Checks the packages of `cargo metadata --no-deps`.
pub(crate) fn check(metadata: &Value) -> Result<Vec<Finding>> {
    let packages = metadata["packages"].as_array().context("cargo metadata tells no packages")?;
    let name_of = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let own: Vec<String> = packages.iter().map(name_of).collect();
    let mut findings = Vec::new();
    for package in packages {
        let uses = package["dependencies"].as_array().into_iter().flatten();
        let uses: Vec<String> = uses.filter(|dependency| dependency["kind"].is_null()).map(name_of).collect();
        findings.extend(check_package(&name_of(package), &uses, &own));
    }
    Ok(findings)
}

fn check_package(name: &str, uses: &[String], own: &[String]) -> Vec<Finding> {
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
        return vec![format!("{name}: has no place in the layers yet; add it to LAYERS in xtask/src/tidy/edges.rs and to ARCHITECTURE.md")];
    };
    let breaks = |used: &&String| {
        let used = used.as_str();
        layer.never.contains(&used) || (own.iter().any(|own| own == used) && !layer.may_use.contains(&used))
    };
    uses.iter().filter(breaks).map(|used| format!("{name}: must not depend on {used}; {}", layer.because)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn findings(name: &str, uses: &[(&str, Value)]) -> Vec<Finding> {
        let dependencies: Vec<Value> = uses.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
        let others = LAYERS.iter().filter(|layer| layer.name != name).map(|layer| json!({"name": layer.name, "dependencies": []}));
        let mut packages: Vec<Value> = others.collect();
        packages.push(json!({"name": name, "dependencies": dependencies}));
        check(&json!({ "packages": packages })).expect("it reads")
    }

    #[test]
    fn finds_every_forbidden_edge() {
        let forbidden = [
            ("hermod-core", "tokio"),
            ("hermod-core", "getrandom"),
            ("hermod-core", "hermod-engine"),
            ("hermod-engine", "sqlx"),
            ("hermod-engine", "hermod-catalog"),
            ("hermod-catalog", "rusqlite"),
            ("hermod-catalog", "hermod-engine"),
            ("hermod-client", "hermod-core"),
            ("hermod", "hermod-engine"),
            ("xtask", "hermod-core"),
        ];
        for (name, used) in forbidden {
            let found = findings(name, &[("serde", Value::Null), (used, Value::Null)]);
            assert!(found.len() == 1 && found[0].contains(name) && found[0].contains(used), "{name} {used}: {found:?}");
        }
    }

    #[test]
    fn allows_what_the_layers_allow() {
        assert_eq!(findings("hermod-server", &[("hermod-engine", Value::Null), ("axum", Value::Null)]), [""; 0]);
        assert_eq!(findings("hermod-core", &[("tokio", json!("dev"))]), [""; 0], "tests may use what they like");
    }

    #[test]
    fn a_new_crate_must_take_its_place() {
        let found = findings("hermod-new", &[]);
        assert!(found.len() == 1 && found[0].contains("LAYERS"), "{found:?}");
    }
}
