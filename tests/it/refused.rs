//! A call that is refused changes nothing: no record, and not how long one is kept. Whoever tries again is not locked
//! out by trying.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use hermod_core::limit::{Act, Algorithm, Lease, Limited, Pattern, Reserve, Reserved, Rule, Verdict};
use hermod_core::{Micros, Name, Operation, Outcome, RuleId, Subject, key};
use hermod_engine::Engine;
use hermod_tests::lane::START;
use hermod_tests::{EngineLane, Store, server};

const MINUTE: u64 = 60_000_000;

fn rule(name: &str, algorithm: Algorithm, limit: u64, per: &str) -> Result<Rule> {
    let rule = Rule::new(RuleId::new(name)?, Pattern::action("act")?, limit, per.parse()?);
    Ok(Rule { name: Name::new(name)?, algorithm, ..rule })
}

/// One of each kind; the last is too long to stand in a string with others.
fn kinds() -> Result<Vec<Rule>> {
    Ok(vec![
        rule("bucket", Algorithm::TokenBucket, 3, "1h")?,
        Rule { queue: Some(2), ..rule("queue", Algorithm::LeakyBucket, 3, "1h")? },
        rule("ring", Algorithm::SlidingWindow, 3, "1h")?,
        Rule { approximate: true, ..rule("approximate", Algorithm::SlidingWindow, 3, "1h")? },
        rule("log", Algorithm::SlidingLog, 3, "1h")?,
        rule("fixed", Algorithm::FixedWindow, 3, "1h")?,
        rule("calendar", Algorithm::FixedWindow, 3, "day@Europe/Berlin")?,
        Rule { mode: hermod_core::limit::Mode::Block, ..rule("ban", Algorithm::TokenBucket, 3, "1h")? },
        rule("long", Algorithm::SlidingLog, 12, "1h")?,
    ])
}

/// Everything that is kept, and until when: on Redis as it is, by the server's own clock.
async fn kept(store: Store, lane: &EngineLane) -> Result<BTreeMap<String, (String, i64)>> {
    let redis = match lane.engine() {
        Engine::Embedded(embedded) => {
            let all = embedded.dump().into_iter();
            return all.map(|(key, (value, until))| Ok((key, (value, i64::try_from(until.get())?)))).collect();
        }
        Engine::Redis(redis) => redis,
    };
    let mut all: BTreeMap<_, _> = redis.dump(lane.space()).await?.into_iter().map(|(key, value)| (key, (value, 0))).collect();
    if store == Store::Redis {
        let server = server::Redis::shared()?;
        for key in server.ask::<Vec<String>>(&["KEYS", &key::all_of(lane.space())])? {
            let ends = server.ask(&["PEXPIRETIME", &key])?;
            all.insert(key, (String::from("ends"), ends));
        }
    }
    Ok(all)
}

async fn done<O: Operation>(lane: &EngineLane, operation: &O) -> Result<O::Answer> {
    match lane.engine().run(operation, None).await?.outcome {
        Outcome::Done(answer) => Ok(answer),
        Outcome::Replayed(_) | Outcome::Conflict => bail!("no key was given"),
    }
}

async fn ask(lane: &EngineLane, subject: &str, act: Act, cost: u64, rules: &[Rule]) -> Result<Verdict> {
    let operation = lane.operation(subject, act, cost, rules)?;
    Ok(done(lane, &operation).await?.explained(operation.rules()).verdict())
}

/// Uses up all that each kind of rule admits, then asks for more in every way that is refused.
async fn changes_nothing(store: Store) -> Result<()> {
    let lane = EngineLane::open(store).await?;
    for (nth, kind) in (0..).zip(kinds()?) {
        let most = kind.meter()?.most();
        // Another of the call admits all this, and must not be charged.
        let rules = [kind.clone(), rule("wide", Algorithm::TokenBucket, 1_000, "1h")?];
        let (subject, began) = (kind.id.as_str(), START.get() + nth * 600 * MINUTE);
        let at = |us: u64| lane.clock().set(Micros::saturating(began + us));
        for n in 0..most {
            at(n);
            ensure!(ask(&lane, subject, Act::Check, 1, &rules).await? == Verdict::Allowed, "{subject}: {n} of {most}");
        }
        let before = kept(store, &lane).await?;
        for (n, (act, cost)) in [(Act::Check, 1), (Act::Peek, 1), (Act::Check, most.max(1)), (Act::Check, most + 1)].into_iter().enumerate()
        {
            at(MINUTE / 2 * u64::try_from(n)?);
            let verdict = ask(&lane, subject, act, cost, &rules).await?;
            ensure!(verdict != Verdict::Allowed, "{subject}: {act:?} of {cost} is {verdict:?}");
            let id = hermod_core::limit::ReservationId { number: 7, subject: Subject::new(subject)? };
            let limited = rules.iter().map(|rule| Ok(Arc::new(Limited::new(rule)?))).collect::<Result<Vec<_>>>()?;
            let place = lane.engine().partitions().place(lane.space(), subject);
            let reserved = done(&lane, &Reserve::new(place, id, Micros::saturating(MINUTE), cost, limited.into())).await?;
            ensure!(matches!(&reserved, Reserved::Checked(checked) if checked.is_refused), "{subject}: {reserved:?}");
            // Nobody who is refused at once leaves a trace.
            ask(&lane, &format!("new-{subject}"), Act::Check, most + 1, &rules).await?;
            assert_eq!(kept(store, &lane).await?, before, "{subject}: {act:?} of {cost} on {store:?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_call_changes_nothing() -> Result<()> {
    for store in Store::ALL {
        changes_nothing(store).await.with_context(|| format!("on {store:?}"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_lease_changes_nothing() -> Result<()> {
    for store in Store::ALL {
        let lane = EngineLane::open(store).await?;
        let limited =
            |name: &str, limit| Ok::<_, anyhow::Error>(Arc::new(Limited::new(&rule(name, Algorithm::Concurrency, limit, "1h")?)?));
        let rules: hermod_core::limit::Rules = [limited("tabs", 2)?, limited("wide", 100)?].into();
        let place = lane.engine().partitions().place(lane.space(), "agent");
        let acquire = async |id: &str| {
            let lease = Lease::acquire(place.clone(), "agent", id.to_owned(), Micros::saturating(30 * MINUTE), rules.clone());
            Ok::<_, anyhow::Error>(done(&lane, &lease).await?.is_held())
        };
        ensure!(acquire("one").await? && acquire("two").await?);
        let before = kept(store, &lane).await?;
        ensure!(!before.is_empty());
        for minute in 1..4 {
            lane.clock().set(Micros::saturating(START.get() + minute * MINUTE));
            ensure!(!acquire("three").await?);
            assert_eq!(kept(store, &lane).await?, before, "on {store:?}");
        }
    }
    Ok(())
}
