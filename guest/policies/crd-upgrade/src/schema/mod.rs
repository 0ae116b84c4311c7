//! A schema as Kubernetes decodes it: the keywords of `JSONSchemaProps`, and their values in Go.

pub(crate) mod go;
pub(crate) mod tree;

use std::borrow::Cow;
use std::collections::HashSet;

use opgate_compat::json::{self, Kind};
use tree::{NodeId, Tree};

/// The Go type of the value of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `string`
    Text,
    /// `*string`
    OptionalText,
    /// `bool`
    Flag,
    /// `*bool`
    OptionalFlag,
    /// `*float64` or `*int64`
    Number,
    /// `*JSON`
    Json,
    /// `[]JSON` without regard to order
    Jsons,
    /// `[]string`
    Texts,
    /// A struct, or a list of them, whose fields are texts and pointers
    Structs,
    /// `*JSONSchemaProps`
    Schema,
    /// `[]JSONSchemaProps`
    Schemas,
    /// `*JSONSchemaPropsOrArray`
    SchemaOrSchemas,
    /// `*JSONSchemaPropsOrBool`
    SchemaOrFlag,
    /// `map[string]JSONSchemaProps`
    SchemaMap,
    /// `map[string]JSONSchemaPropsOrStringArray`
    SchemaOrTextsMap,
}

/// Declares the keywords, in the order in which their changes are reported.
macro_rules! keywords {
    ($($name:ident $text:literal $shape:ident,)+) => {
        /// A keyword of a schema.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Keyword { $($name,)+ }

        impl Keyword {
            pub(crate) const ALL: [Self; [$($text,)+].len()] = [$(Self::$name,)+];

            /// The name in the schema.
            pub(crate) fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            pub(crate) fn shape(self) -> Shape {
                match self { $(Self::$name => Shape::$shape,)+ }
            }

            fn named(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$name),)+ _ => None }
            }

            #[expect(clippy::as_conversions, reason = "the number of a variant without fields")]
            fn slot(self) -> usize {
                self as usize
            }
        }
    };
}

keywords! {
    // Each has a separate check, or is not compared.
    Type "type" Text,
    Description "description" Text,
    Default "default" Json,
    Enum "enum" Jsons,
    Maximum "maximum" Number,
    MaxItems "maxItems" Number,
    MaxLength "maxLength" Number,
    MaxProperties "maxProperties" Number,
    Minimum "minimum" Number,
    MinItems "minItems" Number,
    MinLength "minLength" Number,
    MinProperties "minProperties" Number,
    Nullable "nullable" Flag,
    Pattern "pattern" Text,
    Required "required" Texts,
    // Compared only as separate schemas.
    Properties "properties" SchemaMap,
    Items "items" SchemaOrSchemas,
    // No check handles a change of these.
    Format "format" Text,
    Title "title" Text,
    Id "id" Text,
    Draft "$schema" Text,
    Reference "$ref" OptionalText,
    ExclusiveMaximum "exclusiveMaximum" Flag,
    ExclusiveMinimum "exclusiveMinimum" Flag,
    MultipleOf "multipleOf" Number,
    UniqueItems "uniqueItems" Flag,
    Example "example" Json,
    ExternalDocs "externalDocs" Structs,
    PreserveUnknownFields "x-kubernetes-preserve-unknown-fields" OptionalFlag,
    EmbeddedResource "x-kubernetes-embedded-resource" Flag,
    IntOrString "x-kubernetes-int-or-string" Flag,
    ListMapKeys "x-kubernetes-list-map-keys" Texts,
    ListType "x-kubernetes-list-type" OptionalText,
    MapType "x-kubernetes-map-type" OptionalText,
    Validations "x-kubernetes-validations" Structs,
    // No check handles a change of these, and they are also compared as separate schemas.
    AllOf "allOf" Schemas,
    AnyOf "anyOf" Schemas,
    OneOf "oneOf" Schemas,
    Not "not" Schema,
    AdditionalProperties "additionalProperties" SchemaOrFlag,
    PatternProperties "patternProperties" SchemaMap,
    AdditionalItems "additionalItems" SchemaOrFlag,
    Definitions "definitions" SchemaMap,
    Dependencies "dependencies" SchemaOrTextsMap,
}

impl Keyword {
    /// Whether a separate check, or the comparison of the schemas in it, handles a change.
    pub(crate) fn is_handled(self) -> bool {
        self.slot() <= Self::Items.slot()
    }
}

