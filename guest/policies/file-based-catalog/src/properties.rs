//! Properties of any blob.

use std::cell::OnceCell;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Fix, Kind, Report, Row, corrections, escape, rule, rules};

use crate::CATALOG;
use crate::blob::{Blob, BlobIdentity};
use crate::settings::Settings;
use crate::spelling;

rules![FBC_03, FBC_40];

const KNOWN_TYPES: [&str; 14] = [
    "olm.package",
    "olm.gvk",
    "olm.package.required",
    "olm.gvk.required",
    "olm.label.required",
    "olm.constraint",
    "olm.bundle.object",
    "olm.bundle.mediatype",
    "olm.csv.metadata",
    "olm.channel",
    "olm.deprecated",
    "olm.kubeversion",
    "olm.maxOpenShiftVersion",
    "olm.substitutesFor",
];

/// The known type that a property of another type means, if it is similar.
pub(crate) fn meant_type(name: &str) -> Option<&'static str> {
    corrections::word(name, &KNOWN_TYPES).or_else(|| corrections::nearest(name, &KNOWN_TYPES))
}

/// The members that one host call reads for all properties: most types need them.
const COLUMNS: [&str; 8] = [
    "/type",
    "/value",
    "/value/group",
    "/value/version",
    "/value/kind",
    "/value/packageName",
    "/value/versionRange",
    "/value/release",
];

/// A value in a property: a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column(usize);

pub(crate) const TYPE: Column = Column(0);
pub(crate) const VALUE: Column = Column(1);
pub(crate) const GROUP: Column = Column(2);
pub(crate) const VERSION: Column = Column(3);
pub(crate) const KIND: Column = Column(4);
pub(crate) const PACKAGE_NAME: Column = Column(5);
pub(crate) const VERSION_RANGE: Column = Column(6);
pub(crate) const RELEASE: Column = Column(7);

/// A property that has a type and a value.
pub(crate) struct Property<'p> {
    pub(crate) index: u32,
    /// Its type.
    pub(crate) name: &'p str,
    row: Row<'p>,
    blob: &'p Blob<'p>,
    /// Pointer of the list in the blob.
    list: &'p str,
    document: OnceCell<Option<Document>>,
}

impl<'p> Property<'p> {
    pub(crate) fn kind(&self, column: Column) -> Kind {
        self.row.kind(column.0)
    }

    /// The text in a column. Empty if there is none.
    pub(crate) fn text(&self, column: Column) -> &'p str {
        self.row.text_or_empty(column.0)
    }

    /// The addition to a message for a missing member of the value.
    pub(crate) fn hint(&self, name: &str) -> String {
        spelling::spelling_hint(self.blob.value(), &self.pointer("/value"), name)
    }

    /// The number of members of the value.
    pub(crate) fn members(&self) -> Option<u32> {
        self.row.length(VALUE.0)
    }

    /// Pointer, from the blob, of a value in the property.
    pub(crate) fn pointer(&self, inner: &str) -> String {
        [self.list, "/", &self.index.to_string(), inner].concat()
    }

    /// The property itself, for members that are not in its row.
    pub(crate) fn document(&self) -> &Document {
        let found = self.document.get_or_init(|| self.blob.value().at(&self.pointer("")));
        // A property with a row exists.
        found.as_ref().unwrap_or_else(|| self.blob.value())
    }
}

/// Path of a value in a property. `inner` starts with a dot, or is empty.
pub(crate) fn field(blob: &Blob<'_>, index: u32, inner: &str) -> String {
    let properties = blob.field("properties");
    format!("{properties}[{index}]{inner}")
}

rule! {
    /// properties are a list of items with a type and a value
    ///
    /// `properties` of any blob, if set and not `null`, is a list. Each item is an object with
    /// `type`, a non-empty string, and `value`, which is not `null`. Both names are written in
    /// lower case. This rule allows an empty list; a bundle must also satisfy FBC-33.
    ///
    /// # Why
    ///
    /// OLM resolves dependencies with the properties and cannot use an item without type or value
    /// (OpenShift 4.12, Operators, *File-based catalogs, Schemas*).
    ///
    /// # Remediation
    ///
    /// Give the item a type and a value, or remove it.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: example.com.notes, name: notes, properties: [{type: color, value: red}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: example.com.notes, name: notes, properties: [{type: color, value: null}]}
    /// ```
    ///
    /// `message: parse properties for example.com.notes "notes": property[0]: value must be set`
    FBC_03: Deny {
        name: "catalog-properties-type-and-value",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L673-683, L796-802, L821", "OCP 4.15 L500-539, L621-651", "OKD L166-174, L239-244"],
    }
}

