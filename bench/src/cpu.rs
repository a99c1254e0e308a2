//! What an answer costs in processor time, which other load on the machine does not change.

use anyhow::{Context, Result};

/// Processor time so far, in microseconds: of a process, and of those it started that still run, as PostgreSQL has one for each
/// connection. Of this process its own alone: the servers it started are the others.
pub(crate) fn spent_us(pid: u32) -> Result<f64> {
    let (_, own) = stat(pid)?;
    if pid == std::process::id() {
        return Ok(own);
    }
    let processes = std::fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // One that has ended meanwhile has none.
    let started = processes.filter_map(|process| stat(process).ok().filter(|(parent, _)| *parent == pid));
    Ok(own + started.map(|(_, spent)| spent).sum::<f64>())
}

/// The parent of a process, and its processor time in microseconds.
fn stat(pid: u32) -> Result<(u32, f64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name stands in parentheses and may hold anything; the fields after it are numbers.
    let (_, fields) = stat.rsplit_once(')').context("a stat has a name")?;
    let parent = fields.split_whitespace().nth(1).and_then(|n| n.parse().ok()).context("a process has a parent")?;
    let ticks: f64 = fields.split_whitespace().skip(11).take(2).map(|n| n.parse().unwrap_or(0.0)).sum();
    // Linux counts in hundredths of a second.
    Ok((parent, ticks * 10_000.0))
}