/// A schema in a text, or an empty one.
#[derive(Clone, Copy)]
pub(crate) struct Schema<'s> {
    pub(crate) tree: &'s Tree,
    /// The values of the keywords. 0, the index of the outermost value, means missing.
    slots: [NodeId; Keyword::ALL.len()],
    /// A bit for each keyword that is set.
    present: u64,
}

impl<'s> Schema<'s> {
    /// The schema at an index. A value that is not an object counts as an empty schema.
    pub(crate) fn at(tree: &'s Tree, node_id: NodeId) -> Self {
        let mut schema = Self::empty(tree);
        if tree.kind(node_id) != Kind::Object {
            return schema;
        }
        for member in tree.children(node_id) {
            // The last member with a name counts.
            if let Some(keyword) = Keyword::named(&tree.name(member))
                && let Some(slot) = schema.slots.get_mut(keyword.slot())
            {
                *slot = member;
                schema.present |= 1 << keyword.slot();
            }
        }
        schema
    }

    pub(crate) fn empty(tree: &'s Tree) -> Self {
        Self { tree, slots: [0; Keyword::ALL.len()], present: 0 }
    }

    /// The keywords of two schemas.
    pub(crate) fn keywords(
        &self,
        other: Option<&Schema<'_>>,
    ) -> impl Iterator<Item = Keyword> + use<> {
        let mut present = self.present | other.map_or(0, |other| other.present);
        std::iter::from_fn(move || {
            let slot = usize::try_from(present.trailing_zeros()).ok()?;
            present &= present.wrapping_sub(1);
            Keyword::ALL.get(slot).copied()
        })
    }

    /// The value of a keyword. `null` counts as missing.
    pub(crate) fn node_id(&self, keyword: Keyword) -> Option<NodeId> {
        let node_id = self.slots.get(keyword.slot()).copied().filter(|&node_id| node_id != 0)?;
        (self.tree.kind(node_id) != Kind::Null).then_some(node_id)
    }

    fn of_kind(&self, keyword: Keyword, kind: Kind) -> Option<NodeId> {
        self.node_id(keyword).filter(|&node_id| self.tree.kind(node_id) == kind)
    }

    /// Whether a keyword has identical text in two schemas. Most have, and need no further
    /// comparison.
    pub(crate) fn has_same_text(&self, other: &Schema<'_>, keyword: Keyword) -> bool {
        match (self.slots.get(keyword.slot()), other.slots.get(keyword.slot())) {
            (Some(0), Some(0)) => true,
            (Some(&one), Some(&two)) if one != 0 && two != 0 => {
                self.tree.raw(one) == other.tree.raw(two)
            }
            _ => false,
        }
    }

    pub(crate) fn text(&self, keyword: Keyword) -> Cow<'s, str> {
        let node_id = self.of_kind(keyword, Kind::Text);
        node_id.map(|node_id| json::decode_text(self.tree.raw(node_id))).unwrap_or_default()
    }

    pub(crate) fn flag(&self, keyword: Keyword) -> bool {
        self.node_id(keyword).is_some_and(|node_id| self.tree.raw(node_id) == b"true")
    }

    pub(crate) fn number(&self, keyword: Keyword) -> Option<go::Number> {
        let node_id = self.of_kind(keyword, Kind::Number)?;
        let is_integer =
            !matches!(keyword, Keyword::Maximum | Keyword::Minimum | Keyword::MultipleOf);
        go::Number::of(self.tree.raw(node_id), is_integer)
    }

    /// JSON in the notation of the API server.
    pub(crate) fn json(&self, keyword: Keyword) -> Option<Cow<'s, str>> {
        self.node_id(keyword).map(|node_id| go::marshal_json(self.tree.raw(node_id)))
    }

    /// The values in a list of JSON. `null` has no text.
    pub(crate) fn json_elements(&self, keyword: Keyword) -> Vec<Cow<'s, str>> {
        let text = |(kind, raw)| match kind {
            Kind::Null => Cow::default(),
            _ => go::marshal_json(raw),
        };
        let list = self.node_id(keyword).map(|list| self.tree.elements(list)).unwrap_or_default();
        list.into_iter().map(text).collect()
    }

    /// The texts in a list.
    pub(crate) fn text_elements(&self, keyword: Keyword) -> Vec<Cow<'s, str>> {
        let list = self.node_id(keyword).map(|list| self.tree.elements(list)).unwrap_or_default();
        let texts = list.into_iter().filter(|(kind, _)| *kind == Kind::Text);
        texts.map(|(_, raw)| json::decode_text(raw)).collect()
    }

    /// Whether a keyword without schemas in it has a different value in Go.
    pub(crate) fn differs(&self, other: &Schema<'_>, keyword: Keyword) -> bool {
        let optional = |schema: &Schema<'_>| {
            schema
                .node_id(keyword)
                .map(|node_id| go::marshal_json(schema.tree.raw(node_id)).into_owned())
        };
        let fields = |schema: &Schema<'_>| {
            schema.node_id(keyword).map(|node_id| go::marshal_fields(schema.tree.raw(node_id)))
        };
        // An empty list counts as missing.
        let elements = |text: &String| text != "[]";
        match keyword.shape() {
            Shape::Text => self.text(keyword) != other.text(keyword),
            Shape::Flag => self.flag(keyword) != other.flag(keyword),
            Shape::Number => self.number(keyword) != other.number(keyword),
            Shape::OptionalText | Shape::OptionalFlag | Shape::Json => {
                optional(self) != optional(other)
            }
            Shape::Structs => fields(self).filter(elements) != fields(other).filter(elements),
            _ => optional(self).filter(elements) != optional(other).filter(elements),
        }
    }
}

