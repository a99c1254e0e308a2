//! Checks a configuration by doing what a server would do at its start, and says what is wrong.

use hermod_engine::{Clock, Engine, embedded};

use crate::config::{Config, Settings};
use crate::server::{open_catalog, open_engine, tls};

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found.
    pub what: String,
    /// What to do.
    pub advice: Option<String>,
}

impl Finding {
    fn good(what: impl Into<String>) -> Finding {
        Finding { ok: true, what: what.into(), advice: None }
    }

    fn bad(what: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { ok: false, what: what.into(), advice: Some(advice.into()) }
    }
}

/// Looks at everything, also when something is wrong.
pub async fn doctor(config: &Config) -> Vec<Finding> {
    let settings = match config.settings() {
        Ok(settings) => settings,
        Err(fault) => return vec![Finding::bad(fault.to_string(), "correct this setting; hermod config shows where it comes from")],
    };
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let mut findings = vec![Finding::good("the settings can be read"), listen(config).await];
    if let Err(fault) = tls::acceptor(config) {
        findings.push(Finding::bad(fault.to_string(), "correct tls_cert and tls_key: files that this user can read"));
    }
    // As a server does: what comes to lie in it is for nobody else to read.
    if let Err(fault) = embedded::create_private(&config.data) {
        findings.push(Finding::bad(format!("{} cannot be made: {fault}", config.data.display()), "make it, or set data to another folder"));
    }
    findings.push(store(config, &settings).await);
    findings.push(catalog(&settings).await);
    if !config.is_loopback() && config.tls_cert.is_none() {
        findings.push(Finding::bad(
            format!("{} can be reached from other machines, and API keys would travel unencrypted", config.listen),
            "set tls_cert and tls_key, or put a proxy with TLS in front",
        ));
    }
    findings
}

async fn listen(config: &Config) -> Finding {
    match tokio::net::TcpListener::bind(config.listen).await {
        Ok(_) => Finding::good(format!("{} is free to listen on", config.listen)),
        Err(fault) => Finding::bad(
            format!("{} cannot be listened on: {fault}", config.listen),
            "stop what runs there, or set listen to another address",
        ),
    }
}

async fn store(config: &Config, settings: &Settings) -> Finding {
    let opened = open_engine(config, settings, &Clock::System).await;
    match opened {
        Ok(engine) => {
            let ready = engine.ready();
            let what = match &engine {
                Engine::Embedded(embedded) => {
                    format!("the embedded store in {} opens, with {} records", config.data.display(), embedded.records())
                }
                Engine::Redis(_) => "the store answers and is fit for use".to_owned(),
            };
            let _closed = engine.close().await;
            match ready {
                Ok(()) => Finding::good(what),
                Err(fault) => {
                    Finding::bad(fault.to_string(), "start the store, or correct its address; a running server waits for it by itself")
                }
            }
        }
        Err(fault) => Finding::bad(format!("the store cannot be used: {fault}"), "do as it says, then run hermod doctor again"),
    }
}

async fn catalog(settings: &Settings) -> Finding {
    match open_catalog(settings).await {
        Ok(catalog) => {
            catalog.close().await;
            Finding::good("the catalog's database answers, and its tables are up to date")
        }
        Err(fault) => {
            let cause = std::error::Error::source(&fault).map(|source| format!(" ({source})")).unwrap_or_default();
            Finding::bad(format!("the catalog cannot be opened: {fault}{cause}"), "start the database, or correct the setting catalog")
        }
    }
}
