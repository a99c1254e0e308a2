//! What must hold of every history, whatever the numbers: judged by the promise itself and not by a model.
//!
//! Histories follow from a seed. The clock goes forward to where it hurts: one tick before `retry_at`, exactly
//! there, one tick around a period or a sub-bucket. A history that fails names its seed and its rule.

use anyhow::{Context, Result, bail, ensure};
use hermod_core::limit::{Act, Algorithm, Explained, Pattern, Rule, Verdict};
use hermod_core::{Micros, Outcome, RuleId};
use hermod_tests::history::Draws;
use hermod_tests::lane::START;
use hermod_tests::{EngineLane, Store};

const HISTORIES: u64 = 150;
const STEPS: u64 = 200;
/// A sliding window counts charges for at most this part of the period too long.
const RING: u64 = 32;

/// An algorithm's rule with numbers worth looking at.
fn random_rule(draws: &mut Draws, algorithm: Algorithm, id: &str) -> Result<Rule> {
    loop {
        let limit = draws.one_of(&[1, 1, 2, 3, 5, 10, 60, 1_000]);
        let period = draws.one_of(&[1, 2, 7, 31, 32, 33, 1_000, 65_537, 999_999, 1_000_000, 60_000_000, 86_400_000_000]);
        let per = hermod_core::limit::Per::span(Micros::saturating(period))?;
        let mut rule = Rule { algorithm, ..Rule::new(RuleId::new(id)?, Pattern::action("act")?, limit, per) };
        rule.name = hermod_core::Name::new(id)?;
        match algorithm {
            Algorithm::TokenBucket => rule.burst = draws.one_of(&[None, Some(1), Some(7), Some(2 * limit), Some(1 << 32)]),
            Algorithm::LeakyBucket => rule.queue = draws.one_of(&[None, Some(1), Some(100)]),
            Algorithm::SlidingWindow => rule.approximate = id.starts_with("approximate"),
            Algorithm::FixedWindow if draws.below(2) == 0 => {
                rule.per = draws.one_of(&["day@Europe/Berlin", "hour@Asia/Kolkata", "month@UTC", "week@America/New_York"]).parse()?;
            }
            _ => {}
        }
        // What cannot be counted exactly is refused when it is saved.
        if rule.meter().is_ok() {
            return Ok(rule);
        }
    }
}

/// As much as fits, or a little.
fn random_cost(draws: &mut Draws, most: u64) -> u64 {
    let edge = draws.one_of(&[1, 1, 1, 2, most / 2, most - 1, most]);
    edge.clamp(1, most)
}

/// How long until the next step, where `period` is what hurts.
fn random_pause(draws: &mut Draws, period: u64) -> u64 {
    let width = period.div_ceil(RING);
    let edge = draws.one_of(&[0, 0, 0, 1, width, period / 2, period, period + width, 2 * period, 10 * period]);
    let within = draws.below(period + 1);
    draws.one_of(&[edge, edge.saturating_sub(1), edge + 1, within])
}

/// One rule, or several, under a clock that is set by hand.
struct Counter {
    lane: EngineLane,
    rules: Vec<Rule>,
    subject: String,
}

impl Counter {
    async fn ask(&self, act: Act, cost: u64, at: u64) -> Result<Explained> {
        self.lane.clock().set(Micros::saturating(at));
        let operation = self.lane.operation(&self.subject, act, cost, &self.rules)?;
        match self.lane.engine().run(&operation, None).await?.outcome {
            Outcome::Done(checked) => Ok(checked.explained(operation.rules())),
            other => bail!("no key was given: {other:?}"),
        }
    }
}

/// What was admitted within `(at - span, at]`.
fn sum_within(admitted: &[(u64, u64)], span: u64, at: u64) -> u64 {
    admitted.iter().rev().take_while(|(time, _)| *time + span > at).map(|(_, cost)| cost).sum()
}

