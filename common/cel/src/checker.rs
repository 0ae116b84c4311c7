//! The type of an expression, as far as it can be determined without values.
//!
//! It follows cel-go's checker: every overload is tried, and if several match with different results, the
//! type is `dyn`. All errors of an expression are reported, not only the first.

use super::library::{self, SignatureType};
use super::literal::Literal;
use super::syntax::{Comprehension, Expr, Macro, Node, Term};
use super::types::{Bindings, TooLarge, Type};
use super::{Error, MAX_ERRORS};

/// Returns the type of an expression over `properties`.
pub(super) fn check(expr: &Expr) -> Result<Type, Vec<Error>> {
    let mut checker = Checker::default();
    let found = checker.check_whole(expr);
    match found {
        Ok(of) if checker.errors.is_empty() => Ok(of),
        Ok(_) | Err(CheckAborted::TooManyErrors) => Err(checker.errors),
        Err(CheckAborted::TooLarge(at)) => {
            let message = "the type of this expression is too large".to_owned();
            Err(vec![Error { at, message }])
        }
    }
}

/// Why checking ends before the end.
enum CheckAborted {
    /// More errors would not be shown.
    TooManyErrors,
    TooLarge(usize),
}

type TypeResult = Result<Type, CheckAborted>;

#[derive(Default)]
struct Checker {
    scope: Vec<(String, Type)>,
    bindings: Bindings,
    errors: Vec<Error>,
    /// Whether numbers of different types may be compared. cel-go allows it from the first macro on,
    /// whose scope forgets that it is not allowed.
    allows_mixed_numbers: bool,
}

fn with_offset<T>(at: usize, made: Result<T, TooLarge>) -> Result<T, CheckAborted> {
    made.map_err(|TooLarge| CheckAborted::TooLarge(at))
}

impl Checker {
    fn check_whole(&mut self, expr: &Expr) -> TypeResult {
        let any = with_offset(0, Type::map(Type::Text, Type::Any).and_then(Type::list))?;
        self.scope.push(("properties".to_owned(), any));
        let found = self.type_of(expr)?;
        with_offset(expr.at, self.bindings.resolve(&found))
    }

    /// Notes an error; its expression has no type.
    fn error(&mut self, at: usize, message: String) -> TypeResult {
        self.errors.push(Error { at, message });
        if self.errors.len() > MAX_ERRORS {
            Err(CheckAborted::TooManyErrors)
        } else {
            Ok(Type::Error)
        }
    }

    fn undeclared(&mut self, at: usize, name: &str) -> TypeResult {
        self.error(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn type_of(&mut self, expr: &Expr) -> TypeResult {
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
                self.operator(expr.at, library::operator_function(sign), &[left, right])
            }
            Node::Ternary(condition, yes, no) => {
                self.operator(expr.at, "_?_:_", &[condition, yes, no])
            }
        }
    }

    /// Checks a chain of `&&` or `||`. All terms are typed before one is checked to be a `bool`.
    fn logic(&mut self, terms: &[Term]) -> TypeResult {
        let mut types = Vec::with_capacity(terms.len());
        for term in terms {
            types.push(self.type_of(&term.expr)?);
        }
        let mut sound = true;
        for (term, found) in terms.iter().zip(&types) {
            sound &= self.check_boolean(term.expr.at, found)?;
        }
        Ok(if sound { Type::Bool } else { Type::Error })
    }

    /// Reports whether a type can be `bool`.
    fn check_boolean(&mut self, offset: usize, found: &Type) -> Result<bool, CheckAborted> {
        let fits =
            with_offset(offset, self.bindings.unify(std::slice::from_ref(found), &[Type::Bool]))?;
        if !fits {
            let found = with_offset(offset, self.bindings.resolve(found))?;
            self.error(offset, format!("expected type 'bool' but found '{found}'"))?;
        }
        Ok(fits)
    }

    fn ident(&mut self, offset: usize, name: &str, global: bool) -> TypeResult {
        // With a dot before it, a name is none of a macro's variables.
        let visible = if global { 1 } else { self.scope.len() };
        let mut names = self.scope.iter().take(visible).rev();
        if let Some((_, of)) = names.find(|(known, _)| known == name) {
            return Ok(of.clone());
        }
        if let Some(found) = library::type_of_name(name, &mut self.bindings) {
            return with_offset(offset, found);
        }
        let dot = if global { "." } else { "" };
        self.undeclared(offset, &format!("{dot}{name}"))
    }

    fn select(&mut self, offset: usize, operand: &Expr, field: &str, test: bool) -> TypeResult {
        if !test
            && let Some(name) = qualified_name(operand, field)
            && let Some(found) = library::type_of_name(&name, &mut self.bindings)
        {
            return with_offset(offset, found);
        }
        let found = self.type_of(operand)?;
        let found = with_offset(offset, self.bindings.resolve(&found))?;
        let of = match &found {
            Type::Map(both) => both.1.of.clone(),
            Type::Variable(_) => {
                with_offset(
                    offset,
                    self.bindings.unify(&[Type::Dyn], std::slice::from_ref(&found)),
                )?;
                Type::Dyn
            }
            Type::Dyn | Type::Any | Type::Error => Type::Dyn,
            _ => {
                let message = format!("type '{found}' does not support field selection");
                self.error(offset, message)?;
                Type::Dyn
            }
        };
        if test { Ok(Type::Bool) } else { with_offset(offset, self.bindings.resolve(&of)) }
    }

    fn list(&mut self, offset: usize, items: &[Expr]) -> TypeResult {
        let mut common = None;
        for item in items {
            let found = self.type_of(item)?;
            common = Some(match common {
                None => found,
                Some(common) => with_offset(offset, self.bindings.join(common, found))?,
            });
        }
        let of = common.unwrap_or_else(|| Type::Variable(self.bindings.new_variables(1)));
        with_offset(offset, Type::list(of))
    }

