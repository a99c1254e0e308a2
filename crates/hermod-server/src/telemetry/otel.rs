//! Traces to an OpenTelemetry collector, over OTLP/HTTP: one span for each request.

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, layer};

use crate::config::ConfigError;

/// The way to the collector. What is pending is sent when it is dropped.
#[derive(Debug)]
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// `url` is the collector's base: `http://localhost:4318`.
    pub(crate) fn start(url: &str) -> Result<Traces, ConfigError> {
        // The exporter's HTTP client takes the process' provider; the server, which starts later, finds it installed.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let endpoint = format!("{}/v1/traces", url.trim_end_matches('/'));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .build()
            .map_err(|e| ConfigError { name: "otlp", reason: format!("cannot be used: {e}") })?;
        let resource = Resource::builder().with_service_name("hermod").build();
        Ok(Traces(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build()))
    }

    /// The layer that turns request spans into traces. Log filters do not apply to it.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let spans = Targets::new().with_target("hermod::request", tracing::Level::DEBUG);
        let layer = tracing_opentelemetry::layer().with_tracer(self.0.tracer("hermod"));
        layer::Layer::with_filter(layer, spans)
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        let _sent = self.0.shutdown();
    }
}
