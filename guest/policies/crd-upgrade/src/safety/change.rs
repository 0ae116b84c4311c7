//! The changes between two schemas, in upstream's words.

use std::borrow::Cow;
use std::fmt;

use opgate_sdk::go::quote;

use crate::schema::Keyword;
use crate::schema::go::Number;

type Text<'t> = Cow<'t, str>;

/// A change that can break an object or a client. Displayed as check and text.
#[derive(Debug, PartialEq)]
pub(super) enum Change<'t> {
    /// The values as JSON.
    Default(Option<Text<'t>>, Option<Text<'t>>),
    /// Values as JSON.
    EnumAdded(Vec<Text<'t>>),
    EnumRemoved(Vec<Text<'t>>),
    Maximum(Keyword, Option<Number>, Number),
    Minimum(Keyword, Option<Number>, Number),
    /// Whether null was allowed.
    Nullable(bool),
    Pattern(Text<'t>, Text<'t>),
    Required(Vec<Text<'t>>),
    Type(Text<'t>, Text<'t>),
    /// The hash of the change.
    Unhandled(u64),
}

impl Change<'_> {
    /// The keyword that changed.
    pub(super) fn keyword(&self) -> Option<Keyword> {
        Some(match self {
            Self::Default(..) => Keyword::Default,
            Self::EnumAdded(_) | Self::EnumRemoved(_) => Keyword::Enum,
            Self::Maximum(keyword, ..) | Self::Minimum(keyword, ..) => *keyword,
            Self::Nullable(_) => Keyword::Nullable,
            Self::Pattern(..) => Keyword::Pattern,
            Self::Required(_) => Keyword::Required,
            Self::Type(..) => Keyword::Type,
            Self::Unhandled(_) => return None,
        })
    }
}

impl std::hash::Hash for Change<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let bits = |number: &Number| match number {
            Number::Whole(whole) => whole.to_ne_bytes(),
            Number::Float(float) => float.to_ne_bytes(),
        };
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Default(old, new) => (old, new).hash(state),
            Self::EnumAdded(values) | Self::EnumRemoved(values) | Self::Required(values) => {
                values.hash(state);
            }
            Self::Maximum(keyword, old, new) | Self::Minimum(keyword, old, new) => {
                (keyword, old.as_ref().map(bits), bits(new)).hash(state);
            }
            Self::Nullable(was) => was.hash(state),
            Self::Pattern(old, new) | Self::Type(old, new) => (old, new).hash(state),
            Self::Unhandled(what) => what.hash(state),
        }
    }
}

/// The maximum size of a value in a message, in bytes.
const MAX_SHOWN_BYTES: usize = 4 << 10;

/// `%q`
fn quoted(text: &str) -> String {
    quote(text.get(..text.floor_char_boundary(MAX_SHOWN_BYTES)).unwrap_or(text))
}

/// `%v`
struct List<'l>(&'l [Cow<'l, str>]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        let mut size = 0_usize;
        for (n, text) in self.0.iter().enumerate() {
            if size > MAX_SHOWN_BYTES {
                break;
            }
            size = size.saturating_add(text.len()).saturating_add(1);
            write!(f, "{}{text}", if n > 0 { " " } else { "" })?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let check = self.keyword().map_or("unhandled", Keyword::text);
        write!(f, "{check}: ")?;
        match self {
            Self::Default(None, None) | Self::Unhandled(_) => {
                f.write_str("unhandled changes found")
            }
            Self::Default(None, Some(new)) => {
                write!(f, "default added when there was none previously : {}", quoted(new))
            }
            Self::Default(Some(old), None) => write!(f, "default value removed : {}", quoted(old)),
            Self::Default(Some(old), Some(new)) => {
                write!(f, "default value changed : {} -> {}", quoted(old), quoted(new))
            }
            Self::EnumAdded(values) => {
                let values = List(values);
                write!(f, "enum constraint added when there was none previously : {values}")
            }
            Self::EnumRemoved(values) => {
                write!(f, "allowed enum values removed : {}", List(values))
            }
            Self::Maximum(_, None, new) => {
                write!(f, "maximum constraint added when there was none previously : {new}")
            }
            Self::Maximum(_, Some(old), new) => write!(f, "maximum decreased : {old} -> {new}"),
            Self::Minimum(_, None, new) => {
                write!(f, "minimum constraint added when there was none previously : {new}")
            }
            Self::Minimum(_, Some(old), new) => write!(f, "minimum increased : {old} -> {new}"),
            Self::Nullable(false) => f.write_str("nullable added : false -> true"),
            Self::Nullable(true) => f.write_str("nullable removed : true -> false"),
            Self::Pattern(old, new) => {
                let what = match (old.is_empty(), new.is_empty()) {
                    (true, _) => "added",
                    (_, true) => "removed",
                    _ => "changed",
                };
                write!(f, "pattern {what} : {} -> {}", quoted(old), quoted(new))
            }
            Self::Required(fields) => write!(f, "new required fields: {}", List(fields)),
            Self::Type(old, new) => write!(f, "type changed : {} -> {}", quoted(old), quoted(new)),
        }
    }
}
