//! Reads a file of subjects: YAML, a list under `subjects:`.
//!
//! It is read as a tree whose nodes know their place, so that everything with a fault is told at once, with line and column. Each
//! is then checked by the server's own code, which gives it the form in which a server shows it.

use saphyr::YamlData;
use serde_json::Value;

use super::form::{Known, NAMES};
use crate::file::Written;
use crate::file::checked::{Names, checked, item, repeated};
use crate::file::fault::Fault;
use crate::file::node::{document, place, shown};
use crate::server::{Problem, check_subject};

const NEEDED: &str = "a list under `subjects:`";

const KNOWN: Names = Names { id: "subject", all: &NAMES };

/// The subjects of a file, or all that is wrong with it.
pub(super) fn read(text: &str) -> Result<Vec<Written<Known>>, Vec<Fault>> {
    let document = document(text, NEEDED).map_err(|fault| vec![fault])?;
    let fault = |node, detail: String| Err(vec![Fault::new(place(node), detail)]);
    let YamlData::Mapping(fields) = &document.data else { return fault(&document, format!("the file needs {NEEDED}")) };
    if let Some((other, _)) = fields.iter().find(|(name, _)| name.data.as_str() != Some("subjects")) {
        return fault(other, format!("there is no field {} here; only `subjects:` is read", shown(other)));
    }
    let Some(list) = fields.values().next() else { return fault(&document, format!("the file needs {NEEDED}")) };
    let YamlData::Sequence(items) = &list.data else { return fault(list, format!("subjects must be a list, not {}", shown(list))) };
    let (mut written, mut faults) = (Vec::new(), Vec::new());
    for (number, node) in (1..).zip(items) {
        match item(number, node, KNOWN, known) {
            Ok(one) => written.push(one),
            Err(fault) => faults.push(fault),
        }
    }
    faults.extend(repeated(&written, KNOWN.id));
    faults.sort_by_key(|fault| fault.place);
    if faults.is_empty() { Ok(written) } else { Err(faults) }
}

fn known(value: &Value) -> Result<Known, Problem> {
    let subject = value.get(KNOWN.id).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(Known { subject, profile: checked(value, check_subject)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::fault::Place;

    const FILE: &str = "\
subjects:
  - subject: ann
    tags: [vip]
    attributes: {level: 3, plan: pro}
    quiet: {from: 22:00, to: 08:00}
    mute_until: 2030-01-31T10:00:00+01:00
  - {subject: Grüße}
";

    fn faults(text: &str) -> Vec<String> {
        read(text).map(|all| all.len()).expect_err(text).iter().map(|fault| fault.line("s.yaml")).collect()
    }

    #[test]
    fn subjects_are_read_as_the_server_shows_them() {
        let all = read(FILE).unwrap();
        let [ann, other] = &all[..] else { panic!("{all:?}") };
        assert_eq!((ann.item.subject.as_str(), &ann.item.profile.tags[..]), ("ann", &["vip".to_owned()][..]));
        assert_eq!(ann.item.profile.mute_until.unwrap().to_string(), "2030-01-31T09:00:00.000Z");
        assert_eq!((other.item.subject.as_str(), &other.item.profile), ("Grüße", &hermod_client::Profile::default()));
        assert_eq!(ann.place_of("quiet.to"), Place { line: 5, column: 30 });
    }

    #[test]
    fn every_fault_names_its_line_and_column() {
        for (from, to, told) in [
            ("from: 22:00", "from: 22", "s.yaml:5:19: subject ann: quiet.from must be a string."),
            ("from: 22:00", "from: 22h", "s.yaml:5:19: subject ann: quiet.from must be a time of day such as \"22:00\""),
            ("tags: [vip]", "tags: ['']", "s.yaml:3:11: subject ann: tags must each be 1 to 128 bytes long, without control characters"),
            ("tags: [vip]", "tgs: [vip]", "s.yaml:3:10: subject ann: There is no field tgs here. Did you mean tags?"),
            (
                "subject: ann",
                "timezone: UTC",
                "s.yaml:2:5: subject 1: the field subject is needed, so that it is the same subject the next time",
            ),
            ("{subject: Grüße}", "{subject: ann}", "s.yaml:7:15: subject ann: this subject is used before, in line 2"),
            ("{subject: Grüße}", "ann", "s.yaml:7:5: subject 2: a subject has fields; this is \"ann\""),
            ("{subject: Grüße}", "{subject: 7}", "s.yaml:7:15: subject 2: subject must be a string."),
            ("subjects:", "subject:", "s.yaml:1:1: there is no field \"subject\" here; only `subjects:` is read"),
        ] {
            assert_eq!(faults(&FILE.replace(from, to)), [told], "{to}");
        }
        assert_eq!(faults(""), ["s.yaml:1:1: the file is empty; it needs a list under `subjects:`"]);
        assert_eq!(faults("- ann"), ["s.yaml:1:1: the file needs a list under `subjects:`"]);
        assert_eq!(faults("subjects: 3"), ["s.yaml:1:11: subjects must be a list, not 3"]);
        assert_eq!(faults(&FILE.replace("from: 22:00", "from: 22").replace("{subject: Grüße}", "ann")).len(), 2, "all at once");
    }
}
