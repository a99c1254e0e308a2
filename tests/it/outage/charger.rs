//! An engine on some Redis, and a rule to charge under.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use hermod_core::limit::meter::Bucket;
use hermod_core::limit::{Act, Check, Checked, Limited, Meter, Rules, Verdict};
use hermod_core::{Micros, Once, Outcome, RuleId, SpaceId, Subject};
use hermod_engine::redis::{Address, Options};
use hermod_engine::{EngineError, Ran, Redis};
use hermod_tests::unique;

/// So many charges fit under the rule; no test makes as many for one subject.
pub(super) const BURST: u64 = 50_000;
/// The burst comes back over a year, so the first token takes ten minutes.
const PERIOD: Micros = Micros::saturating(365 * 86_400_000_000);

/// An engine and a rule in a space of their own. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Charger {
    engine: Redis,
    space: SpaceId,
    rules: Rules,
}

impl Charger {
    /// Opens an engine with the usual options, but for what `set` changes.
    pub(super) async fn open(url: &str, set: impl FnOnce(&mut Options)) -> Result<Charger> {
        let mut options = Options::new(Address::parse(url)?);
        set(&mut options);
        let engine = Redis::open(options).await?;
        let rules = rule("r", Meter::Bucket(Bucket::new(BURST, PERIOD, BURST, 0)?))?;
        Ok(Charger { engine, space: SpaceId::new(unique("outage"))?, rules })
    }

    /// The same rule and space on another engine.
    pub(super) async fn beside(&self, url: &str, set: impl FnOnce(&mut Options)) -> Result<Charger> {
        let other = Charger::open(url, set).await?;
        Ok(Charger { engine: other.engine, ..self.clone() })
    }

    /// The same engine and space with an answer that waits until the charge is durable.
    pub(super) fn durable(&self) -> Charger {
        let rules = self.rules.iter().map(|rule| Arc::new(Limited { durable: true, ..Limited::clone(rule) })).collect();
        Charger { rules, ..self.clone() }
    }

    /// The same engine and space under another rule.
    pub(super) fn under(&self, meter: Meter) -> Result<Charger> {
        self.under_rule("r", meter)
    }

    /// The same engine and space under a rule of this name.
    pub(super) fn under_rule(&self, id: &str, meter: Meter) -> Result<Charger> {
        Ok(Charger { rules: rule(id, meter)?, ..self.clone() })
    }

    pub(super) fn engine(&self) -> &Redis {
        &self.engine
    }

    /// The key of a subject's counter.
    pub(super) fn key(&self, subject: &str) -> Result<String> {
        Ok(hermod_core::key::limit(&self.engine.partitions().place(&self.space, subject), subject))
    }

    /// Takes one token.
    pub(super) async fn charge(&self, subject: &str) -> Result<Ran<Checked>, EngineError> {
        self.charge_once(subject, None).await
    }

    /// Takes one token, at most once for each idempotency key.
    pub(super) async fn charge_once(&self, subject: &str, key: Option<&str>) -> Result<Ran<Checked>, EngineError> {
        let once = key.map(|key| Once::new(key, subject.as_bytes()).expect("a fit key"));
        self.engine.run(&self.operation(subject, 1), once.as_ref()).await
    }

    /// How many tokens are used. Asks for more than there can ever be, which is refused and changes nothing.
    pub(super) async fn used(&self, subject: &str) -> Result<u64> {
        let ran = self.engine.run(&self.operation(subject, BURST + 1), None).await?;
        let Outcome::Done(checked) = ran.outcome else { anyhow::bail!("{ran:?}") };
        let checked = checked.explained(&self.rules);
        ensure!(checked.verdict() == Verdict::Never, "{checked:?}");
        Ok(BURST - checked.ruled().next().context("there is a rule")?.1.left)
    }

    fn operation(&self, subject: &str, cost: u64) -> Check {
        let place = self.engine.partitions().place(&self.space, subject);
        Check::new(place, Some(Subject::new(subject).expect("a fit subject")), Act::Check, cost, Arc::clone(&self.rules))
    }
}

fn rule(id: &str, meter: Meter) -> Result<Rules> {
    Ok(Arc::from([Arc::new(Limited::enforced(RuleId::new(id)?, meter))]))
}
