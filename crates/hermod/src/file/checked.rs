//! Items of a file, checked by the server's own code, which gives them the form in which a server shows them.

use std::collections::BTreeMap;

use saphyr::{MarkedYaml, YamlData};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::fault::{Fault, Of, Place};
use super::node::{json, place, shown};
use super::{Item, Written, place_of};
use crate::server::{Code, Problem};
use crate::settings::nearest;

/// Where each field is written.
pub(crate) type Places = BTreeMap<String, Place>;

/// The names of an item's parts, as people may write them.
#[derive(Clone, Copy)]
pub(crate) struct Names {
    /// Of the field that tells it from others.
    pub(crate) id: &'static str,
    /// Every name that may be written, for those who misspell one.
    pub(crate) all: &'static [&'static str],
}

/// One item of a list, the `number`-th.
pub(crate) fn item<T: Item>(
    number: usize,
    node: &MarkedYaml<'_>,
    names: Names,
    read: impl Fn(&Value) -> Result<T, Problem>,
) -> Result<Written<T>, Fault> {
    let (at, mut places) = (place(node), Places::new());
    let of = |name: String| Some(Of { noun: T::NOUN, name });
    if !matches!(node.data, YamlData::Mapping(_)) {
        return Err(Fault { of: of(number.to_string()), ..Fault::new(at, format!("a {} has fields; this is {}", T::NOUN, shown(node))) });
    }
    let value = json(node, "", &mut places).map_err(|fault| Fault { of: of(number.to_string()), ..fault })?;
    let id = value.get(names.id);
    let label = id.and_then(Value::as_str).map_or_else(|| number.to_string(), str::to_owned);
    if id.is_none_or(Value::is_null) {
        let detail = format!("the field {} is needed, so that it is the same {} the next time", names.id, T::NOUN);
        return Err(Fault { of: of(label), field: Some(names.id.to_owned()), ..Fault::new(at, detail) });
    }
    let item = read(&value).map_err(|problem| fault(&problem, names, of(label), at, &places))?;
    Ok(Written { item, at, fields: places })
}

/// Checks a part as the server does, and gives it as the server would.
pub(crate) fn checked<T: DeserializeOwned>(value: &Value, check: impl Fn(&[u8]) -> Result<Value, Problem>) -> Result<T, Problem> {
    let shown = check(value.to_string().as_bytes())?;
    serde_json::from_value(shown).map_err(|fault| Problem::new(Code::Internal, fault.to_string()))
}

/// What the server's code has against a part, and where that is written.
pub(crate) fn fault(problem: &Problem, names: Names, of: Option<Of>, at: Place, places: &Places) -> Fault {
    let field = problem.field.clone().unwrap_or_default();
    // Of a field that is not known the server says its name alone, wherever it stands.
    let within = || places.iter().find(|(path, _)| path.rsplit('.').next() == Some(field.as_str())).map(|(_, place)| *place);
    let place = if problem.code == Code::MissingField { None } else { place_of(places, &field).or_else(within) };
    let known: Vec<String> = names.all.iter().map(|name| (*name).to_owned()).collect();
    let meant = (problem.code == Code::UnknownField).then(|| nearest(&field, &known)).flatten();
    let meant = meant.map(|meant| format!(" Did you mean {meant}?")).unwrap_or_default();
    let field = Some(field).filter(|field| !field.is_empty());
    Fault { place: place.unwrap_or(at), of, field, detail: format!("{}{meant}", problem.detail) }
}

/// Items of one id.
pub(crate) fn repeated<T: Item>(written: &[Written<T>], id: &str) -> Vec<Fault> {
    let (mut ids, mut faults) = (BTreeMap::new(), Vec::new());
    for one in written {
        if let Some(first) = ids.insert((one.item.noun(), one.item.id()), one) {
            faults.push(one.fault(id, format!("this {id} is used before, in line {}", first.place_of(id).line)));
        }
    }
    faults
}
