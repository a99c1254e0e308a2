//! The App: the only door to the engine.
//!
//! Every interface calls it with names it has checked and gets answers in the system's own words.
//! One file per capability.

mod decks;
mod events;
mod generations;
mod keys;
mod limit;
mod pick;
mod queue;
mod queues;
mod realm;
mod realms;
mod rules;
mod spaces;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermod_catalog::{ApiKey, Catalog, Scope};
use hermod_core::{Micros, Seed, SpaceId};
use hermod_engine::clock::ManualClock;
use hermod_engine::{Clock, Engine};
use tokio::sync::watch;

use crate::code::{Code, Problem};
use crate::push::Sender;
use crate::server::Mode;
use crate::telemetry::Metrics;

pub use decks::{CapDraft, DeckDraft, MessageDraft, ToDraft};
pub use events::{EventAnswer, EventsAnswer, EventsAsk, EventsTold};
pub use limit::{CheckAnswer, CheckAsk, LeaseAnswer, LeaseAsk, LeaseSaid, ReserveAnswer, Said, SettleAnswer, SettleOutcome};
use limit::{Local, Refusals, Top};
use pick::Hints;
pub use pick::{Considered, HistoryAnswer, Looked, PickAnswer, PickAsk, PickSettled, PickedAnswer, Verdict};
pub use queue::{
    Bulk, ClaimAsk, Explanation, ListAsk, Listing, PushAnswer, Registered, RelayAnswer, SettleAsk, StreamAsk, Taken, WorkersAnswer,
};
pub(crate) use queue::{GRACE, WAIT_MAX, is_run};
use queue::{Replies, Staffs, Watches};
pub use queues::{BackoffDraft, PushDraft, QueueDraft, ScheduleDraft};
pub use realm::{
    AccountAnswer, Audit, AuditFault, CommitAnswer, EnactAsk, LedgerFrom, MarkAnswer, Odds, Outlook, RealmAnswer, RealmTold, SimulateAsk,
    Spread, SupplyAnswer,
};
pub(crate) use realm::{Agenda, odds};
pub use rules::RuleDraft;

/// Everything a request needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    pub(crate) engine: Engine,
    pub(crate) catalog: Catalog,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    /// Refusals that are known to stand; none where asking again costs nothing.
    refusals: Option<Arc<Refusals>>,
    /// Takes over while the store is away.
    local: Arc<Local>,
    /// Who is refused most.
    top: Arc<Top>,
    /// When deliveries may be claimed, and who waits for them.
    watches: Arc<Watches>,
    /// The workers that were heard of here.
    staffs: Arc<Staffs>,
    /// Who waits for replies.
    replies: Arc<Replies>,
    /// What is known of subjects between picks.
    hints: Arc<Hints>,
    /// When scheduled plays are due.
    pub(crate) agenda: Arc<Agenda>,
    /// For each partition: who plays in its realms and was overtaken waits here for their turn.
    turns: Arc<[tokio::sync::Mutex<()>]>,
    /// Counts draws: where a delivery goes that belongs nowhere, how much a pause is cut, which message comes first.
    draws: Arc<AtomicU64>,
    /// Sends deliveries to webhooks.
    pub(crate) sender: Sender,
    /// Set when the server ends: nobody waits any more.
    stop: Arc<watch::Sender<bool>>,
    /// Nobody needs a key: for `hermod dev`.
    is_open: bool,
}

/// Who asks, and what they may do.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The space they act in.
    pub space: SpaceId,
    /// Their key; none on an open server.
    key: Option<Arc<ApiKey>>,
}

impl Caller {
    /// Whoever holds the App itself.
    pub(crate) fn inside(space: SpaceId) -> Caller {
        Caller { space, key: None }
    }

    /// Refuses unless the caller may do this.
    pub fn need(&self, scope: Scope) -> Result<(), Problem> {
        if self.may(scope) {
            return Ok(());
        }
        Err(Problem::new(Code::Forbidden, format!("This key lacks the scope {scope}.")))
    }

    /// Whether the caller may do this.
    pub fn may(&self, scope: Scope) -> bool {
        self.key.as_ref().is_none_or(|key| key.allows(scope))
    }
}

/// A store that fails is asked again after so long.
pub(crate) const AGAIN: Duration = Duration::from_millis(500);

