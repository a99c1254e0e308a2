//! The facts of a call as the interpreter reads them: borrowed, not copied.

use std::collections::HashMap;

use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;

use crate::limit::index::{Attribute, Attributes, Facts};

/// The variables of an expression.
pub(super) struct Bound<'a> {
    subject: CelString<'a>,
    action: CelString<'a>,
    cost: CelInt,
    attributes: CelMap<'a>,
}

impl<'a> Bound<'a> {
    pub(super) fn new(facts: &Facts<'a>, attributes: &'a Attributes) -> Bound<'a> {
        Bound {
            subject: CelString::from(facts.subject),
            action: CelString::from(facts.action),
            // Numbers without a suffix are signed in CEL, and signed and unsigned do not add up.
            cost: CelInt::from(i64::try_from(facts.cost).unwrap_or(i64::MAX)),
            attributes: map(attributes.0.iter()),
        }
    }
}

impl VariableResolver for Bound<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        Some(match variable {
            "subject" => CowVal::Borrowed(&self.subject),
            "action" => CowVal::Borrowed(&self.action),
            "cost" => CowVal::Borrowed(&self.cost),
            "attributes" => CowVal::Borrowed(&self.attributes),
            _ => return None,
        })
    }
}

fn map<'a>(entries: impl Iterator<Item = (&'a String, &'a Attribute)>) -> CelMap<'a> {
    let entries: HashMap<_, _> = entries.map(|(key, value)| (CelMapKey::from(key.as_str()), boxed(value))).collect();
    CelMap::from(entries)
}

fn boxed<'a>(value: &'a Attribute) -> Box<dyn Val + 'a> {
    match value {
        Attribute::Null => Box::new(CelNull),
        Attribute::Bool(value) => Box::new(CelBool::from(*value)),
        Attribute::Int(value) => Box::new(CelInt::from(*value)),
        Attribute::Float(value) => Box::new(CelDouble::from(*value)),
        Attribute::Text(value) => Box::new(CelString::from(value.as_str())),
        Attribute::List(values) => Box::new(CelList::from(values.iter().map(boxed).collect::<Vec<_>>())),
        Attribute::Map(entries) => Box::new(map(entries.iter())),
    }
}
