//! Deliveries that recur: of every schedule the next run is there before its time.
//!
//! A run is a delivery with a key of its own, made of the schedule, what it delivers, and its time: however many servers
//! create it, it is there once, and one of a schedule that was changed is another. The next one follows from the time
//! of the last, not from when that was noticed, so it never drifts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hermod_core::queue::{Change, Delivery, Due, Filter, Schedule, Shown, Status};
use hermod_core::{Micros, Name, QueueId, Recipient, SpaceId, Tag};
use tokio::time::{Instant, sleep_until};

use super::crew::{Crew, MOST};
use crate::app::{App, Caller, ListAsk, is_run};
use crate::code::Problem;

/// So often the schedules are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// So many runs of one schedule are looked at in one step.
const RUNS_MAX: usize = 1_000;

/// What a schedule is known by.
type Known = (SpaceId, QueueId, Name);

/// The schedules whose run was created, and the time of that; none where there is none to come.
type Created = HashMap<Known, (Arc<Schedule>, Option<Micros>)>;

/// What is to be done for a schedule: its run of that time created, and if it is new what was created before cancelled; or, if it is gone, the latter.
type Job = Option<(Arc<Schedule>, Option<Micros>, bool)>;

/// Keeps at it until the server ends.
pub(super) async fn run(app: App) {
    let (mut created, mut crew, mut wanted) = (Created::new(), Crew::default(), Vec::new());
    let mut look_at = Instant::now();
    while !app.is_stopping() {
        // Not more often than that: what cannot be done now is not tried without a pause.
        if Instant::now() >= look_at {
            look_at = Instant::now() + LOOK_EVERY;
            wanted = missing(&app, &created, &crew);
        }
        wanted.retain(|(name, job)| !begin(&app, &mut crew, name, job));
        tokio::select! {
            (name, ended) = crew.ended() => note(&mut created, name, ended),
            () = sleep_until(look_at) => {}
            () = app.stopping() => {}
        }
    }
    // What was deleted a moment ago leaves no run behind.
    finish(&mut crew, &mut created).await;
    for (name, job) in missing(&app, &created, &crew) {
        begin(&app, &mut crew, &name, &job);
    }
    finish(&mut crew, &mut created).await;
}

async fn finish(crew: &mut Crew<Known, Ended>, created: &mut Created) {
    while !crew.is_idle() {
        let (name, ended) = crew.ended().await;
        note(created, name, ended);
    }
}

fn begin(app: &App, crew: &mut Crew<Known, Ended>, name: &Known, job: &Job) -> bool {
    crew.begin(name, MOST, || {
        let (app, name, job) = (app.clone(), name.clone(), job.clone());
        async move {
            let Some((schedule, next, is_new)) = job else { return cancel_others(&app, &name, None).await.map(|()| None) };
            create(&app, &name, &schedule, next, is_new).await.map(|()| Some((schedule, next)))
        }
    })
}

/// What became of a schedule: it is gone, or its next run was created.
type Ended = Result<Option<(Arc<Schedule>, Option<Micros>)>, Problem>;

fn note(created: &mut Created, name: Known, ended: Option<Ended>) {
    match ended {
        Some(Ok(Some(run))) => drop(created.insert(name, run)),
        Some(Ok(None)) => drop(created.remove(&name)),
        Some(Err(problem)) => {
            let (queue, schedule) = (name.1.as_str(), name.2.as_str());
            tracing::debug!(queue, schedule, code = problem.code.text(), "a run could not be created; it will be tried again");
        }
        None => {}
    }
}

/// What is to be done, and is not under way.
fn missing(app: &App, created: &Created, crew: &Crew<Known, Ended>) -> Vec<(Known, Job)> {
    let now = app.now();
    let mut seen = HashMap::new();
    for (space, schedules) in app.catalog.all_schedules() {
        for schedule in schedules.iter() {
            seen.insert((space.clone(), schedule.queue.clone(), schedule.name.clone()), Arc::clone(schedule));
        }
    }
    let mut jobs: Vec<(Known, Job)> = created.keys().filter(|name| !seen.contains_key(name)).map(|name| (name.clone(), None)).collect();
    for (name, schedule) in seen {
        // Compared as a whole: one that was deleted and made again begins with the first version.
        let known = created.get(&name).filter(|(known, _)| *known == schedule);
        let next = match known {
            // Its time has not come, or it will not run again.
            Some((_, last)) if last.is_none_or(|last| last > now) => continue,
            Some((_, Some(last))) => schedule.cron.runs_after(*last).find(|run| *run > now),
            _ => schedule.cron.next_after(now),
        };
        let next = next.filter(|_| schedule.enabled);
        jobs.push((name, Some((schedule, next, known.is_none()))));
    }
    jobs.retain(|(name, _)| !crew.is_busy(name));
    jobs
}

