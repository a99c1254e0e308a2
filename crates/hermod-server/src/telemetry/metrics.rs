//! Counters for Prometheus. No label ever carries a subject or a key. Names of policies and ids of rules, which those
//! choose who write rules, are the only labels that people make up; so many at most. The id of a rule for one subject
//! may tell who that is, and there may be millions: such rules are counted together.
//!
//! The recorder is this server's own and not the process' global one, so that two servers in one
//! process (as in tests) do not count each other's requests. Handles of the hot path are made once.

use std::collections::HashMap;
use std::time::Duration;

use hermod_core::Micros;
use hermod_core::queue::Handed;
use hermod_engine::Engine;
use metrics::{Counter, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use parking_lot::RwLock;

use super::depths::Depths;

static METADATA: Metadata<'static> = Metadata::new("hermod", Level::INFO, None);

/// Upper bounds of the latency histogram, in seconds.
const BUCKETS: &[f64] = &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// So many queues are counted by name; the rest together.
const QUEUES_MAX: usize = 500;

/// So many decks are counted by name; the rest together.
const DECKS_MAX: usize = 500;
/// So many counters of plays are kept; further ones are counted together.
const PLAYS_MAX: usize = 2_000;

/// So many policies are counted by name, and so many rules by id; the rest together.
const POLICIES_MAX: usize = 500;
const RULES_MAX: usize = 1_000;
/// What the rest is called.
const OTHER: &str = "other";

/// All counters of a server.
pub(crate) struct Metrics {
    recorder: PrometheusRecorder,
    allowed: Counter,
    refused: Counter,
    /// By policy, rule and outcome; there are so many at most.
    decisions: RwLock<ByRule>,
    /// By deck and outcome; of decks there are so many at most.
    picks: RwLock<HashMap<String, HashMap<&'static str, Counter>>>,
    /// By realm, play and outcome; there are so many at most.
    plays: RwLock<HashMap<(String, String, String), Counter>>,
    /// By queue, of which there are so many at most.
    deliveries: RwLock<HashMap<String, Deliveries>>,
    /// By route and status. Both come from fixed sets, so the map is bounded.
    requests: RwLock<HashMap<String, ByStatus>>,
}

/// What a rule said to a check.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision {
    Allowed,
    Refused,
    /// It only reports.
    WouldRefuse,
}

/// By policy, then by rule.
#[derive(Default)]
struct ByRule {
    policies: HashMap<String, HashMap<String, Decisions>>,
    /// So many rules are counted by themselves.
    rules: usize,
}

impl ByRule {
    fn get(&self, policy: &str, rule: &str) -> Option<&Decisions> {
        self.policies.get(policy)?.get(rule)
    }

    /// What a rule is counted as: itself, or with others where there are too many.
    fn labels<'a>(&self, policy: &'a str, rule: &'a str) -> (&'a str, &'a str) {
        if self.get(policy, rule).is_some() {
            return (policy, rule);
        }
        let has_room = self.policies.len() < POLICIES_MAX || self.policies.contains_key(policy);
        (if has_room { policy } else { OTHER }, if self.rules < RULES_MAX { rule } else { OTHER })
    }
}

/// What one rule said.
struct Decisions {
    allowed: Counter,
    refused: Counter,
    would_refuse: Counter,
}

impl Decisions {
    fn of(&self, outcome: Decision) -> &Counter {
        match outcome {
            Decision::Allowed => &self.allowed,
            Decision::Refused => &self.refused,
            Decision::WouldRefuse => &self.would_refuse,
        }
    }
}

/// What became of the deliveries of one queue.
struct Deliveries {
    handed: Counter,
    again: Counter,
    dead: Counter,
    expired: Counter,
    stale: Counter,
    takeovers: Counter,
    moved: Counter,
    lateness: Histogram,
}

