//! The functions and operators of cel-go's standard library, and `semver_compare`: what they take and
//! what comes out.

use super::types::{Bindings, TooLarge, Type};

/// A type in a signature. `A` and `B` are what a call makes of them.
#[derive(Debug, Clone, Copy)]
pub(super) enum SignatureType {
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
    A,
    B,
    ListOfA,
    MapOfAToB,
    TypeOfA,
}

impl SignatureType {
    /// Reports whether it has variables.
    pub(super) fn has_variables(self) -> bool {
        matches!(self, Self::A | Self::B | Self::ListOfA | Self::MapOfAToB | Self::TypeOfA)
    }

    /// Reports whether a type is plainly another one. Most overloads of most operators end here, before
    /// anything is made for them.
    pub(super) fn excludes(self, of: &Type) -> bool {
        let is_plain =
            !matches!(of, Type::Null | Type::Dyn | Type::Any | Type::Error | Type::Variable(_));
        is_plain
            && !match self {
                Self::Bool => *of == Type::Bool,
                Self::Int => *of == Type::Int,
                Self::Uint => *of == Type::Uint,
                Self::Double => *of == Type::Double,
                Self::Text => *of == Type::Text,
                Self::Bytes => *of == Type::Bytes,
                Self::Duration => *of == Type::Duration,
                Self::Timestamp => *of == Type::Timestamp,
                Self::ListOfA => matches!(of, Type::List(_)),
                Self::MapOfAToB => matches!(of, Type::Map(_)),
                Self::Dyn | Self::Any | Self::A | Self::B | Self::TypeOfA => true,
            }
    }

    /// Returns the type, with variables from a number on.
    pub(super) fn instantiate(self, first: usize) -> Result<Type, TooLarge> {
        let (a, b) = (Type::Variable(first), Type::Variable(first + 1));
        Ok(match self {
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::Text => Type::Text,
            Self::Bytes => Type::Bytes,
            Self::Duration => Type::Duration,
            Self::Timestamp => Type::Timestamp,
            Self::Dyn => Type::Dyn,
            Self::Any => Type::Any,
            Self::A => a,
            Self::B => b,
            Self::ListOfA => Type::list(a)?,
            Self::MapOfAToB => Type::map(a, b)?,
            Self::TypeOfA => Type::named(a)?,
        })
    }
}

use SignatureType::{
    A, Any, B, Bool, Bytes, Double, Duration, Dyn, Int, ListOfA, MapOfAToB, Text, Timestamp,
    TypeOfA, Uint,
};

