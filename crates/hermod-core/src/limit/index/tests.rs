//! The index finds what a slow and obvious search finds.

use super::*;
use crate::chance::Seed;
use crate::int::Micros;
use crate::limit::per::Per;
use crate::limit::rule::{Algorithm, Mode, OnExpiry, Scope};

/// `id name action subject when`; `-` for none, and the condition goes to the end.
fn rule(text: &str) -> Rule {
    let mut words = text.splitn(5, ' ').map(|word| (word != "-").then_some(word));
    let mut word = || words.next().flatten();
    Rule {
        id: RuleId::new(word().unwrap()).unwrap(),
        name: Name::new(word().unwrap()).unwrap(),
        action: Pattern::action(word().unwrap()).unwrap(),
        subject: word().map(|subject| Pattern::subject(subject).unwrap()),
        when: word().map(|when| When::new(when).unwrap()),
        limit: 1,
        per: Per::Span(Micros::saturating(1_000_000)),
        algorithm: Algorithm::TokenBucket,
        burst: None,
        queue: None,
        approximate: false,
        scope: Scope::Subject,
        mode: Mode::Enforce,
        durable: false,
        on_store_error: None,
        on_expiry: OnExpiry::default(),
        version: 1,
    }
}

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| rule(text)).collect()
}

fn facts<'a>(action: &'a str, subject: &'a str) -> Facts<'a> {
    Facts { subject, action, cost: 1, attributes: Attributes::none() }
}

fn ids(rules: &Rules) -> Vec<&str> {
    rules.iter().map(|rule| rule.id.as_str()).collect()
}

#[test]
fn of_one_name_the_most_specific_wins() {
    // Each is more specific than the one before it.
    let ladder = [
        "all-any d * -",
        "all-glob d tasks/* -",
        "all-longer d tasks/cr* -",
        "all-exact d tasks/create -",
        "some-any d * vip:*",
        "some-more d tasks/* vip:*",
        "longer-any d * vip:1*",
        "longer-more d tasks/* vip:1*",
        "some-exact d tasks/create vip:*",
        "longer-exact d tasks/create vip:1*",
        "own-any d * vip:12",
        "own-glob d tasks/* vip:12",
        "own-exact d tasks/create vip:12",
    ];
    for until in 1..=ladder.len() {
        let mut known = rules(&ladder[..until]);
        let best = known[until - 1].id.to_string();
        assert_eq!(ids(&Index::new(&known).unwrap().find(&facts("tasks/create", "vip:12"))), [best.as_str()]);
        known.reverse();
        assert_eq!(ids(&Index::new(&known).unwrap().find(&facts("tasks/create", "vip:12"))), [best.as_str()]);
    }
}

#[test]
fn override_wins_over_default_and_other_names_stay() {
    let index = Index::new(&rules(&["1 burst post -", "2 daily post -", "9 daily post vip:*", "8 daily get -"])).unwrap();
    assert_eq!(ids(&index.find(&facts("post", "bot"))), ["1", "2"]);
    assert_eq!(ids(&index.find(&facts("post", "vip:1"))), ["1", "9"]);
    assert!(index.find(&facts("put", "vip:1")).is_empty());
    let own = Index::new(&rules(&["7 burst post vip:1", "6 own post vip:1"])).unwrap();
    assert_eq!(ids(&index.find_with(&own, &facts("post", "vip:1"))), ["7", "9", "6"]);
    // The smaller id wins where nothing else tells them apart.
    let index = Index::new(&rules(&["b d *x -", "a d x* -"])).unwrap();
    assert_eq!(ids(&index.find(&facts("x", "bot"))), ["a"]);
}

#[test]
fn a_rule_whose_condition_is_false_overrides_nothing() {
    let known = rules(&["1 d post -", "2 d post vip:* cost > 5", "3 d post vip:1 attributes.plan == 'pro'", "4 e post - cost == 9"]);
    let index = Index::new(&known).unwrap();
    let pro = Attributes([(String::from("plan"), Attribute::Text(String::from("pro")))].into());
    let find = |cost, attributes| {
        let facts = Facts { cost, attributes, ..facts("post", "vip:1") };
        let found = index.find(&facts);
        let applied: Vec<_> = index.explain(None, &facts).into_iter().filter(|c| c.why == Why::Applies).map(|c| c.rule).collect();
        assert_eq!(*found, applied);
        ids(&found).join(" ")
    };
    assert_eq!(find(1, Attributes::none()), "1");
    assert_eq!(find(6, Attributes::none()), "2");
    assert_eq!(find(9, &pro), "3 4");
}

