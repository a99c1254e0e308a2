//! Ctrl-C and friends: the first asks for a graceful end, the second ends at once.

use std::process::ExitCode;

use crate::server::Server;

/// The exit code of a program ended by Ctrl-C, by a shell's custom.
const INTERRUPTED: u8 = 130;

/// The signals that ask a program to end. Listen before there is anything to end: who reads that a
/// server is ready may ask it to stop in the same moment.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Does `work`, or gives it up for a signal.
    pub(crate) async fn unless_asked<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.asked() => None,
        }
    }

    /// Lets the server finish what it has begun, unless there is another signal.
    pub(crate) async fn finish(&mut self, server: Server) -> ExitCode {
        tracing::info!("shutting down; once more ends it at once");
        match self.unless_asked(server.shutdown()).await {
            Some(()) => ExitCode::SUCCESS,
            None => interrupted(),
        }
    }
}

/// The exit code of a command that was given up.
pub(crate) fn interrupted() -> ExitCode {
    ExitCode::from(INTERRUPTED)
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn listen() -> anyhow::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn listen() -> anyhow::Result<Signals> {
        Ok(Signals {})
    }

    /// Waits for the next signal.
    pub(crate) async fn asked(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Nobody can ask any more, so nobody does.
            std::future::pending::<()>().await;
        }
    }
}
