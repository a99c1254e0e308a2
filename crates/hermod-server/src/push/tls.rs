//! TLS towards receivers: rustls on ring, trusting what the system trusts, and what is added.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::Verifier;

/// Trusts what the system trusts. A machine without certificates can still push over plain http, so that is
/// a warning and no error; https then fails with "the certificate is not trusted".
pub(super) fn system() -> ClientConfig {
    trusting(Vec::new()).unwrap_or_else(|fault| {
        tracing::warn!(error = %fault, "no certificates to trust: webhooks over https will fail");
        builder(provider()).with_root_certificates(RootCertStore::empty()).with_no_client_auth()
    })
}

/// Trusts `roots` beside what the system trusts; an error if one of them is no certificate.
pub(super) fn trusting(roots: Vec<CertificateDer<'static>>) -> Result<ClientConfig, rustls::Error> {
    let provider = provider();
    let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider))?;
    Ok(builder(provider).dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn builder(provider: Arc<CryptoProvider>) -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    builder.expect("ring has the suites of all default versions")
}
