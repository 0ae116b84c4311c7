//! The fields of a CatalogSource that the rules use, read in one host call.

use std::borrow::Cow;

use opgate_sdk::{Document, Kind, Review, Row, Rows, Shape, go_format};

/// A field, by its index in the list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field(usize);

/// Declares fields with their pointers, and the list of all pointers.
macro_rules! fields {
    ($count:literal: $($name:ident = $place:literal, $pointer:literal;)*) => {
        $(pub(crate) const $name: Field = Field($place);)*
        const POINTERS: [&str; $count] = [$($pointer),*];
    };
}

fields! { 19:
    TYPE = 0, "/spec/sourceType";
    IMAGE = 1, "/spec/image";
    ADDRESS = 2, "/spec/address";
    CONFIG_MAP = 3, "/spec/configMap";
    TEMPLATE = 4, "/metadata/annotations/olm.catalogImageTemplate";
    SECURITY = 5, "/spec/grpcPodConfig/securityContextConfig";
    PRIORITY_CLASS = 6, "/spec/grpcPodConfig/priorityClassName";
    PRIORITY_ANNOTATION = 7, "/metadata/annotations/operatorframework.io~1priorityclass";
    NODE_SELECTOR = 8, "/spec/grpcPodConfig/nodeSelector";
    TOLERATIONS = 9, "/spec/grpcPodConfig/tolerations";
    EXTRACT = 10, "/spec/grpcPodConfig/extractContent";
    CATALOG_DIR = 11, "/spec/grpcPodConfig/extractContent/catalogDir";
    STRATEGY = 12, "/spec/updateStrategy";
    POLL = 13, "/spec/updateStrategy/registryPoll";
    INTERVAL = 14, "/spec/updateStrategy/registryPoll/interval";
    PRIORITY = 15, "/spec/priority";
    ICON = 16, "/spec/icon";
    ICON_DATA = 17, "/spec/icon/base64data";
    ICON_TYPE = 18, "/spec/icon/mediatype";
}

impl Field {
    pub(crate) fn pointer(self) -> &'static str {
        POINTERS.get(self.0).copied().unwrap_or_default()
    }

    /// Returns the field path as Kubernetes writes it.
    pub(crate) fn name(self) -> String {
        match self.pointer().strip_prefix("/metadata/annotations/") {
            Some(key) => format!("metadata.annotations[{}]", key.replace("~1", "/")),
            None => self.pointer().trim_start_matches('/').replace('/', "."),
        }
    }
}

/// A CatalogSource under review.
#[derive(Debug)]
pub(crate) struct Source<'r> {
    pub(crate) review: &'r Review<'r>,
    pub(crate) object: &'r Document,
    fields: Rows,
}

impl<'r> Source<'r> {
    pub(crate) fn of(review: &'r Review<'r>) -> Option<Self> {
        let object = review.subject()?;
        Some(Self { review, object, fields: object.fields("", &POINTERS) })
    }

    fn row(&self) -> Option<Row<'_>> {
        self.fields.iter().next()
    }

    pub(crate) fn kind(&self, field: Field) -> Kind {
        self.row().map_or(Kind::Missing, |row| row.kind(field.0))
    }

    /// Whether the field has a value other than `null`.
    pub(crate) fn has(&self, field: Field) -> bool {
        !matches!(self.kind(field), Kind::Missing | Kind::Null)
    }

    /// The string in a field, empty if there is none.
    pub(crate) fn text(&self, field: Field) -> &str {
        self.row().and_then(|row| row.text(field.0)).unwrap_or_default()
    }

    /// The value of a field of any type, for a message.
    pub(crate) fn display_text(&self, field: Field) -> Cow<'_, str> {
        match self.kind(field) {
            Kind::Text => self.text(field).into(),
            _ => go_format::format_value(self.object, field.pointer(), false).into(),
        }
    }

    pub(crate) fn is_grpc(&self) -> bool {
        self.text(TYPE) == "grpc"
    }

    /// Whether the source serves the content of a ConfigMap.
    pub(crate) fn is_config_map(&self) -> bool {
        matches!(self.text(TYPE), "configmap" | "internal")
    }

    /// Whether the source has an image or an image template.
    pub(crate) fn has_image(&self) -> bool {
        [IMAGE, TEMPLATE].into_iter().any(|field| !self.text(field).is_empty())
    }

    /// Whether a rule that inspects these fields evaluates the source: on UPDATE, one of them
    /// changes.
    pub(crate) fn touches(&self, fields: &[Field]) -> bool {
        fields.iter().any(|field| self.review.touches(self.object, field.pointer(), &Shape::Scalar))
    }
}
