//! When a rule applies: a CEL expression over the facts of a call.
//!
//! It is parsed and checked when the rule is saved. At run time an expression that fails, such as
//! one that asks for an attribute that is not there, is false.
//!
//! Whoever writes rules must not be able to stall or stop a server, and the interpreter bounds
//! neither time nor stack. So the text is short, expressions are shallow, a loop holds no loop, and
//! what loops run over is bounded as well ([`Attributes::check`](crate::limit::index::Attributes)).

mod bound;
mod review;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::common::ast::IdedExpr;
use cel::parser::{ParseErrors, PrattParser};
use cel::{Context, Env, ExecutionError, Value};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use self::bound::Bound;
pub(crate) use self::review::place;
use crate::id::Invalid;
use crate::limit::index::{Attributes, Facts};

/// The longest expression, in bytes.
pub const TEXT_MAX: usize = 1024;

/// How deep brackets nest before the parser gives up.
const NESTING_MAX: u16 = 32;

/// The standard functions, without optional values: `has()` says the same.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::default().with_optional_support(false).with_stdlib()));

/// A condition on the facts of a call. Cheap to clone.
#[derive(Clone)]
pub struct When {
    text: Arc<str>,
    program: Arc<Program>,
}

struct Program {
    expression: IdedExpr,
    /// Whether attributes must be handed over at all.
    uses_attributes: bool,
}

impl When {
    /// Parses and checks an expression.
    pub fn new(text: &str) -> Result<When, Invalid> {
        if text.trim().is_empty() {
            return Err(invalid("must not be empty; leave it out for a rule that always applies"));
        }
        if text.len() > TEXT_MAX {
            return Err(invalid(format!("is {} bytes long; at most {TEXT_MAX} are allowed", text.len())));
        }
        let expression = parse(text)?;
        let uses_attributes = review::check(text, &expression)?;
        let program = Program { expression, uses_attributes };
        program.try_out()?;
        Ok(When { text: text.into(), program: Arc::new(program) })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is true. An expression that fails is not.
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        if self.program.uses_attributes && facts.attributes.check().is_err() {
            return false;
        }
        matches!(self.program.run(facts), Ok(Value::Bool(true)))
    }
}

impl Program {
    fn run(&self, facts: &Facts<'_>) -> Result<Value, ExecutionError> {
        let attributes = if self.uses_attributes { facts.attributes } else { Attributes::none() };
        let bound = Bound::new(facts, attributes);
        let run = || {
            let mut context = Context::with_env(Arc::clone(&ENV));
            context.set_variable_resolver(&bound);
            Value::resolve(&self.expression, &context)
        };
        // Nor is the interpreter ours.
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(ExecutionError::InternalError(String::new())))
    }

    /// Evaluates it with samples. What is a type error with these would be one with all.
    fn try_out(&self) -> Result<(), Invalid> {
        use ExecutionError as Fault;
        for cost in [1, 1_000_000_000] {
            let sample = Facts { subject: "bot-7", action: "tasks/create", cost, attributes: Attributes::none() };
            match self.run(&sample) {
                Ok(Value::Bool(_)) => {}
                Ok(other) => return Err(invalid(format!("must be true or false, and is of the type {}", other.type_of()))),
                Err(Fault::NoSuchOverload(fault)) => {
                    let (function, types) = (fault.function().replace(['_', '@'], ""), fault.argument_types().join(", "));
                    return Err(invalid(format!("has no {function} for {types}")));
                }
                Err(Fault::UnsupportedBinaryOperator(operator, left, right)) => {
                    return Err(invalid(format!("has no {operator} for {}, {}", left.type_of(), right.type_of())));
                }
                Err(Fault::UnexpectedType { got, want }) => return Err(invalid(format!("has {got} where {want} must be"))),
                Err(Fault::InvalidArgumentCount { expected, actual }) => {
                    return Err(invalid(format!("calls a function with {actual} arguments where it takes {expected}")));
                }
                Err(Fault::UndeclaredReference(name)) => return Err(invalid(format!("refers to {name}, which there is not"))),
                // It depends on the facts: an attribute that is not there, a division by zero.
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Parses an expression, or tells where it cannot be read.
pub(crate) fn parse(text: &str) -> Result<IdedExpr, Invalid> {
    let parser = PrattParser::new().max_recursion_depth(NESTING_MAX);
    // The parser is not ours: should it have a fault, it must not be the server's.
    let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse(text)));
    parsed.map_err(|_| invalid("is not an expression"))?.map_err(|faults| unreadable(&faults))
}

fn invalid(reason: impl Into<String>) -> Invalid {
    Invalid::new("when", reason)
}

/// The first fault that has a place in the text, and where.
fn unreadable(faults: &ParseErrors) -> Invalid {
    if faults.errors.iter().any(|fault| fault.msg.contains("recursion limit")) {
        return invalid(format!("nests brackets more than {NESTING_MAX} deep"));
    }
    let placed = faults.errors.iter().find(|fault| fault.pos.0 > 0);
    let Some(fault) = placed.or(faults.errors.first()) else { return invalid("is not an expression") };
    let told = fault.msg.strip_prefix("Syntax error: ").unwrap_or(&fault.msg).replace("'<EOF>'", "<EOF>").replace("<EOF>", "the end");
    match fault.pos {
        (line @ 1.., column @ 0..) => invalid(format!("line {line}, column {column}: {told}")),
        _ => invalid(told),
    }
}

impl PartialEq for When {
    fn eq(&self, other: &When) -> bool {
        self.text == other.text
    }
}

impl Eq for When {}

impl fmt::Debug for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("When").field(&self.text).finish()
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for When {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<When, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        When::new(&text).map_err(|fault| serde::de::Error::custom(fault.reason))
    }
}

#[cfg(test)]
mod tests;
