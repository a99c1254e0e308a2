//! Runs the plays that realms have scheduled.

use std::time::Duration;

use crate::app::App;

/// So often all realms are looked at: what another server scheduled, or one that is gone, is found then.
const ALL_EVERY: Duration = Duration::from_secs(2);
/// The longest sleep: a clock that is set by hand may jump.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Keeps at it until the server ends.
pub(super) async fn run(app: App) {
    let mut last = None::<tokio::time::Instant>;
    loop {
        let mut realms = app.agenda.due(app.clock.now());
        if last.is_none_or(|last| last.elapsed() >= ALL_EVERY) {
            last = Some(tokio::time::Instant::now());
            realms.extend(app.catalog.all_realms());
        }
        for (space, realm) in realms {
            match app.run_due(&space, &realm).await {
                Ok(Some(next)) => app.agenda.note(next, &space, &realm),
                Ok(None) => {}
                // It stays where it is, and is found again.
                Err(problem) => tracing::debug!(realm = %realm, code = %problem.code, "scheduled plays could not be run"),
            }
            if app.is_stopping() {
                return;
            }
        }
        let wait = app.agenda.next().map_or(LOOK_EVERY, |next| next.since(app.clock.now()).to_duration().min(LOOK_EVERY));
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = app.agenda.changed() => {}
            () = app.stopping() => return,
        }
    }
}