rule! {
    /// types of properties that start with olm. are OLM's
    ///
    /// A property of any blob whose type starts with `olm.` has one of the types `olm.package`,
    /// `olm.gvk`, `olm.package.required`, `olm.gvk.required`, `olm.label.required`,
    /// `olm.constraint`, `olm.bundle.object`, `olm.bundle.mediatype`, `olm.csv.metadata`,
    /// `olm.channel`, `olm.deprecated`, `olm.kubeversion`, `olm.maxOpenShiftVersion` and
    /// `olm.substitutesFor`. The setting `catalog.reservedProperties` lists further ones.
    ///
    /// # Why
    ///
    /// The prefix is reserved: a later version of OLM can use the same type with another meaning
    /// (OpenShift 4.12, Operators, *File-based catalogs, Properties*).
    ///
    /// # Remediation
    ///
    /// Correct the spelling, or use your own prefix. For a type of a later OLM, add it to
    /// `catalog.reservedProperties`.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// properties: [{type: olm.maxOpenShiftVersion, value: "4.12"}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// properties: [{type: olm.mycompany.tier, value: gold}]
    /// ```
    ///
    /// `message: property type "olm.mycompany.tier" uses the reserved olm.* prefix`
    FBC_40: Warn {
        name: "reserved-olm-property-types",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L824, L2633, L8703, L21715", "OCP 4.15 L726, L21717", "OKD L255-256"],
    }
}

/// Evaluates the properties and passes each valid one on. Returns whether all types are known: the
/// list is valid or missing, and the type of each item is readable.
pub(crate) fn check(
    blob: &Blob<'_>,
    meta: &BlobIdentity,
    settings: &Settings,
    report: &mut Report<'_>,
    mut each: impl FnMut(&Property<'_>, &mut Report<'_>),
) -> bool {
    let complain = |index: u32, inner: &str, why: &str, report: &mut Report<'_>| {
        let message =
            format!("parse properties for {}: property[{index}]: {why}", owner_phrase(meta));
        report.add(&FBC_03, field(blob, index, inner), message);
    };
    match blob.kind("properties") {
        Kind::List => {}
        Kind::Missing | Kind::Null => return true,
        _ => {
            let message = format!("parse properties for {}: must be a list", owner_phrase(meta));
            report.add(&FBC_03, blob.field("properties"), message);
            return false;
        }
    }
    let list = blob.pointer("properties");
    let mut readable = true;
    let mut must_be_set = |index: u32, inner: &str, name: &str, report: &mut Report<'_>| {
        let hint = spelling::spelling_hint(blob.value(), &format!("{list}/{index}"), name);
        readable &= hint.is_empty();
        complain(index, inner, &format!("{name} must be set{hint}"), report);
        report.set_fix(&FBC_03, || {
            let item = format!("{list}/{index}");
            let key = spelling::other_spelling(blob.value(), &item, name)?;
            let is_free = blob.value().kind(&format!("{item}/{name}")) == Kind::Missing;
            let pointer = blob.absolute(&format!("{item}/{}", escape(&key)));
            let fix = Fix::safe(format!("rename the member to {name}"));
            is_free.then(|| fix.rename_key(pointer, name))
        });
    };
    let rows = blob.rows(&list, &COLUMNS);
    for (index, row) in (0_u32..).zip(rows.iter()) {
        let name = match row.text(TYPE.0) {
            Some(text) if !text.is_empty() => text,
            Some(_) => {
                complain(index, ".type", "type must be set", report);
                continue;
            }
            None => {
                let kind = blob.value().kind(&format!("{list}/{index}"));
                match (kind, row.kind(TYPE.0)) {
                    (Kind::Object, Kind::Missing) => must_be_set(index, "", "type", report),
                    (Kind::Object, Kind::Null) => must_be_set(index, ".type", "type", report),
                    (Kind::Object, _) => {
                        complain(index, ".type", "type must be a string", report);
                    }
                    _ => complain(index, "", "must be an object", report),
                }
                continue;
            }
        };
        if name.starts_with("olm.")
            && !KNOWN_TYPES.contains(&name)
            && !settings.reserved_properties.iter().any(|reserved| reserved == name)
        {
            let message = format!("property type {} uses the reserved olm.* prefix", quote(name));
            report.add(&FBC_40, field(blob, index, ".type"), message);
            report.set_fix(&FBC_40, || {
                let pointer = blob.absolute(&format!("{list}/{index}/type"));
                // OLM reads a property of a known type.
                Some(corrections::propose(pointer, meant_type(name)?))
            });
        }
        match row.kind(VALUE.0) {
            Kind::Missing => must_be_set(index, "", "value", report),
            Kind::Null => must_be_set(index, ".value", "value", report),
            _ => {
                let document = OnceCell::new();
                each(&Property { index, name, row, blob, list: &list, document }, report);
            }
        }
    }
    readable
}

/// The owner of the properties in upstream's spelling: `bundle "foo.v0.1.0"`.
fn owner_phrase(meta: &BlobIdentity) -> String {
    let schema = meta.schema.as_str();
    let schema = schema.strip_prefix("olm.").unwrap_or(schema);
    format!("{schema} {}", quote(meta.name.as_str()))
}
