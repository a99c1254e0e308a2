//! The tree that a file is read as: its nodes know their place.

use std::collections::BTreeMap;

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use serde_json::{Map, Number, Value};

use super::fault::{Fault, Place};

/// The one document of a file; `needs` says what it should hold.
pub(crate) fn document<'a>(text: &'a str, needs: &str) -> Result<MarkedYaml<'a>, Fault> {
    let documents = MarkedYaml::load_from_str(text).map_err(|fault| Fault::new(fault.marker().into(), fault.info()))?;
    let mut documents = documents.into_iter();
    let first = documents.next().ok_or_else(|| Fault::new(Place::START, format!("the file is empty; it needs {needs}")))?;
    match documents.next() {
        Some(second) => Err(Fault::new(place(&second), "only one document is read; another begins here")),
        None => Ok(first),
    }
}

pub(crate) fn place(node: &MarkedYaml<'_>) -> Place {
    Place::from(&node.span.start)
}

/// What is written there, in a few words.
pub(crate) fn shown(node: &MarkedYaml<'_>) -> String {
    match &node.data {
        YamlData::Value(Scalar::Null) => "nothing".to_owned(),
        YamlData::Value(Scalar::Boolean(switch)) => switch.to_string(),
        YamlData::Value(Scalar::Integer(number)) => number.to_string(),
        YamlData::Value(Scalar::FloatingPoint(number)) => number.to_string(),
        YamlData::Value(Scalar::String(text)) => format!("{:?}", text.chars().take(40).collect::<String>()),
        YamlData::Sequence(_) => "a list".to_owned(),
        YamlData::Mapping(_) => "a set of fields".to_owned(),
        _ => "something else".to_owned(),
    }
}

/// A node as JSON. `places` learns where each field is written, those within others as `cap.per` and `tags[0]`; `path` is that of the node.
pub(crate) fn json(node: &MarkedYaml<'_>, path: &str, places: &mut BTreeMap<String, Place>) -> Result<Value, Fault> {
    let no_json = || Fault::new(place(node), format!("{} cannot be written as JSON", shown(node)));
    Ok(match &node.data {
        YamlData::Value(Scalar::Null) => Value::Null,
        YamlData::Value(Scalar::Boolean(switch)) => Value::Bool(*switch),
        YamlData::Value(Scalar::Integer(number)) => Value::from(*number),
        YamlData::Value(Scalar::FloatingPoint(number)) => Number::from_f64(number.into_inner()).map(Value::Number).ok_or_else(no_json)?,
        YamlData::Value(Scalar::String(text)) => Value::String(text.to_string()),
        YamlData::Sequence(items) => {
            let items = (0..).zip(items).map(|(n, item): (usize, _)| {
                let path = format!("{path}[{n}]");
                places.insert(path.clone(), place(item));
                json(item, &path, places)
            });
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        YamlData::Mapping(fields) => {
            let mut map = Map::new();
            for (name, value) in fields {
                let text = name.data.as_str().ok_or_else(|| Fault::new(place(name), "a field's name must be text; put it in quotes"))?;
                let path = if path.is_empty() { text.to_owned() } else { format!("{path}.{text}") };
                places.insert(path.clone(), place(value));
                let value = json(value, &path, places)?;
                map.insert(text.to_owned(), value);
            }
            Value::Object(map)
        }
        _ => return Err(no_json()),
    })
}
