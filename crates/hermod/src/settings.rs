//! The settings as flags. This list is the one definition of their names.
//!
//! A flag is plain text here, like a variable: the configuration itself says what a value must be,
//! once, for every source.

use std::collections::BTreeMap;

use clap::{Args, Command};
use serde::Serialize;

/// One flag per setting; absent ones are left to the environment, the file and the defaults.
#[derive(Clone, Debug, Default, Args, Serialize)]
#[command(next_help_heading = "Settings")]
pub(crate) struct Settings {
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Folder of the embedded store and the SQLite catalog.
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// `embedded`, or redis://, rediss://, redis-cluster://h:p,h:p, redis-sentinel://h:p,h:p/name.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Database of the definitions: postgres://, mysql://; SQLite in the data folder if empty.
    #[arg(long, value_name = "URL")]
    catalog: Option<String>,
    /// How many partitions; fixed once there is data.
    #[arg(long, value_name = "N")]
    partitions: Option<String>,
    /// What a Redis write waits for: `memory` or `replicas:N`.
    #[arg(long, value_name = "DEGREE")]
    durability: Option<String>,
    /// Bound of the embedded store's memory, such as 512MiB.
    #[arg(long, alias = "memory_max", value_name = "SIZE")]
    memory_max: Option<String>,
    /// How many requests are worked on at once; more are answered 503.
    #[arg(long, alias = "in_flight_max", value_name = "N")]
    in_flight_max: Option<String>,
    /// Largest request body.
    #[arg(long, alias = "body_max", value_name = "SIZE")]
    body_max: Option<String>,
    /// How long a request may take.
    #[arg(long, alias = "request_timeout", value_name = "DURATION")]
    request_timeout: Option<String>,
    /// Which private networks webhooks may reach: none, all, or 10.0.0.0/8, fd00::/8.
    #[arg(long, alias = "webhook_networks", value_name = "NETWORKS")]
    webhook_networks: Option<String>,
    /// Whether answers also carry the older X-RateLimit headers: true or false.
    #[arg(long, alias = "legacy_headers", value_name = "SWITCH")]
    legacy_headers: Option<String>,
    /// Certificate chain (PEM); with --tls-key the server speaks https.
    #[arg(long, alias = "tls_cert", value_name = "FILE")]
    tls_cert: Option<String>,
    /// Private key (PEM).
    #[arg(long, alias = "tls_key", value_name = "FILE")]
    tls_key: Option<String>,
    /// What is logged: error, warn, info, debug, trace, or a filter.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// `text` or `json`.
    #[arg(long, alias = "log_format", value_name = "FORMAT")]
    log_format: Option<String>,
    /// Where traces go (OTLP); nowhere if absent.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

impl Settings {
    /// The flags that were given, by setting.
    pub(crate) fn given(&self) -> BTreeMap<String, String> {
        let given = match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(given)) => given,
            _ => serde_json::Map::new(),
        };
        given.into_iter().filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect()
    }

    /// The names of all settings, in the order they are explained.
    pub(crate) fn names() -> Vec<String> {
        Settings::augment_args(Command::new("settings")).get_arguments().map(|arg| arg.get_id().to_string()).collect()
    }
}

/// The flag of a setting.
pub(crate) fn flag_of(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

/// The environment variable of a setting.
pub(crate) fn variable_of(name: &str) -> String {
    format!("HERMOD_{}", name.to_uppercase())
}

/// The setting most like `name`, if any is like it at all.
pub(crate) fn nearest(name: &str, names: &[String]) -> Option<String> {
    let likeness = |known: &String| strsim::jaro_winkler(&name.to_lowercase().replace('-', "_"), known);
    let best = names.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) > 0.8).then(|| best.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Config;

    #[test]
    fn every_setting_has_a_flag_and_every_flag_a_setting() {
        // A value for each name that any type of setting accepts, or an error that names it.
        let names = Settings::names();
        let serialized = serde_json::to_value(Config::default()).unwrap();
        for name in serialized.as_object().unwrap().keys() {
            assert!(names.contains(name), "the setting {name} has no flag");
        }
        for name in &names {
            let one = serde_json::json!({ name: serialized.get(name) });
            assert!(serde_json::from_value::<Config>(one).is_ok(), "the flag {name} has no setting");
        }
    }

    #[test]
    fn misspelt_names_find_their_neighbour() {
        let names = Settings::names();
        for (wrong, right) in
            [("listn", "listen"), ("in-flight-max", "in_flight_max"), ("MEMORYMAX", "memory_max"), ("tlscert", "tls_cert")]
        {
            assert_eq!(nearest(wrong, &names).as_deref(), Some(right));
        }
        assert_eq!(nearest("zzz", &names), None);
    }
}
