//! Events as they happen, for as long as somebody listens.

use std::time::Duration;

use hermod_catalog::Scope;
use tokio::sync::mpsc;

use super::{App, Caller, Cursor, EventAnswer, EventsAsk};
use crate::app::AGAIN;
use crate::code::Problem;

/// So often the logs are looked at.
const EVERY: Duration = Duration::from_millis(250);

/// What one who follows is told.
#[derive(Clone, Debug)]
pub enum EventsTold {
    /// These happened.
    Events(Vec<EventAnswer>),
    /// Some happened that are not kept any more; the reader is here now.
    Gap(String),
    /// Nothing that was asked for; the reader is here now.
    At(String),
}

impl App {
    /// Tells events as they happen, until nobody listens any more, the caller's key is deleted, or the server ends.
    pub async fn follow_events(&self, caller: &Caller, ask: EventsAsk) -> Result<mpsc::Receiver<EventsTold>, Problem> {
        caller.need(Scope::EventsRead)?;
        // Before the answer begins: all that happens after it is told.
        let cursor = self.events_from(&caller.space, &ask.after).await?;
        let (send, receive) = mpsc::channel(1);
        tokio::spawn(feed(self.clone(), caller.clone(), cursor, ask, send));
        Ok(receive)
    }
}

async fn feed(app: App, caller: Caller, mut cursor: Cursor, ask: EventsAsk, send: mpsc::Sender<EventsTold>) {
    let mut told = String::new();
    while !send.is_closed() && !app.is_stopping() && app.need_still(&caller, Scope::EventsRead).is_ok() {
        let before = cursor.clone();
        let (tell, pause) = match app.events_page(&caller.space, &mut cursor, &ask).await {
            Ok(page) => {
                let mut tell = Vec::new();
                if page.gap {
                    // The events that follow it say where the reader is.
                    tell.push(EventsTold::Gap(before.to_string()));
                }
                if !page.items.is_empty() {
                    tell.push(EventsTold::Events(page.items));
                } else if page.next != told {
                    tell.push(EventsTold::At(page.next.clone()));
                }
                told = page.next;
                (tell, if page.more { Duration::ZERO } else { EVERY })
            }
            Err(problem) => {
                tracing::debug!(code = problem.code.text(), "a reader of events waits for the store");
                cursor = before;
                (Vec::new(), AGAIN)
            }
        };
        for one in tell {
            tokio::select! {
                sent = send.send(one) => if sent.is_err() { return },
                () = app.revoked(&caller, Scope::EventsRead) => return,
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