/// Who listens or waits has their key looked at so often: one that is deleted is promised to be of no use after a second.
const KEY_EVERY: Duration = Duration::from_millis(250);

fn unknown_key() -> Problem {
    Problem::new(Code::Unauthorized, "This API key is not known; it may have been deleted.")
}

/// Does work of several steps to its end, also if whoever asked leaves meanwhile: a request that is given up is
/// dropped where it stands.
pub(crate) async fn to_the_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(fault) => match fault.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and this with it.
            Err(_) => std::future::pending().await,
        },
    }
}

impl App {
    pub(crate) fn new(engine: Engine, catalog: Catalog, clock: Clock, metrics: Arc<Metrics>, sender: Sender, mode: Mode) -> App {
        let refusals = limit::refusals_for(&engine, &clock).map(Arc::new);
        let is_elsewhere = matches!((&engine, &clock), (Engine::Redis(_), Clock::System));
        let watches = Arc::new(Watches::new(engine.partitions().count(), is_elsewhere));
        let local = Arc::new(Local::new(engine.partitions()));
        let turns = (0..engine.partitions().count()).map(|_| tokio::sync::Mutex::default()).collect();
        App {
            engine,
            catalog,
            clock,
            metrics,
            refusals,
            local,
            top: Arc::default(),
            watches,
            staffs: Arc::default(),
            replies: Arc::default(),
            hints: Arc::default(),
            agenda: Arc::default(),
            turns,
            draws: Arc::new(AtomicU64::new(mode.seed.unwrap_or_else(|| RandomState::new().hash_one(0)))),
            sender,
            stop: Arc::new(watch::Sender::new(false)),
            is_open: mode.open,
        }
    }

    /// Whoever waits is told that there is nothing.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Ends when the server does.
    pub(crate) async fn stopping(&self) {
        let mut stop = self.stop.subscribe();
        let _ended = stop.wait_for(|is_stopping| *is_stopping).await;
    }

    /// Who has something to do before the store is closed keeps this until it is done.
    pub(crate) fn unfinished(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Ends when nobody has anything left to do.
    pub(crate) async fn finished(&self) {
        self.stop.closed().await;
    }

    /// Who presents this key. On an open server a request without one is the default space's.
    pub fn caller(&self, presented: Option<&str>) -> Result<Caller, Problem> {
        let Some(presented) = presented else {
            if self.is_open {
                return Ok(Caller { space: SpaceId::default_space(), key: None });
            }
            return Err(Problem::new(Code::Unauthorized, "Send an API key: Authorization: Bearer hk_..."));
        };
        let key = self.catalog.authenticate(presented).ok_or_else(unknown_key)?;
        Ok(Caller { space: key.space.clone(), key: Some(key) })
    }

    /// Refuses if the caller's key was deleted since they began, or may not do this any more.
    pub(crate) fn need_still(&self, caller: &Caller, scope: Scope) -> Result<(), Problem> {
        let Some(key) = &caller.key else { return Ok(()) };
        self.catalog.key(&key.id).filter(|key| key.allows(scope)).map(drop).ok_or_else(unknown_key)
    }

    /// Ends when the caller may not do this any more.
    pub(crate) async fn revoked(&self, caller: &Caller, scope: Scope) {
        while self.need_still(caller, scope).is_ok() {
            tokio::time::sleep(KEY_EVERY).await;
        }
    }

    /// Chance, another one each time.
    fn seed(&self) -> Seed {
        Seed::new(self.draws.fetch_add(1, Ordering::Relaxed))
    }

    /// The time of this server.
    pub fn now(&self) -> Micros {
        self.clock.now()
    }

    /// The clock that stands still, if this server has one.
    pub fn manual_clock(&self) -> Option<&ManualClock> {
        match &self.clock {
            Clock::Manual(clock) => Some(clock),
            Clock::System => None,
        }
    }

    /// Moves a manual clock on.
    pub fn advance(&self, span: Micros) -> Result<Micros, Problem> {
        match &self.clock {
            Clock::Manual(clock) => Ok(clock.advance(span)),
            Clock::System => {
                Err(Problem::new(Code::NotFound, "This server follows the system's clock; start it with hermod dev --manual-clock."))
            }
        }
    }

    /// What of the two backends answers.
    pub fn readiness(&self) -> (Result<(), hermod_engine::EngineError>, bool) {
        (self.engine.ready(), self.catalog.is_healthy())
    }
}
