//! What is known of a subject as people write it: its fields in a fixed order, and which of them need not be written.

use hermod_client::Profile;
use serde_json::{Value, json};

use crate::file::{Field, Item};

/// A subject, and what is known of it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) subject: String,
    pub(super) profile: Profile,
}

impl Item for Known {
    const NOUN: &'static str = "subject";

    fn id(&self) -> &str {
        &self.subject
    }

    fn fields(&self) -> Vec<Field> {
        let Known { subject, profile } = self;
        let field = |name, value: Value, usual: Value| Field::new(name, value, &usual);
        vec![
            Field::needed("subject", json!(subject)),
            field("tags", json!(profile.tags), json!([])),
            field("attributes", json!(profile.attributes), json!({})),
            field("timezone", json!(profile.timezone), Value::Null),
            field("quiet", json!(profile.quiet), Value::Null),
            field("mute_until", json!(profile.mute_until), Value::Null),
            field("opt_out", json!(profile.opt_out), json!([])),
        ]
    }
}

/// Every name that may be written, for those who misspell one.
pub(super) const NAMES: [&str; 9] = ["subject", "tags", "attributes", "timezone", "quiet", "mute_until", "opt_out", "from", "to"];