/// A history of one sliding rule; how many were admitted and how many refused.
async fn slide(lane: EngineLane, seed: u64, algorithm: Algorithm) -> Result<(EngineLane, u64, u64)> {
    let mut draws = Draws::new(seed);
    let rule = random_rule(&mut draws, algorithm, "r")?;
    let (limit, period) = (rule.limit, rule.per.usual().get());
    // How much longer than a period a charge may count.
    let slack = if algorithm == Algorithm::SlidingLog { 0 } else { period.div_ceil(RING) - 1 };
    let counter = Counter { lane, rules: vec![rule], subject: format!("{algorithm:?}-{seed}") };
    let (mut now, mut retry_at) = (START.get(), None);
    let (mut admitted, mut refused): (Vec<(u64, u64)>, u64) = (Vec::new(), 0);
    for _ in 0..STEPS {
        let pause = random_pause(&mut draws, period);
        now = match (draws.below(4), retry_at) {
            (0, Some(at)) if at > now => at - 1,
            (1, Some(at)) if at > now => at,
            _ => now + pause,
        };
        let cost = random_cost(&mut draws, limit);
        if draws.below(5) == 0 {
            counter.ask(Act::Peek, cost, now).await?;
        }
        let checked = counter.ask(Act::Check, cost, now).await?;
        retry_at = checked.retry_at().map(Micros::get);
        if checked.verdict() == Verdict::Allowed {
            admitted.push((now, cost));
            let sum = sum_within(&admitted, period, now);
            ensure!(sum <= limit, "{sum} were admitted within the {period} us until {now}: {:?}", counter.rules);
        } else {
            refused += 1;
            let sum = sum_within(&admitted, period + slack, now);
            ensure!(sum + cost > limit, "{cost} is refused where {sum} count: {:?}", counter.rules);
        }
    }
    Ok((counter.lane, u64::try_from(admitted.len())?, refused))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_more_than_limit_in_any_trailing_window() -> Result<()> {
    let mut lane = EngineLane::open(Store::Embedded).await?;
    let (mut admitted, mut refused) = (0, 0);
    for algorithm in [Algorithm::SlidingWindow, Algorithm::SlidingLog] {
        for seed in 0..HISTORIES {
            let (more, not);
            (lane, more, not) = slide(lane, seed, algorithm).await.with_context(|| format!("{algorithm:?}, seed {seed}"))?;
            (admitted, refused) = (admitted + more, refused + not);
        }
    }
    println!("{admitted} admitted, {refused} refused");
    ensure!(admitted > HISTORIES * STEPS / 4 && refused > HISTORIES * STEPS / 4, "only {admitted} were admitted, and {refused} refused");
    Ok(())
}

/// A history under these rules; how many refusals were looked at.
async fn retry(lane: EngineLane, seed: u64, kinds: &[(Algorithm, &str)]) -> Result<(EngineLane, u64)> {
    let mut draws = Draws::new(seed);
    let rules = kinds.iter().map(|(algorithm, id)| random_rule(&mut draws, *algorithm, id)).collect::<Result<Vec<_>>>()?;
    let mosts = rules.iter().map(|rule| rule.meter().map(|meter| meter.most())).collect::<Result<Vec<_>, _>>()?;
    let most = mosts.into_iter().min().context("there is a rule")?;
    let periods: Vec<u64> = rules.iter().map(|rule| rule.per.usual().get()).collect();
    let names: Vec<&str> = kinds.iter().map(|(_, id)| *id).collect();
    let counter = Counter { lane, rules, subject: format!("{}-{seed}", names.join("-")) };
    let (mut now, mut seen) = (START.get(), 0);
    for step in 0..STEPS / 4 {
        let period = draws.one_of(&periods);
        now += random_pause(&mut draws, period);
        let cost = random_cost(&mut draws, most);
        let checked = counter.ask(Act::Check, cost, now).await?;
        if checked.verdict() == Verdict::Allowed {
            continue;
        }
        let asked = now;
        let told = || format!("step {step}: {cost} at {asked} under {:?}", counter.rules);
        let at = checked.retry_at().with_context(|| format!("it says when: {}", told()))?.get();
        ensure!(at > now, "it says to come at {at}: {}", told());
        if at - 1 > now {
            let early = counter.ask(Act::Peek, cost, at - 1).await?;
            ensure!(early.verdict() == Verdict::Denied, "admitted before {at}: {}", told());
            ensure!(early.retry_at().map(Micros::get) == Some(at), "by then it says another time than {at}: {}: {early:?}", told());
        }
        now = at;
        let then = counter.ask(Act::Check, cost, now).await?;
        ensure!(then.verdict() == Verdict::Allowed, "refused at {at}: {}: {then:?}", told());
        seen += 1;
    }
    Ok((counter.lane, seen))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_at_is_exact() -> Result<()> {
    let window = (Algorithm::SlidingWindow, "window");
    let (log, bucket) = ((Algorithm::SlidingLog, "log"), (Algorithm::TokenBucket, "bucket"));
    let (queue, fixed) = ((Algorithm::LeakyBucket, "queue"), (Algorithm::FixedWindow, "fixed"));
    let approximate = (Algorithm::SlidingWindow, "approximate");
    let mut lane = EngineLane::open(Store::Embedded).await?;
    let alone = [window, log, bucket, queue, fixed, approximate].map(|kind| vec![kind]);
    let together = [vec![window, bucket], vec![log, fixed, queue], vec![approximate, bucket, window]];
    for kinds in alone.into_iter().chain(together) {
        let mut seen = 0;
        for seed in 0..HISTORIES {
            let more;
            (lane, more) = retry(lane, seed, &kinds).await.with_context(|| format!("{kinds:?}, seed {seed}"))?;
            seen += more;
        }
        println!("{kinds:?}: {seen} refusals");
        ensure!(seen > HISTORIES, "{kinds:?}: only {seen} refusals were looked at");
    }
    Ok(())
}

/// A history of one rule: what was admitted when.
async fn admit(lane: EngineLane, seed: u64, rule: &Rule) -> Result<(EngineLane, Vec<(u64, u64)>)> {
    let mut draws = Draws::new(seed);
    let (most, period) = (rule.meter()?.most(), rule.per.usual().get());
    let counter = Counter { lane, rules: vec![rule.clone()], subject: format!("admit-{seed}") };
    let (mut now, mut retry_at, mut admitted) = (START.get(), None, Vec::new());
    for _ in 0..STEPS {
        let pause = random_pause(&mut draws, period);
        now = match (draws.below(4), retry_at) {
            (0, Some(at)) if at > now => at - 1,
            (1, Some(at)) if at > now => at,
            _ => now + pause,
        };
        // What takes centuries to drip back ends it early.
        if now > Micros::MAX.get() / 2 {
            break;
        }
        let cost = random_cost(&mut draws, most);
        let checked = counter.ask(Act::Check, cost, now).await?;
        retry_at = checked.retry_at().map(Micros::get);
        if checked.verdict() == Verdict::Allowed {
            admitted.push((now, cost));
        }
    }
    Ok((counter.lane, admitted))
}

/// Within any span no more than what is there at once, and what drips back meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_admits_no_more_than_its_burst_and_what_drips_back() -> Result<()> {
    let mut lane = EngineLane::open(Store::Embedded).await?;
    let (mut spans, mut tight) = (0_u64, 0_u64);
    for seed in 0..HISTORIES {
        let algorithm = if seed % 3 == 0 { Algorithm::LeakyBucket } else { Algorithm::TokenBucket };
        let rule = random_rule(&mut Draws::new(seed), algorithm, &format!("r{seed}"))?;
        let meter = rule.meter()?;
        let admitted;
        (lane, admitted) = admit(lane, seed, &rule).await?;
        let [limit, burst, period] = [meter.limit(), meter.most(), rule.per.usual().get()].map(u128::from);
        // Where numbers are large, time is counted in milliseconds, and the one that has begun is given.
        let (_, [_, _, _, tick, _]) = meter.given(START);
        for (first, (from, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for (at, cost) in &admitted[first..] {
                sum += u128::from(*cost);
                let most = burst * period + limit * u128::from(at - from + tick - 1);
                ensure!(sum * period <= most, "seed {seed}: {sum} were admitted from {from} to {at}: {rule:?}");
                spans += 1;
                tight += u64::from((sum + 1) * period > most);
            }
        }
    }
    println!("{spans} spans, {tight} of them used up");
    ensure!(spans > HISTORIES * STEPS && tight > HISTORIES, "{spans} spans, {tight} of them used up");
    Ok(())
}

/// Between two turns no more than the limit; around one, in no longer than a period, twice that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fixed_window_admits_no_more_than_twice_its_limit_around_a_turn() -> Result<()> {
    let mut lane = EngineLane::open(Store::Embedded).await?;
    let mut twice = 0;
    for seed in 0..HISTORIES {
        let mut rule = random_rule(&mut Draws::new(seed), Algorithm::FixedWindow, &format!("r{seed}"))?;
        // Of the calendar's windows some are shorter than others.
        if let hermod_core::limit::Per::Calendar(_) = rule.per {
            rule.per = "1h".parse()?;
        }
        let (limit, period) = (rule.limit, rule.per.usual().get());
        let admitted;
        (lane, admitted) = admit(lane, seed, &rule).await?;
        for (nth, (at, _)) in admitted.iter().enumerate() {
            let so_far = &admitted[..=nth];
            let in_window = sum_within(so_far, at % period + 1, *at);
            ensure!(in_window <= limit, "seed {seed}: {in_window} were admitted in the window until {at}: {rule:?}");
            let around = sum_within(so_far, period, *at);
            ensure!(around <= 2 * limit, "seed {seed}: {around} were admitted within a period until {at}: {rule:?}");
            twice += u64::from(around > limit);
        }
    }
    ensure!(twice > HISTORIES, "only {twice} were admitted beyond the limit around a turn");
    Ok(())
}
