//! Hermod beside its rivals, as ratios in one run: `cargo xtask bench limit`, `cargo xtask bench pick`, `cargo xtask bench queue`,
//! `cargo xtask bench realm`.
//!
//! Absolute numbers depend on the machine; a ratio of two things measured in turns, in one run, with
//! the same load, much less so. Every round measures both sides; the median of the ratios counts.

mod bare;
mod cpu;
mod durable;
mod http;
mod index;
mod inprocess;
mod load;
mod pick;
mod queue;
mod ratio;
mod realm;
mod redis;

use anyhow::{Result, bail};

/// The same as the server's, for both sides.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "say what to measure: limit, pick, queue or realm, or one part of it: limit-http, limit-redis, limit-durable, limit-inprocess, limit-index, \
                     queue-bullmq, queue-beanstalk, queue-lateness, queue-pending, queue-sticky-route, queue-sticky-takeover (the last two: queue --sticky), \
                     pick-redis, pick-embedded, pick-seed, realm-postgres, realm-redis, realm-hot, realm-board";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match args.first().map(String::as_str) {
        Some("limit") => runtime.block_on(async {
            http::run().await?;
            redis::run().await?;
            durable::run().await?;
            tokio::task::block_in_place(inprocess::run)?;
            index::run()
        }),
        Some("limit-index") => index::run(),
        Some("limit-inprocess") => inprocess::run(),
        Some("limit-http") => runtime.block_on(http::run()),
        Some("limit-redis") => runtime.block_on(redis::run()),
        Some("limit-durable") => runtime.block_on(durable::run()),
        Some("realm") => runtime.block_on(realm::run()),
        Some(part) if part.starts_with("realm-") => runtime.block_on(realm::run_part(part)).unwrap_or_else(|| bail!("{USAGE}")),
        Some("pick") => runtime.block_on(pick::run()),
        Some(part) if part.starts_with("pick-") => runtime.block_on(pick::run_part(part)).unwrap_or_else(|| bail!("{USAGE}")),
        // What the HTTP bench starts as its rival, in a process of its own.
        Some("bare") => runtime.block_on(bare::serve()),
        Some("queue") if args.iter().any(|arg| arg == "--sticky") => {
            runtime.block_on(queue::run_part("queue-sticky")).unwrap_or_else(|| bail!("{USAGE}"))
        }
        Some("queue") => runtime.block_on(queue::run()),
        part => match runtime.block_on(queue::run_part(part.unwrap_or_default())) {
            Some(ran) => ran,
            None => bail!("{USAGE}"),
        },
    }
}
