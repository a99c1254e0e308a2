//! Queues beside their rivals: `cargo xtask bench queue`.
//!
//! All of it goes through HTTP, as users do. The load comes from this process over few connections, and shares the
//! machine with the server, the rival and Redis.

mod beanstalk;
mod bullmq;
mod lateness;
mod load;
mod pending;
mod sticky;
mod wire;

use anyhow::Result;
use hermod_tests::server::Hermod;

use load::Target;

/// What every delivery and every job carries: 100 bytes.
pub(crate) const PAYLOAD_BYTES: usize = 100;

pub(crate) async fn run() -> Result<()> {
    bullmq::run().await?;
    beanstalk::run().await?;
    lateness::run().await?;
    pending::run().await
}

/// One part of it; whether there is such a part.
pub(crate) async fn run_part(name: &str) -> Option<Result<()>> {
    Some(match name {
        "queue-bullmq" => bullmq::run().await,
        "queue-beanstalk" => beanstalk::run().await,
        "queue-lateness" => lateness::run().await,
        "queue-pending" => pending::run().await,
        "queue-sticky" => sticky::run().await,
        "queue-sticky-route" => sticky::route().await,
        "queue-sticky-takeover" => sticky::takeover().await,
        _ => return None,
    })
}

/// A server on this store, with its key.
fn serve(store: Option<&str>) -> Result<(Hermod, Target)> {
    let hermod = Hermod::serve(store.into_iter().flat_map(|url| ["--store", url]))?;
    let target = Target::new(hermod.url()?, &hermod.admin_key()?);
    Ok((hermod, target))
}

/// Says whether a ratio is what it should be.
fn say_ratio(name: &str, mut ratios: Vec<f64>, wanted: f64) {
    ratios.sort_by(f64::total_cmp);
    let (low, high) = (ratios.first().copied().unwrap_or(0.0), ratios.last().copied().unwrap_or(0.0));
    let ratio = ratios.get(ratios.len() / 2).copied().unwrap_or(0.0);
    let word = if ratio >= wanted { "reached" } else { "NOT reached" };
    println!("  {name}: ratio {ratio:.2}x (rounds {low:.2} to {high:.2}), wanted {wanted:.2}x: {word}");
}

/// The middle one.
fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A count as a number that can be divided.
fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
