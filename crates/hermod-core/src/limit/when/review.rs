//! What is known of an expression before it runs: its names, its depth, its loops, its kind.

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::invalid;
use crate::id::Invalid;

/// How deep an expression nests. The interpreter recurses, with up to 40 KB of stack for each level
/// in a debug build, and a thread of the server has 2 MB. Chains of `&&`, of `||` and of fields are flat.
const DEPTH_MAX: usize = 16;

const VARIABLES: [&str; 4] = ["subject", "action", "cost", "attributes"];

/// The names of types are values, for `type(x) == int`.
const TYPES: [&str; 10] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

const FUNCTIONS: [&str; 12] =
    ["bool", "bytes", "contains", "double", "dyn", "endsWith", "int", "size", "startsWith", "string", "type", "uint"];

/// Checks what was read from `text`, and tells whether it refers to attributes.
pub(super) fn check(text: &str, expression: &IdedExpr) -> Result<bool, Invalid> {
    let mut review = Review { text, locals: Vec::new(), loops: 0, uses_attributes: false };
    review.visit(expression, 0)?;
    if is_no_bool(expression) {
        return Err(invalid("must be true or false"));
    }
    Ok(review.uses_attributes)
}

struct Review<'e> {
    text: &'e str,
    /// The variables of the loops around.
    locals: Vec<&'e str>,
    loops: usize,
    uses_attributes: bool,
}

impl<'e> Review<'e> {
    fn visit(&mut self, node: &'e IdedExpr, depth: usize) -> Result<(), Invalid> {
        if depth > DEPTH_MAX {
            return Err(invalid(format!("nests more than {DEPTH_MAX} deep; && and || may be chained without end")));
        }
        match &node.expr {
            Expr::Unspecified => Err(invalid("is not an expression")),
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => {
                // The fields of a name are looked up one after the other, not one within the other.
                let mut operand = &*select.operand;
                while let Expr::Select(inner) = &operand.expr {
                    operand = &inner.operand;
                }
                let is_name = matches!(operand.expr, Expr::Ident(_));
                self.visit(if is_name { operand } else { &select.operand }, depth + 1)
            }
            Expr::Call(call) => {
                let is_operator = call.func_name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                if !is_operator && !FUNCTIONS.contains(&call.func_name.as_str()) {
                    return Err(self.unknown("calls", &call.func_name, &FUNCTIONS));
                }
                call.target.iter().map(|target| &**target).chain(&call.args).try_for_each(|part| self.visit(part, depth + 1))
            }
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.visit(element, depth + 1)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => self.visit(&entry.key, depth + 1).and_then(|()| self.visit(&entry.value, depth + 1)),
                EntryExpr::StructField(_) => Err(invalid("must not make structs")),
            }),
            Expr::Struct(_) => Err(invalid("must not make structs")),
            Expr::Comprehension(inner) => self.comprehension(inner, depth),
        }
    }

    fn comprehension(&mut self, inner: &'e ComprehensionExpr, depth: usize) -> Result<(), Invalid> {
        // Each level would multiply the work.
        if self.loops > 0 {
            return Err(invalid("must not have all, exists, exists_one, filter or map inside or behind another"));
        }
        // Also one that makes what another goes through.
        self.loops += 1;
        self.visit(&inner.iter_range, depth + 1)?;
        self.visit(&inner.accu_init, depth + 1)?;
        let outside = self.locals.len();
        self.locals.extend([inner.iter_var.as_str(), inner.accu_var.as_str()]);
        self.locals.extend(inner.iter_var2.as_deref());
        for part in [&inner.loop_cond, &inner.loop_step, &inner.result] {
            self.visit(part, depth + 1)?;
        }
        self.locals.truncate(outside);
        self.loops -= 1;
        Ok(())
    }

    fn name(&mut self, name: &str) -> Result<(), Invalid> {
        if self.locals.contains(&name) {
            return Ok(());
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        self.uses_attributes |= name == "attributes";
        if VARIABLES.contains(&name) || TYPES.contains(&name) {
            return Ok(());
        }
        Err(self.unknown("refers to", name, &VARIABLES))
    }

    fn unknown(&self, verb: &str, name: &str, known: &[&str]) -> Invalid {
        let place = place(self.text, name).map(|(line, column)| format!("line {line}, column {column}: ")).unwrap_or_default();
        invalid(format!("{place}{verb} {name}, which there is not; there are: {}", known.join(", ")))
    }
}

/// Line and column of the first time that `name` stands in `text` as a word, and not in quotes.
pub(crate) fn place(text: &str, name: &str) -> Option<(usize, usize)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in text.char_indices() {
        let rest = text.get(at..).and_then(|rest| rest.strip_prefix(name));
        if quote.is_none() && !is_word(before) && rest.is_some_and(|rest| !rest.starts_with(is_word)) {
            let above = text.get(..at)?;
            let line = above.rsplit('\n').next()?;
            return Some((1 + above.matches('\n').count(), 1 + line.chars().count()));
        }
        match quote {
            None if matches!(c, '\'' | '"') => quote = Some(c),
            Some(open) if open == c && before != '\\' => quote = None,
            _ => {}
        }
        before = c;
    }
    None
}

/// Whether it can be neither true nor false, whatever the facts.
fn is_no_bool(node: &IdedExpr) -> bool {
    const NUMBERS: [&str; 6] =
        [operators::ADD, operators::SUBSTRACT, operators::MULTIPLY, operators::DIVIDE, operators::MODULO, operators::NEGATE];
    const MAKERS: [&str; 7] = ["bytes", "double", "int", "size", "string", "type", "uint"];
    match &node.expr {
        Expr::Literal(value) => !matches!(value, LiteralValue::Boolean(_)),
        Expr::List(_) | Expr::Map(_) | Expr::Ident(_) => true,
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [_, yes, no]) => is_no_bool(yes) || is_no_bool(no),
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => is_no_bool(left) || is_no_bool(right),
            (operators::LOGICAL_NOT, [inner]) => is_no_bool(inner),
            (name, _) => NUMBERS.contains(&name) || MAKERS.contains(&name),
        },
        _ => false,
    }
}
