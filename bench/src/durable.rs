//! Durable charges: how many share one fsync.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use hermod_core::limit::meter::Bucket;
use hermod_core::limit::{Act, Check, Limited, Meter, Rules};
use hermod_core::{Micros, RuleId, SpaceId, Subject};
use hermod_engine::embedded::{Embedded, Options};

use crate::load::closed_loop;

const WRITERS: usize = 64;
const SPAN: Duration = Duration::from_secs(5);
const WANTED: f64 = 50.0;

pub(crate) async fn run() -> Result<()> {
    // Beside the build, not in a folder that may be in memory: the disk is what is measured.
    let folder = tempfile::tempdir_in(std::env::current_exe()?.parent().unwrap_or(std::path::Path::new(".")))?;
    let engine = Embedded::open(Options::new(folder.path()))?;
    let space = SpaceId::default_space();
    let meter = Meter::Bucket(Bucket::new(1_000_000_000, Micros::saturating(1_000_000), 1_000_000_000, 0)?);
    let rules: Rules = Arc::new([Arc::new(Limited { durable: true, ..Limited::enforced(RuleId::new("bench")?, meter) })]);
    let commits = engine.commits();
    let began = Instant::now();
    let measured = closed_loop(std::process::id(), WRITERS, SPAN, |worker| {
        let subject = Subject::new(format!("user-{worker}")).expect("the name is fit");
        let place = engine.partitions().place(&space, subject.as_str());
        let check = Arc::new(Check::new(place, Some(subject), Act::Check, 1, Arc::clone(&rules)));
        let engine = engine.clone();
        move |_| {
            let (engine, check) = (engine.clone(), Arc::clone(&check));
            async move { Ok(engine.run(check.as_ref(), None).await.map(|_| ())?) }
        }
    })
    .await?;
    let commits = f64::from(u32::try_from(engine.commits() - commits)?);
    let fsyncs = commits / began.elapsed().as_secs_f64();
    let per_fsync = measured.per_second / fsyncs;
    println!("\ndurable charges, embedded, {WRITERS} writers");
    println!(
        "  {:>9.0} records/s   {fsyncs:>6.0} fsyncs/s   p50 {:.3} ms   p99 {:.3} ms",
        measured.per_second,
        measured.p50.as_secs_f64() * 1e3,
        measured.p99.as_secs_f64() * 1e3
    );
    let word = if per_fsync >= WANTED { "reached" } else { "NOT reached" };
    println!("  {per_fsync:.1} records per fsync, wanted {WANTED:.0}: {word}");
    engine.close().await?;
    Ok(())
}
