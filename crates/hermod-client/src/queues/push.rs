//! Putting deliveries into a queue: one, many, or lines of them.

use reqwest::Method;
use serde::{Deserialize, Serialize};

use super::Queues;
use super::delivery::NewDelivery;
use super::words::{DeliveryState, PushOutcome};
use crate::error::ClientError;
use crate::limit::BatchProblem;
use crate::time::Time;

/// So many deliveries in one request.
const COUNT_MAX: usize = 1_000;
/// So many bytes of them, about: a server takes a body of a megabyte unless it is told otherwise.
const BYTES_MAX: usize = 512 << 10;

/// What became of a delivery that was pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pushed {
    /// Its id; that of the one that was there, if it was.
    pub id: String,
    /// Whether it is new.
    pub outcome: PushOutcome,
    /// When it is due; absent if it is finished.
    #[serde(default)]
    pub due: Option<Time>,
    /// Whether its time has come.
    pub state: DeliveryState,
}

/// One answer of many.
#[derive(Deserialize)]
#[serde(untagged)]
enum One {
    Problem { problem: BatchProblem },
    Pushed(Pushed),
}

impl From<One> for Result<Pushed, BatchProblem> {
    fn from(one: One) -> Result<Pushed, BatchProblem> {
        match one {
            One::Pushed(pushed) => Ok(pushed),
            One::Problem { problem } => Err(problem),
        }
    }
}

#[derive(Deserialize)]
struct Answers {
    items: Vec<One>,
}

impl Queues<'_> {
    /// Puts a delivery into a queue. It is safe to repeat by its own key, else by an idempotency key, which
    /// the server remembers for three days; who pushes many does better with [`Queues::push_all`].
    pub async fn push<P: Serialize>(&self, queue: &str, delivery: &NewDelivery<P>) -> Result<Pushed, ClientError> {
        let path = ["v1", "queues", queue, "deliveries"];
        if self.key.is_none() && delivery.is_repeatable() {
            return self.client.charge(&path, None, true, delivery).await;
        }
        self.client.write(Method::POST, &path, self.key(), delivery).await
    }

    /// Puts many into a queue, in this order, up to a thousand a request; what became of each, in their order.
    ///
    /// An error leaves those of earlier requests where they are; with [`Queues::idempotency_key`] the whole can be
    /// asked for again, and nothing is pushed twice.
    pub async fn push_all<P: Serialize>(
        &self,
        queue: &str,
        deliveries: &[NewDelivery<P>],
    ) -> Result<Vec<Result<Pushed, BatchProblem>>, ClientError> {
        let written = deliveries.iter().map(serde_json::value::to_raw_value).collect::<Result<Vec<_>, _>>();
        let written = written.map_err(|fault| ClientError::invalid("delivery", fault.to_string()))?;
        let mut answers = Vec::with_capacity(deliveries.len());
        for (part, some) in (0..).zip(parts(&written, |one| one.get().len())) {
            let key = self.part_key(part);
            let path = ["v1", "queues", queue, "deliveries"];
            let pushed: Answers = self.client.write(Method::POST, &path, key.as_deref(), &some).await?;
            answers.extend(pushed.items.into_iter().map(Into::into));
        }
        self.complete(answers, deliveries.len())
    }

    /// The same with lines that are sent as they are: each is a delivery as the API has it, in JSON. What is wrong with
    /// one is told in its place.
    pub async fn push_lines(&self, queue: &str, lines: &[impl AsRef<str>]) -> Result<Vec<Result<Pushed, BatchProblem>>, ClientError> {
        let is_line = |line: &&str| !line.trim().is_empty() && !line.contains(['\n', '\r']);
        let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
        if !lines.iter().all(is_line) {
            return Err(ClientError::invalid("lines", "must each be one line, and not empty"));
        }
        let mut answers = Vec::with_capacity(lines.len());
        for (part, some) in (0..).zip(parts(&lines, |line| line.len())) {
            let key = self.part_key(part);
            let path = ["v1", "queues", queue, "deliveries"];
            let pushed: Vec<One> = self.client.write_lines(&path, key.as_deref(), some.join("\n").into_bytes()).await?;
            answers.extend(pushed.into_iter().map(Into::into));
        }
        self.complete(answers, lines.len())
    }

    fn complete<T>(&self, answers: Vec<T>, asked: usize) -> Result<Vec<T>, ClientError> {
        if answers.len() == asked {
            return Ok(answers);
        }
        let detail = format!("{} answers to {asked} deliveries", answers.len());
        Err(ClientError::BadAnswer { status: 200, detail, retry_after: None })
    }
}

/// Cuts a list into parts that fit a request each.
fn parts<T>(all: &[T], length: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let (mut parts, mut rest) = (Vec::new(), all);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(COUNT_MAX).take_while(|one| {
            bytes += length(one);
            bytes <= BYTES_MAX
        });
        // One that is too large by itself goes alone; the server says so.
        let (part, after) = rest.split_at(fits.count().max(1));
        parts.push(part);
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_bounded_by_count_and_bytes() {
        let lengths = |all: &[usize]| parts(all, |length| *length).iter().map(|part| part.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&[]), [0_usize; 0]);
        assert_eq!(lengths(&[1; 2_001]), [1_000, 1_000, 1]);
        assert_eq!(lengths(&[BYTES_MAX, 1, BYTES_MAX + 9, 1, 1]), [1, 1, 1, 2]);
    }
}
