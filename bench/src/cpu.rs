//! What an answer costs in processor time, which other load on the machine does not change.

use anyhow::{Context, Result};

/// Processor time of a process so far, in microseconds.
pub(crate) fn spent_us(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name stands in parentheses and may hold anything; the fields after it are numbers.
    let (_, fields) = stat.rsplit_once(')').context("a stat has a name")?;
    let ticks: f64 = fields.split_whitespace().skip(11).take(2).map(|n| n.parse().unwrap_or(0.0)).sum();
    // Linux counts in hundredths of a second.
    Ok(ticks * 10_000.0)
}
