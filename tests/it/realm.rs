//! realm: economies that are data, at the service's boundary.

mod ajo;
mod alike;
mod attacked;
mod audit;
mod catalog;
mod crash;
mod corners;
mod differential;
mod fuzzed;
mod looks;
mod live;
mod odds;
mod parts;
mod play;
mod service;
mod zones;
