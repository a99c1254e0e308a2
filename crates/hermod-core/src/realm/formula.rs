//! Formulas: CEL expressions over whole numbers, truth and text.
//!
//! They are read by a CEL parser and checked, with the type of every part, when a realm is saved. What runs is our own small tree:
//! there are no loops and no fractions, so it takes bounded time, sums are exact or a fault, and what it asks of the state is asked
//! when it is needed. `a && b` asks `b` only if `a` is true; a fault in what is not asked is none.

use std::fmt;
use std::sync::Arc;

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};

use crate::limit::when;

/// The longest formula, in bytes.
const TEXT_MAX: usize = 1024;
/// How deep a formula nests.
const DEPTH_MAX: usize = 32;

/// What a formula can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// A whole number.
    Int(i64),
    /// True or false.
    Bool(bool),
    /// A text: an owner, an asset.
    Text(Arc<str>),
}

/// The type of a formula, known before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A whole number.
    Int,
    /// True or false.
    Bool,
    /// A text.
    Text,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::Int => "a whole number",
            Type::Bool => "true or false",
            Type::Text => "text",
        })
    }
}

/// What a formula asks of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// What an owner has of an asset.
    Balance,
    /// The same without what is on hold.
    Available,
    /// How much more an owner can have.
    Room,
    /// The value of an effect.
    Effect,
    /// The value of a counter.
    Counter,
    /// The value of a box.
    Box,
    /// How often in a row a timer was claimed.
    Streak,
    /// Whether a timer can be claimed.
    Ready,
    /// Whether an asset may be traded.
    Tradable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Read(Read),
    Min,
    Max,
    Ceil,
    Floor,
    Abs,
    Log10,
}

const INT: Type = Type::Int;
const TEXT: Type = Type::Text;

/// Name, function, types of its arguments, type of its value.
const FUNCTIONS: &[(&str, Function, &[Type], Type)] = &[
    ("abs", Function::Abs, &[INT], INT),
    ("available", Function::Read(Read::Available), &[TEXT, TEXT], INT),
    ("balance", Function::Read(Read::Balance), &[TEXT, TEXT], INT),
    ("box", Function::Read(Read::Box), &[TEXT, TEXT], INT),
    ("ceil", Function::Ceil, &[INT, INT], INT),
    ("counter", Function::Read(Read::Counter), &[TEXT, TEXT], INT),
    ("effect", Function::Read(Read::Effect), &[TEXT, TEXT], INT),
    ("floor", Function::Floor, &[INT, INT], INT),
    ("log10", Function::Log10, &[INT, INT], INT),
    ("max", Function::Max, &[INT, INT], INT),
    ("min", Function::Min, &[INT, INT], INT),
    ("ready", Function::Read(Read::Ready), &[TEXT, TEXT], Type::Bool),
    ("room", Function::Read(Read::Room), &[TEXT, TEXT], INT),
    ("streak", Function::Read(Read::Streak), &[TEXT, TEXT], INT),
    ("tradable", Function::Read(Read::Tradable), &[TEXT], Type::Bool),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

const OPERATORS: &[(&str, Operator)] = &[
    (operators::ADD, Operator::Add),
    (operators::SUBSTRACT, Operator::Subtract),
    (operators::MULTIPLY, Operator::Multiply),
    (operators::DIVIDE, Operator::Divide),
    (operators::MODULO, Operator::Modulo),
    (operators::EQUALS, Operator::Equal),
    (operators::NOT_EQUALS, Operator::Unequal),
    (operators::LESS, Operator::Less),
    (operators::LESS_EQUALS, Operator::LessEqual),
    (operators::GREATER, Operator::Greater),
    (operators::GREATER_EQUALS, Operator::GreaterEqual),
];

/// A formula that was read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// A value.
    Value(Datum),
    /// What has this name: an argument, a draw, another formula.
    Name(Arc<str>),
    /// What the state says.
    Read(Read, Box<[Node]>),
    /// All others.
    Made(Box<Made>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Call(Function, Box<[Node]>),
    Binary(Operator, Node, Node),
    Not(Node),
    Negate(Node),
    And(Node, Node),
    Or(Node, Node),
    If(Node, Node, Node),
    In(Node, Box<[Node]>),
}

/// What a formula is read in: which names there are, and what they are.
pub(crate) trait Scope {
    /// The type of a name; none if there is none.
    fn type_of(&mut self, name: &str) -> Option<Type>;

    /// The names there are, for whoever meant another.
    fn names(&self) -> Vec<String>;

    /// Whether this asset, effect, counter, box or timer is defined; what is wrong if not.
    fn check(&self, read: Read, name: &str) -> Result<(), String>;
}

/// What a formula runs in.
pub(crate) trait Reader {
    /// Why a formula could not be computed.
    type Stop: From<Overflow>;

    /// The value of a name.
    fn name(&mut self, name: &str) -> Result<Datum, Self::Stop>;

    /// What the state says.
    fn read(&mut self, read: Read, args: &[Datum]) -> Result<Datum, Self::Stop>;
}

/// A sum was too large, or something was divided by zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

/// Reads a formula that must be of this type, or of any.
pub(crate) fn read(text: &str, wanted: Option<Type>, scope: &mut dyn Scope) -> Result<(Node, Type), String> {
    if text.len() > TEXT_MAX {
        return Err(format!("is {} bytes long; at most {TEXT_MAX} are allowed", text.len()));
    }
    if text.trim().is_empty() {
        return Err("must not be empty".to_owned());
    }
    let expression = when::parse(text).map_err(|fault| fault.reason)?;
    let (node, found) = Reading { text, scope }.node(&expression, 0)?;
    match wanted {
        Some(wanted) if wanted != found => Err(format!("must be {wanted}, and is {found}")),
        _ => Ok((node, found)),
    }
}

struct Reading<'a> {
    text: &'a str,
    scope: &'a mut dyn Scope,
}

