//! Runs the plays that realms have scheduled.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use hermod_core::{RealmId, SpaceId};
use tokio::time::Instant;

use super::crew::{Crew, MOST};
use crate::app::App;
use crate::code::Problem;

/// So often all realms are looked at: what another server scheduled, or one that is gone, is found then.
const ALL_EVERY: Duration = Duration::from_secs(2);
/// The longest sleep: a clock that is set by hand may jump.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// So many of those that are only looked at are looked at together: there is room for what is due, also while a shard that is away makes them hang.
const LOOKED_AT: usize = MOST / 2;

type Name = (SpaceId, RealmId);

/// Keeps at it until the server ends.
pub(super) async fn run(app: App) {
    let (mut due, mut all, mut last) = (BTreeSet::new(), VecDeque::new(), None::<Instant>);
    let mut crew = Crew::default();
    while !app.is_stopping() {
        due.append(&mut app.agenda.due(app.now()));
        // Everybody has had a turn before anybody has another.
        if all.is_empty() && last.is_none_or(|last| last.elapsed() >= ALL_EVERY) {
            last = Some(Instant::now());
            all.extend(app.catalog.all_realms());
        }
        due.retain(|name| !begin(&app, &mut crew, name, MOST));
        all.retain(|name| !begin(&app, &mut crew, name, LOOKED_AT));
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

fn begin(app: &App, crew: &mut Crew<Name, Result<(), Problem>>, name: &Name, most: usize) -> bool {
    crew.begin(name, most, || {
        let (app, (space, realm)) = (app.clone(), name.clone());
        async move { app.run_due(&space, &realm).await }
    })
}
