//! `hermod dev`: everything open on loopback, data that goes when it ends, and something to look at.
//!
//! It reads no configuration: what is tried here must not depend on, or touch, a real installation.

mod demo;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use hermod_client::Client;

use crate::output::Output;
use crate::server::{Config, Mode, Server, init_telemetry};
use crate::signals::{self, Signals};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermod dev
  hermod dev --manual-clock      time stands still until you move it
  hermod dev --seed 7 --no-demo  the same draws every time, and nothing in it but yours")]
pub(crate) struct DevArgs {
    /// Let time stand still until POST /v1/clock moves it.
    #[arg(long)]
    manual_clock: bool,
    /// Make every draw repeatable: which message is picked, and those of the demo traffic.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Start empty: no demo rules, no demo traffic.
    #[arg(long)]
    no_demo: bool,
    /// Listen here, on loopback; without it any free port is taken if 7700 is not free.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// What is logged: error, warn, info, debug, trace, or a filter.
    #[arg(long, value_name = "FILTER", env = "HERMOD_LOG", default_value = "warn")]
    log: String,
}

pub(crate) async fn run(args: &DevArgs) -> anyhow::Result<ExitCode> {
    let data = tempfile::Builder::new().prefix("hermod-dev-").tempdir().context("cannot make a temporary folder")?;
    let mut config = Config::default();
    config.listen = address(args.listen, config.listen)?;
    config.data = data.path().to_owned();
    config.log = args.log.clone();
    let _telemetry = init_telemetry(&config)?;
    let mode = Mode { open: true, manual_clock: args.manual_clock, seed: args.seed };
    let mut signals = Signals::listen()?;
    let Some(started) = signals.unless_asked(Server::start(config, mode)).await else { return Ok(signals::interrupted()) };
    let server = started?;
    let url = server.url();
    let client = Client::new(&url)?;
    let mut traffic = None;
    if !args.no_demo {
        demo::fill(&client).await.context("cannot make the demo rules")?;
        // Where time stands still, so does the traffic: it would only be refused, again and again.
        if !args.manual_clock {
            traffic = Some(tokio::spawn(demo::traffic(client, args.seed)));
        }
    }
    Output::new(false).text(&greeting(&url, args))?;
    signals.asked().await;
    if let Some(traffic) = traffic {
        traffic.abort();
    }
    let done = signals.finish(server).await;
    // Not by dropping it: a folder that stays behind deserves a word.
    data.close().context("cannot remove the temporary folder")?;
    Ok(done)
}

/// The wanted address; else the usual one, on another port if that is taken.
fn address(wanted: Option<SocketAddr>, usual: SocketAddr) -> anyhow::Result<SocketAddr> {
    if let Some(wanted) = wanted {
        if !wanted.ip().is_loopback() {
            bail!("`hermod dev` needs no keys and therefore listens on loopback only, not on {wanted}; use `hermod serve` for others");
        }
        return Ok(wanted);
    }
    match TcpListener::bind(usual) {
        Err(fault) if fault.kind() == ErrorKind::AddrInUse => {
            eprintln!("port {} is taken; using a free one", usual.port());
            Ok(SocketAddr::new(usual.ip(), 0))
        }
        // Whatever else is wrong, the server will say it better.
        _ => Ok(usual),
    }
}

/// What it says when it is ready; the first line is the same as that of `hermod serve`.
fn greeting(url: &str, args: &DevArgs) -> String {
    let json = "-H 'content-type: application/json'";
    let mut text = format!(
        "listening on {url}\n\
         docs at {url}/docs\n\
         no keys needed; the data goes when this ends\n\n\
         create a rule, check it, list the rules:\n\
         curl -X POST {url}/v1/rules {json} -d '{{\"name\":\"hourly\",\"action\":\"mail/send\",\"limit\":2,\"per\":\"1h\"}}'\n\
         curl -X POST {url}/v1/limit/check {json} -d '{{\"subject\":\"me\",\"action\":\"mail/send\"}}'\n\
         curl {url}/v1/rules\n"
    );
    if args.manual_clock {
        text += &format!("\ntime stands still; an hour passes with:\ncurl -X POST {url}/v1/clock {json} -d '{{\"advance\":\"1h\"}}'\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_server_stays_on_loopback() {
        let usual = Config::default().listen;
        assert!(address(Some("0.0.0.0:7700".parse().unwrap()), usual).is_err());
        assert_eq!(address(Some("[::1]:9".parse().unwrap()), usual).unwrap(), "[::1]:9".parse().unwrap());
    }

    #[test]
    fn a_taken_port_is_evaded() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(address(None, taken.local_addr().unwrap()).unwrap().port(), 0);
    }
}
