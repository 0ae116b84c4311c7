//! The type of an expression, as far as it can be told before there are values.
//!
//! What comes out of `properties` can be anything (`dyn`), and fits everywhere. Overloads are tried
//! one by one; where several fit and differ in their result, that is `dyn` again.

use std::fmt;

use super::Error;
use super::syntax::{Expr, Literal, Macro, Node};

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Named,
    Dyn,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Named => "type",
            Self::Dyn => "dyn",
            Self::List(of) => return write!(f, "list({of})"),
            Self::Map(key, of) => return write!(f, "map({key}, {of})"),
        })
    }
}

impl Type {
    fn list(of: Self) -> Self {
        Self::List(Box::new(of))
    }

    /// What both are, if they can be the same.
    fn join(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => Some(Self::Dyn),
            (Self::List(l), Self::List(r)) => l.join(r).map(Self::list),
            (Self::Map(lk, lv), Self::Map(rk, rv)) => {
                Some(Self::Map(Box::new(lk.join(rk)?), Box::new(lv.join(rv)?)))
            }
            (l, r) => (l == r).then(|| l.clone()),
        }
    }

    fn fits(&self, wanted: &Self) -> bool {
        self.join(wanted).is_some()
    }

    /// The type of elements, by which comprehensions go.
    fn element(&self) -> Option<Self> {
        match self {
            Self::List(of) => Some((**of).clone()),
            Self::Map(key, _) => Some((**key).clone()),
            Self::Dyn => Some(Self::Dyn),
            _ => None,
        }
    }
}

use Type::{Bool, Bytes, Double, Duration, Dyn, Int, Text, Timestamp, Uint};

/// A function: its name, whether it is called on its first argument, arguments, result.
type Overload = (&'static str, bool, &'static [Type], Type);

const OVERLOADS: &[Overload] = &[
    ("semver_compare", false, &[Dyn, Dyn], Int),
    ("contains", true, &[Text, Text], Bool),
    ("startsWith", true, &[Text, Text], Bool),
    ("endsWith", true, &[Text, Text], Bool),
    ("matches", true, &[Text, Text], Bool),
    ("matches", false, &[Text, Text], Bool),
    ("dyn", false, &[Dyn], Dyn),
    ("type", false, &[Dyn], Type::Named),
    ("bool", false, &[Bool], Bool),
    ("bool", false, &[Text], Bool),
    ("int", false, &[Int], Int),
    ("int", false, &[Uint], Int),
    ("int", false, &[Double], Int),
    ("int", false, &[Text], Int),
    ("int", false, &[Timestamp], Int),
    ("int", false, &[Duration], Int),
    ("uint", false, &[Int], Uint),
    ("uint", false, &[Uint], Uint),
    ("uint", false, &[Double], Uint),
    ("uint", false, &[Text], Uint),
    ("double", false, &[Int], Double),
    ("double", false, &[Uint], Double),
    ("double", false, &[Double], Double),
    ("double", false, &[Text], Double),
    ("string", false, &[Bool], Text),
    ("string", false, &[Int], Text),
    ("string", false, &[Uint], Text),
    ("string", false, &[Double], Text),
    ("string", false, &[Text], Text),
    ("string", false, &[Bytes], Text),
    ("string", false, &[Timestamp], Text),
    ("string", false, &[Duration], Text),
    ("bytes", false, &[Text], Bytes),
    ("bytes", false, &[Bytes], Bytes),
    ("timestamp", false, &[Text], Timestamp),
    ("timestamp", false, &[Int], Timestamp),
    ("timestamp", false, &[Timestamp], Timestamp),
    ("duration", false, &[Text], Duration),
    ("duration", false, &[Int], Duration),
    ("duration", false, &[Duration], Duration),
];

/// Parts of points in time, with or without a time zone.
const PARTS: [&str; 10] = [
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
];
/// Those that spans of time have as well.
const SPANS: [&str; 4] = ["getHours", "getMinutes", "getSeconds", "getMilliseconds"];

/// Types have names that are values.
const TYPES: [&str; 10] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];

/// The type of an expression over `properties`.
pub(super) fn of(expr: &Expr) -> Result<Type, Error> {
    let any = Type::Map(Box::new(Text), Box::new(Dyn));
    let mut scope = vec![("properties".to_owned(), Type::list(any))];
    Checker { scope: &mut scope }.of(expr)
}

struct Checker<'s> {
    scope: &'s mut Vec<(String, Type)>,
}

fn error<T>(at: usize, message: String) -> Result<T, Error> {
    Err(Error { at, message })
}

fn undeclared<T>(at: usize, name: &str) -> Result<T, Error> {
    error(at, format!("undeclared reference to '{name}' (in container '')"))
}

