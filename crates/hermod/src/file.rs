//! Definitions in a file: read with the place of everything, compared with those of a server, applied to it, written again.
//!
//! What is defined (a rule; a deck with its messages; a realm) is an [`Item`]; all else is the same for every kind.

pub(crate) mod apply;
pub(crate) mod checked;
pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod fault;
pub(crate) mod node;

use std::borrow::Cow;
use std::collections::BTreeMap;

use hermod_client::ClientError;
use serde_json::Value;

use diff::Edit;
use fault::{Fault, Of, Place};

/// One field of an item.
pub(crate) struct Field {
    pub(crate) name: Cow<'static, str>,
    /// Null where there is none.
    pub(crate) value: Value,
    /// Whether it can be left out.
    pub(crate) is_default: bool,
}

impl Field {
    /// One that is always written.
    pub(crate) fn needed(name: impl Into<Cow<'static, str>>, value: Value) -> Field {
        Field { name: name.into(), value, is_default: false }
    }

    /// One that is written where it is not as usual.
    pub(crate) fn new(name: &'static str, value: Value, usual: &Value) -> Field {
        Field { name: name.into(), is_default: value == *usual, value }
    }

    /// `name=value`, of those that have no column of their own and are not as usual.
    pub(crate) fn options(fields: impl IntoIterator<Item = Field>, own: &[&str]) -> String {
        let fields = fields.into_iter().filter(|field| !field.is_default && !own.contains(&&*field.name));
        fields.map(|field| format!("{}={}", field.name, text(&field.value))).collect::<Vec<_>>().join(" ")
    }
}

/// Something that is defined in a file and kept by a server.
pub(crate) trait Item {
    /// What people call those of which there are many in a file: `rule`.
    const NOUN: &'static str;
    /// What to know after nothing was changed because that was wanted.
    const DRY_RUN: &'static str = "The file was checked here; the server checks it again when it is applied.";

    /// What people call this one.
    fn noun(&self) -> &'static str {
        Self::NOUN
    }

    /// What tells it from others that are called the same.
    fn id(&self) -> &str;

    /// Its fields in the order in which people think of them, all but the version, which is the server's own.
    fn fields(&self) -> Vec<Field>;

    /// How it is named in a list of changes.
    fn label(&self) -> String {
        self.id().to_owned()
    }

    /// What makes this one `new`.
    fn edits(&self, new: &Self) -> Vec<Edit> {
        let pairs = self.fields().into_iter().zip(new.fields());
        let changed = pairs.filter(|(old, new)| old.value != new.value);
        changed.map(|(old, new)| Edit { field: old.name, from: old.value, to: new.value }).collect()
    }

    /// Edits after the label, for people.
    fn told(edits: &[Edit]) -> String {
        let edits = edits.iter().map(|edit| format!("{}: {} -> {}", edit.field, text(&edit.from), text(&edit.to)));
        format!("  {}", edits.collect::<Vec<_>>().join(", "))
    }
}

/// An item of the file.
#[derive(Debug)]
pub(crate) struct Written<T> {
    /// As the server would show it.
    pub(crate) item: T,
    pub(crate) at: Place,
    /// Where fields are written; those within others as `cap.per`.
    pub(crate) fields: BTreeMap<String, Place>,
}

impl<T: Item> Written<T> {
    /// Where a field is written; where the item begins if it is not.
    pub(crate) fn place_of(&self, field: &str) -> Place {
        place_of(&self.fields, field).unwrap_or(self.at)
    }

    /// A fault in this item.
    pub(crate) fn fault(&self, field: &str, detail: String) -> Fault {
        let of = Of { noun: self.item.noun(), name: self.item.id().to_owned() };
        Fault { place: self.place_of(field), of: Some(of), field: Some(field.to_owned()), detail }
    }

    /// What the server has against it; nothing if the item is not to blame.
    pub(crate) fn refused(&self, fault: &ClientError) -> Vec<Fault> {
        let Some(problem) = fault.problem().filter(|_| fault::is_of_the_item(fault)) else { return Vec::new() };
        let all = problem.more.get("faults").and_then(Value::as_array).into_iter().flatten();
        let all: Vec<Fault> = all
            .filter_map(|one| {
                let (field, detail) = (one.get("field")?.as_str()?, one.get("detail")?.as_str()?);
                let detail = if field.is_empty() { detail.to_owned() } else { format!("{field}: {detail}") };
                Some(self.fault(field, detail))
            })
            .collect();
        if all.is_empty() { vec![self.fault(problem.field.as_deref().unwrap_or("id"), problem.to_string())] } else { all }
    }
}

/// Where a field is written, or the nearest that it is a part of.
pub(crate) fn place_of(places: &BTreeMap<String, Place>, field: &str) -> Option<Place> {
    let whole = || field.rfind(['.', '[']).and_then(|end| place_of(places, field.get(..end)?));
    places.get(field).copied().or_else(whole)
}

/// A value for people.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `1 rule`, `2 rules`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
