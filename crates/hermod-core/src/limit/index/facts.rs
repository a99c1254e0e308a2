//! What is known of a call when its rules are looked for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::Invalid;

/// What is known of a call.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Who acts.
    pub subject: &'a str,
    /// What is done.
    pub action: &'a str,
    /// How much of it.
    pub cost: u64,
    /// Whatever else the caller told.
    pub attributes: &'a Attributes,
}

/// What a caller tells of a call besides subject, action and cost, for the `when` of rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attributes(pub BTreeMap<String, Attribute>);

/// One value among the attributes: all that JSON has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Attribute {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// Values in order.
    List(Vec<Attribute>),
    /// Values by name.
    Map(BTreeMap<String, Attribute>),
}

impl Attributes {
    /// No attributes.
    pub fn none() -> &'static Attributes {
        static NONE: Attributes = Attributes(BTreeMap::new());
        &NONE
    }

    /// The most values, those within lists and maps included. A loop within a `when` runs over them.
    pub const VALUES_MAX: usize = 256;

    /// The most bytes of all names and texts.
    pub const BYTES_MAX: usize = 16 * 1024;

    /// Whether expressions can be asked of them in bounded time. A `when` that uses larger ones is false.
    pub fn check(&self) -> Result<(), Invalid> {
        let (mut values, mut bytes) = (0, 0);
        measure(&self.0, &mut values, &mut bytes);
        if values > Attributes::VALUES_MAX {
            let most = Attributes::VALUES_MAX;
            return Err(Invalid::new("attributes", format!("hold {values} values; at most {most} are allowed")));
        }
        if bytes > Attributes::BYTES_MAX {
            let most = Attributes::BYTES_MAX;
            return Err(Invalid::new("attributes", format!("hold {bytes} bytes of text; at most {most} are allowed")));
        }
        Ok(())
    }
}

fn measure(map: &BTreeMap<String, Attribute>, values: &mut usize, bytes: &mut usize) {
    for (name, value) in map {
        *bytes += name.len();
        measure_one(value, values, bytes);
    }
}

fn measure_one(value: &Attribute, values: &mut usize, bytes: &mut usize) {
    *values += 1;
    match value {
        Attribute::Text(text) => *bytes += text.len(),
        Attribute::List(list) => list.iter().for_each(|value| measure_one(value, values, bytes)),
        Attribute::Map(map) => measure(map, values, bytes),
        Attribute::Null | Attribute::Bool(_) | Attribute::Int(_) | Attribute::Float(_) => {}
    }
}
