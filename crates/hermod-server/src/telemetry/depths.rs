//! What queues hold, for Prometheus. Made anew for everyone who asks: a queue that is gone is not told of any more.

use hermod_core::queue::Counts;
use metrics::{Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

static METADATA: Metadata<'static> = Metadata::new("hermod", Level::INFO, None);

pub(crate) struct Depths(PrometheusRecorder);

impl Depths {
    pub(crate) fn new() -> Depths {
        let recorder = PrometheusBuilder::new().build_recorder();
        for (name, what) in [
            ("hermod_queue_depth", "Deliveries by state."),
            ("hermod_queue_oldest_seconds", "How long the one that waits longest has been due."),
            ("hermod_queue_workers", "Workers of sticky queues by state."),
            ("hermod_queue_parked", "Recipients that wait for a worker."),
        ] {
            recorder.describe_gauge(name.into(), None, what.into());
        }
        Depths(recorder)
    }

    /// What a queue holds.
    pub(crate) fn depth(&self, space: &str, queue: &str, counts: &Counts) {
        let states = [("ready", counts.ready), ("scheduled", counts.scheduled), ("leased", counts.leased), ("dead", counts.dead)];
        for (state, count) in states {
            self.set("hermod_queue_depth", (space, queue), Some(state), float(count));
        }
        let oldest = counts.oldest.map_or(0.0, |oldest| counts.now.since(oldest).to_duration().as_secs_f64());
        self.set("hermod_queue_oldest_seconds", (space, queue), None, oldest);
    }

    /// Who works on a sticky queue, and how many recipients wait for somebody.
    pub(crate) fn staff(&self, space: &str, queue: &str, live: usize, draining: usize, parked: u64) {
        for (state, count) in [("live", live), ("draining", draining)] {
            self.set("hermod_queue_workers", (space, queue), Some(state), float(u64::try_from(count).unwrap_or(u64::MAX)));
        }
        self.set("hermod_queue_parked", (space, queue), None, float(parked));
    }

    fn set(&self, name: &'static str, (space, queue): (&str, &str), state: Option<&'static str>, value: f64) {
        let mut labels = vec![Label::new("space", space.to_owned()), Label::new("queue", queue.to_owned())];
        labels.extend(state.map(|state| Label::new("state", state)));
        self.0.register_gauge(&Key::from_parts(name, labels), &METADATA).set(value);
    }

    pub(super) fn render(&self) -> String {
        self.0.handle().render()
    }
}

fn float(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
