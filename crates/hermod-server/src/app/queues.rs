//! queue: the definitions of queues and of what recurs in them.

use std::sync::Arc;

use hermod_catalog::{CatalogOnce, Saved, SavedQueue, Scope};
use hermod_core::queue::backoff::permille;
use hermod_core::queue::{Cron, Mode, Overdue, Push, Queue, Schedule, Secret, Webhook, span};
use hermod_core::{Invalid, Name, QueueId, Recipient, SpaceId, Tag};

use super::{App, Caller};
use crate::code::{Code, Problem};

/// A queue as it comes from outside, not yet checked. What is absent has its default.
#[derive(Clone, Debug, Default)]
pub struct QueueDraft {
    /// Its name.
    pub queue: String,
    /// shared or sticky.
    pub mode: Option<String>,
    /// recipient or total.
    pub order: Option<String>,
    /// How long a delivery is held.
    pub lease: Option<String>,
    /// How long a worker lives without a heartbeat.
    pub worker_ttl: Option<String>,
    /// How long a recipient keeps its worker when there is nothing for it.
    pub idle_after: Option<String>,
    /// How often a delivery is tried.
    pub max_attempts: Option<u32>,
    /// The pauses between attempts.
    pub backoff: BackoffDraft,
    /// dead or drop.
    pub on_exhausted: Option<String>,
    /// block or skip.
    pub on_failure: Option<String>,
    /// After which time a late delivery is dropped; never if absent.
    pub drop_after: Option<String>,
    /// How fast overdue deliveries go out.
    pub catch_up_per_second: Option<u32>,
    /// The largest payload in bytes.
    pub max_payload: Option<u32>,
    /// How the server itself consumes it.
    pub push: Option<PushDraft>,
    /// Why the webhook is switched off, if it is.
    pub disabled: Option<String>,
}

/// The pauses between attempts, not yet checked. Numbers are text, so that nothing is rounded.
#[derive(Clone, Debug, Default)]
pub struct BackoffDraft {
    /// The first pause.
    pub first: Option<String>,
    /// By how much each is longer than the last.
    pub factor: Option<String>,
    /// The longest.
    pub max: Option<String>,
    /// Which share of a pause may be taken off it.
    pub jitter: Option<String>,
}

/// How the server itself consumes a queue, not yet checked.
#[derive(Clone, Debug)]
pub enum PushDraft {
    /// It prints each delivery.
    Log,
    /// It sends each delivery there.
    Webhook {
        /// Where to.
        url: String,
        /// What requests are signed with; what is stored, or a new one, if empty.
        secrets: Vec<Secret>,
        /// How many requests at once.
        concurrency: Option<u32>,
        /// How long a request may take.
        timeout: Option<String>,
    },
}

/// A delivery that recurs, not yet checked.
#[derive(Clone, Debug, Default)]
pub struct ScheduleDraft {
    /// Its queue.
    pub queue: String,
    /// Its name within the queue.
    pub name: String,
    /// A cron expression.
    pub cron: String,
    /// A time zone of the IANA database; UTC if absent.
    pub zone: Option<String>,
    /// shift or skip.
    pub dst: Option<String>,
    /// The text of a JSON value.
    pub payload: String,
    /// The recipient.
    pub to: Option<String>,
    /// By which its deliveries are found.
    pub tags: Vec<String>,
    /// Whether it runs.
    pub enabled: bool,
}

pub(super) fn set<T>(place: &mut T, given: Option<Result<T, Invalid>>) -> Result<(), Invalid> {
    if let Some(value) = given {
        *place = value?;
    }
    Ok(())
}

/// Clients take these out of a URL, however they are spelled.
pub(super) fn addressable(field: &'static str, id: &str) -> Result<(), Invalid> {
    match id {
        "." | ".." => Err(Invalid::new(field, "must not be . or .., which no path can hold")),
        _ => Ok(()),
    }
}