impl Reading<'_> {
    fn node(&mut self, node: &IdedExpr, depth: usize) -> Result<(Node, Type), String> {
        if depth > DEPTH_MAX {
            return Err(format!("nests more than {DEPTH_MAX} deep"));
        }
        match &node.expr {
            Expr::Literal(value) => literal(value),
            Expr::Ident(name) => match self.scope.type_of(name) {
                Some(found) => Ok((Node::Name(name.as_str().into()), found)),
                None => Err(self.unknown("refers to", name, &self.scope.names().join(", "))),
            },
            Expr::Call(call) if call.target.is_none() => self.call(&call.func_name, &call.args, depth + 1),
            Expr::Call(call) => Err(self.unknown("calls", &call.func_name, &known())),
            _ => Err("may have whole numbers, texts, names, functions and operators only".to_owned()),
        }
    }

    fn call(&mut self, name: &str, args: &[IdedExpr], depth: usize) -> Result<(Node, Type), String> {
        let made = |made: Made, found: Type| Ok((Node::Made(Box::new(made)), found));
        match (name, args) {
            (operators::LOGICAL_NOT, [inner]) => made(Made::Not(self.of(inner, Type::Bool, depth)?), Type::Bool),
            (operators::NEGATE, [inner]) => made(Made::Negate(self.of(inner, INT, depth)?), INT),
            (operators::LOGICAL_AND, [left, right]) => {
                made(Made::And(self.of(left, Type::Bool, depth)?, self.of(right, Type::Bool, depth)?), Type::Bool)
            }
            (operators::LOGICAL_OR, [left, right]) => {
                made(Made::Or(self.of(left, Type::Bool, depth)?, self.of(right, Type::Bool, depth)?), Type::Bool)
            }
            (operators::CONDITIONAL, [when, yes, no]) => {
                let when = self.of(when, Type::Bool, depth)?;
                let (yes, found) = self.node(yes, depth)?;
                made(Made::If(when, yes, self.of(no, found, depth)?), found)
            }
            (operators::IN, [one, list]) => {
                let Expr::List(list) = &list.expr else { return Err("has an `in` without a list, such as x in ['a', 'b']".to_owned()) };
                let (one, found) = self.node(one, depth)?;
                let list = list.elements.iter().map(|element| self.of(element, found, depth)).collect::<Result<_, _>>()?;
                made(Made::In(one, list), Type::Bool)
            }
            (name, [left, right]) if let Some((_, operator)) = OPERATORS.iter().find(|(word, _)| *word == name) => {
                let (left, found) = self.node(left, depth)?;
                let right = self.of(right, found, depth)?;
                let (is_number, is_order) = match operator {
                    Operator::Equal | Operator::Unequal => (false, true),
                    Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => (true, true),
                    _ => (true, false),
                };
                if is_number && found != INT {
                    return Err(format!("has {} between what is {found}; only whole numbers have that", name.replace('_', "")));
                }
                made(Made::Binary(*operator, left, right), if is_order { Type::Bool } else { INT })
            }
            _ => self.function(name, args, depth),
        }
    }

    fn function(&mut self, name: &str, args: &[IdedExpr], depth: usize) -> Result<(Node, Type), String> {
        let found = FUNCTIONS.iter().find(|(word, ..)| *word == name);
        let Some((_, function, types, found)) = found else { return Err(self.unknown("calls", name, &known())) };
        if args.len() != types.len() {
            return Err(format!("calls {name} with {} arguments where it takes {}", args.len(), types.len()));
        }
        let nodes = args.iter().zip(*types).map(|(arg, wanted)| self.of(arg, *wanted, depth)).collect::<Result<Box<[Node]>, _>>()?;
        let Function::Read(read) = function else {
            return Ok((Node::Made(Box::new(Made::Call(*function, nodes))), *found));
        };
        if let Some(Node::Value(Datum::Text(name))) = nodes.last() {
            self.scope.check(*read, name)?;
        }
        Ok((Node::Read(*read, nodes), *found))
    }

    fn of(&mut self, node: &IdedExpr, wanted: Type, depth: usize) -> Result<Node, String> {
        let (node, found) = self.node(node, depth)?;
        if found != wanted {
            return Err(format!("has {found} where {wanted} must be"));
        }
        Ok(node)
    }

    fn unknown(&self, verb: &str, name: &str, known: &str) -> String {
        let place = when::place(self.text, name).map(|(line, column)| format!("line {line}, column {column}: ")).unwrap_or_default();
        format!("{place}{verb} {name}, which there is not; there are: {known}")
    }
}

