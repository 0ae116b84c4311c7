//! JSON pointers with `*`, and the part of an object that a set of them selects.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use opgate_document::{Kind, Value};

use crate::tokens::Tokens;
use crate::{Index, MAX_LEVELS, is_set};

/// The reason why a text is no pointer to a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

/// The last token of an index over the names of members.
const MEMBER_NAMES_TOKEN: &str = "#";

/// A JSON pointer in which `*` stands for every element of a list or member of an object.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Vec<String>);

/// A piece of the last token of an index that is made of several texts.
enum TemplatePart<'t> {
    Literal(&'t str),
    /// The name of a member.
    Member(&'t str),
}

/// Returns the pieces of `{group}/{version}`; none of a token without braces.
fn parse_template(token: &str) -> Option<Vec<TemplatePart<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = token;
    while let Some((literal, after)) = rest.split_once('{') {
        let (member, after) = after.split_once('}')?;
        pieces.push(TemplatePart::Literal(literal));
        pieces.push(TemplatePart::Member(member));
        rest = after;
    }
    pieces.push(TemplatePart::Literal(rest));
    (pieces.len() > 1).then_some(pieces)
}

/// Returns the text that the pieces build from an object.
fn render_template(object: Value<'_>, pieces: &[TemplatePart<'_>]) -> Option<String> {
    if object.kind() != Kind::Object {
        return None;
    }
    let text = |piece: &TemplatePart<'_>| match piece {
        TemplatePart::Literal(literal) => (*literal).to_owned(),
        TemplatePart::Member(name) => {
            object.get(&pointer(name)).and_then(|v| v.text()).unwrap_or_default().to_owned()
        }
    };
    Some(pieces.iter().map(text).collect())
}

impl Pattern {
    pub(crate) fn parse(pointer: &str) -> Result<Self, PatternError> {
        let Some(rest) = pointer.strip_prefix('/') else {
            return Err(PatternError(format!("{pointer:?} is not a JSON pointer to a field")));
        };
        let tokens: Vec<_> =
            rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
        if tokens.len() > MAX_LEVELS {
            return Err(PatternError(format!("{pointer:?} has more than {MAX_LEVELS} levels")));
        }
        Ok(Self(tokens))
    }

    /// Returns the pattern of the values that an index is made of.
    pub(crate) fn values(&self) -> Self {
        let is_made = self
            .0
            .last()
            .is_some_and(|last| last == MEMBER_NAMES_TOKEN || parse_template(last).is_some());
        let steps = self.0.len().saturating_sub(usize::from(is_made));
        Self(self.0.iter().take(steps).cloned().collect())
    }

    /// Returns the values of an index.
    pub(crate) fn tokens(&self, object: Value<'_>, index: &Index) -> Tokens {
        let composite = self.0.last().and_then(|last| parse_template(last));
        let of_names = self.0.last().is_some_and(|last| last == MEMBER_NAMES_TOKEN);
        let steps = self.0.len().saturating_sub(usize::from(composite.is_some() || of_names));
        let mut at = vec![object];
        for token in self.0.iter().take(steps) {
            at = at.into_iter().flat_map(|value| step(value, token)).collect();
        }
        if let Some(pieces) = composite {
            let texts = at.into_iter().filter_map(|value| render_template(value, &pieces));
            return Tokens::new(texts.map(Cow::Owned).collect());
        }
        let texts: Vec<&str> = if of_names {
            at.iter().flat_map(Value::members).map(|(name, _)| name).collect()
        } else {
            at.iter().filter_map(Value::text).collect()
        };
        let mut tokens: Vec<Cow<'_, str>> = Vec::new();
        for text in texts {
            if index.separator.is_empty() {
                tokens.push(text.into());
                continue;
            }
            for part in text.split(index.separator.as_str()) {
                let part: Cow<'_, str> =
                    if part.contains(' ') { part.replace(' ', "").into() } else { part.into() };
                if !part.is_empty() {
                    tokens.push(part);
                }
            }
        }
        Tokens::new(tokens)
    }
}

fn step<'v>(value: Value<'v>, token: &str) -> Vec<Value<'v>> {
    match (token, value.kind()) {
        ("*", Kind::List) => value.items().collect(),
        ("*", Kind::Object) => value.members().map(|(_, value)| value).collect(),
        _ => value.get(&pointer(token)).into_iter().collect(),
    }
}

fn pointer(token: &str) -> String {
    format!("/{}", token.replace('~', "~0").replace('/', "~1"))
}

/// Selects the stored parts of a value. Not deeper than [`MAX_LEVELS`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Projection {
    /// The whole value.
    all: bool,
    /// The names of its members, each with the value `true`.
    names: bool,
    /// Applies to every element or member.
    each: Option<Box<Projection>>,
    members: BTreeMap<String, Projection>,
}

impl Projection {
    pub(crate) fn add(&mut self, pattern: &Pattern, names: bool) {
        let mut at = self;
        for token in &pattern.0 {
            at = if token == "*" {
                at.each.get_or_insert_default()
            } else {
                at.members.entry(token.clone()).or_default()
            };
        }
        if names {
            at.names = true;
        } else {
            at.all = true;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.all |= other.all;
        self.names |= other.names;
        if let Some(each) = &other.each {
            self.each.get_or_insert_default().merge(each);
        }
        for (name, keep) in &other.members {
            self.members.entry(name.clone()).or_default().merge(keep);
        }
    }

    fn merged(&self, other: &Self) -> Self {
        let mut merged = self.clone();
        merged.merge(other);
        merged
    }

    /// Returns the selection for the member with this name, or for the element at this position.
    fn member(&self, name: &str) -> Option<Cow<'_, Self>> {
        match (self.members.get(name), self.each.as_deref()) {
            (Some(own), Some(each)) => Some(Cow::Owned(own.merged(each))),
            (own, each) => own.or(each).map(Cow::Borrowed),
        }
    }

    /// Writes the parts of a value that are kept. Elements of a list keep their positions.
    pub(crate) fn write(&self, value: Value<'_>, json: &mut String) {
        match value.kind() {
            _ if self.all => json.push_str(&value.raw()),
            Kind::Object => {
                json.push('{');
                let mut first = true;
                for (name, member) in value.members().take_while(|(_, member)| member.spend(1)) {
                    let keep = self.member(name);
                    if !self.names && !keep.as_ref().is_some_and(|_| is_set(member)) {
                        continue;
                    }
                    if !first {
                        json.push(',');
                    }
                    first = false;
                    write_json_string(name, json);
                    json.push(':');
                    match keep {
                        Some(keep) => keep.write(member, json),
                        None => json.push_str("true"),
                    }
                }
                json.push('}');
            }
            Kind::List => {
                json.push('[');
                for (index, item) in value.items().take_while(|item| item.spend(1)).enumerate() {
                    if index > 0 {
                        json.push(',');
                    }
                    // Most patterns name no element.
                    let keep = if self.members.is_empty() {
                        self.each.as_deref().map(Cow::Borrowed)
                    } else {
                        self.member(&index.to_string())
                    };
                    match keep {
                        Some(keep) => keep.write(item, json),
                        None => json.push_str("null"),
                    }
                }
                json.push(']');
            }
            // Something of another kind than what was expected, of which nothing was asked for.
            _ => json.push_str("null"),
        }
    }
}

pub(crate) fn write_json_string(text: &str, json: &mut String) {
    // Writing a text as JSON does not fail, nor does writing to a String.
    let _ = write!(json, "{}", serde_json::Value::from(text));
}