fn no_overload<T>(at: usize, name: &str, applied: &str) -> Result<T, Error> {
    error(at, format!("found no matching overload for '{name}' applied to '{applied}'"))
}

fn tuple(types: &[Type]) -> String {
    let texts: Vec<_> = types.iter().map(Type::to_string).collect();
    format!("({})", texts.join(", "))
}

impl Checker<'_> {
    fn all<'e>(&mut self, of: impl IntoIterator<Item = &'e Expr>) -> Result<Vec<Type>, Error> {
        of.into_iter().map(|expr| self.of(expr)).collect()
    }

    /// What many values have in common; `dyn` where it is nothing.
    fn common(&mut self, of: &[&Expr]) -> Result<Type, Error> {
        let mut common = None;
        for expr in of {
            let found = self.of(expr)?;
            let joined = match &common {
                None => found,
                Some(common) => found.join(common).unwrap_or(Dyn),
            };
            common = Some(joined);
        }
        Ok(common.unwrap_or(Dyn))
    }

    fn expect(&mut self, expr: &Expr, wanted: &Type) -> Result<(), Error> {
        let found = self.of(expr)?;
        if found.fits(wanted) {
            return Ok(());
        }
        error(expr.at, format!("expected type '{wanted}' but found '{found}'"))
    }

    fn of(&mut self, expr: &Expr) -> Result<Type, Error> {
        let at = expr.at;
        Ok(match &expr.node {
            Node::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool => Bool,
                Literal::Int => Int,
                Literal::Uint => Uint,
                Literal::Double => Double,
                Literal::Text => Text,
                Literal::Bytes => Bytes,
            },
            Node::Ident(name) => {
                let found = self.scope.iter().rev().find(|(known, _)| known == name);
                match found {
                    Some((_, of)) => of.clone(),
                    None if TYPES.contains(&name.as_str()) => Type::Named,
                    None => return undeclared(at, name),
                }
            }
            Node::Select(inner) => self.member(inner, at)?,
            Node::Has(inner) => {
                self.member(inner, at)?;
                Bool
            }
            Node::Index(inner, index) => {
                let (inner, index) = (self.of(inner)?, self.of(index)?);
                let wanted = match &inner {
                    Type::List(of) => Some((&Int, of)),
                    Type::Map(key, of) => Some((&**key, of)),
                    _ => None,
                };
                match wanted {
                    Some((wanted, of)) if index.fits(wanted) => (**of).clone(),
                    None if inner == Dyn => Dyn,
                    _ => return no_overload(at, "_[_]", &tuple(&[inner, index])),
                }
            }
            Node::Call { target, name, args } => self.call(at, target.as_deref(), name, args)?,
            Node::Comprehension { kind, target, variable, args } => {
                self.comprehension(*kind, target, variable, args)?
            }
            Node::List(items) => Type::list(self.common(&items.iter().collect::<Vec<_>>())?),
            Node::Map(entries) => {
                let keys: Vec<_> = entries.iter().map(|(key, _)| key).collect();
                let values: Vec<_> = entries.iter().map(|(_, value)| value).collect();
                let key = self.common(&keys)?;
                Type::Map(Box::new(key), Box::new(self.common(&values)?))
            }
            Node::Logic(terms) => {
                for term in terms {
                    self.expect(term, &Bool)?;
                }
                Bool
            }
            Node::Not(inner) => {
                let found = self.of(inner)?;
                if !found.fits(&Bool) {
                    return no_overload(at, "!_", &tuple(&[found]));
                }
                Bool
            }
            Node::Negate(inner) => match self.of(inner)? {
                found @ (Int | Double | Dyn) => found,
                found => return no_overload(at, "-_", &tuple(&[found])),
            },
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.of(left)?, self.of(right)?);
                let Some(result) = binary(operator, &left, &right) else {
                    let name = match *operator {
                        "in" => "@in".to_owned(),
                        operator => format!("_{operator}_"),
                    };
                    return no_overload(at, &name, &tuple(&[left, right]));
                };
                result
            }
            Node::Ternary(condition, yes, no) => {
                self.expect(condition, &Bool)?;
                let (yes, no) = (self.of(yes)?, self.of(no)?);
                match yes.join(&no) {
                    Some(result) => result,
                    None => return no_overload(at, "_?_:_", &tuple(&[Bool, yes, no])),
                }
            }
        })
    }

    fn member(&mut self, inner: &Expr, at: usize) -> Result<Type, Error> {
        match self.of(inner)? {
            Type::Map(_, of) => Ok(*of),
            Dyn => Ok(Dyn),
            found => error(at, format!("type '{found}' does not support field selection")),
        }
    }

    fn call(
        &mut self,
        at: usize,
        target: Option<&Expr>,
        name: &str,
        args: &[Expr],
    ) -> Result<Type, Error> {
        let method = target.is_some();
        let types = self.all(target.into_iter().chain(args))?;
        let mut known = false;
        let mut result: Option<Type> = None;
        let mut add = |found: &Type| {
            result = Some(match &result {
                Some(result) if result != found => Dyn,
                _ => found.clone(),
            });
        };
        for (overload, is_method, wanted, found) in OVERLOADS {
            if *overload == name {
                known = true;
                let fit = *is_method == method
                    && wanted.len() == types.len()
                    && types.iter().zip(*wanted).all(|(found, wanted)| found.fits(wanted));
                if fit {
                    add(found);
                }
            }
        }
        if name == "size" {
            known = true;
            let sized =
                |of: &Type| matches!(of, Text | Bytes | Type::List(_) | Type::Map(..) | Dyn);
            if matches!(types.as_slice(), [of] if sized(of)) {
                add(&Int);
            }
        }
        if PARTS.contains(&name) {
            known = true;
            let span = SPANS.contains(&name);
            let fit = match types.as_slice() {
                [of] => of.fits(&Timestamp) || span && of.fits(&Duration),
                [of, zone] => of.fits(&Timestamp) && zone.fits(&Text),
                _ => false,
            };
            if fit && method {
                add(&Int);
            }
        }
        match result {
            Some(result) => Ok(result),
            None if !known => undeclared(at, name),
            None => {
                let applied = match types.split_first() {
                    Some((target, rest)) if method => format!("{target}.{}", tuple(rest)),
                    _ => tuple(&types),
                };
                no_overload(at, name, &applied)
            }
        }
    }

    fn comprehension(
        &mut self,
        kind: Macro,
        target: &Expr,
        variable: &str,
        args: &[Expr],
    ) -> Result<Type, Error> {
        let over = self.of(target)?;
        let Some(element) = over.element() else {
            let message = format!(
                "expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"
            );
            return error(target.at, message);
        };
        self.scope.push((variable.to_owned(), element.clone()));
        let mut result = Ok(Bool);
        // Of `map`, the last argument is the new value; every other one is a condition.
        for (index, arg) in args.iter().enumerate() {
            let is_value = kind == Macro::Map && index + 1 == args.len();
            result = if is_value {
                self.of(arg).map(Type::list)
            } else {
                self.expect(arg, &Bool).map(|()| Bool)
            };
            if result.is_err() {
                break;
            }
        }
        self.scope.pop();
        let found = result?;
        Ok(if kind == Macro::Filter { Type::list(element) } else { found })
    }
}