    fn map(&mut self, offset: usize, entries: &[(Expr, Expr)]) -> TypeResult {
        let mut common = None;
        for (key, value) in entries {
            let (key, value) = (self.type_of(key)?, self.type_of(value)?);
            common = Some(match common {
                None => (key, value),
                Some((keys, values)) => (
                    with_offset(offset, self.bindings.join(keys, key))?,
                    with_offset(offset, self.bindings.join(values, value))?,
                ),
            });
        }
        let (key, value) = common.unwrap_or_else(|| {
            let first = self.bindings.new_variables(2);
            (Type::Variable(first), Type::Variable(first + 1))
        });
        with_offset(offset, Type::map(key, value))
    }

    fn operator(&mut self, offset: usize, name: &str, operands: &[&Expr]) -> TypeResult {
        let mut types = Vec::with_capacity(operands.len());
        for operand in operands {
            types.push(self.type_of(operand)?);
        }
        self.resolve_overload(offset, name, false, &types)
    }

    fn call(
        &mut self,
        offset: usize,
        target: Option<&Expr>,
        name: &str,
        args: &[Expr],
    ) -> TypeResult {
        let mut types = Vec::with_capacity(args.len() + 1);
        for arg in args {
            types.push(self.type_of(arg)?);
        }
        if let Some(target) = target {
            types.insert(0, self.type_of(target)?);
        }
        self.resolve_overload(offset, name, target.is_some(), &types)
    }

    /// Returns the result of a function for arguments of some types.
    fn resolve_overload(
        &mut self,
        offset: usize,
        name: &str,
        method: bool,
        types: &[Type],
    ) -> TypeResult {
        let plain = name.strip_prefix('.').unwrap_or(name);
        let overloads = library::overloads(plain, self.allows_mixed_numbers);
        if overloads.is_empty() {
            return self.undeclared(offset, name);
        }
        let mut result: Option<Type> = None;
        for &(is_method, takes, gives) in overloads {
            let excluded = || takes.iter().zip(types).any(|(shape, of)| shape.excludes(of));
            if is_method != method || takes.len() != types.len() || excluded() {
                continue;
            }
            // Variables are only made where a signature has some.
            let open = takes.iter().any(|shape| shape.has_variables());
            let first = if open { self.bindings.new_variables(2) } else { 0 };
            let made = |shape: &SignatureType| shape.instantiate(first);
            let takes: Result<Vec<_>, _> = takes.iter().map(made).collect();
            let takes = with_offset(offset, takes)?;
            if !with_offset(offset, self.bindings.unify(types, &takes))? {
                continue;
            }
            let found = with_offset(
                offset,
                gives.instantiate(first).and_then(|of| self.bindings.resolve(&of)),
            )?;
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
            shown.push(with_offset(offset, self.bindings.resolve(of))?.to_string());
        }
        let applied = match shown.split_first() {
            Some((target, rest)) if method => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.error(
            offset,
            format!("found no matching overload for '{plain}' applied to '{applied}'"),
        )
    }

    fn comprehension(&mut self, offset: usize, inner: &Comprehension) -> TypeResult {
        let Comprehension { kind, target, variable, condition, body } = inner;
        let over = self.type_of(target)?;
        let over = with_offset(target.at, self.bindings.resolve(&over))?;
        let element = match &over {
            Type::List(of) => of.of.clone(),
            Type::Map(both) => both.0.of.clone(),
            Type::Dyn | Type::Error => Type::Dyn,
            Type::Variable(_) => {
                with_offset(offset, self.bindings.unify(&[Type::Dyn], std::slice::from_ref(&over)))?;
                Type::Dyn
            }
            // `any` among them, that is what comes out of `properties` without `dyn(…)` around it.
            _ => self.error(
                target.at,
                format!("expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"),
            )?,
        };
        self.allows_mixed_numbers = true;
        self.scope.push((variable.clone(), element.clone()));
        let found = self.step(offset, *kind, element, condition.as_ref(), body);
        self.scope.pop();
        with_offset(offset, self.bindings.resolve(&found?))
    }

    /// Checks the step of a macro for each element. In cel-go it is a separate expression, whose errors have
    /// the position of the macro.
    fn step(
        &mut self,
        offset: usize,
        kind: Macro,
        element: Type,
        condition: Option<&Expr>,
        body: &Expr,
    ) -> TypeResult {
        match kind {
            Macro::All | Macro::Exists => {
                let found = self.type_of(body)?;
                self.check_boolean(body.at, &found)?;
                Ok(Type::Bool)
            }
            Macro::ExistsOne => {
                let found = self.type_of(body)?;
                self.resolve_overload(offset, "_?_:_", false, &[found, Type::Int, Type::Int])?;
                Ok(Type::Bool)
            }
            Macro::Filter => {
                let found = self.type_of(body)?;
                let list = with_offset(offset, Type::list(element))?;
                self.resolve_overload(
                    offset,
                    "_?_:_",
                    false,
                    &[found, list.clone(), list.clone()],
                )?;
                Ok(list)
            }
            Macro::Map => {
                let found = condition.map(|condition| self.type_of(condition)).transpose()?;
                let of = self.type_of(body)?;
                let list = with_offset(offset, Type::list(of))?;
                if let Some(found) = found {
                    self.resolve_overload(
                        offset,
                        "_?_:_",
                        false,
                        &[found, list.clone(), list.clone()],
                    )?;
                }
                Ok(list)
            }
        }
    }
}

/// Returns a name with dots in it, as of a type: `google.protobuf.Duration`.
pub(super) fn qualified_name(operand: &Expr, field: &str) -> Option<String> {
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
