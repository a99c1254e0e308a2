//! queue: relays packed DIDComm messages to whom they are for.

use hermod_catalog::Scope;
use hermod_core::queue::{Delivery, Due};
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
        let to = choose(&candidates).ok_or_else(nobody)?.clone();
        let mut delivery = Delivery::new(Due::In(Micros::ZERO), true, envelope.trim_ascii().as_bytes().to_vec());
        delivery.to = Some(to.clone());
        let pushed = self.push(caller, queue, vec![delivery], once).await?;
        let pushed = pushed.into_iter().next().ok_or_else(|| Problem::new(Code::Internal, "Nothing was pushed."))??;
        Ok(RelayAnswer { pushed, to })
    }
}

/// To which of those it names a message goes: the one already assigned wins, else the first. None is assigned yet.
///
/// A call that is repeated with its key must choose the same one: a key is known only in the partition of its recipient.
fn choose(candidates: &[Recipient]) -> Option<&Recipient> {
    candidates.first()
}
