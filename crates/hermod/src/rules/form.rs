//! A rule as people write it: its fields in a fixed order, and which of them need not be written.
//!
//! Tables, exports and differences all read this one list.

use hermod_client::{Algorithm, OnExpiry, OnStoreError, Rule, RuleDraft, RuleMode, RuleScope};
use serde_json::{Value, json};

use crate::file::{Field, Item};

impl Item for Rule {
    const NOUN: &'static str = "rule";

    fn id(&self) -> &str {
        &self.id
    }

    fn fields(&self) -> Vec<Field> {
        fields(self).into()
    }
}

/// All fields but the version, which is the server's own.
fn fields(rule: &Rule) -> [Field; 16] {
    let needed = Field::needed;
    let field = |name, value: Value, usual: Value| Field::new(name, value, &usual);
    // Only buckets have a burst; there the usual one is the limit.
    let usual_burst = rule.burst.map(|_| rule.limit);
    [
        needed("id", json!(rule.id)),
        field("name", json!(rule.name), json!("default")),
        needed("action", json!(rule.action)),
        field("subject", json!(rule.subject), Value::Null),
        field("when", json!(rule.when), Value::Null),
        needed("limit", json!(rule.limit)),
        needed("per", json!(rule.per)),
        field("algorithm", json!(rule.algorithm), json!(usual_algorithm(&rule.per))),
        field("burst", json!(rule.burst), json!(usual_burst)),
        field("queue", json!(rule.queue), Value::Null),
        field("approximate", json!(rule.approximate), json!(false)),
        field("scope", json!(rule.scope), json!(RuleScope::default())),
        field("mode", json!(rule.mode), json!(RuleMode::default())),
        field("durable", json!(rule.durable), json!(false)),
        field("on_store_error", json!(rule.on_store_error), json!(usual_on_store_error(rule.durable))),
        field("on_expiry", json!(rule.on_expiry), json!(OnExpiry::default())),
    ]
}

/// What a rule covers. No two rules of a space cover the same.
pub(super) fn covers(rule: &Rule) -> (&str, &str, Option<&str>, Option<&str>) {
    (&rule.name, &rule.action, rule.subject.as_deref(), rule.when.as_deref())
}

/// How a rule of this period is counted if it does not say.
pub(super) fn usual_algorithm(per: &str) -> Algorithm {
    // A window of the calendar cannot slide.
    if per.contains('@') { Algorithm::FixedWindow } else { Algorithm::default() }
}

/// What a rule answers while the store cannot be reached, if it does not say.
fn usual_on_store_error(durable: bool) -> OnStoreError {
    if durable { OnStoreError::Closed } else { OnStoreError::Open }
}

/// The draft that makes this rule. What is usual is left to the server, so that it stays usual when
/// another field changes.
pub(super) fn draft(rule: &Rule) -> RuleDraft {
    let mut draft = RuleDraft::new(&rule.action, rule.limit, &rule.per).id(&rule.id).name(&rule.name);
    draft.subject = rule.subject.clone();
    draft.when = rule.when.clone();
    draft.algorithm = Some(rule.algorithm.clone());
    draft.burst = rule.burst.filter(|burst| *burst != rule.limit);
    draft.queue = rule.queue;
    draft.approximate = rule.approximate;
    draft.scope = Some(rule.scope.clone()).filter(|scope| *scope != RuleScope::default());
    draft.mode = Some(rule.mode.clone()).filter(|mode| *mode != RuleMode::default());
    draft.durable = rule.durable;
    draft.on_store_error = Some(rule.on_store_error.clone()).filter(|policy| *policy != usual_on_store_error(rule.durable));
    draft.on_expiry = Some(rule.on_expiry.clone()).filter(|policy| *policy != OnExpiry::default());
    draft
}
