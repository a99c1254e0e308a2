//! pick: decks, their messages, and who gets which.

mod catalog;
