//! `metadata/properties.yaml`.
//!
//! Like dependencies, properties can be in any file of `metadata/`.

use opgate_sdk::{Document, Fix, Kind, Level, Report, corrections, escape, rule, rules};

use crate::directory::{BUNDLE, BundleDirectory, Content, METADATA};

rules![RBF_19, RBF_20];

/// The types with values that OLM and opm read. They only store the values of other types, and null
/// is a value.
const EVALUATED_TYPES: [&str; 7] = [
    "olm.constraint",
    "olm.gvk",
    "olm.gvk.required",
    "olm.label",
    "olm.label.required",
    "olm.package",
    "olm.package.required",
];

rule! {
    /// metadata/properties.yaml lists properties with type and value
    ///
    /// `properties`, in any file directly in `metadata/`, is a list of objects with a non-empty
    /// string `type` and a `value` that is set and not null; any other JSON value is allowed. The
    /// rule denies a missing value for the types that OLM uses in resolution: `olm.constraint`,
    /// `olm.gvk`, `olm.label`, `olm.package`, and these with `.required`. For any other type a
    /// missing value is a warning, because the registry reads it as null. A duplicate key in a
    /// mapping is also a warning. Items with `property:` around both fields are also accepted, with
    /// a warning of RBF-20. A file `properties.*` can be parsed and has the key `properties`, or
    /// lists `dependencies`; null, an empty file and no file at all are allowed.
    ///
    /// # Why
    ///
    /// OLM resolves dependencies with the properties of the bundle. It cannot use a property
    /// without a type, or a constraint without a value; opm rejects the first in a catalog. See
    /// OpenShift 4.12, Operators, *Operator Lifecycle Manager dependency resolution*, Operator
    /// properties.
    ///
    /// # Remediation
    ///
    /// Give each item a `type` and a `value`, and write each key of a mapping once. Move fields
    /// next to them, such as `name`, into the value. Remove the file if the bundle declares no
    /// properties.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// properties:
    /// - type: olm.kubeversion
    ///   value: {version: "1.16.0"}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// properties:
    /// - type: olm.constraint
    ///   value: null
    /// ```
    ///
    /// `message: properties[0]: value must be set and not null`
    ///
    /// Without a type: `message: properties[0]: type must be a non-empty string`
    pub(crate) RBF_19: Deny {
        name: "readable-bundle-properties",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L677-683, L2626-2665", "OCP 4.15 L1886-1921", "operator-registry pkg/registry/types.go, pkg/registry/parse.go"],
    }
}

pub(crate) fn check(directory: &BundleDirectory<'_>, report: &mut Report<'_>) {
    for file in directory.files_in(METADATA) {
        let is_named = file.name().starts_with("properties.");
        if let (Content::Invalid(why), true) = (&file.content, is_named) {
            report.add(&RBF_19, file.error_field(), property_message(0, why));
        }
        let Some(object) = directory.first_document(file) else { continue };
        match object.kind("/properties") {
            Kind::List => {
                for (index, item) in object.items("/properties").enumerate() {
                    let field = file.within(&format!("properties[{index}]"));
                    let pointer = file.pointer(&format!("/properties/{index}"));
                    check_property(&item, index, (&field, &pointer), report);
                }
            }
            Kind::Null => {}
            // The registry finds dependencies in a file of any name.
            Kind::Missing if !is_named || object.kind("/dependencies") == Kind::List => {}
            kind => {
                let field = if kind == Kind::Missing { "" } else { "properties" };
                report.add(
                    &RBF_19,
                    file.within(field),
                    property_message(0, "properties is not a list"),
                );
                report.set_fix(&RBF_19, || {
                    let is_property = object.text("/properties/type").is_some();
                    let item =
                        object.raw("/properties").filter(|item| item.len() <= MAX_ITEM_BYTES);
                    let item = item.filter(|_| is_property && kind == Kind::Object)?;
                    let list = format!("[{}]", String::from_utf8(item).ok()?);
                    let fix = Fix::safe("write a list of properties");
                    Some(fix.set(file.pointer("/properties"), list))
                });
            }
        }
    }
}

