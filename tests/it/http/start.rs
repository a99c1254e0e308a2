//! A server that cannot start says what to do about it, in one line.

use std::net::TcpListener;

use anyhow::{Context, Result, ensure};
use hermod_server::{Config, Mode, Server};
use hermod_tests::server::Hermod;

use super::site::{Caller, SOON, Site, config};

/// What `hermod serve` with these arguments prints before it gives up.
fn refused(args: &[&str]) -> Result<String> {
    let mut hermod = Hermod::options("serve").args(args.iter().copied()).start()?;
    let status = hermod.wait(SOON)?;
    let printed = hermod.lines().join("\n");
    ensure!(status.code() == Some(2), "{args:?} ends with {status}: {printed}");
    Ok(printed)
}

#[test]
fn what_keeps_a_server_from_starting_is_told_with_the_remedy() -> Result<()> {
    let running = Hermod::serve::<&str>([])?;
    let address = running.url()?.trim_start_matches("http://").to_owned();
    let data = running.folder().join("data").display().to_string();
    let file = running.folder().join("a-file");
    std::fs::write(&file, "")?;
    let file = file.display().to_string();
    let any = "127.0.0.1:0";
    let rows: [(&[&str], &[&str]); 14] = [
        (&["--listen", &address], &["listen", &address, "Address already in use", "another address"]),
        (&["--listen", any, "--data", &data], &[&data, "in use by another hermod process", "--data"]),
        (&["--listen", any, "--data", &file], &["data", &file, "choose another"]),
        (&["--listen", any, "--store", "mongodb://u:geheim@h"], &["store", "mongodb", "redis", "embedded"]),
        (&["--listen", any, "--store", "embeded"], &["store", "embeded", "redis://", "embedded"]),
        (&["--listen", any, "--catalog", "postgres://u:geheim@127.0.0.1:1/x"], &["catalog", "start its database", "not available"]),
        (&["--listen", any, "--catalog", "mysql://u:geheim@127.0.0.1:1/x"], &["catalog", "start its database", "not available"]),
        (&["--listen", any, "--catalog", "oracle://u:geheim@h/x"], &["catalog", "sqlite:", "postgres://", "mysql://"]),
        (&["--listen", any, "--partitions", "0"], &["partitions", "between 1 and 4096"]),
        (&["--listen", any, "--memory-max", "lots"], &["memory_max", "1GiB"]),
        (&["--listen", any, "--request-timeout", "0s"], &["request_timeout", "10s"]),
        (&["--listen", any, "--in-flight-max", "0"], &["in_flight_max", "at least 1"]),
        (&["--listen", any, "--tls-cert", &file], &["tls_cert", "tls_key"]),
        (&["--listen", any, "--log", "=="], &["log", "filter"]),
    ];
    for (args, words) in rows {
        let told = refused(args)?;
        for word in words {
            ensure!(told.contains(word), "{word:?} is expected with {args:?}: {told}");
        }
        ensure!(told.starts_with("error: ") && told.lines().count() == 1, "one line is enough: {told}");
        for foreign in ["geheim", "panicked", "Error(", "::", "SQL"] {
            ensure!(!told.contains(foreign), "{foreign:?} is nothing to print: {told}");
        }
        let parts: Vec<&str> = told.split(": ").collect();
        ensure!(parts.iter().enumerate().all(|(nth, part)| !parts[..nth].contains(part)), "it is said twice: {told}");
    }
    Ok(())
}

#[test]
fn partitions_are_fixed_when_the_data_is_made() -> Result<()> {
    let mut hermod = Hermod::serve(["--partitions", "32"])?;
    ensure!(hermod.terminate()?.success());
    let data = hermod.folder().join("data").display().to_string();
    let told = refused(&["--listen", "127.0.0.1:0", "--data", &data])?;
    ensure!(told.contains("created with 32 partitions, and 64 are configured; set partitions = 32"), "{told}");
    hermod.restart()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_failed_leaves_everything_free_for_the_next() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let busy = Config { listen: taken.local_addr()?, ..config(&folder) };
    ensure!(Server::start(busy, Mode::default()).await.is_err(), "the port is taken");
    let away = Config { catalog: "postgres://u@127.0.0.1:1/x".to_owned(), ..config(&folder) };
    ensure!(Server::start(away, Mode::default()).await.is_err(), "there is no such database");
    let server = Server::start(config(&folder), Mode::default()).await?;
    Caller::new(&server.url(), None).get("/readyz").await?.expect(200)?;
    server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_key_is_shown_by_a_start_that_succeeds() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let busy = Config { listen: taken.local_addr()?, ..config(&folder) };
    ensure!(Server::start(busy, Mode::default()).await.is_err(), "the port is taken");
    let server = Server::start(config(&folder), Mode::default()).await?;
    let key = server.admin_key().context("nobody has seen a key yet, so it must be shown now")?;
    Caller::new(&server.url(), Some(key)).get("/v1/keys").await?.expect(200)?;
    server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_keys_stays_on_this_machine() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let open = Mode { open: true, ..Mode::default() };
    let to_all = Config { listen: ([0, 0, 0, 0], 0).into(), ..config(&folder) };
    let told = Server::start(to_all, open).await.err().context("it must not start")?.to_string();
    ensure!(told.contains("asks for no keys") && told.contains("127.0.0.1"), "{told}");
    let server = Server::start(config(&folder), open).await?;
    let nobody = Caller::new(&server.url(), None);
    nobody.get("/v1/rules").await?.expect(200)?;
    nobody.with_key(Some("hk_wrong")).get("/v1/rules").await?.problem(401, "unauthorized", None)?;
    server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_may_not_read_the_data() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::start().await?;
    let mode = std::fs::metadata(site.folder.path().join("data"))?.permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    site.server.shutdown().await;
    Ok(())
}
