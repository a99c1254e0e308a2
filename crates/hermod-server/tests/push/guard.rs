//! What may be reached, and over TLS by whom.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use hermod_server::push::{Guard, Private, Sender, Sent};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::receiver::{Receiver, ok};
use super::{endpoint, parcel, refused, sender};

#[tokio::test]
async fn this_machine_is_not_reached_under_any_name() {
    let receiver = Receiver::always(ok()).await;
    let port = receiver.address.port();
    let strict = Sender::new(Guard::default());
    let elsewhere = Sender::new(Guard { allow_private: "10.0.0.0/8, fd00::/8".parse().unwrap() });
    let hosts =
        ["127.0.0.1", "localhost", "LOCALHOST", "2130706433", "0x7f.1", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"];
    for host in hosts {
        let endpoint = endpoint(&format!("http://{host}:{port}/"));
        for sender in [&strict, &elsewhere] {
            let sent = sender.send(&endpoint, &parcel("dl_1")).await;
            assert_eq!(sent, refused(None, "the address is not a public one, and not allowed"), "{host}");
        }
    }
    for url in ["http://169.254.169.254/latest/meta-data/", "https://[fd00:ec2::254]/", "http://[64:ff9b::a9fe:a9fe]/"] {
        let sent = strict.send(&endpoint(url), &parcel("dl_1")).await;
        assert_eq!(sent, refused(None, "the address is not a public one, and not allowed"), "{url}");
    }
    assert_eq!(receiver.seen().connections, 0);
}

#[tokio::test]
async fn what_is_allowed_is_reached() {
    let receiver = Receiver::always(ok()).await;
    for host in ["127.0.0.1", "localhost", "0x7f.1"] {
        let endpoint = endpoint(&format!("http://{host}:{}/", receiver.address.port()));
        for sender in [sender(), Sender::new(Guard { allow_private: Private::All })] {
            assert_eq!(sender.send(&endpoint, &parcel("dl_1")).await, Sent::Accepted { status: 200 }, "{host}");
        }
    }
}

/// A certificate for `localhost` that signs itself, and an acceptor that shows it.
fn certificate(folder: &Path) -> (CertificateDer<'static>, TlsAcceptor) {
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=push.hermod.test", "-addext", "subjectAltName=DNS:localhost"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    let made = openssl.arg("-out").arg(&cert).arg("-keyout").arg(&key).output().expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let cert = CertificateDer::from_pem_file(cert).unwrap();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.clone()], key)
        .unwrap();
    (cert, TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn https_needs_a_certificate_that_is_trusted_and_fits() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, acceptor) = certificate(folder.path());
    let receiver = Receiver::start(|_| ok(), Some(acceptor)).await;
    let plain = Receiver::always(ok()).await;
    let guard = Guard { allow_private: Private::loopback() };
    let trusting = Sender::with_roots(guard.clone(), vec![cert]).unwrap();
    let url = |host: &str, port: u16| endpoint(&format!("https://{host}:{port}/"));

    let (port, parcel) = (receiver.address.port(), parcel("dl_1"));
    assert_eq!(trusting.send(&url("localhost", port), &parcel).await, Sent::Accepted { status: 200 });
    assert_eq!(trusting.send(&url("127.0.0.1", port), &parcel).await, refused(None, "the certificate is for another name"));
    assert_eq!(sender().send(&url("localhost", port), &parcel).await, refused(None, "the certificate is not trusted"));
    assert_eq!(receiver.seen().requests.len(), 1, "nothing is sent to whom it does not trust");
    let sent = trusting.send(&url("localhost", plain.address.port()), &parcel).await;
    assert!(matches!(&sent, Sent::Refused { status: None, .. }), "{sent:?}");
    assert!(Sender::with_roots(guard, vec![CertificateDer::from(vec![1, 2, 3])]).is_err());
}