fn known() -> String {
    FUNCTIONS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
}

fn literal(value: &LiteralValue) -> Result<(Node, Type), String> {
    match value {
        LiteralValue::Int(number) => Ok((Node::Value(Datum::Int(*number.inner())), INT)),
        LiteralValue::Boolean(value) => Ok((Node::Value(Datum::Bool(*value.inner())), Type::Bool)),
        LiteralValue::String(text) => Ok((Node::Value(Datum::Text((&**text).into())), TEXT)),
        LiteralValue::Double(_) => Err("has a fraction; only whole numbers are exact".to_owned()),
        _ => Err("may have whole numbers, texts, true and false only".to_owned()),
    }
}

impl Node {
    /// Computes it.
    pub(crate) fn run<R: Reader>(&self, reader: &mut R) -> Result<Datum, R::Stop> {
        match self {
            Node::Value(value) => Ok(value.clone()),
            Node::Name(name) => reader.name(name),
            Node::Read(read, args) => {
                let args = args.iter().map(|arg| arg.run(reader)).collect::<Result<Vec<_>, _>>()?;
                reader.read(*read, &args)
            }
            Node::Made(made) => made.run(reader),
        }
    }

    /// Computes what is a whole number.
    pub(crate) fn int<R: Reader>(&self, reader: &mut R) -> Result<i64, R::Stop> {
        match self.run(reader)? {
            Datum::Int(number) => Ok(number),
            _ => Err(Overflow.into()),
        }
    }

    /// Computes what is true or false.
    pub(crate) fn truth<R: Reader>(&self, reader: &mut R) -> Result<bool, R::Stop> {
        Ok(self.run(reader)? == Datum::Bool(true))
    }

    /// Computes what is a text.
    pub(crate) fn text<R: Reader>(&self, reader: &mut R) -> Result<Arc<str>, R::Stop> {
        match self.run(reader)? {
            Datum::Text(text) => Ok(text),
            _ => Err(Overflow.into()),
        }
    }

    /// Calls `seen` with all that it may ask of the state.
    pub(crate) fn reads(&self, seen: &mut dyn FnMut(Read, &[Node])) {
        match self {
            Node::Value(_) | Node::Name(_) => {}
            Node::Read(read, args) => {
                seen(*read, args);
                args.iter().for_each(|arg| arg.reads(seen));
            }
            Node::Made(made) => match &**made {
                Made::Call(_, args) => args.iter().for_each(|arg| arg.reads(seen)),
                Made::Not(inner) | Made::Negate(inner) => inner.reads(seen),
                Made::Binary(_, left, right) | Made::And(left, right) | Made::Or(left, right) => {
                    left.reads(seen);
                    right.reads(seen);
                }
                Made::If(when, yes, no) => [when, yes, no].into_iter().for_each(|part| part.reads(seen)),
                Made::In(one, list) => {
                    one.reads(seen);
                    list.iter().for_each(|part| part.reads(seen));
                }
            },
        }
    }
}

