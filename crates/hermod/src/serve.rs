//! `hermod serve`: the real thing.
//!
//! Stdout is for whoever started it: the admin key on the very first start, then the one line that
//! says it is ready. The log goes to stderr, and so does that key if nobody reads stdout.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::config::{ConfigArgs, load};
use crate::output::Output;
use crate::server::{Mode, Server, init_telemetry};
use crate::signals::{self, Signals};

pub(crate) async fn run(args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let effective = load(args)?;
    effective.warn();
    let config = effective.config;
    let _telemetry = init_telemetry(&config)?;
    let mut signals = Signals::listen()?;
    let Some(started) = signals.unless_asked(Server::start(config, Mode::default())).await else { return Ok(signals::interrupted()) };
    let server = started?;
    let out = Output::new(false);
    // Before the line others wait for, so that who has seen that one has the key, too.
    if let Some(key) = server.admin_key() {
        let said = format!(
            "admin key: {key}\n\
             This key is shown once and never again. Keep it; `export HERMOD_KEY=...` lets the other commands use it."
        );
        // It can be had nowhere else: where stdout takes it not, perhaps stderr does.
        if !out.is_read(&said).unwrap_or(false) {
            let _said = writeln!(io::stderr(), "{said}");
        }
    }
    // Whatever became of stdout is no reason to stop serving.
    let _said = out.text(&format!("listening on {}", server.url()));
    signals.asked().await;
    Ok(signals.finish(server).await)
}
