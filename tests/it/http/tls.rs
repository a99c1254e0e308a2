//! TLS, with a certificate made for the occasion.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hermod_server::{Config, Mode, Server};
use tempfile::TempDir;

use super::site::config;

/// A certificate for 127.0.0.1 that vouches for itself, and its key.
fn certificate(folder: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
    let (cert, key) = (folder.join(format!("{name}.cert.pem")), folder.join(format!("{name}.key.pem")));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
    openssl.args(["-addext", "subjectAltName=IP:127.0.0.1", "-out"]).arg(&cert).arg("-keyout").arg(&key);
    let made = openssl.output().context("running openssl")?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok((cert, key))
}

/// What `curl` prints and whether it is content; without `trusted` it trusts whom the system trusts.
async fn curl(trusted: Option<&Path>, args: &[&str]) -> Result<(bool, String)> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "30"]).args(args);
    if let Some(cert) = trusted {
        command.arg("--cacert").arg(cert);
    }
    let ran = tokio::task::spawn_blocking(move || command.output()).await?.context("running curl")?;
    let printed = [ran.stdout, ran.stderr].concat();
    Ok((ran.status.success(), String::from_utf8_lossy(&printed).into_owned()))
}

fn with_tls(folder: &TempDir, cert: &Path, key: &Path) -> Config {
    Config { tls_cert: Some(cert.to_owned()), tls_key: Some(key.to_owned()), ..config(folder) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_certificate_speaks_https_and_nothing_else() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (cert, key) = certificate(folder.path(), "one")?;
    let server = Server::start(with_tls(&folder, &cert, &key), Mode::default()).await?;
    let url = server.url();
    ensure!(url.starts_with("https://127.0.0.1:"), "{url}");
    let bearer = format!("Authorization: Bearer {}", server.admin_key().context("a first key")?);
    let check = r#"{"subject":"bot","action":"act"}"#;
    for (version, spoken) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let args = [version, "-H", &bearer, "-d", check, "-w", " over %{http_version}", &format!("{url}/v1/limit/check")];
        let (is_content, printed) = curl(Some(&cert), &args).await?;
        ensure!(is_content && printed.contains(r#""allowed":true"#) && printed.ends_with(&format!(" over {spoken}")), "{printed}");
    }
    let (is_content, printed) = curl(None, &[&format!("{url}/healthz")]).await?;
    ensure!(!is_content && printed.contains("certificate"), "a stranger's certificate is not trusted: {printed}");
    let (is_content, printed) = curl(None, &[&format!("{}/healthz", url.replace("https:", "http:"))]).await?;
    ensure!(!is_content && !printed.contains("ok"), "without TLS there is no answer: {printed}");
    let (is_content, _) = curl(Some(&cert), &[&format!("{url}/healthz")]).await?;
    ensure!(is_content, "and who tried without TLS has done no harm");
    server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_cannot_be_used_is_named_with_the_reason() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (cert, key) = certificate(folder.path(), "one")?;
    let (_, foreign) = certificate(folder.path(), "two")?;
    let (missing, empty) = (folder.path().join("missing.pem"), folder.path().join("empty.pem"));
    std::fs::write(&empty, "")?;
    for (cert, key, setting, path, why) in [
        (&cert, &foreign, "tls_key", &foreign, "does not belong to the certificate"),
        (&missing, &key, "tls_cert", &missing, "No such file"),
        (&cert, &missing, "tls_key", &missing, "No such file"),
        (&empty, &key, "tls_cert", &empty, "holds no certificate"),
        (&cert, &empty, "tls_key", &empty, "holds no private key"),
        (&key, &key, "tls_cert", &key, "holds no certificate"),
        (&cert, &cert, "tls_key", &cert, "holds no private key"),
    ] {
        let fault = Server::start(with_tls(&folder, cert, key), Mode::default()).await.err().context("it cannot start")?;
        let told = format!("{:#}", anyhow::Error::new(fault));
        let is_named = told.starts_with(&format!("{setting}: ")) && told.contains(&path.display().to_string());
        ensure!(is_named && told.contains(why), "{why} is expected of {setting}: {told}");
    }
    ensure!(!folder.path().join("data").exists(), "nothing was made meanwhile");
    Ok(())
}
