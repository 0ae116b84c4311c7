//! The functions and operators of cel-go's standard library, and `semver_compare`: what they take and
//! what comes out.

use super::types::{Bindings, TooLarge, Type};

/// A type in a signature. `A` and `B` are what a call makes of them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
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

impl Shape {
    /// Whether it has variables.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::A | Self::B | Self::ListOfA | Self::MapOfAToB | Self::TypeOfA)
    }

    /// The type, with variables from a number on.
    pub(super) fn made(self, first: usize) -> Result<Type, TooLarge> {
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

use Shape::{
    A, Any, B, Bool, Bytes, Double, Duration, Dyn, Int, ListOfA, MapOfAToB, Text, Timestamp,
    TypeOfA, Uint,
};

/// One way to call a function: its name, whether it is called on its first argument, what it takes,
/// what comes out.
pub(super) type Overload = (&'static str, bool, &'static [Shape], Shape);

const NUMBERS: [&[Shape]; 3] = [&[Double, Double], &[Int, Int], &[Uint, Uint]];
/// Numbers of different types, in comparisons where they are allowed.
const MIXED: [&[Shape]; 6] =
    [&[Int, Double], &[Int, Uint], &[Uint, Double], &[Uint, Int], &[Double, Int], &[Double, Uint]];
/// What has an order, each among its own.
const ORDERED: [&[Shape]; 8] = [
    &[Bool, Bool],
    &[Int, Int],
    &[Uint, Uint],
    &[Double, Double],
    &[Text, Text],
    &[Bytes, Bytes],
    &[Timestamp, Timestamp],
    &[Duration, Duration],
];

const OVERLOADS: &[Overload] = &[
    ("_?_:_", false, &[Bool, A, A], A),
    ("!_", false, &[Bool], Bool),
    ("-_", false, &[Double], Double),
    ("-_", false, &[Int], Int),
    ("_==_", false, &[A, A], Bool),
    ("_!=_", false, &[A, A], Bool),
    ("_+_", false, &[Bytes, Bytes], Bytes),
    ("_+_", false, &[Double, Double], Double),
    ("_+_", false, &[Duration, Duration], Duration),
    ("_+_", false, &[Duration, Timestamp], Timestamp),
    ("_+_", false, &[Timestamp, Duration], Timestamp),
    ("_+_", false, &[Int, Int], Int),
    ("_+_", false, &[ListOfA, ListOfA], ListOfA),
    ("_+_", false, &[Text, Text], Text),
    ("_+_", false, &[Uint, Uint], Uint),
    ("_-_", false, &[Double, Double], Double),
    ("_-_", false, &[Duration, Duration], Duration),
    ("_-_", false, &[Int, Int], Int),
    ("_-_", false, &[Timestamp, Duration], Timestamp),
    ("_-_", false, &[Timestamp, Timestamp], Duration),
    ("_-_", false, &[Uint, Uint], Uint),
    ("_%_", false, &[Int, Int], Int),
    ("_%_", false, &[Uint, Uint], Uint),
    ("_[_]", false, &[ListOfA, Int], A),
    ("_[_]", false, &[MapOfAToB, A], B),
    ("@in", false, &[A, ListOfA], Bool),
    ("@in", false, &[A, MapOfAToB], Bool),
    ("size", false, &[Bytes], Int),
    ("size", true, &[Bytes], Int),
    ("size", false, &[ListOfA], Int),
    ("size", true, &[ListOfA], Int),
    ("size", false, &[MapOfAToB], Int),
    ("size", true, &[MapOfAToB], Int),
    ("size", false, &[Text], Int),
    ("size", true, &[Text], Int),
    ("type", false, &[A], TypeOfA),
    ("dyn", false, &[A], Dyn),
    ("bool", false, &[Bool], Bool),
    ("bool", false, &[Text], Bool),
    ("bytes", false, &[Bytes], Bytes),
    ("bytes", false, &[Text], Bytes),
    ("double", false, &[Double], Double),
    ("double", false, &[Int], Double),
    ("double", false, &[Text], Double),
    ("double", false, &[Uint], Double),
    ("duration", false, &[Duration], Duration),
    ("duration", false, &[Int], Duration),
    ("duration", false, &[Text], Duration),
    ("int", false, &[Int], Int),
    ("int", false, &[Double], Int),
    ("int", false, &[Duration], Int),
    ("int", false, &[Text], Int),
    ("int", false, &[Timestamp], Int),
    ("int", false, &[Uint], Int),
    ("string", false, &[Text], Text),
    ("string", false, &[Bool], Text),
    ("string", false, &[Bytes], Text),
    ("string", false, &[Double], Text),
    ("string", false, &[Duration], Text),
    ("string", false, &[Int], Text),
    ("string", false, &[Timestamp], Text),
    ("string", false, &[Uint], Text),
    ("timestamp", false, &[Timestamp], Timestamp),
    ("timestamp", false, &[Int], Timestamp),
    ("timestamp", false, &[Text], Timestamp),
    ("uint", false, &[Uint], Uint),
    ("uint", false, &[Double], Uint),
    ("uint", false, &[Int], Uint),
    ("uint", false, &[Text], Uint),
    ("contains", true, &[Text, Text], Bool),
    ("endsWith", true, &[Text, Text], Bool),
    ("startsWith", true, &[Text, Text], Bool),
    ("matches", false, &[Text, Text], Bool),
    ("matches", true, &[Text, Text], Bool),
    ("semver_compare", false, &[Any, Any], Int),
];

/// Parts of points in time, with or without a time zone; some, spans of time have as well.
const PARTS: [(&str, bool); 10] = [
    ("getFullYear", false),
    ("getMonth", false),
    ("getDayOfYear", false),
    ("getDayOfMonth", false),
    ("getDate", false),
    ("getDayOfWeek", false),
    ("getHours", true),
    ("getMinutes", true),
    ("getSeconds", true),
    ("getMilliseconds", true),
];

/// Types whose names are values. Lists and maps are those of anything.
const NAMES: [(&str, Option<Shape>); 10] = [
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

/// Every way to call a function; none where there is no such function. `mixed` is whether numbers of
/// different types may be compared.
pub(super) fn overloads(name: &str, mixed: bool) -> Vec<Overload> {
    let name = name.strip_prefix('.').unwrap_or(name);
    let alike = |of: &'static [&'static [Shape]], result: Option<Shape>, name: &'static str| {
        let overload = |takes: &&'static [Shape]| {
            let given = takes.first().copied().unwrap_or(Dyn);
            (name, false, *takes, result.unwrap_or(given))
        };
        of.iter().map(overload).collect::<Vec<_>>()
    };
    match name {
        "_*_" => return alike(&NUMBERS, None, "_*_"),
        "_/_" => return alike(&NUMBERS, None, "_/_"),
        "_<_" | "_<=_" | "_>_" | "_>=_" => {
            let mut all = alike(&ORDERED, Some(Bool), "_<_");
            if mixed {
                all.extend(alike(&MIXED, Some(Bool), "_<_"));
            }
            return all;
        }
        _ => {}
    }
    if let Some((name, span)) = PARTS.into_iter().find(|(known, _)| *known == name) {
        let point: [Overload; 3] = [
            (name, true, &[Timestamp], Int),
            (name, true, &[Timestamp, Text], Int),
            (name, true, &[Duration], Int),
        ];
        return point.into_iter().take(if span { 3 } else { 2 }).collect();
    }
    OVERLOADS.iter().filter(|(known, ..)| *known == name).copied().collect()
}

/// The type of a type's name.
pub(super) fn named(name: &str, bindings: &mut Bindings) -> Option<Result<Type, TooLarge>> {
    let name = name.strip_prefix('.').unwrap_or(name);
    match name {
        "type" => return Some(Type::named(Type::Named(None))),
        "null_type" => return Some(Type::named(Type::Null)),
        _ => {}
    }
    let (_, shape) = NAMES.into_iter().find(|(known, _)| *known == name)?;
    let of = shape?.made(bindings.fresh(2));
    Some(of.and_then(Type::named))
}