type ByStatus = HashMap<u16, (Counter, Histogram)>;

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), BUCKETS)
            .unwrap_or_default()
            .build_recorder();
        recorder.describe_counter(
            "hermod_limit_checks_total".into(),
            None,
            "Checks, reservations and leases to be taken, by outcome.".into(),
        );
        recorder.describe_counter(
            "hermod_limit_decisions_total".into(),
            None,
            "What the rules said to checks and to who takes leases.".into(),
        );
        recorder.describe_counter(
            "hermod_picks_total".into(),
            None,
            "Picks by deck and what became of them, or why there was none.".into(),
        );
        recorder.describe_counter("hermod_plays_total".into(), None, "Plays by realm, and what they were refused with.".into());
        recorder.describe_counter("hermod_http_requests_total".into(), None, "Requests by route and status.".into());
        recorder.describe_histogram("hermod_http_request_seconds".into(), None, "Time to answer, by route.".into());
        recorder.describe_gauge("hermod_store_ready".into(), None, "1 if the store answers.".into());
        recorder.describe_gauge("hermod_catalog_ready".into(), None, "1 if the catalog answers.".into());
        recorder.describe_gauge("hermod_store_memory_bytes".into(), None, "What the embedded state takes, about.".into());
        recorder.describe_gauge("hermod_store_records".into(), None, "Records of the embedded store.".into());
        recorder.describe_counter("hermod_store_commits_total".into(), None, "Fsync'd commits of the embedded store.".into());
        recorder.describe_counter("hermod_queue_deliveries_total".into(), None, "Deliveries by what became of them.".into());
        recorder.describe_histogram("hermod_queue_lateness_seconds".into(), None, "How late first attempts were handed out.".into());
        recorder.describe_counter("hermod_queue_stale_total".into(), None, "Answers of whoever did not hold the delivery any more.".into());
        recorder.describe_counter(
            "hermod_queue_takeovers_total".into(),
            None,
            "Workers of sticky queues that were gone without a word, so that others took over.".into(),
        );
        recorder.describe_counter("hermod_queue_moved_total".into(), None, "Recipients that have another worker.".into());
        let checks = |outcome: &'static str| {
            let key = Key::from_parts("hermod_limit_checks_total", vec![Label::new("outcome", outcome)]);
            recorder.register_counter(&key, &METADATA)
        };
        let (allowed, refused) = (checks("allowed"), checks("refused"));
        Metrics {
            recorder,
            allowed,
            refused,
            decisions: RwLock::default(),
            picks: RwLock::default(),
            plays: RwLock::default(),
            deliveries: RwLock::default(),
            requests: RwLock::default(),
        }
    }

    /// A limit check was answered.
    pub(crate) fn checked(&self, allowed: bool) {
        if allowed { self.allowed.increment(1) } else { self.refused.increment(1) }
    }

    /// A rule of this policy took part in a check. `rule` is what it is counted as.
    pub(crate) fn decided(&self, policy: &str, rule: &str, outcome: Decision) {
        let count = |counters: &Decisions| counters.of(outcome).increment(1);
        {
            let decisions = self.decisions.read();
            let (policy, rule) = decisions.labels(policy, rule);
            if let Some(counters) = decisions.get(policy, rule) {
                return count(counters);
            }
        }
        let mut decisions = self.decisions.write();
        let (policy, rule) = decisions.labels(policy, rule);
        let mut is_new = false;
        count(decisions.policies.entry(policy.to_owned()).or_default().entry(rule.to_owned()).or_insert_with(|| {
            is_new = true;
            let counter = |outcome: &'static str| {
                let whose = [("policy", policy.to_owned()), ("rule", rule.to_owned()), ("outcome", outcome.to_owned())];
                let labels: Vec<Label> = whose.into_iter().map(|(name, value)| Label::new(name, value)).collect();
                self.recorder.register_counter(&Key::from_parts("hermod_limit_decisions_total", labels), &METADATA)
            };
            Decisions { allowed: counter("allowed"), refused: counter("refused"), would_refuse: counter("would_refuse") }
        }));
        decisions.rules += usize::from(is_new);
    }

    /// A pick of this deck was answered, or settled. Outcomes are from a fixed set.
    pub(crate) fn picked(&self, deck: &str, outcome: &'static str) {
        if let Some(counter) = self.picks.read().get(deck).and_then(|outcomes| outcomes.get(outcome)) {
            return counter.increment(1);
        }
        let mut picks = self.picks.write();
        let name = if picks.len() < DECKS_MAX || picks.contains_key(deck) { deck } else { "other" };
        let counter = picks.entry(name.to_owned()).or_default().entry(outcome).or_insert_with(|| {
            let labels = vec![Label::new("deck", name.to_owned()), Label::new("outcome", outcome)];
            self.recorder.register_counter(&Key::from_parts("hermod_picks_total", labels), &METADATA)
        });
        counter.increment(1);
    }

    /// A play of this realm was answered: it was done, or refused with a code of the realm's own.
    pub(crate) fn played(&self, realm: &str, play: &str, outcome: &str) {
        let mut name = (realm.to_owned(), play.to_owned(), outcome.to_owned());
        if let Some(counter) = self.plays.read().get(&name) {
            return counter.increment(1);
        }
        let mut plays = self.plays.write();
        if plays.len() >= PLAYS_MAX {
            name = ("other".to_owned(), "other".to_owned(), "other".to_owned());
        }
        let counter = plays.entry(name).or_insert_with_key(|(realm, play, outcome)| {
            let labels = vec![Label::new("realm", realm.clone()), Label::new("play", play.clone()), Label::new("outcome", outcome.clone())];
            self.recorder.register_counter(&Key::from_parts("hermod_plays_total", labels), &METADATA)
        });
        counter.increment(1);
    }

    /// What an operation on this queue found to be over: so many attempted for the last time by holders that are gone, so many not to be handed
    /// out any more. What a claim was given is counted when somebody is told.
    pub(crate) fn over(&self, queue: &str, dead: u16, expired: u16) {
        if dead == 0 && expired == 0 {
            return;
        }
        self.count(queue, |deliveries| {
            deliveries.dead.increment(u64::from(dead));
            deliveries.expired.increment(u64::from(expired));
        });
    }

    /// Somebody is told of these, at `now` by the store's clock.
    pub(crate) fn handed<'a>(&self, queue: &str, all: impl ExactSizeIterator<Item = &'a Handed> + Clone, now: Micros) {
        if all.len() == 0 {
            return;
        }
        self.count(queue, |deliveries| {
            for handed in all.clone() {
                if handed.attempt > 1 {
                    deliveries.again.increment(1);
                    continue;
                }
                deliveries.handed.increment(1);
                deliveries.lateness.record(now.since(handed.at).to_duration().as_secs_f64());
            }
        });
    }

    /// So many were settled under a token that is not their holder's.
    pub(crate) fn stale(&self, queue: &str, many: usize) {
        if many > 0 {
            self.count(queue, |deliveries| deliveries.stale.increment(u64::try_from(many).unwrap_or(u64::MAX)));
        }
    }

    /// So many workers are gone, and so many recipients have another.
    pub(crate) fn turned(&self, queue: &str, lost: u16, moved: u16) {
        self.count(queue, |deliveries| {
            deliveries.takeovers.increment(u64::from(lost));
            deliveries.moved.increment(u64::from(moved));
        });
    }

    /// Counts what became of deliveries of this queue.
    fn count(&self, queue: &str, count: impl Fn(&Deliveries)) {
        if let Some(deliveries) = self.deliveries.read().get(queue) {
            return count(deliveries);
        }
        let mut all = self.deliveries.write();
        let name = if all.len() < QUEUES_MAX { queue } else { "other" };
        count(all.entry(name.to_owned()).or_insert_with(|| {
            let label = || Label::new("queue", name.to_owned());
            let counter = |outcome: &'static str| {
                let key = Key::from_parts("hermod_queue_deliveries_total", vec![label(), Label::new("outcome", outcome)]);
                self.recorder.register_counter(&key, &METADATA)
            };
            Deliveries {
                handed: counter("handed"),
                again: counter("again"),
                dead: counter("dead"),
                expired: counter("expired"),
                stale: self.recorder.register_counter(&Key::from_parts("hermod_queue_stale_total", vec![label()]), &METADATA),
                takeovers: self.recorder.register_counter(&Key::from_parts("hermod_queue_takeovers_total", vec![label()]), &METADATA),
                moved: self.recorder.register_counter(&Key::from_parts("hermod_queue_moved_total", vec![label()]), &METADATA),
                lateness: self.recorder.register_histogram(&Key::from_parts("hermod_queue_lateness_seconds", vec![label()]), &METADATA),
            }
        }));
    }

    /// A request was answered. Paths that match no route are counted as one.
    pub(crate) fn answered(&self, route: &str, status: u16, took: Duration) {
        let record = |(count, seconds): &(Counter, Histogram)| {
            count.increment(1);
            seconds.record(took.as_secs_f64());
        };
        if let Some(handles) = self.requests.read().get(route).and_then(|by_status| by_status.get(&status)) {
            return record(handles);
        }
        let mut requests = self.requests.write();
        record(requests.entry(route.to_owned()).or_default().entry(status).or_insert_with(|| {
            let route = Label::new("route", if route.is_empty() { "other".to_owned() } else { route.to_owned() });
            let count = Key::from_parts("hermod_http_requests_total", vec![route.clone(), Label::new("status", status.to_string())]);
            let seconds = Key::from_parts("hermod_http_request_seconds", vec![route]);
            (self.recorder.register_counter(&count, &METADATA), self.recorder.register_histogram(&seconds, &METADATA))
        }));
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn render(&self, store: bool, catalog: bool, engine: &Engine, depths: &Depths) -> String {
        let gauge = |name: &'static str, value: f64| self.recorder.register_gauge(&Key::from_name(name), &METADATA).set(value);
        gauge("hermod_store_ready", f64::from(u8::from(store)));
        gauge("hermod_catalog_ready", f64::from(u8::from(catalog)));
        if let Engine::Embedded(embedded) = engine {
            let float = |n: usize| u32::try_from(n / 1024).map_or(f64::MAX, f64::from) * 1024.0;
            gauge("hermod_store_memory_bytes", float(embedded.memory_used()));
            gauge("hermod_store_records", u32::try_from(embedded.records()).map_or(f64::MAX, f64::from));
            self.recorder.register_counter(&Key::from_name("hermod_store_commits_total"), &METADATA).absolute(embedded.commits());
        }
        self.recorder.handle().render() + &depths.render()
    }

    /// Folds old samples of histograms; to be called now and then.
    pub(crate) fn tidy(&self) {
        self.recorder.handle().run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_rules_have_a_series_and_no_more() {
        let metrics = Metrics::new();
        let most = RULES_MAX + 500;
        for n in 0..2 * most {
            metrics.decided(if n % 3 == 0 { "burst" } else { "daily" }, &format!("r{}", n % most), Decision::Allowed);
        }
        for n in 0..2 * POLICIES_MAX {
            metrics.decided(&format!("policy-{n}"), "late", Decision::Refused);
        }
        let text = metrics.recorder.handle().render();
        let values = |outcome: &str| -> Vec<(String, usize)> {
            let series = text.lines().filter(|line| line.starts_with("hermod_limit_decisions_total{") && line.contains(outcome));
            series.filter_map(|line| line.rsplit_once(' ')).map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
        };
        let (allowed, refused) = (values("outcome=\"allowed\""), values("outcome=\"refused\""));
        let known = allowed.iter().filter(|(name, _)| !name.contains("rule=\"other\"")).count();
        assert_eq!(known, RULES_MAX);
        assert!(allowed.len() <= RULES_MAX + POLICIES_MAX + 1, "{} series", allowed.len());
        assert_eq!(allowed.iter().map(|(_, count)| count).sum::<usize>(), 2 * most, "each is counted once");
        assert_eq!(refused.iter().map(|(_, count)| count).sum::<usize>(), 2 * POLICIES_MAX);
    }
}
