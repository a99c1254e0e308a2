//! Logs to standard error, as text or JSON; traces to a collector, where asked for.

use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{Config, ConfigError};

/// Keeps logging alive; writes out what is pending when it is dropped.
#[derive(Debug, Default)]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    _traces: Option<super::otel::Traces>,
}

/// Sets up logging for the whole process, as configured.
pub fn init(config: &Config) -> Result<Telemetry, ConfigError> {
    let fault = |name, reason: String| ConfigError { name, reason };
    let filter = EnvFilter::try_new(&config.log).map_err(|e| fault("log", format!("is no filter: {e}")))?;
    let logs = match config.log_format.as_str() {
        "text" => tracing_subscriber::fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr).boxed(),
        "json" => tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed(),
        _ => return Err(fault("log_format", "must be text or json".to_owned())),
    };
    #[cfg(not(feature = "otel"))]
    {
        if config.otlp.is_some() {
            return Err(fault("otlp", "needs a build with traces: cargo build --release --features otel".to_owned()));
        }
        tracing_subscriber::registry().with(logs.with_filter(filter)).try_init().ok();
        Ok(Telemetry::default())
    }
    #[cfg(feature = "otel")]
    {
        let traces = config.otlp.as_deref().map(super::otel::Traces::start).transpose()?;
        let layer = traces.as_ref().map(super::otel::Traces::layer);
        tracing_subscriber::registry().with(logs.with_filter(filter)).with(layer).try_init().ok();
        Ok(Telemetry { _traces: traces })
    }
}
