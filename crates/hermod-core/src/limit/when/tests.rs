//! What is accepted, what is refused and why, and what is true of which call.

use super::*;
use crate::chance::Seed;
use crate::limit::index::Attribute;

fn attributes() -> Attributes {
    let text = |text: &str| Attribute::Text(text.to_owned());
    Attributes(
        [
            (String::from("plan"), text("pro")),
            (String::from("roles"), Attribute::List(vec![text("admin"), text("dev")])),
            (String::from("beta"), Attribute::Bool(true)),
            (String::from("score"), Attribute::Float(0.5)),
            (String::from("age"), Attribute::Int(7)),
            (String::from("none"), Attribute::Null),
            (String::from("org"), Attribute::Map([(String::from("tier"), Attribute::Int(3))].into())),
        ]
        .into(),
    )
}

fn holds(text: &str) -> bool {
    let facts = Facts { subject: "vip:7", action: "tasks/create", cost: 12, attributes: &attributes() };
    When::new(text).unwrap_or_else(|fault| panic!("{text}: {fault}")).holds(&facts)
}

#[test]
fn expressions_are_true_of_the_facts() {
    for text in [
        "true",
        "cost > 10 && cost < 13",
        "subject.startsWith('vip:') && action == 'tasks/create'",
        "attributes.plan == 'pro'",
        "attributes['plan'] in ['pro', 'max']",
        "'admin' in attributes.roles",
        "attributes.roles.exists(role, role.endsWith('min'))",
        "attributes.beta",
        "!has(attributes.absent) && has(attributes.org.tier)",
        "attributes.org.tier >= 3 && attributes.score < 1.0 && attributes.none == null",
        "attributes.absent == 1 || cost == 12",
        "size(subject) + size(attributes.roles) == 7",
        "cost % 2 == 0 ? attributes.beta : false",
        "type(attributes.age) == int",
        "double(attributes.age) > attributes.score",
    ] {
        assert!(holds(text), "{text}");
    }
}

#[test]
fn what_fails_at_run_time_is_false() {
    for text in [
        "attributes.absent",
        "attributes.absent == 'x'",
        "!attributes.absent",
        "attributes.plan",
        "attributes.plan > 1",
        "attributes.org.absent.deeper == 1",
        "cost / (cost - 12) == 1",
        "attributes.roles[7] == 'x'",
        "int(attributes.plan) == 1",
        "cost + 9223372036854775807 > 0",
    ] {
        assert!(!holds(text), "{text}");
    }
}

#[test]
fn what_cannot_be_right_is_refused_with_its_place() {
    for (text, reason) in [
        ("", "must not be empty"),
        (" \n", "must not be empty"),
        ("cost >", "line 1, column 7"),
        ("cost > 1 &&\n && true", "line 2, column"),
        ("cost == 'a", "line 1, column"),
        ("cost = 1", "line 1, column"),
        ("cost > 1 cost", "line 1, column 10: mismatched input 'cost' expecting the end"),
        ("costs > 1", "line 1, column 1: refers to costs"),
        ("'ß costs' == subject &&\n  costs.a > 1", "line 2, column 3: refers to costs"),
        ("user.plan == 'pro'", "refers to user"),
        ("cost == 1 || now() > 1", "line 1, column 14: calls now"),
        ("subject.matches('a+')", "calls matches"),
        ("attributes.roles.sort() == []", "calls sort"),
        ("cost", "must be true or false"),
        ("cost + 1", "must be true or false"),
        ("attributes.n + 1", "must be true or false"),
        ("'yes'", "must be true or false"),
        ("cost > 1 ? 'yes' : 'no'", "must be true or false"),
        ("size(subject)", "must be true or false"),
        ("cost > 'a'", "has no >"),
        ("cost + 'a' == 1", "has no add"),
        ("subject.startsWith(1)", "has no startsWith"),
        ("attributes.a.all(x, attributes.b.all(y, x == y))", "inside or behind another"),
    ] {
        let fault = When::new(text).unwrap_err();
        assert_eq!(fault.field, "when");
        assert!(fault.reason.contains(reason), "{text}: {}", fault.reason);
    }
    assert!(When::new(&format!("{}true", " ".repeat(TEXT_MAX))).unwrap_err().reason.contains("1028 bytes"));
}