impl QueueDraft {
    /// Reads every field. Whether they are within their bounds and fit together is checked when it is saved.
    pub fn read(self) -> Result<Queue, Invalid> {
        addressable("queue", &self.queue)?;
        let mut queue = Queue::new(QueueId::new(&self.queue)?);
        set(&mut queue.mode, self.mode.map(|text| text.parse()))?;
        set(&mut queue.order, self.order.map(|text| text.parse()))?;
        set(&mut queue.lease, self.lease.map(|text| span("lease", &text)))?;
        set(&mut queue.worker_ttl, self.worker_ttl.map(|text| span("worker_ttl", &text)))?;
        set(&mut queue.idle_after, self.idle_after.map(|text| span("idle_after", &text)))?;
        set(&mut queue.max_attempts, self.max_attempts.map(Ok))?;
        set(&mut queue.backoff.first, self.backoff.first.map(|text| span("backoff.first", &text)))?;
        set(&mut queue.backoff.factor_permille, self.backoff.factor.map(|text| permille("backoff.factor", &text)))?;
        set(&mut queue.backoff.max, self.backoff.max.map(|text| span("backoff.max", &text)))?;
        set(&mut queue.backoff.jitter_permille, self.backoff.jitter.map(|text| permille("backoff.jitter", &text)))?;
        set(&mut queue.on_exhausted, self.on_exhausted.map(|text| text.parse()))?;
        set(&mut queue.on_failure, self.on_failure.map(|text| text.parse()))?;
        set(&mut queue.overdue, self.drop_after.map(|text| span("overdue.drop_after", &text).map(Overdue::DropAfter)))?;
        set(&mut queue.max_payload, self.max_payload.map(Ok))?;
        queue.catch_up_per_second = self.catch_up_per_second;
        queue.push = self.push.map(PushDraft::read).transpose()?;
        queue.disabled = self.disabled;
        Ok(queue)
    }
}

impl PushDraft {
    fn read(self) -> Result<Push, Invalid> {
        let PushDraft::Webhook { url, secrets, concurrency, timeout } = self else { return Ok(Push::Log) };
        let mut webhook = Webhook { secrets, ..Webhook::new(url) };
        set(&mut webhook.concurrency, concurrency.map(Ok))?;
        set(&mut webhook.timeout, timeout.map(|text| span("push.webhook.timeout", &text)))?;
        Ok(Push::Webhook(webhook))
    }
}

impl ScheduleDraft {
    /// Reads every field.
    pub fn read(self) -> Result<Schedule, Invalid> {
        addressable("name", &self.name)?;
        let dst = self.dst.map_or_else(|| Ok(Default::default()), |text| text.parse())?;
        let to = self.to.map(|to| Recipient::new(to).map_err(|fault| Invalid::new("to", fault.reason))).transpose()?;
        let schedule = Schedule {
            queue: QueueId::new(self.queue)?,
            name: Name::new(self.name)?,
            cron: Cron::new(&self.cron, self.zone.as_deref().unwrap_or("UTC"), dst)?,
            payload: self.payload.into(),
            to,
            tags: self.tags.iter().map(Tag::new).collect::<Result<_, _>>()?,
            enabled: self.enabled,
            version: 0,
        };
        schedule.check()?;
        Ok(schedule)
    }
}

fn no_queue(id: &QueueId) -> Problem {
    Problem::new(Code::NotFound, format!("There is no queue {id}."))
}

fn no_schedule(queue: &QueueId, name: &Name) -> Problem {
    Problem::new(Code::NotFound, format!("There is no schedule {name} of the queue {queue}."))
}

impl App {
    /// All queues of the space, by id.
    pub fn queues(&self, caller: &Caller) -> Result<Vec<Arc<Queue>>, Problem> {
        caller.need(Scope::QueuesRead)?;
        Ok(self.catalog.queues(&caller.space))
    }

    /// One queue.
    pub fn queue(&self, caller: &Caller, id: &str) -> Result<Arc<Queue>, Problem> {
        caller.need(Scope::QueuesRead)?;
        let id = QueueId::new(id)?;
        self.catalog.queue(&caller.space, &id).ok_or_else(|| no_queue(&id))
    }

    /// Adds or replaces a queue. The secret of a webhook is in the answer only if it was made up for it.
    pub async fn put_queue(&self, caller: &Caller, draft: QueueDraft, once: Option<&CatalogOnce>) -> Result<Saved<SavedQueue>, Problem> {
        caller.need(Scope::QueuesWrite)?;
        let queue = draft.read()?;
        if let Some(known) = self.catalog.queue(&caller.space, &queue.id) {
            self.need_same_places(&caller.space, &known, &queue).await?;
        }
        Ok(self.catalog.put_queue(&caller.space, queue, once).await?)
    }

