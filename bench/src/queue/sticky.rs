//! Sticky queues: `cargo xtask bench queue --sticky`.

mod route;
mod seed;

use anyhow::Result;

pub(super) async fn run() -> Result<()> {
    route().await
}

pub(super) async fn route() -> Result<()> {
    route::run().await
}
