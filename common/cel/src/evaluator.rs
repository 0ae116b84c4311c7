//! The value of an expression.
//!
//! Errors are values of a kind: `&&`, `||` and the macros based on them ignore an error if another part
//! decides, as in the language. An evaluation that reaches a limit always stops.
//!
//! Recursion is as deep as the expression, at most [`super::MAX_DEPTH`] levels. Every node, every element of
//! a new list and every sixteen bytes of a text cost a step.

use std::rc::Rc;

use super::functions::{
    FunctionError, arithmetic, call_function, compare, go_type, has, index, negate,
};
use super::literal::Literal;
use super::pattern::PatternCache;
use super::syntax::{Comprehension, Expr, Macro, Node, Term};
use super::value::{TooDeep, Value};
use super::{Budget, EvaluationError};

/// The types whose names are values.
const TYPE_NAMES: [&str; 12] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "google.protobuf.Timestamp",
    "google.protobuf.Duration",
];

type EvaluationResult = Result<Value, EvaluationError>;

impl From<TooDeep> for EvaluationError {
    fn from(_: TooDeep) -> Self {
        Self::Limit("a value nests deeper than 256 levels")
    }
}

impl From<FunctionError> for EvaluationError {
    fn from(error: FunctionError) -> Self {
        Self::Error(error.to_string())
    }
}

fn no_overload<T>() -> Result<T, EvaluationError> {
    Err(EvaluationError::Error("no such overload".to_owned()))
}

/// Returns the value of an expression over properties.
pub(super) fn evaluate(expr: &Expr, properties: &Value, budget: &mut Budget) -> EvaluationResult {
    let scope = vec![("properties", properties.clone())];
    let mut evaluator = Evaluator { scope, budget, patterns: PatternCache::default() };
    evaluator.evaluate(expr)
}

struct Evaluator<'e, 'b> {
    scope: Vec<(&'e str, Value)>,
    budget: &'b mut Budget,
    patterns: PatternCache,
}

impl<'e> Evaluator<'e, '_> {
    fn evaluate(&mut self, expr: &'e Expr) -> EvaluationResult {
        self.budget.spend(1)?;
        match &expr.node {
            Node::Literal(literal) => Ok(self::literal(literal)),
            Node::Ident { name, global } => self.ident(name, *global),
            Node::Select { operand, field, test } => self.select(operand, field, *test),
            Node::Index(inner, key) => {
                let (inner, key) = (self.evaluate(inner)?, self.evaluate(key)?);
                Ok(index(&inner, &key)?)
            }
            Node::Call { target, name, args } => self.call(target.as_deref(), name, args),
            Node::Comprehension(inner) => self.comprehension(inner),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Message(name) => Err(EvaluationError::Error(format!("unknown type: {name}"))),
            Node::Logic { is_and, terms } => self.logic(*is_and, terms),
            Node::Binary(sign, left, right) => self.binary(sign, left, right),
            Node::Not(inner) => match self.evaluate(inner)? {
                Value::Bool(value) => Ok(Value::Bool(!value)),
                _ => no_overload(),
            },
            Node::Negate(inner) => Ok(negate(&self.evaluate(inner)?)?),
            Node::Ternary(condition, yes, no) => match self.evaluate(condition)? {
                Value::Bool(true) => self.evaluate(yes),
                Value::Bool(false) => self.evaluate(no),
                _ => no_overload(),
            },
        }
    }

    fn ident(&self, name: &str, global: bool) -> EvaluationResult {
        let visible = if global { 1 } else { self.scope.len() };
        let mut names = self.scope.iter().take(visible).rev();
        if let Some((_, value)) = names.find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        let known = TYPE_NAMES.into_iter().find(|known| *known == name);
        known
            .map(Value::Type)
            .ok_or_else(|| EvaluationError::Error(format!("no such attribute(s): {name}")))
    }

    fn select(&mut self, operand: &'e Expr, field: &str, test: bool) -> EvaluationResult {
        if let Some(name) = super::checker::qualified_name(operand, field)
            && let Some(known) = TYPE_NAMES.into_iter().find(|known| *known == name)
        {
            return Ok(Value::Type(known));
        }
        let operand = self.evaluate(operand)?;
        self.budget.spend(field.len() / 16)?;
        Ok(if test { has(&operand, field)? } else { index(&operand, &Value::text(field))? })
    }

    fn call(&mut self, target: Option<&'e Expr>, name: &str, args: &'e [Expr]) -> EvaluationResult {
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            values.push(self.evaluate(arg)?);
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        if name == "matches" {
            return match values.as_slice() {
                [Value::Text(text), Value::Text(pattern)] => {
                    self.patterns.matches(text, pattern, self.budget).map(Value::Bool)
                }
                [Value::Text(_), _] => no_overload(),
                _ => Err(EvaluationError::Error("no such overload: matches".to_owned())),
            };
        }
        // Most functions go through their texts once.
        let bytes: usize = values.iter().map(length).sum();
        self.budget.spend(bytes / 16)?;
        Ok(call_function(name, &values)?)
    }

