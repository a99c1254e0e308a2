//! Finding the rules that match: 10,000 rules beside 10, for the same calls.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result};
use hermod_core::RuleId;
use hermod_core::limit::{Attributes, Facts, Index, Pattern, Rule};

const FEW: usize = 10;
const MANY: usize = 10_000;
const CALLS: u32 = 200_000;
const ROUNDS: usize = 9;
const WANTED: f64 = 1.3;

/// How rule number `n` is written, and what matches it.
struct Shape {
    name: &'static str,
    rule: fn(usize) -> (String, Option<String>),
    call: fn(usize) -> (String, String),
}

const SHAPES: [Shape; 3] = [
    Shape { name: "exact actions", rule: |n| (format!("tasks/{n}"), None), call: |n| (format!("tasks/{n}"), "bot-7".to_owned()) },
    Shape { name: "globs of actions", rule: |n| (format!("area-{n}/*"), None), call: |n| (format!("area-{n}/create"), "bot-7".to_owned()) },
    Shape {
        name: "globs of subjects",
        rule: |n| ("tasks/create".to_owned(), Some(format!("team-{n}:*"))),
        call: |n| ("tasks/create".to_owned(), format!("team-{n}:ann")),
    },
];

fn index(shape: &Shape, count: usize) -> Result<Index> {
    let rule = |n: usize| {
        let (action, subject) = (shape.rule)(n);
        let rule = Rule::new(RuleId::new(format!("r{n}"))?, Pattern::action(action)?, 5, "1m".parse()?);
        Ok(Rule { subject: subject.map(Pattern::subject).transpose()?, ..rule })
    };
    let rules = (0..count).map(rule).collect::<Result<Vec<_>>>()?;
    Ok(Index::new(&rules)?)
}

/// Nanoseconds for one call, over the ten calls that match one of the first ten rules.
fn measure(index: &Index, calls: &[(String, String)]) -> f64 {
    let began = Instant::now();
    let mut found = 0;
    for (action, subject) in calls.iter().cycle().take(usize::try_from(CALLS).unwrap_or(0)) {
        let facts = Facts { subject, action, cost: 1, attributes: Attributes::none() };
        found += black_box(index.find(black_box(&facts))).len();
    }
    assert!(found > 0, "nothing was found");
    began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

pub(crate) fn run() -> Result<()> {
    println!("\nfinding the rules that match, {MANY} rules beside {FEW}");
    for shape in &SHAPES {
        let (few, many) = (index(shape, FEW)?, index(shape, MANY)?);
        let calls: Vec<_> = (0..FEW).map(shape.call).collect();
        let mut rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (measure(&few, &calls), measure(&many, &calls))).collect();
        rounds.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
        let (few, many) = rounds.get(ROUNDS / 2).context("there are rounds")?;
        let word = if many / few <= WANTED { "reached" } else { "NOT reached" };
        println!("  {:<18} {few:>5.0} ns, {many:>5.0} ns: {:.2}x, wanted at most {WANTED:.1}x: {word}", shape.name, many / few);
    }
    Ok(())
}
