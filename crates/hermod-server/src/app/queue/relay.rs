//! queue: relays packed DIDComm messages to whom they are for.

use futures_util::future::join_all;
use hermod_catalog::Scope;
use hermod_core::queue::{Delivery, Due, Mode};
use hermod_core::{Micros, Once, Recipient};

use super::{App, Caller, PushAnswer};
use crate::code::{Code, Problem};
use crate::relay::candidates;

/// What became of a message that was relayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayAnswer {
    /// Its delivery.
    pub pushed: PushAnswer,
    /// To whom it goes.
    pub to: Recipient,
}

impl App {
    /// Puts a packed message into a queue, as it came, for one of those it names. One that is malformed changes nothing.
    pub async fn relay(&self, caller: &Caller, queue: &str, envelope: &str, once: Option<&Once>) -> Result<RelayAnswer, Problem> {
        caller.need(Scope::QueuesPush)?;
        let candidates = candidates(envelope)?;
        let nobody = || Problem::new(Code::InvalidField, "recipients must not be empty.").in_field("recipients");
        let to = self.choose(caller, queue, &candidates).await?.ok_or_else(nobody)?;
        let mut delivery = Delivery::new(Due::In(Micros::ZERO), true, envelope.trim_ascii().as_bytes().to_vec());
        delivery.to = Some(to.clone());
        let pushed = self.push(caller, queue, vec![delivery], once).await?;
        let pushed = pushed.into_iter().next().ok_or_else(|| Problem::new(Code::Internal, "Nothing was pushed."))??;
        Ok(RelayAnswer { pushed, to })
    }

    /// To which of those it names a message goes: the one already assigned wins, else the first.
    ///
    /// An idempotency key is known only in the partition of its recipient. Whoever was chosen is assigned from then on, so a
    /// call that is repeated chooses the same, unless one that stands before was assigned by another message in between.
    async fn choose(&self, caller: &Caller, queue: &str, candidates: &[Recipient]) -> Result<Option<Recipient>, Problem> {
        let first = candidates.first().cloned();
        if candidates.len() < 2 {
            return Ok(first);
        }
        let queue = self.queue_of(caller, queue).await?;
        if queue.mode == Mode::Shared {
            return Ok(first);
        }
        let looks = candidates.iter().map(|to| self.look_at(caller, &queue, to.as_str(), None, None));
        for (to, looked) in candidates.iter().zip(join_all(looks).await) {
            if looked?.explained.binding.is_some_and(|binding| !binding.owner().is_empty()) {
                return Ok(Some(to.clone()));
            }
        }
        Ok(first)
    }
}