    /// Deletes a queue and its schedules. It must hold nothing; what nobody holds is cancelled first if it `purges`.
    pub async fn delete_queue(&self, caller: &Caller, id: &str, purges: bool, once: Option<&CatalogOnce>) -> Result<(), Problem> {
        caller.need(Scope::QueuesWrite)?;
        let id = QueueId::new(id)?;
        if purges {
            caller.need(Scope::QueuesPush)?;
        }
        let space = &caller.space;
        // Asked again: what has the name by now is another queue.
        if let Some(once) = once
            && self.catalog.has_deleted_queue(once).await?
        {
            return Ok(());
        }
        let (known, mut runs) = (self.catalog.queue(space, &id), Vec::new());
        if let Some(queue) = &known {
            if purges {
                self.purge(space, queue).await?;
            }
            runs = self.need_empty(space, queue).await?;
        }
        if !self.catalog.delete_queue(space, &id, once).await? {
            return Err(no_queue(&id));
        }
        // Its schedules are gone, and so is what they made for later.
        if let Some(queue) = &known
            && let Err(problem) = self.cancel_in(space, queue, runs).await
        {
            tracing::warn!(queue = id.as_str(), code = problem.code.text(), "what schedules made for later stays in the store");
        }
        // Nor does one that is made again under its name have its workers.
        if let Some(queue) = known.filter(|queue| queue.mode == Mode::Sticky) {
            let (app, space) = (self.clone(), space.clone());
            // It goes on if nobody waits for it any more.
            let forgetting = tokio::spawn(async move { app.forget_owners(&space, &queue).await });
            if let Ok(Err(problem)) = forgetting.await {
                tracing::warn!(queue = id.as_str(), code = problem.code.text(), "who worked on a queue stays in the store");
            }
        }
        self.forget_queue(space, &id);
        Ok(())
    }

    /// Forgets the queues that are gone, whoever deleted them.
    pub(crate) fn forget_gone(&self) {
        for (space, queue) in self.watches.names().into_iter().chain(self.staffs.names()) {
            self.forget_queue(&space, &queue);
        }
    }

    /// What this server remembers of a queue goes with it, but for what is still asked for. Not if there is one of that name again.
    fn forget_queue(&self, space: &SpaceId, queue: &QueueId) {
        if self.catalog.queue(space, queue).is_none() {
            self.sender.forget(space.as_str(), queue.as_str());
            self.staffs.forget_queue(space, queue);
            self.watches.forget_queue(space, queue);
        }
    }

    /// All schedules of a queue, by name.
    pub fn schedules(&self, caller: &Caller, queue: &str) -> Result<Vec<Arc<Schedule>>, Problem> {
        let queue = self.queue(caller, queue)?;
        let all = self.catalog.schedules(&caller.space);
        Ok(all.iter().filter(|schedule| schedule.queue == queue.id).cloned().collect())
    }

    /// One schedule.
    pub fn schedule(&self, caller: &Caller, queue: &str, name: &str) -> Result<Arc<Schedule>, Problem> {
        let queue = self.queue(caller, queue)?;
        let name = Name::new(name)?;
        self.catalog.schedule(&caller.space, &queue.id, &name).ok_or_else(|| no_schedule(&queue.id, &name))
    }

    /// Adds or replaces a schedule.
    pub async fn put_schedule(
        &self,
        caller: &Caller,
        draft: ScheduleDraft,
        once: Option<&CatalogOnce>,
    ) -> Result<Saved<Schedule>, Problem> {
        caller.need(Scope::QueuesWrite)?;
        let schedule = draft.read()?;
        let is_sticky = self.catalog.queue(&caller.space, &schedule.queue).is_some_and(|queue| queue.mode == Mode::Sticky);
        if is_sticky && schedule.to.is_none() {
            let needed = format!("The queue {} is sticky: a delivery goes to its recipient's worker, so to is needed.", schedule.queue);
            return Err(Problem::new(Code::MissingField, needed).in_field("to"));
        }
        Ok(self.catalog.put_schedule(&caller.space, schedule, once).await?)
    }

    /// Deletes a schedule, and its runs to come. Those whose time has come stay.
    pub async fn delete_schedule(&self, caller: &Caller, queue: &str, name: &str, once: Option<&CatalogOnce>) -> Result<(), Problem> {
        caller.need(Scope::QueuesWrite)?;
        let (queue, name) = (QueueId::new(queue)?, Name::new(name)?);
        match self.catalog.delete_schedule(&caller.space, &queue, &name, once).await? {
            true => Ok(()),
            false => Err(no_schedule(&queue, &name)),
        }
    }
}
