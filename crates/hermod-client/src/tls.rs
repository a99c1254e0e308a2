//! The TLS configuration: rustls on ring, trusting what the system trusts.
//!
//! It is handed to the HTTP client ready-made. The alternative, a process-wide default provider, is
//! the program's to choose, not a library's.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::error::ClientError;

/// A configuration for https, or one that trusts nobody for a client that will never use it: a
/// machine without certificates must still be able to speak plain http.
pub(crate) fn config(https: bool) -> Result<ClientConfig, ClientError> {
    let fault = |fault: rustls::Error| ClientError::invalid("TLS", fault.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(fault)?;
    Ok(if https {
        builder.with_platform_verifier().map_err(fault)?.with_no_client_auth()
    } else {
        builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
    })
}