/// The tag of all runs of a schedule.
fn tag(name: &Name) -> Result<Tag, Problem> {
    Ok(Tag::new(format!("schedule:{name}"))?)
}

fn key(schedule: &Schedule, run: Micros) -> String {
    let to = schedule.to.as_ref().map_or("", Recipient::as_str);
    let texts = [to, &schedule.payload].into_iter().chain(schedule.tags.iter().map(Tag::as_str));
    let print = hermod_core::partition::hash(texts.collect::<Vec<_>>().join("\0").as_bytes());
    format!("schedule/{}/{print:x}/{}", schedule.name, run.get() / 1_000_000)
}

async fn create(app: &App, name: &Known, schedule: &Schedule, next: Option<Micros>, is_new: bool) -> Result<(), Problem> {
    if let Some(run) = next {
        push(app, name, schedule, run).await?;
    }
    if is_new {
        // What was created for the schedule as it was before. Last: a partition that does not answer must not keep the run away.
        cancel_others(app, name, Some(schedule)).await?;
    }
    Ok(())
}

async fn push(app: &App, name: &Known, schedule: &Schedule, run: Micros) -> Result<(), Problem> {
    let mut delivery = Delivery::new(Due::At(run), true, schedule.payload.as_bytes());
    delivery.to = schedule.to.clone();
    delivery.key = Some(key(schedule, run));
    delivery.tags = schedule.tags.clone();
    delivery.tags.push(tag(&name.2)?);
    let pushed = app.push(&Caller::inside(name.0.clone()), name.1.as_str(), vec![delivery], None).await?;
    pushed.into_iter().try_for_each(|one| one.map(|_| ()))
}

/// Whether the delivery of this key is a run of the schedule as it is now. That does not depend on the time: a server
/// whose clock is late must not take away what another has created for later.
fn is_run_of(schedule: &Schedule, of: &str) -> bool {
    let seconds = of.rsplit('/').next().and_then(|text| text.parse::<u64>().ok());
    let Some(run) = seconds.and_then(|seconds| Micros::new(seconds.checked_mul(1_000_000)?)) else { return false };
    let before = run.since(Micros::saturating(1));
    schedule.enabled && of == key(schedule, run) && schedule.cron.next_after(before) == Some(run)
}

/// Cancels the runs of a schedule whose time has not come, but those of the schedule as it is.
async fn cancel_others(app: &App, name: &Known, schedule: Option<&Schedule>) -> Result<(), Problem> {
    let caller = Caller::inside(name.0.clone());
    // A queue that is gone has taken its schedules with it.
    if app.catalog.queue(&name.0, &name.1).is_none() {
        return Ok(());
    }
    // One that was attempted waits to be tried again: its time had come.
    let is_to_come = |shown: &Shown| shown.status == Status::Scheduled && shown.attempts == 0;
    let mut ask = ListAsk { filter: Filter::Tag(tag(&name.2)?), after: None, limit: RUNS_MAX };
    loop {
        let listing = app.deliveries(&caller, name.1.as_str(), &ask).await?;
        for (id, shown) in listing.items.iter().filter(|(_, shown)| is_to_come(shown)) {
            let body = hermod_core::queue::delivery::read_body(&shown.body);
            let is_over = body.is_some_and(|(meta, _)| is_run(&meta) && !schedule.is_some_and(|schedule| is_run_of(schedule, meta.key)));
            if is_over {
                app.edit(&caller, name.1.as_str(), &id.to_string(), Change::Cancel, None).await?;
            }
        }
        // Those whose time had come may be many, if nobody takes them.
        ask.after = listing.next;
        if ask.after.is_none() {
            return Ok(());
        }
    }
}