/// The elements that are only in the first list, in order and without duplicates.
pub(crate) fn difference<'t>(
    texts: Vec<Cow<'t, str>>,
    others: &[Cow<'t, str>],
) -> Vec<Cow<'t, str>> {
    let others: HashSet<&str> = others.iter().map(AsRef::as_ref).collect();
    let mut rest = texts;
    rest.retain(|text| !others.contains(text.as_ref()));
    rest.sort();
    rest.dedup();
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_equal_as_in_go() {
        use Keyword as K;
        for (keyword, one, two, differs) in [
            (K::Format, r#"{"format":""}"#, "{}", false),
            (K::Format, r#"{"format":"int32"}"#, r#"{"format":"\u0069nt32"}"#, false),
            (K::Format, r#"{"format":"int32"}"#, "{}", true),
            (K::Format, r#"{"format":5}"#, "{}", false),
            (K::Reference, r#"{"$ref":""}"#, "{}", true),
            (K::Reference, r#"{"$ref":null}"#, "{}", false),
            (K::UniqueItems, r#"{"uniqueItems":false}"#, "{}", false),
            (K::UniqueItems, r#"{"uniqueItems":true}"#, "{}", true),
            (
                K::PreserveUnknownFields,
                r#"{"x-kubernetes-preserve-unknown-fields":false}"#,
                "{}",
                true,
            ),
            (K::MultipleOf, r#"{"multipleOf":1.0}"#, r#"{"multipleOf":1}"#, false),
            (K::MultipleOf, r#"{"multipleOf":0}"#, "{}", true),
            (K::Example, r#"{"example":{"a":1,"b":[]}}"#, r#"{"example":{"b":[ ],"a":1}}"#, false),
            (K::Example, r#"{"example":{}}"#, "{}", true),
            (K::ListMapKeys, r#"{"x-kubernetes-list-map-keys":[]}"#, "{}", false),
            (
                K::ListMapKeys,
                r#"{"x-kubernetes-list-map-keys":["a","b"]}"#,
                r#"{"x-kubernetes-list-map-keys":["b","a"]}"#,
                true,
            ),
            (
                K::Validations,
                r#"{"x-kubernetes-validations":[{"rule":"a","message":"","reason":null}]}"#,
                r#"{"x-kubernetes-validations":[{"rule":"a"}]}"#,
                false,
            ),
            (K::ExternalDocs, r#"{"externalDocs":{}}"#, "{}", true),
            (K::ExternalDocs, r#"{"format":"x","format":"y"}"#, "{}", false),
            (K::Format, r#"{"format":"x","format":"y"}"#, r#"{"format":"y"}"#, false),
        ] {
            let (left, right) = (Tree::of(one.into()), Tree::of(two.into()));
            let (left, right) = (Schema::at(&left, 0), Schema::at(&right, 0));
            assert_eq!(left.differs(&right, keyword), differs, "{one} {two}");
            assert_eq!(right.differs(&left, keyword), differs, "{two} {one}");
        }
    }
}
