//! Several operations in one script call.
//!
//! Half of what a small script costs Redis is the call itself. So an operation that comes while calls
//! are on their way waits for the next one, together with all that have come by then; one that comes
//! at rest goes at once. Each operation is whole by itself: a batch shares the call, nothing else.
//!
//! Not on a Cluster, where a call may touch one slot only, and not where replicas are waited for.

use std::sync::Arc;

use ::redis::RedisError;
use hermod_core::{Reply, Script, ScriptCall};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Inner, not_connected};

/// So many operations share a call. A script must not hold up the others for long.
const BATCH_MAX: usize = 32;
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
    answer: oneshot::Sender<Result<Reply, RedisError>>,
}

impl Batch {
    pub(super) fn new(script: Script) -> Batch {
        Batch { script, state: Mutex::new(State::default()) }
    }

    /// Joins the next call.
    pub(super) async fn join(self: &Arc<Batch>, inner: &Arc<Inner>, call: ScriptCall) -> Result<Reply, RedisError> {
        let (answer, answered) = oneshot::channel();
        let is_free = {
            let mut state = self.state.lock();
            state.waiting.push(Waiting { call, answer });
            let is_free = state.under_way < UNDER_WAY_MAX;
            state.under_way += usize::from(is_free);
            is_free
        };
        if is_free {
            // A task of its own: the others must not depend on whoever came first staying for the answer.
            tokio::spawn(Arc::clone(self).send_all(Arc::clone(inner)));
        }
        // Its place in the line counts too: a store that is silent must not make the last wait for all before it.
        match tokio::time::timeout(inner.options.timeout, answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(not_connected())),
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }

    /// Sends one batch after the other until nobody waits.
    async fn send_all(self: Arc<Batch>, inner: Arc<Inner>) {
        // Given back also if this task falls over: the others must not wait for it for ever.
        let mut turn = Turn { batch: Arc::clone(&self), is_over: false };
        loop {
            let (calls, answers): (Vec<_>, Vec<_>) = {
                let mut state = self.state.lock();
                // Whoever has gone was told that nothing is known; better that nothing is done.
                state.waiting.retain(|waiting| !waiting.answer.is_closed());
                if state.waiting.is_empty() {
                    state.under_way -= 1;
                    turn.is_over = true;
                    return;
                }
                let many = state.waiting.len().min(BATCH_MAX);
                state.waiting.drain(..many).map(|waiting| (waiting.call, waiting.answer)).unzip()
            };
            match inner.call(&self.script, &calls, 0).await {
                Ok((replies, _)) => {
                    for (answer, reply) in answers.into_iter().zip(replies) {
                        // Whoever went away does not need it.
                        let _gone = answer.send(Ok(reply)).is_err();
                    }
                }
                Err(fault) => {
                    for answer in answers {
                        let _gone = answer.send(Err(fault.clone())).is_err();
                    }
                }
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
