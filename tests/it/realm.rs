//! realm: economies that are data, at the service's boundary.

mod ajo;
mod alike;
mod attacked;
mod audit;
mod catalog;
mod corners;
mod crash;
mod differential;
mod fuzzed;
mod live;
mod looks;
mod odds;
mod parts;
mod play;
mod service;
mod zones;
