//! Runs the plays that realms have scheduled.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::crew::Crew;
use crate::app::App;

/// So often all realms are looked at: what another server scheduled, or one that is gone, is found then.
const ALL_EVERY: Duration = Duration::from_secs(2);
/// The longest sleep: a clock that is set by hand may jump.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Keeps at it until the server ends.
pub(super) async fn run(app: App) {
    let (mut crew, mut wanted, mut last) = (Crew::default(), BTreeSet::new(), None::<Instant>);
    while !app.is_stopping() {
        wanted.append(&mut app.agenda.due(app.now()));
        if last.is_none_or(|last| last.elapsed() >= ALL_EVERY) {
            last = Some(Instant::now());
            wanted.extend(app.catalog.all_realms());
        }
        wanted.retain(|(space, realm)| {
            let (app, space, realm) = (&app, space.clone(), realm.clone());
            let name = (space.clone(), realm.clone());
            !crew.begin(&name, || {
                let app = app.clone();
                async move { app.run_due(&space, &realm).await }
            })
        });
        let wait = app.agenda.next().map_or(LOOK_EVERY, |next| next.since(app.now()).to_duration().min(LOOK_EVERY));
        tokio::select! {
            ((_, realm), ran) = crew.ended() => if let Some(Err(problem)) = ran {
                // It stays where it is, and is found again.
                tracing::debug!(realm = %realm, code = %problem.code, "scheduled plays could not be run");
            },
            () = tokio::time::sleep(wait) => {}
            () = app.agenda.changed() => {}
            () = app.stopping() => {}
        }
    }
    while !crew.is_idle() {
        crew.ended().await;
    }
}