#[test]
fn an_explanation_names_every_candidate() {
    let index = Index::new(&rules(&["1 d post -", "2 d po* -", "3 d post - cost > 5", "4 d get -", "5 e post -"])).unwrap();
    let own = Index::new(&rules(&["6 d post bot"])).unwrap();
    let told: Vec<_> = index.explain(Some(&own), &facts("post", "bot")).into_iter().map(|c| (c.rule.id.to_string(), c.why)).collect();
    let by = |id: &str| Why::Overridden { by: RuleId::new(id).unwrap() };
    let expected = [("6", Why::Applies), ("3", by("6")), ("1", by("6")), ("2", by("6")), ("5", Why::Applies)];
    assert_eq!(told, expected.map(|(id, why)| (id.to_owned(), why)));
    let told = index.explain(None, &facts("post", "bot"));
    assert_eq!(told.iter().map(|c| c.why.clone()).collect::<Vec<_>>(), [Why::WhenFalse, Why::Applies, by("1"), Why::Applies]);
}

#[test]
fn plain_answers_are_made_once() {
    let index = Index::new(&rules(&["1 d post -", "2 e post vip:*", "3 f post - cost > 5", "4 d get*x -"])).unwrap();
    assert!(Arc::ptr_eq(&index.find(&facts("post", "a")), &index.find(&facts("post", "b"))));
    let own = Index::new(&rules(&["9 d get bot"])).unwrap();
    assert!(Arc::ptr_eq(&index.find_with(&own, &facts("post", "bot")), &index.find(&facts("post", "b"))));
    assert!(Arc::ptr_eq(&index.find(&facts("getx ", "a")), &no_rules()));
}

/// The obvious search.
fn model<'a>(rules: &'a [Rule], facts: &Facts<'_>) -> Vec<&'a str> {
    let matches = |rule: &&Rule| {
        rule.action.matches(facts.action)
            && rule.subject.as_ref().is_none_or(|s| s.matches(facts.subject))
            && rule.when.as_ref().is_none_or(|w| w.holds(facts))
    };
    let score = |rule: &Rule| {
        let subject = rule.subject.as_ref().map_or(0, |s| if s.is_glob() { 1 } else { 2 });
        let spelled = rule.subject.as_ref().map_or(0, Pattern::literal_len);
        (subject, !rule.action.is_glob(), rule.when.is_some(), spelled, rule.action.literal_len(), Reverse(rule.id.clone()))
    };
    let mut winners: std::collections::BTreeMap<&str, &Rule> = std::collections::BTreeMap::new();
    for rule in rules.iter().filter(matches) {
        let winner = winners.entry(rule.name.as_str()).or_insert(rule);
        if score(rule) > score(winner) {
            *winner = rule;
        }
    }
    winners.into_values().map(|rule| rule.id.as_str()).collect()
}

/// A short text of few letters, two bytes long among them, so that much matches.
fn text(seed: Seed, stars: bool) -> String {
    let letters = if stars { ["a", "b", "ß", "*"] } else { ["a", "b", "ß", "a"] };
    let length = 1 + seed.child(0).below(4);
    (0..length).map(|at| letters[usize::try_from(seed.child(1 + at).below(4)).unwrap()]).collect()
}

#[test]
fn the_index_finds_what_the_obvious_search_finds() {
    for round in 0..300 {
        let seed = Seed::new(round);
        let count = seed.child(0).below(60);
        let rules: Vec<Rule> = (0..count)
            .map(|number| {
                let seed = seed.child(1_000 + number);
                let subject = if seed.child(0).below(3) == 0 { String::from("-") } else { text(seed.child(1), true) };
                let when = ["-", "-", "cost > 1", "attributes.x"][usize::try_from(seed.child(2).below(4)).unwrap()];
                rule(&format!("{number} n{} {} {subject} {when}", seed.child(3).below(3), text(seed.child(4), true)))
            })
            .collect();
        let all = Index::new(&rules).unwrap();
        let is_own = |rule: &&Rule| rule.subject.as_ref().is_some_and(|subject| !subject.is_glob());
        let everyones = Index::new(rules.iter().filter(|rule| !is_own(rule))).unwrap();
        for call in 0..40 {
            let seed = seed.child(5_000 + call);
            let (action, subject) = (text(seed.child(0), false), text(seed.child(1), false));
            let facts = Facts { cost: 1 + seed.child(2).below(2), ..facts(&action, &subject) };
            let expected = model(&rules, &facts);
            assert_eq!(ids(&all.find(&facts)), expected, "seed {round}, {facts:?}");
            let own = Index::new(rules.iter().filter(is_own).filter(|rule| rule.subject.as_ref().unwrap().matches(&subject))).unwrap();
            assert_eq!(ids(&everyones.find_with(&own, &facts)), expected, "seed {round}, {facts:?}");
        }
    }
}

#[test]
fn attributes_are_bounded() {
    let list = |n: i64| Attributes([(String::from("l"), Attribute::List((0..n).map(Attribute::Int).collect()))].into());
    assert!(list(255).check().is_ok());
    assert_eq!(list(256).check().unwrap_err().field, "attributes");
    let long = Attributes([(String::from("t"), Attribute::Text("x".repeat(Attributes::BYTES_MAX)))].into());
    assert!(long.check().is_err());
}