fn property_message(index: usize, why: &str) -> String {
    format!("properties[{index}]: {why}")
}

rule! {
    /// a property has type and value at the level of the item
    ///
    /// An item of `properties` in a file of `metadata/` has `type` and `value` itself, not below
    /// the key `property`. A key `property` that is null is allowed. RBF-19 evaluates the type and
    /// the value inside the wrapper.
    ///
    /// # Why
    ///
    /// OpenShift 4.12, Operators, *Operator Lifecycle Manager dependency resolution*, Arbitrary
    /// properties, shows the wrapped structure. The registry does not support it: it reads an item
    /// without a type.
    ///
    /// # Remediation
    ///
    /// Remove `property:`, and move `type` and `value` up to the item.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// properties:
    /// - type: shape
    ///   value: square
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// properties:
    /// - property: {type: shape, value: square}
    /// ```
    ///
    /// `message: properties[0] uses the property: wrapper; write type and value at the item level`
    RBF_20: Warn {
        name: "bundle-property-fields-at-item-level",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L2653-2665", "operator-registry pkg/registry/types.go"],
    }
}

fn check_property(
    item: &Document,
    index: usize,
    (field, pointer): (&str, &str),
    report: &mut Report<'_>,
) {
    if item.kind("") != Kind::Object {
        report.add(&RBF_19, field, property_message(index, "not an object"));
        return;
    }
    // One edition of the documentation shows the flat structure with an empty wrapper.
    let is_wrapped = item.has("/property");
    let (at, inside) = if is_wrapped { ("/property", ".property") } else { ("", "") };
    if is_wrapped {
        let text = format!(
            "properties[{index}] uses the property: wrapper; write type and value at the item level"
        );
        report.add(&RBF_20, format!("{field}.property"), text);
        report.set_fix(&RBF_20, || unwrap(item).map(|fix| fix.below(pointer)));
    }
    if is_wrapped && item.kind(at) != Kind::Object {
        report.add(&RBF_19, format!("{field}.property"), property_message(index, "not an object"));
        return;
    }
    let kind = item.text_or_empty(&format!("{at}/type"));
    if kind.is_empty() {
        let why = property_message(index, "type must be a non-empty string");
        report.add(&RBF_19, format!("{field}{inside}"), why);
        report.set_fix(&RBF_19, || respell(item, at, "type").map(|fix| fix.below(pointer)));
    }
    if !item.has(&format!("{at}/value")) {
        let why = property_message(index, "value must be set and not null");
        let is_used = kind.is_empty() || EVALUATED_TYPES.contains(&kind.as_str());
        let level = if is_used { Level::Deny } else { Level::Warn };
        report.add_as(level, &RBF_19, format!("{field}{inside}"), why);
        report.set_fix(&RBF_19, || respell(item, at, "value").map(|fix| fix.below(pointer)));
    }
}

/// Maximum size of a property that a fix moves, in bytes.
const MAX_ITEM_BYTES: usize = 16 << 10;

/// The type and the value of a wrapped property as members of the item.
fn unwrap(item: &Document) -> Option<Fix> {
    let is_plain = item.length("") == Some(1) && item.length("/property") == Some(2);
    let json = |pointer| item.raw(pointer).and_then(|json| String::from_utf8(json).ok());
    let (name, value) = (json("/property/type")?, json("/property/value")?);
    let fix = Fix::safe("write type and value at the level of the item");
    (is_plain && value.len() <= MAX_ITEM_BYTES)
        .then(|| fix.set("/type", name).set("/value", value).remove("/property"))
}

/// The right name of a member with another spelling.
fn respell(item: &Document, at: &str, name: &str) -> Option<Fix> {
    let keys = item.keys(at);
    let written = keys.iter().find(|key| corrections::word(key, &[name]).is_some())?;
    let fix = Fix::safe(format!("rename the member to {name}"));
    (written != name && !keys.iter().any(|key| key == name))
        .then(|| fix.rename_key(format!("{at}/{}", escape(written)), name))
}
