//! The configuration: one name each for file, environment and flag.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hermod_core::Partitions;
use hermod_engine::redis::Address;
use serde::{Deserialize, Serialize};

use crate::push::Private;

/// All settings. Every field has a default; `hermod config` prints where each value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The folder of the embedded store and of the SQLite catalog.
    pub data: PathBuf,
    /// `embedded`, or the URL of a Redis or Valkey.
    pub store: String,
    /// The URL of the catalog's database; empty: SQLite in `data`.
    pub catalog: String,
    /// How many partitions; fixed when the data is created.
    pub partitions: u16,
    /// On Redis: `memory`, or `replicas:N` to wait for N replicas where a rule is durable.
    pub durability: String,
    /// The memory bound of the embedded store: `1GiB`.
    pub memory_max: String,
    /// How many requests are worked on at once; more are told to come back.
    pub in_flight_max: usize,
    /// The largest body: `1MiB`.
    pub body_max: String,
    /// How long a request may take: `10s`.
    pub request_timeout: String,
    /// Which private networks webhooks may reach: `none`, `all`, or `10.0.0.0/8, fd00::/8`.
    pub webhook_networks: String,
    /// Whether checks and the gate also answer with the older `X-RateLimit-*` headers.
    pub legacy_headers: bool,
    /// The certificate chain, PEM. With `tls_key` it turns TLS on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// What is logged: `info`, or a filter such as `hermod=debug`.
    pub log: String,
    /// `text` or `json`.
    pub log_format: String,
    /// Where traces go: the URL of an OpenTelemetry collector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<String>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 7700)),
            data: PathBuf::from("./hermod-data"),
            store: "embedded".to_owned(),
            catalog: String::new(),
            partitions: Partitions::DEFAULT.count(),
            durability: "memory".to_owned(),
            memory_max: "1GiB".to_owned(),
            in_flight_max: 1024,
            body_max: "1MiB".to_owned(),
            request_timeout: "10s".to_owned(),
            webhook_networks: "none".to_owned(),
            legacy_headers: false,
            tls_cert: None,
            tls_key: None,
            log: "info".to_owned(),
            log_format: "text".to_owned(),
            otlp: None,
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct ConfigError {
    /// The setting's name.
    pub name: &'static str,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl ConfigError {
    fn new(name: &'static str, reason: impl Into<String>) -> ConfigError {
        ConfigError { name, reason: reason.into() }
    }
}

/// Where state lives.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Embedded,
    Redis(Address),
}

/// The settings, read.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) store: Store,
    pub(crate) catalog: String,
    pub(crate) partitions: Partitions,
    pub(crate) replicas: u32,
    pub(crate) memory_max: usize,
    pub(crate) body_max: usize,
    pub(crate) request_timeout: Duration,
    pub(crate) webhook_networks: Private,
}

impl Config {
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let store = match self.store.as_str() {
            "embedded" => Store::Embedded,
            url => Store::Redis(Address::parse(url).map_err(|fault| {
                let reason = fault.to_string().replacen("store: ", "", 1);
                ConfigError::new("store", format!("{reason}; or write embedded"))
            })?),
        };
        let catalog = match self.catalog.as_str() {
            "" => format!("sqlite:{}", self.data.join("catalog.db").display()),
            url => url.to_owned(),
        };
        let partitions = Partitions::new(self.partitions).ok_or_else(|| ConfigError::new("partitions", "must be between 1 and 4096"))?;
        let replicas = match self.durability.as_str() {
            "memory" => 0,
            text => text
                .strip_prefix("replicas:")
                .and_then(|n| n.parse().ok())
                .filter(|n| (1..=16).contains(n))
                .ok_or_else(|| ConfigError::new("durability", "must be memory, or replicas:N with N from 1 to 16"))?,
        };
        if replicas > 0 && matches!(store, Store::Embedded) {
            return Err(ConfigError::new(
                "durability",
                "must be memory where the store is embedded: it has no replicas, and is on disk anyway",
            ));
        }
        if self.in_flight_max == 0 {
            return Err(ConfigError::new("in_flight_max", "must be at least 1"));
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(ConfigError::new("tls_cert", "needs tls_key, and tls_key needs tls_cert"));
        }
        let request_timeout = humantime::parse_duration(&self.request_timeout)
            .ok()
            .filter(|span| !span.is_zero())
            .ok_or_else(|| ConfigError::new("request_timeout", "must be a duration such as 10s"))?;
        let webhook_networks = self
            .webhook_networks
            .parse()
            .map_err(|_| ConfigError::new("webhook_networks", "must be none, all, or networks such as 10.0.0.0/8, fd00::/8"))?;
        Ok(Settings {
            store,
            catalog,
            partitions,
            replicas,
            memory_max: bytes("memory_max", &self.memory_max)?,
            body_max: bytes("body_max", &self.body_max)?,
            request_timeout,
            webhook_networks,
        })
    }

    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        self.listen.ip().is_loopback()
    }
}

/// A number of bytes: `65536`, `64KiB`, `1MiB`, `2GiB`.
fn bytes(name: &'static str, text: &str) -> Result<usize, ConfigError> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: usize = match text.get(digits.len()..).unwrap_or("") {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => 0,
    };
    let count: Option<usize> = digits.trim().parse().ok();
    count
        .and_then(|n| n.checked_mul(unit))
        .filter(|n| *n > 0)
        .ok_or_else(|| ConfigError::new(name, "must be a number of bytes such as 512KiB, 64MiB or 1GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_settings_say_which_and_what_would_be_right() {
        let good = Config::default();
        assert!(good.settings().is_ok());
        let cases: [(&str, Config); 8] = [
            ("store", Config { store: "mongodb://x".to_owned(), ..good.clone() }),
            ("partitions", Config { partitions: 0, ..good.clone() }),
            ("durability", Config { durability: "replicas:0".to_owned(), ..good.clone() }),
            ("durability", Config { durability: "replicas:1".to_owned(), ..good.clone() }),
            ("memory_max", Config { memory_max: "1GB".to_owned(), ..good.clone() }),
            ("body_max", Config { body_max: "0".to_owned(), ..good.clone() }),
            ("request_timeout", Config { request_timeout: "soon".to_owned(), ..good.clone() }),
            ("tls_cert", Config { tls_cert: Some("x".into()), ..good.clone() }),
        ];
        for (name, config) in cases {
            assert_eq!(config.settings().unwrap_err().name, name);
        }
    }
}
