//! The integration tests, one module per topic, in one binary that links once and shares its servers.
#![cfg(test)]

mod batch;
mod catalog;
mod cli;
mod crash;
mod differential;
mod echo;
mod example;
mod http;
mod iduna;
mod layer;
mod leases;
mod log;
mod nginx;
mod outage;
mod pick;
mod property;
mod queue;
mod readme;
mod realm;
mod refused;
mod relay_example;
mod reservations;
mod servers;
mod tables;
mod todo;
mod wake;
