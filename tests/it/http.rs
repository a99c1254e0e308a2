//! What HTTP promises to callers, good and bad: over real connections, to a server in this process, or to the
//! real binary where a process is what matters.

mod answers;
mod input;
mod keys;
mod limit;
mod load;
mod once;
mod openapi;
mod pages;
mod queues;
mod secrets;
pub(crate) mod service;
pub(crate) mod site;
mod spaces;
mod start;
mod tls;
mod wire;
