//! Items in the form that `apply` reads.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use saphyr::{Mapping, Scalar, Yaml, YamlEmitter};
use serde_json::{Map, Value};

use super::{Field, Item};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Write it here and not to the terminal.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What is written: fields, and under a name a list of items, where there is one.
pub(crate) struct Export<'a, T> {
    pub(crate) fields: Vec<Field>,
    pub(crate) list: Option<(&'static str, &'a [T])>,
    /// Which names within fields come first, and in which order; the others follow by name.
    pub(crate) order: &'static [&'static str],
}

impl<T: Item> Export<'_, T> {
    /// Writes it where it is wanted; `what` says what is where, for a remark: `2 rules are`.
    pub(crate) fn write(self, args: &ExportArgs, out: Output, what: &str) -> anyhow::Result<()> {
        // JSON is YAML, too: `apply` reads either.
        let text = if out.is_json() { format!("{:#}\n", self.json()) } else { self.yaml()? };
        match &args.output {
            Some(file) if file.as_os_str() != "-" => {
                std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
                out.remark(&format!("{what} in {}.", file.display()))
            }
            _ => out.text(&text),
        }
    }

    /// Without what is at its default.
    pub(crate) fn json(self) -> Value {
        let written = |fields: Vec<Field>| {
            let fields = fields.into_iter().filter(|field| !field.is_default);
            fields.map(|field| (field.name.into_owned(), field.value)).collect::<Map<_, _>>()
        };
        let mut document = written(self.fields);
        if let Some((name, items)) = self.list {
            let items = items.iter().map(|item| Value::Object(written(item.fields()))).collect();
            document.insert(name.to_owned(), Value::Array(items));
        }
        Value::Object(document)
    }

    /// The same as YAML, the fields in the order in which people think of them.
    pub(crate) fn yaml(self) -> anyhow::Result<String> {
        let written = |fields: Vec<Field>| -> Mapping<'static> {
            let fields = fields.into_iter().filter(|field| !field.is_default);
            fields.map(|field| (string(field.name.into_owned()), yaml(field.value, self.order))).collect()
        };
        let mut document = written(self.fields);
        if let Some((name, items)) = self.list {
            let items = items.iter().map(|item| Yaml::Mapping(written(item.fields()))).collect();
            document.insert(string(name.to_owned()), Yaml::Sequence(items));
        }
        let mut text = String::new();
        YamlEmitter::new(&mut text).dump(&Yaml::Mapping(document))?;
        // One document needs no mark of where it begins.
        Ok(format!("{}\n", text.strip_prefix("---\n").unwrap_or(&text)))
    }
}

fn string(text: String) -> Yaml<'static> {
    Yaml::Value(Scalar::String(text.into()))
}

fn yaml(value: Value, order: &[&str]) -> Yaml<'static> {
    match value {
        Value::Null => Yaml::Value(Scalar::Null),
        Value::Bool(switch) => Yaml::Value(Scalar::Boolean(switch)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Yaml::Value(Scalar::Integer(whole)),
            (None, Some(float)) => Yaml::Value(Scalar::FloatingPoint(float.into())),
            (None, None) => string(number.to_string()),
        },
        Value::String(text) => string(text),
        Value::Array(items) => Yaml::Sequence(items.into_iter().map(|item| yaml(item, order)).collect()),
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
            fields.sort_by_key(|(name, _)| order.iter().position(|first| first == name).unwrap_or(order.len()));
            Yaml::Mapping(fields.into_iter().map(|(name, value)| (string(name), yaml(value, order))).collect())
        }
    }
}