/// An overflowing stack ends the process, so this runs where there is as little as a server's threads have.
#[test]
fn no_expression_overflows_the_stack() {
    let n = TEXT_MAX;
    let nested = |open: &str, close: &str| {
        let times = (n - 5) / (open.len() + close.len());
        [format!("{}true{}", open.repeat(times), close.repeat(times)), open.repeat(n / open.len())]
    };
    let mut texts: Vec<String> = ["1+", "1<", "true==", "true&&", "true||", "!", "-", "true?true:", "1-"]
        .iter()
        .flat_map(|part| [format!("{}true", part.repeat((n - 4) / part.len())), part.repeat(n / part.len())])
        .collect();
    texts.extend([".a", ".a()", "[0]", ".size()"].map(|part| format!("attributes{}", part.repeat((n - 10) / part.len()))));
    for (open, close) in
        [("(", ")"), ("[", "]"), ("{1:", "}"), ("size(", ")"), ("has(a.", ")"), ("[1].all(x,", ")"), ("true?", ":1"), ("a[", "]")]
    {
        texts.extend(nested(open, close));
    }
    // The deepest that are accepted.
    let deepest = |text: &dyn Fn(usize) -> String| (1..64).map(text).filter(|text| When::new(text).is_ok()).last().unwrap();
    texts.push(deepest(&|n| format!("cost{} > 0", "+1".repeat(n))));
    texts.push(deepest(&|n| format!("{}subject{} == ''", "string(".repeat(n), ")".repeat(n))));
    texts.push(deepest(&|n| format!("[1].all(x, {}x{} == '')", "string(".repeat(n), ")".repeat(n))));
    let run = move || {
        let facts = Facts { subject: "s", action: "a", cost: 1, attributes: &attributes() };
        for text in texts {
            let _either_way = When::new(&text).map(|when| when.holds(&facts));
        }
    };
    std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(run).unwrap().join().unwrap();
}

#[test]
fn no_text_panics() {
    let words = r#"subject action cost attributes . plan roles ( ) [ ] { } , : ? + - * / % == != < >= && || ! in 1 0u 1.5e3 'a' "ß"
                   -9223372036854775808 r'\' b'\xff' '\u00e9' ''' null true has all exists map size startsWith int x \ ` 🤖 @ //"#;
    let words: Vec<&str> = words.split_whitespace().chain(["\n", " in "]).collect();
    let facts = Facts { subject: "s", action: "a", cost: u64::MAX, attributes: &attributes() };
    let mut accepted = 0;
    // Spaced out, so that each part can be exchanged for another.
    let sound = [
        "cost > 10 && cost < 13 || ! has ( attributes . plan )",
        "attributes . roles . exists ( x , x == 'a' ) ? cost % 2 == 0 : attributes [ 'beta' ]",
        "{ 'a' : [ 1 , 1.5e3 ] } [ subject ] [ 0u ] == - cost * 2 / size ( attributes . roles + [ 1 ] )",
        "subject . startsWith ( 'a' + string ( cost ) ) && action in [ 'a' ] && int ( attributes . age ) >= 1",
    ];
    for round in 0..20_000 {
        let seed = Seed::new(round);
        let pick = |index, from: usize| usize::try_from(seed.child(index).below(u64::try_from(from).unwrap())).unwrap();
        let mut parts: Vec<&str> = sound[pick(0, sound.len())].split(' ').collect();
        for change in 0..pick(1, 4) {
            let change = 2 + 2 * u64::try_from(change).unwrap();
            let at = pick(change, parts.len());
            parts[at] = words[pick(change + 1, words.len())];
        }
        if let Ok(when) = When::new(&parts.concat()) {
            accepted += 1;
            when.holds(&facts);
        }
    }
    assert!(accepted > 1_000, "{accepted} were accepted: too few to tell anything");
}

#[test]
fn large_attributes_make_it_false() {
    let roles = Attribute::List(vec![Attribute::Text(String::from("admin")); 1_000]);
    let large = Attributes([(String::from("roles"), roles)].into());
    let facts = |attributes| Facts { subject: "s", action: "a", cost: 1, attributes };
    assert!(!When::new("'admin' in attributes.roles").unwrap().holds(&facts(&large)));
    assert!(When::new("cost == 1").unwrap().holds(&facts(&large)));
}

#[test]
fn it_is_its_text() {
    let (one, same, other) = (When::new("cost > 1").unwrap(), When::new("cost > 1").unwrap(), When::new("cost>1").unwrap());
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert_eq!((one.as_str(), one.to_string().as_str(), format!("{one:?}").as_str()), ("cost > 1", "cost > 1", "When(\"cost > 1\")"));
}

/// Each loop would multiply what the one before it made.
#[test]
fn a_loop_behind_a_loop_is_refused() {
    let grown = format!("[1]{}.size() > 0", ".map(x, [x, x, x, x, x, x, x, x])".repeat(5));
    for text in [grown.as_str(), "attributes.l.map(x, x).map(x, x).size() > 0", "attributes.l.filter(x, x > 1).all(x, x > 2)"] {
        assert!(When::new(text).is_err(), "{text}");
    }
    assert!(When::new("attributes.l.all(x, x > 1) && attributes.m.exists(x, x > 1)").is_ok());
}
