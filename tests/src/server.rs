//! Guards over real servers, on free ports of 127.0.0.1, in temporary folders.
//!
//! A guard owns its processes and its folder, and ends both when it is dropped. A guard that is never
//! dropped (a shared one, or one of a test process that was killed) is covered by the kernel: every child
//! is started by one keeper thread under `setpriv --pdeathsig KILL`, so it dies with the test process.
//!
//! `start` returns when the server answers. `X::shared()` gives the one server of this test process,
//! for tests that keep to a [`unique`](crate::unique) space or database. What could disturb others (`stop`,
//! `restart`, `pause`) takes `&mut self`, so it cannot be done to a shared server: a test that kills starts its own.

mod cluster;
mod folder;
mod hermod;
mod keeper;
mod mariadb;
mod nginx;
mod port;
mod postgres;
mod process;
mod procfs;
mod program;
mod redis;
mod sentinel;
mod shared;

pub use cluster::Cluster;
pub use hermod::{Hermod, HermodOptions, binary as hermod_binary};
pub use mariadb::MariaDb;
pub use nginx::Nginx;
pub use port::free_port;
pub use postgres::Postgres;
pub use process::Process;
pub use procfs::is_alive;
pub use program::Program;
pub use redis::{Redis, RedisOptions};
pub use sentinel::Sentinel;

use std::time::Duration;

/// How long a server may take to start or to change its state. Far more than any needs, as other builds and
/// tests may keep the machine busy; nobody waits for it unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);
