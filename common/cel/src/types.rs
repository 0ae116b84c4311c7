//! Types of expressions, and which of them fit each other.
//!
//! A type may contain variables for unknown types: the elements of an empty list, or parameters and results
//! of a function. They are bound when types are compared, by cel-go's rules; a failed comparison undoes its
//! bindings. Values of `properties` can have any type (`any`), as can `dyn`; both match everywhere.
//!
//! Types have bounds, because an expression of a few lines can have one of exponential size: every `map(x,
//! {x: x})` in a chain doubles it. With bounds, every traversal of a type ends.

use std::fmt;
use std::rc::Rc;

/// Levels of a type, as many as those of an expression.
const MAX_LEVELS: usize = super::MAX_DEPTH;
/// Parts of a type.
const MAX_PARTS: usize = 512;

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
    Dyn,
    Any,
    /// The type of an invalid expression.
    Error,
    Variable(usize),
    /// The type of a type; `type(x)` returns it.
    Named(Option<Rc<SizedType>>),
    List(Rc<SizedType>),
    Map(Rc<(SizedType, SizedType)>),
}

/// A type in another one, with its extent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SizedType {
    pub(super) of: Type,
    levels: usize,
    parts: usize,
}

/// A type that passes its bounds.
#[derive(Debug)]
pub(super) struct TooLarge;

type TypeResult = Result<Type, TooLarge>;

impl SizedType {
    fn new(of: Type) -> Result<Self, TooLarge> {
        let (levels, parts) = match &of {
            Type::List(inner) | Type::Named(Some(inner)) => (inner.levels + 1, inner.parts + 1),
            Type::Map(both) => {
                (both.0.levels.max(both.1.levels) + 1, both.0.parts + both.1.parts + 1)
            }
            _ => (1, 1),
        };
        if levels > MAX_LEVELS || parts > MAX_PARTS {
            Err(TooLarge)
        } else {
            Ok(Self { of, levels, parts })
        }
    }
}

impl Type {
    pub(super) fn list(of: Self) -> TypeResult {
        Ok(Self::List(Rc::new(SizedType::new(of)?)))
    }

    pub(super) fn map(key: Self, of: Self) -> TypeResult {
        Ok(Self::Map(Rc::new((SizedType::new(key)?, SizedType::new(of)?))))
    }

    pub(super) fn named(of: Self) -> TypeResult {
        Ok(Self::Named(Some(Rc::new(SizedType::new(of)?))))
    }

    pub(super) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    fn is_open(&self) -> bool {
        self.is_dyn() || *self == Self::Error
    }

    /// Types that have room for `null`.
    fn is_nullable(&self) -> bool {
        matches!(self, Self::Null | Self::Duration | Self::Timestamp)
    }

    /// Reports whether this type equals the other one, or is more general.
    fn is_more_general(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Any | Self::Variable(_), _) | (Self::Named(_), Self::Named(_)) => {
                true
            }
            (_, Self::Dyn | Self::Any | Self::Variable(_)) => false,
            (Self::List(left), Self::List(right)) => left.of.is_more_general(&right.of),
            (Self::Map(left), Self::Map(right)) => {
                left.0.of.is_more_general(&right.0.of) && left.1.of.is_more_general(&right.1.of)
            }
            (left, right) => left == right,
        }
    }
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
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            // A variable that nothing was bound to.
            Self::Dyn | Self::Variable(_) => "dyn",
            Self::Any => "any",
            Self::Error => "!error!",
            Self::Named(None) => "type",
            Self::Named(Some(of)) => return write!(f, "type({})", of.of),
            Self::List(of) => return write!(f, "list({})", of.of),
            Self::Map(both) => return write!(f, "map({}, {})", both.0.of, both.1.of),
        })
    }
}

/// Types of variables.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    bound: Vec<Option<Type>>,
    /// Previous bindings, from the latest to the first.
    trail: Vec<(usize, Option<Type>)>,
}

impl Bindings {
    /// Creates this number of unbound variables; returns the first of them.
    pub(super) fn new_variables(&mut self, count: usize) -> usize {
        let first = self.bound.len();
        self.bound.resize(first + count, None);
        first
    }

    fn find(&self, of: &Type) -> Option<&Type> {
        match of {
            Type::Variable(index) => self.bound.get(*index)?.as_ref(),
            _ => None,
        }
    }

    fn bind(&mut self, variable: &Type, to: Type) {
        let Type::Variable(index) = variable else { return };
        if let Some(bound) = self.bound.get_mut(*index) {
            self.trail.push((*index, bound.replace(to)));
        }
    }

