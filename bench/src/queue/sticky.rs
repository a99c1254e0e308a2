//! Sticky queues: `cargo xtask bench queue --sticky`.

mod route;
mod seed;
mod takeover;

use anyhow::Result;

pub(super) async fn run() -> Result<()> {
    route().await?;
    takeover().await
}

pub(super) async fn route() -> Result<()> {
    route::run().await
}

pub(super) async fn takeover() -> Result<()> {
    takeover::run().await
}
