//! realm: what is committed as it happens, for as long as somebody listens.

use std::sync::Arc;
use std::time::Duration;

use hermod_catalog::Scope;
use hermod_core::realm::ledger::LEDGER_MAX;
use hermod_core::realm::{Commits, Entry, Realm};
use hermod_core::{Micros, RealmId};
use tokio::sync::mpsc;

use super::{App, Caller, LedgerFrom};
use crate::app::AGAIN;
use crate::code::Problem;

/// So often the ledger is looked at.
const EVERY: Duration = Duration::from_millis(250);

/// What one who follows a realm is told.
#[derive(Debug)]
pub enum RealmTold {
    /// These were committed, in the realm as it is.
    Commits(Arc<Realm>, Vec<(u64, Micros, Entry)>),
    /// The ledger ends before where the reader was: the store has lost what came after this one.
    Gap(u64),
}

impl App {
    /// Tells what is committed after this one as it happens, until nobody listens any more, the caller's key is deleted, or the
    /// server ends.
    pub async fn follow_realm(&self, caller: &Caller, id: &RealmId, after: u64) -> Result<mpsc::Receiver<RealmTold>, Problem> {
        caller.need(Scope::RealmsRead)?;
        self.realm_of(&caller.space, id)?;
        let (send, receive) = mpsc::channel(1);
        tokio::spawn(feed(self.clone(), caller.clone(), id.clone(), after, send));
        Ok(receive)
    }
}

async fn feed(app: App, caller: Caller, id: RealmId, mut after: u64, send: mpsc::Sender<RealmTold>) {
    while !send.is_closed() && !app.is_stopping() && app.need_still(&caller, Scope::RealmsRead).is_ok() {
        let read = app.ledger(&caller, &id, LedgerFrom::After(after), LEDGER_MAX).await;
        let (tell, pause) = match read.and_then(|commits| Ok((commits, app.realm_of(&caller.space, &id)?))) {
            Ok((Commits { last, .. }, _)) if last < after => {
                after = last;
                (Some(RealmTold::Gap(last)), Duration::ZERO)
            }
            Ok((Commits { last, entries }, realm)) => {
                after = entries.last().map_or(after, |(seq, ..)| *seq);
                let pause = if after < last { Duration::ZERO } else { EVERY };
                (Some(RealmTold::Commits(realm, entries)).filter(RealmTold::is_something), pause)
            }
            Err(problem) if problem.code.is_retryable() => {
                tracing::debug!(code = problem.code.text(), "a reader of a realm's events waits for the store");
                (None, AGAIN)
            }
            Err(_) => return,
        };
        if let Some(one) = tell {
            tokio::select! {
                sent = send.send(one) => if sent.is_err() { return },
                () = app.revoked(&caller, Scope::RealmsRead) => return,
                () = app.stopping() => return,
            }
        }
        if pause > Duration::ZERO {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = send.closed() => {}
                () = app.stopping() => {}
            }
        }
    }
}

impl RealmTold {
    fn is_something(&self) -> bool {
        !matches!(self, RealmTold::Commits(_, commits) if commits.is_empty())
    }
}
