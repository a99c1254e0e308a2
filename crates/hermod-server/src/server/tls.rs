//! TLS, where a certificate is configured.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::ServerError;
use crate::config::Config;

/// Reads the certificate and its key; `None` if TLS is off.
pub(crate) fn acceptor(config: &Config) -> Result<Option<TlsAcceptor>, ServerError> {
    let (Some(cert), Some(key)) = (&config.tls_cert, &config.tls_key) else { return Ok(None) };
    let fault =
        |name: &str, path: &std::path::Path, why: String| ServerError::Tls(format!("{name}: {} cannot be used: {why}", path.display()));
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(|certs| certs.collect::<Result<Vec<_>, _>>())
        .map_err(|e| fault("tls_cert", cert, e.to_string()))?;
    if chain.is_empty() {
        return Err(fault("tls_cert", cert, "it holds no certificate".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| match e {
        pem::Error::NoItemsFound => fault("tls_key", key, "it holds no private key".to_owned()),
        other => fault("tls_key", key, other.to_string()),
    })?;
    let mut server = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, private).map_err(|e| match e {
        rustls::Error::InconsistentKeys(_) => fault("tls_key", key, "it does not belong to the certificate".to_owned()),
        other => fault("tls_cert", cert, other.to_string()),
    })?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
}