/// One way to call a function: whether it is called on its first argument, what it takes, what comes
/// out.
pub(super) type Overload = (bool, &'static [SignatureType], SignatureType);

const PRODUCT_OVERLOADS: &[Overload] =
    &[(false, &[Double, Double], Double), (false, &[Int, Int], Int), (false, &[Uint, Uint], Uint)];
/// Ordered types: first each with itself, then numbers of different types.
const COMPARISON_OVERLOADS: &[Overload] = &[
    (false, &[Bool, Bool], Bool),
    (false, &[Int, Int], Bool),
    (false, &[Uint, Uint], Bool),
    (false, &[Double, Double], Bool),
    (false, &[Text, Text], Bool),
    (false, &[Bytes, Bytes], Bool),
    (false, &[Timestamp, Timestamp], Bool),
    (false, &[Duration, Duration], Bool),
    (false, &[Int, Double], Bool),
    (false, &[Int, Uint], Bool),
    (false, &[Uint, Double], Bool),
    (false, &[Uint, Int], Bool),
    (false, &[Double, Int], Bool),
    (false, &[Double, Uint], Bool),
];
/// Number of them for values of one type.
const SAME_TYPE_COMPARISONS: usize = 8;
/// A part of a point in time, with or without a time zone, or of a span of time.
const TIME_PART_OVERLOADS: &[Overload] =
    &[(true, &[Timestamp], Int), (true, &[Timestamp, Text], Int), (true, &[Duration], Int)];
/// Number of them for points in time.
const TIMESTAMP_PART_OVERLOADS: usize = 2;

const FUNCTIONS: &[(&str, &[Overload])] = &[
    ("_?_:_", &[(false, &[Bool, A, A], A)]),
    ("!_", &[(false, &[Bool], Bool)]),
    ("-_", &[(false, &[Double], Double), (false, &[Int], Int)]),
    ("_==_", &[(false, &[A, A], Bool)]),
    ("_!=_", &[(false, &[A, A], Bool)]),
    (
        "_+_",
        &[
            (false, &[Bytes, Bytes], Bytes),
            (false, &[Double, Double], Double),
            (false, &[Duration, Duration], Duration),
            (false, &[Duration, Timestamp], Timestamp),
            (false, &[Timestamp, Duration], Timestamp),
            (false, &[Int, Int], Int),
            (false, &[ListOfA, ListOfA], ListOfA),
            (false, &[Text, Text], Text),
            (false, &[Uint, Uint], Uint),
        ],
    ),
    (
        "_-_",
        &[
            (false, &[Double, Double], Double),
            (false, &[Duration, Duration], Duration),
            (false, &[Int, Int], Int),
            (false, &[Timestamp, Duration], Timestamp),
            (false, &[Timestamp, Timestamp], Duration),
            (false, &[Uint, Uint], Uint),
        ],
    ),
    ("_*_", PRODUCT_OVERLOADS),
    ("_/_", PRODUCT_OVERLOADS),
    ("_%_", &[(false, &[Int, Int], Int), (false, &[Uint, Uint], Uint)]),
    ("_[_]", &[(false, &[ListOfA, Int], A), (false, &[MapOfAToB, A], B)]),
    ("@in", &[(false, &[A, ListOfA], Bool), (false, &[A, MapOfAToB], Bool)]),
    (
        "size",
        &[
            (false, &[Bytes], Int),
            (true, &[Bytes], Int),
            (false, &[ListOfA], Int),
            (true, &[ListOfA], Int),
            (false, &[MapOfAToB], Int),
            (true, &[MapOfAToB], Int),
            (false, &[Text], Int),
            (true, &[Text], Int),
        ],
    ),
    ("type", &[(false, &[A], TypeOfA)]),
    ("dyn", &[(false, &[A], Dyn)]),
    ("bool", &[(false, &[Bool], Bool), (false, &[Text], Bool)]),
    ("bytes", &[(false, &[Bytes], Bytes), (false, &[Text], Bytes)]),
    (
        "double",
        &[
            (false, &[Double], Double),
            (false, &[Int], Double),
            (false, &[Text], Double),
            (false, &[Uint], Double),
        ],
    ),
    (
        "duration",
        &[(false, &[Duration], Duration), (false, &[Int], Duration), (false, &[Text], Duration)],
    ),
    (
        "int",
        &[
            (false, &[Int], Int),
            (false, &[Double], Int),
            (false, &[Duration], Int),
            (false, &[Text], Int),
            (false, &[Timestamp], Int),
            (false, &[Uint], Int),
        ],
    ),
    (
        "string",
        &[
            (false, &[Text], Text),
            (false, &[Bool], Text),
            (false, &[Bytes], Text),
            (false, &[Double], Text),
            (false, &[Duration], Text),
            (false, &[Int], Text),
            (false, &[Timestamp], Text),
            (false, &[Uint], Text),
        ],
    ),
    (
        "timestamp",
        &[
            (false, &[Timestamp], Timestamp),
            (false, &[Int], Timestamp),
            (false, &[Text], Timestamp),
        ],
    ),
    (
        "uint",
        &[
            (false, &[Uint], Uint),
            (false, &[Double], Uint),
            (false, &[Int], Uint),
            (false, &[Text], Uint),
        ],
    ),
    ("contains", &[(true, &[Text, Text], Bool)]),
    ("endsWith", &[(true, &[Text, Text], Bool)]),
    ("startsWith", &[(true, &[Text, Text], Bool)]),
    ("matches", &[(false, &[Text, Text], Bool), (true, &[Text, Text], Bool)]),
    ("semver_compare", &[(false, &[Any, Any], Int)]),
];

/// Types whose names are values. Lists and maps are those of anything.
const TYPE_NAMES: [(&str, Option<SignatureType>); 10] = [
    ("bool", Some(Bool)),
    ("int", Some(Int)),
    ("uint", Some(Uint)),
    ("double", Some(Double)),
    ("string", Some(Text)),
    ("bytes", Some(Bytes)),
    ("list", Some(ListOfA)),
    ("map", Some(MapOfAToB)),
    ("google.protobuf.Timestamp", Some(Timestamp)),
    ("google.protobuf.Duration", Some(Duration)),
];

/// Returns every overload of a function; none if it does not exist. `mixed` allows comparisons of numbers of
/// different types.
pub(super) fn overloads(name: &str, mixed: bool) -> &'static [Overload] {
    let ways = match name {
        "_<_" | "_<=_" | "_>_" | "_>=_" if mixed => Some(COMPARISON_OVERLOADS),
        "_<_" | "_<=_" | "_>_" | "_>=_" => COMPARISON_OVERLOADS.get(..SAME_TYPE_COMPARISONS),
        "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds" => Some(TIME_PART_OVERLOADS),
        "getFullYear" | "getMonth" | "getDayOfYear" | "getDayOfMonth" | "getDate"
        | "getDayOfWeek" => TIME_PART_OVERLOADS.get(..TIMESTAMP_PART_OVERLOADS),
        _ => FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, ways)| *ways),
    };
    ways.unwrap_or_default()
}

/// Returns the name of an operator's function.
pub(super) fn operator_function(sign: &str) -> &'static str {
    match sign {
        "in" => "@in",
        "==" => "_==_",
        "!=" => "_!=_",
        "<" => "_<_",
        "<=" => "_<=_",
        ">" => "_>_",
        ">=" => "_>=_",
        "+" => "_+_",
        "-" => "_-_",
        "*" => "_*_",
        "/" => "_/_",
        _ => "_%_",
    }
}

/// Returns the type of a type's name.
pub(super) fn type_of_name(name: &str, bindings: &mut Bindings) -> Option<Result<Type, TooLarge>> {
    let name = name.strip_prefix('.').unwrap_or(name);
    match name {
        "type" => return Some(Type::named(Type::Named(None))),
        "null_type" => return Some(Type::named(Type::Null)),
        _ => {}
    }
    let (_, shape) = TYPE_NAMES.into_iter().find(|(known, _)| *known == name)?;
    let of = shape?.instantiate(bindings.new_variables(2));
    Some(of.and_then(Type::named))
}
