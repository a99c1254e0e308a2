//! pick: decks, their messages, and who gets which: the operation on every engine, and the service at its boundary.

mod bounds;
mod catalog;
mod costs;
mod differential;
mod events;
mod explain;
mod remembered;
mod served;
mod service;
