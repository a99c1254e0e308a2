//! Several operations in one script call.
//!
//! Half of what a small script costs Redis is the call itself. So an operation that comes while calls
//! are on their way waits for the next one, together with all that have come by then; one that comes
//! at rest goes at once. Each operation is whole by itself: a batch shares the call, nothing else. Where one fails, those behind it
//! have not run, and go with the next call.
//!
//! Not on a Cluster, where a call may touch one slot only, and not where replicas are waited for.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use ::redis::RedisError;
use hermod_core::{Reply, Script, ScriptCall};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::{Inner, not_connected};

/// So many calls are on their way before operations wait for each other.
const UNDER_WAY_MAX: usize = 2;

/// The operations of one script that wait for a call.
#[derive(Debug)]
pub(super) struct Batch {
    script: Script,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Waiting>,
    under_way: usize,
}

#[derive(Debug)]
struct Waiting {
    call: ScriptCall,
    asked: Asked,
}

/// Who waits for an answer, and until when.
#[derive(Debug)]
struct Asked {
    answer: oneshot::Sender<Result<Reply, RedisError>>,
    until: Instant,
}

impl Asked {
    fn tell(self, answer: Result<Reply, RedisError>) {
        // Whoever went away does not need it.
        let _gone = self.answer.send(answer).is_err();
    }
}

impl Batch {
    pub(super) fn new(script: Script) -> Batch {
        Batch { script, state: Mutex::new(State::default()) }
    }

    /// Joins the next call.
    pub(super) async fn join(self: &Arc<Batch>, inner: &Arc<Inner>, call: ScriptCall) -> Result<Reply, RedisError> {
        let (answer, answered) = oneshot::channel();
        // Its place in the line counts too: a store that is silent must not make the last wait for all before it.
        let until = Instant::now() + inner.options.timeout;
        let is_free = {
            let mut state = self.state.lock();
            state.waiting.push(Waiting { call, asked: Asked { answer, until } });
            let is_free = state.under_way < UNDER_WAY_MAX;
            state.under_way += usize::from(is_free);
            is_free
        };
        if is_free {
            // A task of its own: the others must not depend on whoever came first staying for the answer.
            tokio::spawn(Arc::clone(self).send_all(Arc::clone(inner)));
        }
        answered.await.unwrap_or_else(|_| Err(not_connected()))
    }

    /// Sends one batch after the other until nobody waits.
    async fn send_all(self: Arc<Batch>, inner: Arc<Inner>) {
        // Given back also if this task falls over: the others must not wait for it for ever.
        let mut turn = Turn { batch: Arc::clone(&self), is_over: false };
        loop {
            let now = Instant::now();
            let (mut calls, asked): (Vec<_>, VecDeque<_>) = {
                let mut state = self.state.lock();
                // Whoever has gone was told that nothing is known, whoever is late is told now; better that nothing is done.
                state.waiting.retain(|waiting| !waiting.asked.answer.is_closed() && waiting.asked.until > now);
                if state.waiting.is_empty() {
                    state.under_way -= 1;
                    turn.is_over = true;
                    return;
                }
                let many = state.waiting.len().min(self.script.together);
                state.waiting.drain(..many).map(|waiting| (waiting.call, waiting.asked)).unzip()
            };
            let left = self.send_one(&inner, &calls, asked).await;
            if !left.is_empty() {
                let calls = calls.split_off(calls.len().saturating_sub(left.len()));
                let again = calls.into_iter().zip(left).map(|(call, asked)| Waiting { call, asked });
                self.state.lock().waiting.splice(..0, again);
            }
        }
    }

    /// Sends one batch. Everyone in it is answered in time, the first first; nobody has a timer for himself. Those who
    /// wait in line have come later: by the time theirs is up, they are in a batch. Those are left, the last of all, that have not run.
    async fn send_one(&self, inner: &Inner, calls: &[ScriptCall], mut asked: VecDeque<Asked>) -> VecDeque<Asked> {
        let mut call = pin!(inner.call(&self.script, calls, 0));
        let mut late = 0;
        let ended = loop {
            let Some(first) = asked.front() else { return asked };
            if let Ok(ended) = timeout_at(first.until, call.as_mut()).await {
                break ended;
            }
            if let Some(first) = asked.pop_front() {
                first.tell(Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()));
                late += 1;
            }
        };
        match ended {
            Ok((replies, _)) => {
                let left = asked.split_off(replies.len().saturating_sub(late).min(asked.len()));
                asked.into_iter().zip(replies.into_iter().skip(late)).for_each(|(asked, reply)| asked.tell(Ok(reply)));
                left
            }
            Err(fault) => {
                asked.into_iter().for_each(|asked| asked.tell(Err(fault.clone())));
                VecDeque::new()
            }
        }
    }
}

/// One of the calls under way.
struct Turn {
    batch: Arc<Batch>,
    is_over: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            self.batch.state.lock().under_way -= 1;
        }
    }
}
