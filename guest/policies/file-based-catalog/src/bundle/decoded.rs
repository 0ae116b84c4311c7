//! Values of properties that operator-registry decodes: FBC-54.
//!
//! Go's decoder accepts `null` for any type and ignores unknown members. The expected types are
//! declared as [`Struct`]s, and read list by list: one host call returns all elements.

use opgate_sdk::go::quote;
use opgate_sdk::{Kind, Report, Row, corrections, escape, rule, rules};

use crate::CATALOG;
use crate::blob::Blob;
use crate::bundle::Bundle;
use crate::go_text::{go_type_name, wrong_field, wrong_value};
use crate::properties::{Property, VALUE, field};

rules![FBC_54];

/// Bytes of values that are checked for one document. Memory is never freed during a call.
const MAX_CHECKED_BYTES: u32 = 12 << 20;

/// The type into which a value is decoded.
enum Shape {
    Text,
    /// A string type with a name.
    Named(&'static str),
    Boolean,
    /// `int32`.
    Integer,
    /// A map of strings.
    Map,
    Texts,
    Any,
    Object(&'static Struct),
    Objects(&'static Struct),
}

/// A type with fields.
struct Struct {
    /// Its package in Go.
    package: &'static str,
    name: &'static str,
    fields: &'static [(&'static str, Shape)],
}

static CHANNEL: Struct =
    Struct { package: "property", name: "Channel", fields: &[("channelName", Shape::Text)] };

static METADATA: Struct = Struct {
    package: "property",
    name: "CSVMetadata",
    fields: &[
        ("annotations", Shape::Map),
        ("apiServiceDefinitions", Shape::Object(&API_SERVICES)),
        ("crdDescriptions", Shape::Object(&CUSTOM_RESOURCES)),
        ("description", Shape::Text),
        ("displayName", Shape::Text),
        ("installModes", Shape::Objects(&INSTALL_MODE)),
        ("keywords", Shape::Texts),
        ("labels", Shape::Map),
        ("links", Shape::Objects(&LINK)),
        ("maintainers", Shape::Objects(&MAINTAINER)),
        ("maturity", Shape::Text),
        ("minKubeVersion", Shape::Text),
        ("nativeAPIs", Shape::Objects(&NATIVE_API)),
        ("provider", Shape::Object(&LINK)),
    ],
};

/// A type of the Operator API.
const fn api_struct(name: &'static str, fields: &'static [(&'static str, Shape)]) -> Struct {
    Struct { package: "v1alpha1", name, fields }
}

static API_SERVICES: Struct = api_struct(
    "APIServiceDefinitions",
    &[("owned", Shape::Objects(&API_SERVICE)), ("required", Shape::Objects(&API_SERVICE))],
);

static CUSTOM_RESOURCES: Struct = api_struct(
    "CustomResourceDefinitions",
    &[("owned", Shape::Objects(&CUSTOM_RESOURCE)), ("required", Shape::Objects(&CUSTOM_RESOURCE))],
);

static API_SERVICE: Struct = api_struct(
    "APIServiceDescription",
    &[
        ("actionDescriptors", Shape::Objects(&ACTION)),
        ("containerPort", Shape::Integer),
        ("deploymentName", Shape::Text),
        ("description", Shape::Text),
        ("displayName", Shape::Text),
        ("group", Shape::Text),
        ("kind", Shape::Text),
        ("name", Shape::Text),
        ("resources", Shape::Objects(&RESOURCE)),
        ("specDescriptors", Shape::Objects(&SPEC)),
        ("statusDescriptors", Shape::Objects(&STATUS)),
        ("version", Shape::Text),
    ],
);

static CUSTOM_RESOURCE: Struct = api_struct(
    "CRDDescription",
    &[
        ("actionDescriptors", Shape::Objects(&ACTION)),
        ("description", Shape::Text),
        ("displayName", Shape::Text),
        ("kind", Shape::Text),
        ("name", Shape::Text),
        ("resources", Shape::Objects(&RESOURCE)),
        ("specDescriptors", Shape::Objects(&SPEC)),
        ("statusDescriptors", Shape::Objects(&STATUS)),
        ("version", Shape::Text),
    ],
);

const DESCRIPTOR: &[(&str, Shape)] = &[
    ("description", Shape::Text),
    ("displayName", Shape::Text),
    ("path", Shape::Text),
    ("value", Shape::Any),
    ("x-descriptors", Shape::Texts),
];

static ACTION: Struct = api_struct("ActionDescriptor", DESCRIPTOR);
static SPEC: Struct = api_struct("SpecDescriptor", DESCRIPTOR);
static STATUS: Struct = api_struct("StatusDescriptor", DESCRIPTOR);

static RESOURCE: Struct = api_struct(
    "APIResourceReference",
    &[("kind", Shape::Text), ("name", Shape::Text), ("version", Shape::Text)],
);

static INSTALL_MODE: Struct = api_struct(
    "InstallMode",
    &[("supported", Shape::Boolean), ("type", Shape::Named("v1alpha1.InstallModeType"))],
);

static LINK: Struct = api_struct("AppLink", &[("name", Shape::Text), ("url", Shape::Text)]);
static MAINTAINER: Struct =
    api_struct("Maintainer", &[("email", Shape::Text), ("name", Shape::Text)]);

static NATIVE_API: Struct = Struct {
    package: "v1",
    name: "GroupVersionKind",
    fields: &[("group", Shape::Text), ("kind", Shape::Text), ("version", Shape::Text)],
};

impl Shape {
    /// Its type in Go.
    fn go_type(&self) -> String {
        match self {
            Self::Text => "string".to_owned(),
            Self::Named(name) => (*name).to_owned(),
            Self::Boolean => "bool".to_owned(),
            Self::Integer => "int32".to_owned(),
            Self::Map => "map[string]string".to_owned(),
            Self::Texts => "[]string".to_owned(),
            Self::Any => "json.RawMessage".to_owned(),
            Self::Object(inner) => inner.go_type(),
            Self::Objects(inner) => format!("[]{}", inner.go_type()),
        }
    }

    fn is_decoded_from(&self, kind: Kind) -> bool {
        matches!(
            (self, kind),
            (_, Kind::Missing | Kind::Null)
                | (Self::Any, _)
                | (Self::Text | Self::Named(_), Kind::Text)
                | (Self::Boolean, Kind::Boolean)
                | (Self::Integer, Kind::Number)
                | (Self::Map | Self::Object(_), Kind::Object)
                | (Self::Texts | Self::Objects(_), Kind::List)
        )
    }
}

impl Struct {
    fn go_type(&self) -> String {
        format!("{}.{}", self.package, self.name)
    }

    /// The columns of the fields, and the value itself.
    fn columns(&self) -> Vec<String> {
        let fields = self.fields.iter().map(|(name, _)| format!("/{name}"));
        fields.chain([String::new()]).collect()
    }
}

/// The location of a value.
#[derive(Clone)]
struct ValueLocation {
    /// JSON pointer in the blob.
    pointer: String,
    /// The field below the property.
    field: String,
    /// The names of the fields in Go, after that of the type.
    path: String,
}

impl ValueLocation {
    fn at_member(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self {
            pointer: format!("{}/{}", self.pointer, escape(name)),
            field: format!("{}.{name}", self.field),
            path: format!("{}{dot}{name}", self.path),
        }
    }

    /// An element of a list, or a member of a map: Go does not report which one.
    fn at_inner(&self, token: &str) -> Self {
        Self {
            pointer: format!("{}/{}", self.pointer, escape(token)),
            field: format!("{}[{token}]", self.field),
            path: self.path.clone(),
        }
    }
}

/// A decoding error: the field and the reason.
type DecodeError = (ValueLocation, String);

/// Decodes the values of a blob.
struct Decoder<'b, 'd>(&'b Blob<'d>);

impl Decoder<'_, '_> {
    /// The first value in an object that cannot be decoded. Only fields with content are visited:
    /// types contain other types, up to three levels deep.
    fn decode_object(&self, row: Row<'_>, of: &Struct, at: &ValueLocation) -> Option<DecodeError> {
        let fields = of.fields.iter().enumerate();
        fields.into_iter().find_map(|(column, (name, shape))| {
            let kind = row.kind(column);
            let at = at.at_member(name);
            if !shape.is_decoded_from(kind) {
                return Some(type_error(kind, of, &at, &shape.go_type()));
            }
            let has_content = row.length(column).is_some_and(|length| length > 0);
            match shape {
                Shape::Integer if kind == Kind::Number => self.decode_integer(of, &at),
                Shape::Map if has_content => self.decode_map(of, &at),
                Shape::Texts if has_content => self.decode_texts(of, &at),
                Shape::Object(inner) if has_content => {
                    let rows = self.0.fields(&at.pointer, &inner.columns());
                    rows.iter().next().and_then(|row| self.decode_object(row, inner, &at))
                }
                Shape::Objects(inner) if has_content => self.decode_objects(of, inner, &at),
                _ => None,
            }
        })
    }

    fn decode_objects(
        &self,
        of: &Struct,
        inner: &Struct,
        at: &ValueLocation,
    ) -> Option<DecodeError> {
        let columns = inner.columns();
        let columns: Vec<_> = columns.iter().map(String::as_str).collect();
        let rows = self.0.rows(&at.pointer, &columns);
        rows.iter().enumerate().find_map(|(index, row)| {
            let at = at.at_inner(&index.to_string());
            match row.kind(inner.fields.len()) {
                Kind::Object => self.decode_object(row, inner, &at),
                Kind::Missing | Kind::Null => None,
                kind => Some(type_error(kind, of, &at, &inner.go_type())),
            }
        })
    }

    fn decode_texts(&self, of: &Struct, at: &ValueLocation) -> Option<DecodeError> {
        let rows = self.0.rows(&at.pointer, &[""]);
        rows.iter().enumerate().find_map(|(index, row)| {
            let kind = row.kind(0);
            let is_text = Shape::Text.is_decoded_from(kind);
            (!is_text).then(|| type_error(kind, of, &at.at_inner(&index.to_string()), "string"))
        })
    }

    fn decode_map(&self, of: &Struct, at: &ValueLocation) -> Option<DecodeError> {
        let keys = self.0.value().keys(&at.pointer);
        let columns: Vec<_> = keys.iter().map(|key| format!("/{}", escape(key))).collect();
        let rows = self.0.fields(&at.pointer, &columns);
        let row = rows.iter().next()?;
        keys.iter().enumerate().find_map(|(column, key)| {
            let kind = row.kind(column);
            let is_text = Shape::Text.is_decoded_from(kind);
            (!is_text).then(|| type_error(kind, of, &at.at_inner(key), "string"))
        })
    }

    fn decode_integer(&self, of: &Struct, at: &ValueLocation) -> Option<DecodeError> {
        let value = self.0.value();
        if value.integer(&at.pointer).is_some_and(|number| i32::try_from(number).is_ok()) {
            return None;
        }
        let number = value.raw(&at.pointer).unwrap_or_default();
        let number = String::from_utf8(number).unwrap_or_default();
        let found = format!("{} {number}", go_type_name(Kind::Number));
        let path = format!("{}.{}", of.name, at.path);
        let why =
            format!("json: cannot unmarshal {found} into Go struct field {path} of type int32");
        Some((at.clone(), why))
    }
}

fn type_error(kind: Kind, of: &Struct, at: &ValueLocation, go_type: &str) -> DecodeError {
    let path = format!("{}.{}", of.name, at.path);
    (at.clone(), wrong_field(kind, &path, go_type))
}

rule! {
    /// properties that OLM knows decode
    ///
    /// The value of a bundle's property of type `olm.csv.metadata` or `olm.channel` has the types
    /// that OLM expects: of `olm.csv.metadata`, `annotations` and `labels` are maps of strings,
    /// `keywords` is a list of strings, `displayName`, `description`, `maturity` and
    /// `minKubeVersion` are strings, and `installModes`, `links`, `maintainers`, `nativeAPIs`,
    /// `provider`, `crdDescriptions` and `apiServiceDefinitions` are as in a ClusterServiceVersion;
    /// of `olm.channel`, `channelName` is a string. `null` and unknown fields are accepted. FBC-35,
    /// FBC-37, FBC-38 and FBC-41 check the other types. Values after the first 12 MiB of a package
    /// are not evaluated; the audit annotation `skipped-rules` then names the rule.
    ///
    /// # Why
    ///
    /// `opm` decodes these properties, and rejects the whole catalog if one does not decode
    /// (operator-registry; OpenShift 4.12, Operators, *File-based catalogs, Properties*).
    ///
    /// # Remediation
    ///
    /// Write the value that the message names with the required type, a number or a boolean in
    /// quotes, or render the bundle again with `opm render`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// properties: [{type: olm.csv.metadata, value: {displayName: "5", keywords: [etcd]}}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// properties: [{type: olm.csv.metadata, value: {displayName: 5}}]
    /// ```
    ///
    /// `message: parse properties for bundle "etcd.v1.0.0": parse property[0] of type
    /// "olm.csv.metadata": json: cannot unmarshal number into Go struct field
    /// CSVMetadata.displayName of type string`
    FBC_54: Deny {
        name: "decodable-olm-properties",
        on: [CATALOG: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L831-838", "operator-registry alpha/property/property.go Parse, alpha/declcfg/declcfg_to_model.go"],
    }
}

/// Evaluates a property of one of these types. `spent` is the number of bytes of the document that
/// were read so far.
pub(crate) fn check(
    property: &Property<'_>,
    blob: &Blob<'_>,
    bundle: &Bundle,
    spent: &mut u32,
    report: &mut Report<'_>,
) {
    if !report.is_on(&FBC_54) {
        return;
    }
    let of = match property.name {
        "olm.channel" => &CHANNEL,
        _ => &METADATA,
    };
    let at = ValueLocation {
        pointer: property.pointer("/value"),
        field: ".value".to_owned(),
        path: String::new(),
    };
    let found = match property.kind(VALUE) {
        Kind::Object => {
            if *spent >= MAX_CHECKED_BYTES {
                report.skip_part(&FBC_54, "", "the properties of the bundles are too large");
                return;
            }
            let size = blob.value().size(&at.pointer).unwrap_or_default();
            *spent = spent.saturating_add(size);
            let rows = blob.fields(&at.pointer, &of.columns());
            rows.iter().next().and_then(|row| Decoder(blob).decode_object(row, of, &at))
        }
        kind => Some((at, wrong_value(kind, &of.go_type()))),
    };
    if let Some((at, why)) = found {
        let message = format!(
            "parse properties for bundle {}: parse property[{}] of type {}: {why}",
            quote(&bundle.name),
            property.index,
            quote(property.name)
        );
        report.add(&FBC_54, field(blob, property.index, &at.field), message);
        report.set_fix(&FBC_54, || {
            let wants_text = why.ends_with(" of type string");
            let fix = wants_text.then(|| corrections::text_fix(blob.value(), &at.pointer))??;
            Some(fix.below(&blob.absolute("")))
        });
    }
}
