use super::*;

struct Names;

impl Scope for Names {
    fn type_of(&mut self, name: &str) -> Option<Type> {
        match name {
            "by" | "item" => Some(Type::Text),
            "amount" | "p" => Some(Type::Int),
            _ => None,
        }
    }

    fn names(&self) -> Vec<String> {
        ["amount", "by"].map(str::to_owned).into()
    }

    fn check(&self, _: Read, name: &str) -> Result<(), String> {
        if name == "ajo" { Ok(()) } else { Err(format!("no asset {name}")) }
    }
}

impl Reader for Names {
    type Stop = Overflow;

    fn name(&mut self, name: &str) -> Result<Datum, Overflow> {
        Ok(match name {
            "by" => Datum::Text("111".into()),
            "item" => Datum::Text("bone".into()),
            _ => Datum::Int(7),
        })
    }

    fn read(&mut self, read: Read, args: &[Datum]) -> Result<Datum, Overflow> {
        assert_eq!((read, args), (Read::Balance, &[Datum::Text("111".into()), Datum::Text("ajo".into())][..]));
        Ok(Datum::Int(101))
    }
}

fn run(text: &str) -> Datum {
    let (node, _) = super::read(text, None, &mut Names).unwrap();
    node.run(&mut Names).unwrap()
}

fn fault(text: &str) -> String {
    super::read(text, Some(Type::Bool), &mut Names).unwrap_err()
}

#[test]
fn whole_numbers_are_exact() {
    for (text, value) in [
        ("balance(by, 'ajo') * 18 / 100", 18),
        ("ceil(balance(by, 'ajo') * 18, 100)", 19),
        ("ceil(-7, 2)", -3),
        ("floor(-7, 2)", -4),
        ("floor(7, 2)", 3),
        ("min(3, -2) + max(3, -2) - abs(-9) % 5", -3),
        ("amount > 3 ? 1 : 1 / 0", 1),
        ("log10(10, 20)", 20),
        ("log10(2, 20)", 6),
        ("log10(69, 20)", 36),
        ("log10(1, 20)", 0),
        ("log10(1000, 7)", 21),
        ("log10(999, 1000)", 2999),
        ("9007199254740991 + 1", 9_007_199_254_740_992),
    ] {
        assert_eq!(run(text), Datum::Int(value), "{text}");
    }
    for text in ["by != '222' && item in ['bone', 'tooth']", "!(amount < 7) || 1 / 0 == 1", "amount == p"] {
        assert_eq!(run(text), Datum::Bool(true), "{text}");
    }
    for text in ["1 / 0", "9223372036854775807 + 1", "log10(0, 20)", "5 % 0", "floor(1, 0)"] {
        let (node, _) = super::read(text, None, &mut Names).unwrap();
        assert_eq!(node.run(&mut Names), Err(Overflow), "{text}");
    }
}

#[test]
fn logarithms_agree_with_those_of_fractions() {
    // Powers of ten are exact, which those of fractions need not be.
    for n in (2..5_000_i32).filter(|n| ![10, 100, 1_000].contains(n)) {
        let got = log10(i64::from(n), 20).and_then(|log| i32::try_from(log).ok()).map(f64::from);
        assert_eq!(got, Some((20.0 * f64::from(n).log10()).floor()), "{n}");
    }
}

#[test]
fn a_fault_says_what_and_where() {
    for (text, told) in [
        ("amount >= ", "line 1, column"),
        ("amout >= 1", "line 1, column 1: refers to amout, which there is not; there are: amount, by"),
        ("amount >= 1.5", "has a fraction"),
        ("amount", "must be true or false, and is a whole number"),
        ("by > 'a'", "only whole numbers have that"),
        ("amount == by", "has text where a whole number must be"),
        ("random() > 1", "column 1: calls random, which there is not"),
        ("balance(by) > 1", "with 1 arguments where it takes 2"),
        ("balance(by, 'gold') > 1", "no asset gold"),
        ("[1, 2].all(x, x > 0)", "may have"),
        ("by.size() > 1", "calls size"),
        ("", "must not be empty"),
    ] {
        assert!(fault(text).contains(told), "{text}: {}", fault(text));
    }
    let deep = format!("{}1{} > 0", "abs(".repeat(40), ")".repeat(40));
    assert!(fault(&deep).contains("deep"), "{}", fault(&deep));
}
