//! pick: decks, their messages, and who gets which: the operation on every engine, and the service at its boundary.

mod catalog;
mod differential;
mod events;
mod service;