impl Made {
    fn run<R: Reader>(&self, reader: &mut R) -> Result<Datum, R::Stop> {
        Ok(match self {
            Made::Not(inner) => Datum::Bool(!inner.truth(reader)?),
            Made::Negate(inner) => Datum::Int(inner.int(reader)?.checked_neg().ok_or(Overflow)?),
            Made::And(left, right) => Datum::Bool(left.truth(reader)? && right.truth(reader)?),
            Made::Or(left, right) => Datum::Bool(left.truth(reader)? || right.truth(reader)?),
            Made::If(when, yes, no) => return if when.truth(reader)? { yes.run(reader) } else { no.run(reader) },
            Made::In(one, list) => {
                let one = one.run(reader)?;
                for part in list {
                    if part.run(reader)? == one {
                        return Ok(Datum::Bool(true));
                    }
                }
                Datum::Bool(false)
            }
            Made::Binary(Operator::Equal, left, right) => Datum::Bool(left.run(reader)? == right.run(reader)?),
            Made::Binary(Operator::Unequal, left, right) => Datum::Bool(left.run(reader)? != right.run(reader)?),
            Made::Binary(operator, left, right) => binary(*operator, left.int(reader)?, right.int(reader)?)?,
            Made::Call(function, args) => {
                let args = args.iter().map(|arg| arg.int(reader)).collect::<Result<Vec<_>, _>>()?;
                Datum::Int(pure(*function, &args).ok_or(Overflow)?)
            }
        })
    }
}

fn binary(operator: Operator, left: i64, right: i64) -> Result<Datum, Overflow> {
    let number = |number: Option<i64>| number.map(Datum::Int).ok_or(Overflow);
    match operator {
        Operator::Add => number(left.checked_add(right)),
        Operator::Subtract => number(left.checked_sub(right)),
        Operator::Multiply => number(left.checked_mul(right)),
        Operator::Divide => number(left.checked_div(right)),
        Operator::Modulo => number(left.checked_rem(right)),
        Operator::Equal => Ok(Datum::Bool(left == right)),
        Operator::Unequal => Ok(Datum::Bool(left != right)),
        Operator::Less => Ok(Datum::Bool(left < right)),
        Operator::LessEqual => Ok(Datum::Bool(left <= right)),
        Operator::Greater => Ok(Datum::Bool(left > right)),
        Operator::GreaterEqual => Ok(Datum::Bool(left >= right)),
    }
}

fn pure(function: Function, args: &[i64]) -> Option<i64> {
    match (function, args) {
        (Function::Abs, [a]) => a.checked_abs(),
        (Function::Min, [a, b]) => Some(*a.min(b)),
        (Function::Max, [a, b]) => Some(*a.max(b)),
        (Function::Floor, [a, b]) => {
            let (whole, rest) = (a.checked_div(*b)?, a.checked_rem(*b)?);
            Some(if rest != 0 && (rest < 0) != (*b < 0) { whole - 1 } else { whole })
        }
        (Function::Ceil, [a, b]) => {
            let (whole, rest) = (a.checked_div(*b)?, a.checked_rem(*b)?);
            Some(if rest != 0 && (rest < 0) == (*b < 0) { whole + 1 } else { whole })
        }
        (Function::Log10, [n, scale]) => log10(*n, *scale),
        _ => None,
    }
}

/// `floor(scale * log10(n))` without fractions, the same on every machine.
///
/// The binary digits of the logarithm come one by one from squaring; 62 of them are more than enough, as only a power of ten has a
/// logarithm that is whole, and those are told apart.
fn log10(n: i64, scale: i64) -> Option<i64> {
    if n < 1 || !(0..=1_000).contains(&scale) {
        return None;
    }
    let whole = n.ilog10();
    if 10_i64.checked_pow(whole) == Some(n) {
        return i64::from(whole).checked_mul(scale);
    }
    // A number in 1..2 with 62 digits after the point.
    let n = u64::try_from(n).ok()?;
    let mut mantissa = (u128::from(n) << 64 >> n.ilog2()) >> 2;
    let mut log2 = u128::from(n.ilog2());
    for _ in 0..62 {
        mantissa = (mantissa * mantissa) >> 62;
        log2 <<= 1;
        if mantissa >> 63 != 0 {
            mantissa >>= 1;
            log2 |= 1;
        }
    }
    // log10(2) with 60 digits after the point; both have 62 + 60 together, of which the product keeps 60.
    const LOG10_2: u128 = 347_063_955_532_709_820;
    let log = ((log2 >> 2) * LOG10_2) >> 60;
    i64::try_from((log * u128::try_from(scale).ok()?) >> 60).ok()
}

#[cfg(test)]
mod tests;
