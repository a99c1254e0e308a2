//! Why an exchange failed, in words for whoever set the endpoint up.
//!
//! What the libraries say is for those who wrote them, and may tell more than an outsider should know: which
//! address a name has inside, for one. So their errors are sorted, never printed.

use std::error::Error;
use std::io::{self, ErrorKind};

use rustls::CertificateError;

use super::connect::NoConnection;

/// What to say where nothing better is known.
const UNKNOWN: &str = "the exchange failed";

/// It was closed before an answer came, or in the middle of it.
pub(super) const BROKE_OFF: &str = "the connection broke off";

/// The words for an error: those of the deepest cause that has any.
pub(super) fn why(error: &(dyn Error + 'static)) -> &'static str {
    let mut words = UNKNOWN;
    let mut next = Some(error);
    while let Some(error) = next {
        words = one(error).unwrap_or(words);
        // An I/O error that wraps another does not name it as its source, but the source of that.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = wrapped.map(|inner| -> &(dyn Error + 'static) { inner }).or_else(|| error.source());
    }
    words
}

fn one(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(fault) = error.downcast_ref::<NoConnection>() {
        return match fault {
            NoConnection::NotAdmitted => Some("the address is not a public one, and not allowed"),
            NoConnection::NotFound => Some("the name could not be resolved"),
            NoConnection::TooSlow => Some("no connection in time"),
            NoConnection::Failed(_) => Some("no connection"),
        };
    }
    if let Some(fault) = error.downcast_ref::<rustls::Error>() {
        return Some(tls(fault));
    }
    if let Some(fault) = error.downcast_ref::<io::Error>() {
        return io(fault.kind());
    }
    let fault = error.downcast_ref::<hyper::Error>()?;
    if fault.is_parse_too_large() {
        Some("the head of the answer is too large")
    } else if fault.is_parse() {
        Some("the answer is not HTTP/1.1")
    } else if fault.is_incomplete_message() || fault.is_closed() || fault.is_canceled() {
        Some(BROKE_OFF)
    } else {
        None
    }
}

fn io(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::ConnectionRefused => Some("connection refused"),
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => Some(BROKE_OFF),
        ErrorKind::TimedOut => Some("no connection in time"),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Some("the address cannot be reached"),
        _ => None,
    }
}

fn tls(fault: &rustls::Error) -> &'static str {
    let rustls::Error::InvalidCertificate(fault) = fault else { return "the TLS handshake failed" };
    match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "the certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "the certificate is not valid yet",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => "the certificate is for another name",
        CertificateError::UnknownIssuer => "the certificate is not trusted",
        _ => "the certificate is not valid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_known_cause_is_told() {
        let refused = NoConnection::Failed(io::Error::from(ErrorKind::ConnectionRefused));
        assert_eq!(why(&refused), "connection refused");
        assert_eq!(why(&NoConnection::Failed(io::Error::other("no file descriptors"))), "no connection");
        let tls = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::new(ErrorKind::InvalidData, tls));
        assert_eq!(why(&wrapped), "the certificate is not trusted");
        assert_eq!(why(&io::Error::other("10.0.0.1 is secret")), UNKNOWN);
    }
}
