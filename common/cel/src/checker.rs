//! The type of an expression, as far as it can be determined without values.
//!
//! It follows cel-go's checker: every overload is tried, and if several match with different results, the
//! type is `dyn`. All errors of an expression are reported, not only the first.

use super::library::{self, Shape};
use super::literal::Literal;
use super::syntax::{Comprehension, Expr, Macro, Node, Term};
use super::types::{Bindings, TooLarge, Type};
use super::{Error, MOST_ERRORS};

/// Returns the type of an expression over `properties`.
pub(super) fn check(expr: &Expr) -> Result<Type, Vec<Error>> {
    let mut checker = Checker::default();
    let found = checker.whole(expr);
    match found {
        Ok(of) if checker.errors.is_empty() => Ok(of),
        Ok(_) | Err(Stop::Enough) => Err(checker.errors),
        Err(Stop::TooLarge(at)) => {
            let message = "the type of this expression is too large".to_owned();
            Err(vec![Error { at, message }])
        }
    }
}

/// Why checking ends before the end.
enum Stop {
    /// More errors would not be shown.
    Enough,
    TooLarge(usize),
}

type Found = Result<Type, Stop>;

#[derive(Default)]
struct Checker {
    scope: Vec<(String, Type)>,
    bindings: Bindings,
    errors: Vec<Error>,
    /// Whether numbers of different types may be compared. cel-go allows it from the first macro on,
    /// whose scope forgets that it is not allowed.
    mixed: bool,
}

fn at<T>(at: usize, made: Result<T, TooLarge>) -> Result<T, Stop> {
    made.map_err(|TooLarge| Stop::TooLarge(at))
}

impl Checker {
    fn whole(&mut self, expr: &Expr) -> Found {
        let any = at(0, Type::map(Type::Text, Type::Any).and_then(Type::list))?;
        self.scope.push(("properties".to_owned(), any));
        let found = self.of(expr)?;
        at(expr.at, self.bindings.resolved(&found))
    }

