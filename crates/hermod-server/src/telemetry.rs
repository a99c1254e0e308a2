//! What the server says about itself: logs, metrics and, where asked for, traces.

mod depths;
mod metrics;
#[cfg(feature = "otel")]
mod otel;
mod tracing_setup;

pub(crate) use depths::Depths;
pub(crate) use metrics::{Decision, Metrics};
pub use tracing_setup::{Telemetry, init};
