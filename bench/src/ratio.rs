//! Two sides, measured in turns.

use std::time::Duration;

use anyhow::{Context, Result};

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// Processor time per answer of the one who answers, in microseconds.
    pub(crate) cpu_us: f64,
}

/// What came out over all rounds.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    ours: Vec<Measured>,
    theirs: Vec<Measured>,
}

impl Rounds {
    pub(crate) fn add(&mut self, ours: Measured, theirs: Measured) {
        self.ours.push(ours);
        self.theirs.push(theirs);
    }

    /// Prints both sides and the median of the ratios, with what it should be, if anything is wanted of it.
    pub(crate) fn print(&self, title: &str, ours: &str, theirs: &str, wanted: impl Into<Option<f64>>) -> Result<()> {
        let ratios = self.ours.iter().zip(&self.theirs).map(|(o, t)| o.per_second / t.per_second).collect();
        let ratio = median(ratios).context("there was at least one round")?;
        println!("\n{title}");
        for (name, side) in [(ours, &self.ours), (theirs, &self.theirs)] {
            let rate = median(side.iter().map(|m| m.per_second).collect()).unwrap_or(0.0);
            let ms = |pick: fn(&Measured) -> Duration| median(side.iter().map(|m| pick(m).as_secs_f64() * 1e3).collect()).unwrap_or(0.0);
            let cpu = median(side.iter().map(|m| m.cpu_us).collect()).unwrap_or(0.0);
            println!(
                "  {name:<36} {rate:>8.0}/s   p50 {:>6.3} ms   p99 {:>6.3} ms   {cpu:>5.1} us of its CPU each",
                ms(|m| m.p50),
                ms(|m| m.p99)
            );
        }
        match wanted.into() {
            Some(wanted) => {
                println!("  ratio {ratio:.2}x, wanted {wanted:.2}x: {}", if ratio >= wanted { "reached" } else { "NOT reached" })
            }
            None => println!("  ratio {ratio:.2}x"),
        }
        Ok(())
    }
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