/// The result of an operator; `None` where no overload fits.
fn binary(operator: &str, left: &Type, right: &Type) -> Option<Type> {
    let numeric = |of: &Type| matches!(of, Int | Uint | Double | Dyn);
    match operator {
        "==" | "!=" => left.join(right).map(|_| Bool),
        "in" => match right {
            Type::List(of) | Type::Map(of, _) => left.fits(of).then_some(Bool),
            Dyn => Some(Bool),
            _ => None,
        },
        "<" | "<=" | ">" | ">=" => {
            let ordered =
                |of: &Type| matches!(of, Bool | Text | Bytes | Timestamp | Duration) || numeric(of);
            let same = left.fits(right) || numeric(left) && numeric(right);
            (same && ordered(left) && ordered(right)).then_some(Bool)
        }
        _ => {
            let overloads: &[(Type, Type, Type)] = &[
                (Int, Int, Int),
                (Uint, Uint, Uint),
                (Double, Double, Double),
                (Text, Text, Text),
                (Bytes, Bytes, Bytes),
                (Duration, Duration, Duration),
                (Timestamp, Duration, Timestamp),
                (Duration, Timestamp, Timestamp),
                (Timestamp, Timestamp, Duration),
            ];
            let allowed = |l: &Type, r: &Type| match operator {
                "+" => (l, r) != (&Timestamp, &Timestamp),
                "-" => !matches!(l, Text | Bytes) && (l, r) != (&Duration, &Timestamp),
                "*" | "/" => matches!(l, Int | Uint | Double),
                _ => matches!(l, Int | Uint),
            };
            let mut result = None;
            for (l, r, found) in overloads {
                if allowed(l, r) && left.fits(l) && right.fits(r) {
                    result = Some(match result {
                        Some(result) if result != *found => Dyn,
                        _ => found.clone(),
                    });
                }
            }
            if operator == "+" && matches!((left, right), (Type::List(_), _) | (_, Type::List(_))) {
                result = left.join(right);
            }
            result
        }
    }
}
