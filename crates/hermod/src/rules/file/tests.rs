use super::*;

fn faults(text: &str) -> Vec<String> {
    read(text).map(|rules| rules.len()).expect_err(text).iter().map(|fault| fault.line("r.yaml")).collect()
}

#[test]
fn a_rule_is_read_as_the_server_shows_it() {
    let text = "
# Comments, quotes and flow style are YAML as usual.
rules:
  - id: burst
    action: \"tasks/*\"
    limit: 3
    per: minute
    algorithm: gcra
    durable: true
  - {id: daily, name: daily, action: x, limit: 9, per: day@Europe/Berlin}
";
    let rules = read(text).unwrap();
    let [burst, daily] = rules.as_slice() else { panic!("{rules:?}") };
    assert_eq!((burst.item.per.as_str(), burst.item.algorithm.as_str(), burst.item.burst), ("1m", "token_bucket", Some(3)));
    assert_eq!((burst.item.name.as_str(), burst.item.on_store_error.as_str()), ("default", "closed"));
    assert_eq!((daily.item.algorithm.as_str(), daily.item.on_store_error.as_str()), ("fixed_window", "open"));
    assert_eq!(burst.place_of("limit"), Place { line: 6, column: 12 });
    assert_eq!(burst.place_of("mode"), Place { line: 4, column: 5 }, "where the rule begins");
}

#[test]
fn every_fault_names_its_line_column_rule_and_field() {
    let rule = |more: &str| format!("rules:\n  - id: a\n    action: x\n    limit: 3\n    per: 10s\n{more}");
    for (more, told) in [
        ("    limt: 4\n", r#"r.yaml:6:5: rule a: there is no field "limt"; did you mean limit?"#),
        ("    colour: red\n", r#"r.yaml:6:5: rule a: there is no field "colour""#),
        ("    burst: \"3\"\n", r#"r.yaml:6:12: rule a: burst must be a whole number, not "3"; leave out the quotes"#),
        ("    burst: many\n", r#"r.yaml:6:12: rule a: burst must be a whole number of at least 0, not "many""#),
        ("    queue: -1\n", "r.yaml:6:12: rule a: queue must be a whole number of at least 0, not -1"),
        ("    subject: 42\n", "r.yaml:6:14: rule a: subject must be text, not 42; put it in quotes"),
        ("    subject: [x]\n", "r.yaml:6:14: rule a: subject must be text, not a list"),
        ("    durable: no\n", r#"r.yaml:6:14: rule a: durable must be true or false, not "no""#),
        ("    mode: off\n", "r.yaml:6:11: rule a: mode must be one of: enforce shadow block"),
        ("    burst: 5\n", "r.yaml:6:12: rule a: burst is for token_bucket and leaky_bucket only"),
        ("    unit: day\n", "r.yaml:6:5: rule a: per is there twice: unit means the same"),
        (
            "  - action: x\n    limit: 3\n    per: 1s\n",
            "r.yaml:6:5: rule 2: the field id is needed, so that it is the same rule the next time",
        ),
        ("  - {id: a, action: x, limit: 3, per: 1s}\n", "r.yaml:6:10: rule a: this id is used before, in line 2"),
        (
            "  - {id: b, action: x, limit: 0, per: 1s}\n",
            "r.yaml:6:31: rule b: limit must be at least 1; to forbid an action, use mode: block",
        ),
        (
            "  - {id: b, action: x, limit: 9, per: 1s}\n",
            "r.yaml:6:10: rule b: rule a in line 2 has the same name, action, subject and when",
        ),
        ("  - nonsense\n", r#"r.yaml:6:5: rule 2: a rule has fields; this is "nonsense""#),
    ] {
        assert_eq!(faults(&rule(more)), [told], "{more}");
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let text = "rules:\n  - id: a\n    limit: x\n    pers: soon\n  - action: y\n    limit: 1\n    per: 1s\n";
    assert_eq!(
        faults(text),
        [
            "r.yaml:2:5: rule a: the field action is needed",
            r#"r.yaml:3:12: rule a: limit must be a whole number of at least 0, not "x""#,
            r#"r.yaml:4:5: rule a: there is no field "pers"; did you mean per?"#,
            "r.yaml:5:5: rule 2: the field id is needed, so that it is the same rule the next time",
        ]
    );
}

#[test]
fn what_is_no_file_of_rules_is_told() {
    for (text, told) in [
        ("", "r.yaml:1:1: the file is empty; it needs a list under `rules:`"),
        ("# nothing\n", "r.yaml:1:1: the file is empty; it needs a list under `rules:`"),
        ("- id: a\n", "r.yaml:1:1: the file needs a list under `rules:`"),
        ("rules:\n", "r.yaml:1:6: rules must be a list, not nothing"),
        ("rule: []\n", "r.yaml:1:1: there is no field \"rule\" here; only `rules:` is read"),
        ("rules: []\n---\nrules: []\n", "r.yaml:3:1: only one document is read; another begins here"),
    ] {
        assert_eq!(faults(text), [told], "{text}");
    }
    for (text, start) in [
        ("rules:\n  - id: a\n    id: b\n", "r.yaml:3:5: "),
        ("rules:\n  - id: [a\n", "r.yaml:3:1: "),
        ("rules:\n  - id: \"a\n", "r.yaml:"),
        ("rules:\n\t- id: a\n", "r.yaml:2:"),
    ] {
        let told = faults(text);
        assert!(told.len() == 1 && told[0].starts_with(start), "{text}\n{told:?}");
    }
}