    fn list(&mut self, items: &'e [Expr]) -> EvaluationResult {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(self.evaluate(item)?);
        }
        Ok(Value::list(values)?)
    }

    fn map(&mut self, entries: &'e [(Expr, Expr)]) -> EvaluationResult {
        let mut values = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            // An entry takes as much memory as some elements of a list.
            self.budget.spend(4)?;
            let (key, value) = (self.evaluate(key)?, self.evaluate(value)?);
            if matches!(key, Value::Bytes(_)) {
                return Err(EvaluationError::Error(
                    "unsupported key type 'bytes' in map".to_owned(),
                ));
            }
            values.push((key, value));
        }
        Ok(Value::map(values)?)
    }

    /// Evaluates a chain of `&&` or `||`: one part can decide, for all values of the others.
    fn logic(&mut self, is_and: bool, terms: &'e [Term]) -> EvaluationResult {
        let mut chain = LogicChain::new(is_and);
        for term in terms {
            let found = self.evaluate(&term.expr);
            if chain.add_term(found)? {
                break;
            }
        }
        chain.result()
    }

    fn binary(&mut self, sign: &str, left: &'e Expr, right: &'e Expr) -> EvaluationResult {
        let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
        let mut spend = |steps| self.budget.spend(steps);
        match sign {
            "==" => Ok(Value::Bool(left.equals(&right, &mut spend)?)),
            "!=" => Ok(Value::Bool(!left.equals(&right, &mut spend)?)),
            "in" => match &right {
                Value::List(list) => {
                    for item in &list.items {
                        if left.equals(item, &mut spend)? {
                            return Ok(Value::Bool(true));
                        }
                    }
                    Ok(Value::Bool(false))
                }
                Value::Map(map) => {
                    spend(length(&left) / 16)?;
                    Ok(Value::Bool(map.get(&left).is_some()))
                }
                _ => no_overload(),
            },
            "<" | "<=" | ">" | ">=" => {
                spend(length(&left).min(length(&right)) / 16)?;
                Ok(compare(sign, &left, &right)?)
            }
            "+" => {
                if let (Value::List(left), Value::List(right)) = (&left, &right) {
                    spend(left.items.len() + right.items.len())?;
                    return Ok(Value::list([left.items.as_slice(), &right.items].concat())?);
                }
                spend((length(&left) + length(&right)) / 16)?;
                Ok(arithmetic(sign, &left, &right)?)
            }
            _ => Ok(arithmetic(sign, &left, &right)?),
        }
    }

    /// Evaluates a macro over its range.
    fn comprehension(&mut self, inner: &'e Comprehension) -> EvaluationResult {
        let scope = self.scope.len();
        let found = match self.evaluate(&inner.target)? {
            Value::List(list) => self.fold(inner, list.items.iter()),
            Value::Map(map) => self.fold(inner, map.entries.iter().map(|(key, _)| key)),
            value => {
                let kind = go_type(&value);
                Err(EvaluationError::Error(format!("got '{kind}', expected iterable type")))
            }
        };
        // An error may have left variables behind.
        self.scope.truncate(scope);
        found
    }

    fn fold<'v>(
        &mut self,
        inner: &'e Comprehension,
        items: impl Iterator<Item = &'v Value>,
    ) -> EvaluationResult {
        let mut chain = LogicChain::new(inner.kind == Macro::All);
        let mut list = Vec::new();
        let mut count = 0_usize;
        for item in items {
            self.budget.spend(1)?;
            self.scope.push((&inner.variable, item.clone()));
            let found = match &inner.condition {
                Some(condition) => self.evaluate(condition),
                None if inner.kind == Macro::Map => Ok(Value::Bool(true)),
                None => self.evaluate(&inner.body),
            };
            match inner.kind {
                Macro::All | Macro::Exists => {
                    if chain.add_term(found)? {
                        break;
                    }
                }
                _ => match (found?, inner.kind) {
                    (Value::Bool(false), _) => {}
                    (Value::Bool(true), Macro::ExistsOne) => count += 1,
                    (Value::Bool(true), Macro::Filter) => list.push(item.clone()),
                    (Value::Bool(true), _) => list.push(self.evaluate(&inner.body)?),
                    _ => return no_overload(),
                },
            }
            self.scope.pop();
        }
        match inner.kind {
            Macro::All | Macro::Exists => chain.result(),
            Macro::ExistsOne => Ok(Value::Bool(count == 1)),
            Macro::Filter | Macro::Map => Ok(Value::list(list)?),
        }
    }
}

/// Results of the parts of a chain.
struct LogicChain {
    is_and: bool,
    decided: bool,
    /// The first error; it counts where no part decides.
    error: Option<String>,
}

impl LogicChain {
    fn new(is_and: bool) -> Self {
        Self { is_and, decided: false, error: None }
    }

    /// Reports whether a part decides: `false` for `&&`, `true` for `||`.
    fn add_term(&mut self, found: EvaluationResult) -> Result<bool, EvaluationError> {
        let error = match found {
            Ok(Value::Bool(value)) => {
                self.decided = value != self.is_and;
                return Ok(self.decided);
            }
            Ok(_) => "no such overload".to_owned(),
            Err(EvaluationError::Error(error)) => error,
            Err(limit @ EvaluationError::Limit(_)) => return Err(limit),
        };
        self.error.get_or_insert(error);
        Ok(false)
    }

    fn result(self) -> EvaluationResult {
        match self.error {
            Some(error) if !self.decided => Err(EvaluationError::Error(error)),
            _ => Ok(Value::Bool(self.decided != self.is_and)),
        }
    }
}

fn literal(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::Text(text) => Value::Text(Rc::clone(text)),
        Literal::Bytes(bytes) => Value::Bytes(Rc::clone(bytes)),
    }
}

/// Returns bytes of a text.
fn length(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}