    /// Notes an error; its expression has no type.
    fn error(&mut self, at: usize, message: String) -> Found {
        self.errors.push(Error { at, message });
        if self.errors.len() > MOST_ERRORS { Err(Stop::Enough) } else { Ok(Type::Error) }
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Found {
        self.error(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn of(&mut self, expr: &Expr) -> Found {
        match &expr.node {
            Node::Literal(literal) => Ok(match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::Text(_) => Type::Text,
                Literal::Bytes(_) => Type::Bytes,
            }),
            Node::Ident { name, global } => self.ident(expr.at, name, *global),
            Node::Select { operand, field, test } => self.select(expr.at, operand, field, *test),
            Node::Index(inner, index) => self.operator(expr.at, "_[_]", &[inner, index]),
            Node::Call { target, name, args } => self.call(expr.at, target.as_deref(), name, args),
            Node::Comprehension(inner) => self.comprehension(expr.at, inner),
            Node::List(items) => self.list(expr.at, items),
            Node::Map(entries) => self.map(expr.at, entries),
            Node::Message(name) => self.undeclared(expr.at, name),
            Node::Logic { terms, .. } => self.logic(terms),
            Node::Not(inner) => self.operator(expr.at, "!_", &[inner]),
            Node::Negate(inner) => self.operator(expr.at, "-_", &[inner]),
            Node::Binary(sign, left, right) => {
                self.operator(expr.at, library::operator(sign), &[left, right])
            }
            Node::Ternary(condition, yes, no) => {
                self.operator(expr.at, "_?_:_", &[condition, yes, no])
            }
        }
    }

    /// Checks a chain of `&&` or `||`. All terms are typed before one is checked to be a `bool`.
    fn logic(&mut self, terms: &[Term]) -> Found {
        let mut types = Vec::with_capacity(terms.len());
        for term in terms {
            types.push(self.of(&term.expr)?);
        }
        let mut sound = true;
        for (term, found) in terms.iter().zip(&types) {
            sound &= self.is_boolean(term.expr.at, found)?;
        }
        Ok(if sound { Type::Bool } else { Type::Error })
    }

    /// Reports whether a type can be `bool`.
    fn is_boolean(&mut self, place: usize, found: &Type) -> Result<bool, Stop> {
        let fits = at(place, self.bindings.fit(std::slice::from_ref(found), &[Type::Bool]))?;
        if !fits {
            let found = at(place, self.bindings.resolved(found))?;
            self.error(place, format!("expected type 'bool' but found '{found}'"))?;
        }
        Ok(fits)
    }

    fn ident(&mut self, place: usize, name: &str, global: bool) -> Found {
        // With a dot before it, a name is none of a macro's variables.
        let visible = if global { 1 } else { self.scope.len() };
        let mut names = self.scope.iter().take(visible).rev();
        if let Some((_, of)) = names.find(|(known, _)| known == name) {
            return Ok(of.clone());
        }
        if let Some(found) = library::named(name, &mut self.bindings) {
            return at(place, found);
        }
        let dot = if global { "." } else { "" };
        self.undeclared(place, &format!("{dot}{name}"))
    }

    fn select(&mut self, place: usize, operand: &Expr, field: &str, test: bool) -> Found {
        if !test
            && let Some(name) = qualified(operand, field)
            && let Some(found) = library::named(&name, &mut self.bindings)
        {
            return at(place, found);
        }
        let found = self.of(operand)?;
        let found = at(place, self.bindings.resolved(&found))?;
        let of = match &found {
            Type::Map(both) => both.1.of.clone(),
            Type::Variable(_) => {
                at(place, self.bindings.fit(&[Type::Dyn], std::slice::from_ref(&found)))?;
                Type::Dyn
            }
            Type::Dyn | Type::Any | Type::Error => Type::Dyn,
            _ => {
                let message = format!("type '{found}' does not support field selection");
                self.error(place, message)?;
                Type::Dyn
            }
        };
        if test { Ok(Type::Bool) } else { at(place, self.bindings.resolved(&of)) }
    }

    fn list(&mut self, place: usize, items: &[Expr]) -> Found {
        let mut common = None;
        for item in items {
            let found = self.of(item)?;
            common = Some(match common {
                None => found,
                Some(common) => at(place, self.bindings.joined(common, found))?,
            });
        }
        let of = common.unwrap_or_else(|| Type::Variable(self.bindings.fresh(1)));
        at(place, Type::list(of))
    }

    fn map(&mut self, place: usize, entries: &[(Expr, Expr)]) -> Found {
        let mut common = None;
        for (key, value) in entries {
            let (key, value) = (self.of(key)?, self.of(value)?);
            common = Some(match common {
                None => (key, value),
                Some((keys, values)) => (
                    at(place, self.bindings.joined(keys, key))?,
                    at(place, self.bindings.joined(values, value))?,
                ),
            });
        }
        let (key, value) = common.unwrap_or_else(|| {
            let first = self.bindings.fresh(2);
            (Type::Variable(first), Type::Variable(first + 1))
        });
        at(place, Type::map(key, value))
    }

    fn operator(&mut self, place: usize, name: &str, operands: &[&Expr]) -> Found {
        let mut types = Vec::with_capacity(operands.len());
        for operand in operands {
            types.push(self.of(operand)?);
        }
        self.resolve(place, name, false, &types)
    }

    fn call(&mut self, place: usize, target: Option<&Expr>, name: &str, args: &[Expr]) -> Found {
        let mut types = Vec::with_capacity(args.len() + 1);
        for arg in args {
            types.push(self.of(arg)?);
        }
        if let Some(target) = target {
            types.insert(0, self.of(target)?);
        }
        self.resolve(place, name, target.is_some(), &types)
    }

    /// Returns the result of a function for arguments of some types.
    fn resolve(&mut self, place: usize, name: &str, method: bool, types: &[Type]) -> Found {
        let plain = name.strip_prefix('.').unwrap_or(name);
        let overloads = library::overloads(plain, self.mixed);
        if overloads.is_empty() {
            return self.undeclared(place, name);
        }
        let mut result: Option<Type> = None;
        for &(is_method, takes, gives) in overloads {
            let excluded = || takes.iter().zip(types).any(|(shape, of)| shape.excludes(of));
            if is_method != method || takes.len() != types.len() || excluded() {
                continue;
            }
            // Variables are only made where a signature has some.
            let open = takes.iter().any(|shape| shape.is_open());
            let first = if open { self.bindings.fresh(2) } else { 0 };
            let made = |shape: &Shape| shape.made(first);
            let takes: Result<Vec<_>, _> = takes.iter().map(made).collect();
            let takes = at(place, takes)?;
            if !at(place, self.bindings.fit(types, &takes))? {
                continue;
            }
            let found = at(place, gives.made(first).and_then(|of| self.bindings.resolved(&of)))?;
            result = Some(match result {
                None => found,
                Some(result) if result.is_dyn() || result == found => result,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return Ok(result);
        }
        let mut shown = Vec::with_capacity(types.len());
        for of in types {
            shown.push(at(place, self.bindings.resolved(of))?.to_string());
        }
        let applied = match shown.split_first() {
            Some((target, rest)) if method => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.error(
            place,
            format!("found no matching overload for '{plain}' applied to '{applied}'"),
        )
    }

    fn comprehension(&mut self, place: usize, inner: &Comprehension) -> Found {
        let Comprehension { kind, target, variable, condition, body } = inner;
        let over = self.of(target)?;
        let over = at(target.at, self.bindings.resolved(&over))?;
        let element = match &over {
            Type::List(of) => of.of.clone(),
            Type::Map(both) => both.0.of.clone(),
            Type::Dyn | Type::Error => Type::Dyn,
            Type::Variable(_) => {
                at(place, self.bindings.fit(&[Type::Dyn], std::slice::from_ref(&over)))?;
                Type::Dyn
            }
            // `any` among them, that is what comes out of `properties` without `dyn(…)` around it.
            _ => self.error(
                target.at,
                format!("expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"),
            )?,
        };
        self.mixed = true;
        self.scope.push((variable.clone(), element.clone()));
        let found = self.step(place, *kind, element, condition.as_ref(), body);
        self.scope.pop();
        at(place, self.bindings.resolved(&found?))
    }

    /// Checks the step of a macro for each element. In cel-go it is a separate expression, whose errors have
    /// the position of the macro.
    fn step(
        &mut self,
        place: usize,
        kind: Macro,
        element: Type,
        condition: Option<&Expr>,
        body: &Expr,
    ) -> Found {
        match kind {
            Macro::All | Macro::Exists => {
                let found = self.of(body)?;
                self.is_boolean(body.at, &found)?;
                Ok(Type::Bool)
            }
            Macro::ExistsOne => {
                let found = self.of(body)?;
                self.resolve(place, "_?_:_", false, &[found, Type::Int, Type::Int])?;
                Ok(Type::Bool)
            }
            Macro::Filter => {
                let found = self.of(body)?;
                let list = at(place, Type::list(element))?;
                self.resolve(place, "_?_:_", false, &[found, list.clone(), list.clone()])?;
                Ok(list)
            }
            Macro::Map => {
                let found = condition.map(|condition| self.of(condition)).transpose()?;
                let of = self.of(body)?;
                let list = at(place, Type::list(of))?;
                if let Some(found) = found {
                    self.resolve(place, "_?_:_", false, &[found, list.clone(), list.clone()])?;
                }
                Ok(list)
            }
        }
    }
}

/// Returns a name with dots in it, as of a type: `google.protobuf.Duration`.
pub(super) fn qualified(operand: &Expr, field: &str) -> Option<String> {
    const PACKAGE: [&str; 2] = ["google", "protobuf"];
    let [google, protobuf] = PACKAGE;
    let Node::Select { operand, field: package, test: false } = &operand.node else { return None };
    match &operand.node {
        Node::Ident { name, .. } if name == google && package == protobuf => {
            Some(format!("{google}.{protobuf}.{field}"))
        }
        _ => None,
    }
}