    /// Reports whether every type of one list fits that of the other; binds variables if so.
    ///
    /// # Errors
    /// Fails if a type exceeds its bounds.
    pub(super) fn unify(&mut self, left: &[Type], right: &[Type]) -> Result<bool, TooLarge> {
        self.trail.clear();
        let mut fits = left.len() == right.len();
        for (left, right) in left.iter().zip(right) {
            fits = fits && self.unify_types(left, right, MAX_LEVELS)?;
        }
        if !fits {
            while let Some((index, before)) = self.trail.pop() {
                if let Some(bound) = self.bound.get_mut(index) {
                    *bound = before;
                }
            }
        }
        Ok(fits)
    }

    fn unify_types(&mut self, left: &Type, right: &Type, levels: usize) -> Result<bool, TooLarge> {
        // Variables bound to variables may go deeper than any type does.
        let Some(levels) = levels.checked_sub(1) else { return Err(TooLarge) };
        if matches!(right, Type::Variable(_)) {
            match self.unify_variable(left, right, levels)? {
                (true, _) => return Ok(true),
                (false, true) => return Ok(false),
                (false, false) => {}
            }
        }
        if matches!(left, Type::Variable(_)) {
            return Ok(self.unify_variable(right, left, levels)?.0);
        }
        if left.is_open() || right.is_open() {
            return Ok(true);
        }
        Ok(match (left, right) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Named(_), Type::Named(_)) => true,
            (Type::List(left), Type::List(right)) => {
                self.unify_types(&left.of, &right.of, levels)?
            }
            (Type::Map(left), Type::Map(right)) => {
                self.unify_types(&left.0.of, &right.0.of, levels)?
                    && self.unify_types(&left.1.of, &right.1.of, levels)?
            }
            (left, right) => left == right,
        })
    }

    /// Reports whether a variable can be bound to a type, and whether it already is.
    fn unify_variable(
        &mut self,
        of: &Type,
        variable: &Type,
        levels: usize,
    ) -> Result<(bool, bool), TooLarge> {
        if of == variable {
            return Ok((true, true));
        }
        let Some(found) = self.find(variable).cloned() else {
            if !self.is_free_of(of, variable, levels)? {
                return Ok((false, false));
            }
            self.bind(variable, of.clone());
            return Ok((true, false));
        };
        if *of == found {
            return Ok((true, true));
        }
        if !self.unify_types(of, &found, levels)? {
            return Ok((false, true));
        }
        let general = if of.is_more_general(&found) { of.clone() } else { found };
        if self.is_free_of(&general, variable, levels)? {
            self.bind(variable, general);
        }
        Ok((true, true))
    }

    /// Reports whether a variable occurs neither in a type nor in the bindings of its variables.
    fn is_free_of(&self, of: &Type, variable: &Type, levels: usize) -> Result<bool, TooLarge> {
        let Some(levels) = levels.checked_sub(1) else { return Err(TooLarge) };
        if of == variable {
            return Ok(false);
        }
        match of {
            Type::Variable(_) => {
                self.find(of).map_or(Ok(true), |found| self.is_free_of(found, variable, levels))
            }
            Type::List(inner) | Type::Named(Some(inner)) => {
                self.is_free_of(&inner.of, variable, levels)
            }
            Type::Map(both) => Ok(self.is_free_of(&both.0.of, variable, levels)?
                && self.is_free_of(&both.1.of, variable, levels)?),
            _ => Ok(true),
        }
    }

    /// Returns a type with all bindings of its variables applied.
    ///
    /// # Errors
    /// Fails if it exceeds its bounds.
    pub(super) fn resolve(&self, of: &Type) -> TypeResult {
        self.substitute(of, 2 * MAX_LEVELS)
    }

    fn substitute(&self, of: &Type, levels: usize) -> TypeResult {
        let Some(levels) = levels.checked_sub(1) else { return Err(TooLarge) };
        match of {
            Type::Variable(_) => {
                self.find(of).map_or_else(|| Ok(of.clone()), |found| self.substitute(found, levels))
            }
            Type::List(inner) => Type::list(self.substitute(&inner.of, levels)?),
            Type::Named(Some(inner)) => Type::named(self.substitute(&inner.of, levels)?),
            Type::Map(both) => {
                let key = self.substitute(&both.0.of, levels)?;
                Type::map(key, self.substitute(&both.1.of, levels)?)
            }
            _ => Ok(of.clone()),
        }
    }

    /// Returns the more general of two types, if one fits the other.
    ///
    /// # Errors
    /// Fails if a type exceeds its bounds.
    pub(super) fn join(&mut self, left: Type, right: Type) -> Result<Type, TooLarge> {
        if !self.unify(std::slice::from_ref(&left), std::slice::from_ref(&right))? {
            return Ok(Type::Dyn);
        }
        Ok(if left.is_more_general(&right) { left } else { right })
    }
}
