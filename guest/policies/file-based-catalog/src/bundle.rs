//! Bundles, one by one: FBC-26 to FBC-29, FBC-33 to FBC-39, FBC-41 and FBC-42.

use std::collections::BTreeSet;

use opgate_constraint::range::Range;
use opgate_constraint::version::{Identifier, Version};
use opgate_sdk::Kind;
use opgate_sdk::go::quote;

use crate::blob::{Blob, Meta, place};
use crate::findings::{Findings, joined};
use crate::go_text::{wrong_field, wrong_value};
use crate::objects::{self, Objects, Outcome};
use crate::properties::{
    self, GROUP, KIND, PACKAGE_NAME, Property, RELEASE, VALUE, VERSION, VERSION_RANGE, field,
};
use crate::settings::Settings;
use crate::{image, names, spelling};

/// Bytes of a release.
const LONGEST_RELEASE: usize = 20;

/// An `olm.bundle` blob.
pub(crate) struct Bundle {
    pub(crate) at: u32,
    pub(crate) name: String,
    pub(crate) package: String,
    /// The version, where there is exactly one and it is sound.
    pub(crate) version: Option<Version>,
    /// Version and release, as they identify the bundle in its package.
    pub(crate) label: Option<String>,
}

impl Bundle {
    /// Path of the name.
    pub(crate) fn name_field(&self) -> String {
        place(self.at, ".name")
    }
}

/// What the properties of a bundle say.
#[derive(Default)]
struct Found {
    /// Properties of type `olm.package`: how many, and the first.
    packages: u32,
    package: Option<PackageProperty>,
    /// The provided APIs, from properties and from a ClusterServiceVersion.
    listed: BTreeSet<String>,
    provided: BTreeSet<String>,
    objects: u32,
}

struct PackageProperty {
    index: u32,
    name: String,
    version: String,
    release: String,
    /// What keeps the value from being read.
    error: Option<(&'static str, String)>,
}

/// Judges a bundle by itself.
pub(crate) fn judge(
    blob: &Blob<'_>,
    meta: &Meta,
    settings: &Settings,
    objects: &mut Objects,
    findings: &mut Findings<'_>,
) -> Bundle {
    let mut bundle = Bundle {
        at: blob.at,
        name: meta.name.as_str().to_owned(),
        package: meta.package.as_str().to_owned(),
        version: None,
        label: None,
    };
    if meta.package.is_lacking() {
        let message = format!("package name must be set for bundle {}", quote(&bundle.name));
        findings.add("FBC-26", blob.path(), message);
    }
    if meta.name.is_lacking() {
        findings.add("FBC-26", blob.path(), "name must be set");
    }
    let mut found = Found::default();
    let mut reader = Reader { blob, bundle: &bundle, objects, found: &mut found };
    let readable = properties::judge(blob, meta, settings, findings, |property, to| {
        reader.property(property, to);
    });
    for api in found.provided.difference(&found.listed) {
        let message = format!("provided API {api} has no olm.gvk property");
        findings.add("FBC-39", blob.field("properties"), message);
    }
    images(blob, &bundle, settings, found.objects > 0, findings);
    if readable {
        identity(blob, &mut bundle, found, findings);
    }
    bundle
}

/// FBC-33 to FBC-36: the one property that says which bundle this is.
fn identity(blob: &Blob<'_>, bundle: &mut Bundle, found: Found, findings: &mut Findings<'_>) {
    let package = || quote(&bundle.package);
    let name = || quote(&bundle.name);
    let (1, Some(property)) = (found.packages, found.package) else {
        let message = format!(
            "package {} bundle {} must have exactly 1 \"olm.package\" property, found {}",
            package(),
            name(),
            found.packages
        );
        let field = match blob.kind("properties") {
            Kind::Missing => blob.path(),
            _ => blob.field("properties"),
        };
        findings.add("FBC-33", field, message);
        return;
    };
    let place = |inner: &str| field(blob, property.index, inner);
    if let Some((inner, why)) = property.error {
        let message = format!(
            "parse properties for bundle {}: parse property[{}] of type \"olm.package\": {why}",
            name(),
            property.index
        );
        findings.add("FBC-35", place(inner), message);
        return;
    }
    if !bundle.package.is_empty() && bundle.package != property.name {
        let message = format!(
            "package {} does not match \"olm.package\" property {}",
            package(),
            quote(&property.name)
        );
        findings.add("FBC-34", place(".value.packageName"), message);
    }
    let version = match Version::parse(&property.version) {
        Ok(version) => version,
        Err(why) => {
            let version = quote(&property.version);
            let message = format!("error parsing bundle {} version {version}: {why}", name());
            findings.add("FBC-35", place(".value.version"), message);
            return;
        }
    };
    let mut label = property.version;
    if !property.release.is_empty() {
        if let Err(why) = release(&property.release) {
            let release = quote(&property.release);
            let message =
                format!("error parsing bundle {} release version {release}: {why}", name());
            findings.add("FBC-36", place(".value.release"), message);
            return;
        }
        label = format!("{label}-{}", property.release);
        let normalized = format!("{}-v{label}", bundle.package);
        if bundle.name != normalized {
            let normalized = quote(&normalized);
            let message = format!("name {} does not match normalized name {normalized}", name());
            findings.add("FBC-36", bundle.name_field(), message);
        }
        if version.has_build {
            let message = "cannot use build metadata in version with a release version";
            findings.add("FBC-36", place(".value.version"), message);
        }
    }
    bundle.version = Some(version);
    bundle.label = Some(label);
}

/// What upstream says against a release.
fn release(text: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("invalid release {}: {why}", quote(text)));
    if text.len() > LONGEST_RELEASE {
        return wrong(&format!("exceeds maximum length of {LONGEST_RELEASE} characters"));
    }
    let errors = text.split('.').enumerate().filter_map(|(index, segment)| {
        Identifier::parse(segment).err().map(|why| format!("segment {index}: {why}"))
    });
    let errors: Vec<_> = errors.collect();
    if errors.is_empty() { Ok(()) } else { wrong(&errors.join("\n")) }
}

/// FBC-27 to FBC-29.
fn images(
    blob: &Blob<'_>,
    bundle: &Bundle,
    settings: &Settings,
    has_objects: bool,
    findings: &mut Findings<'_>,
) {
    let whose = || format!("package {} bundle {}", quote(&bundle.package), quote(&bundle.name));
    let image = blob.text_of("image").filter(|image| !image.is_empty());
    if let Some(image) = image {
        if let Some(why) = image::error(&image) {
            let message =
                format!("{} image: invalid image pull spec {}: {why}", whose(), quote(&image));
            findings.add("FBC-28", blob.field("image"), message);
        }
    } else {
        let kind = blob.kind("image");
        let may_lack = matches!(kind, Kind::Missing | Kind::Null | Kind::Text);
        if !(may_lack && has_objects && settings.object_only_bundles) {
            let field = if kind == Kind::Missing { blob.path() } else { blob.field("image") };
            findings.add("FBC-27", field, "bundle image must be set");
        }
    }
    match blob.kind("relatedImages") {
        Kind::List => {}
        Kind::Missing | Kind::Null => return,
        _ => {
            findings.add("FBC-29", blob.field("relatedImages"), "relatedImages: must be a list");
            return;
        }
    }
    let list = || blob.field("relatedImages");
    let rows = blob.rows(&blob.pointer("relatedImages"), &["/image", "/name"]);
    for (index, row) in (0_u32..).zip(rows.iter()) {
        let wanting =
            |member: &str| format!("relatedImages[{index}].{member}: must be a non-empty string");
        let place = |member: &str, kind: Kind| match kind {
            Kind::Missing => format!("{}[{index}]", list()),
            _ => format!("{}[{index}].{member}", list()),
        };
        if let Some(image) = row.text(0).filter(|image| !image.is_empty()) {
            if let Some(why) = image::error(image) {
                let message = format!(
                    "{} relatedImages[{index}].image: invalid image pull spec {}: {why}",
                    whose(),
                    quote(image)
                );
                findings.add("FBC-28", place("image", Kind::Text), message);
            }
        } else {
            let item = format!("{}/{index}", blob.pointer("relatedImages"));
            let message = wanting("image") + &spelling::hint(blob.value(), &item, "image");
            findings.add("FBC-29", place("image", row.kind(0)), message);
        }
        match (row.text(1), row.kind(1)) {
            (Some(name), _) if !name.is_empty() => {}
            (None, Kind::Missing | Kind::Null) => {}
            _ => findings.add("FBC-29", place("name", Kind::Text), wanting("name")),
        }
    }
}

/// Reads the properties of a bundle, one after the other.
struct Reader<'r, 'd> {
    blob: &'r Blob<'d>,
    bundle: &'r Bundle,
    objects: &'r mut Objects,
    found: &'r mut Found,
}

impl Reader<'_, '_> {
    fn property(&mut self, property: &Property<'_>, findings: &mut Findings<'_>) {
        match property.name {
            "olm.package" => {
                self.found.packages += 1;
                if self.found.package.is_none() {
                    self.found.package = Some(PackageProperty::of(property));
                }
            }
            "olm.gvk" | "olm.gvk.required" => self.api(property, findings),
            "olm.package.required" => self.required_package(property, findings),
            "olm.bundle.object" => self.object(property, findings),
            "olm.bundle.mediatype" => {
                let value = property.text(VALUE);
                if !matches!(value, "plain+v0" | "registry+v1") {
                    let message = format!(
                        "olm.bundle.mediatype {} is neither plain+v0 nor registry+v1",
                        quote(value)
                    );
                    findings.add("FBC-42", field(self.blob, property.index, ".value"), message);
                }
            }
            "olm.csv.metadata" => {
                let rows = |inner: &str, columns: &[&str]| {
                    self.blob.rows(&property.pointer(inner), columns)
                };
                self.found.provided.extend(objects::owned_by_metadata(rows));
            }
            _ => {}
        }
    }

    /// FBC-37, and of FBC-39 what is listed twice.
    fn api(&mut self, property: &Property<'_>, findings: &mut Findings<'_>) {
        let mut complain = |inner: &str, why: &str| {
            let (index, kind) = (property.index, quote(property.name));
            let message = format!("property[{index}] of type {kind}: {why}");
            findings.add("FBC-37", field(self.blob, index, inner), message);
        };
        if property.kind(VALUE) != Kind::Object {
            complain(".value", &wrong_value(property.kind(VALUE), "property.GVK"));
            return;
        }
        let mut texts = Vec::with_capacity(3);
        for (name, inner, column) in [
            ("group", ".value.group", GROUP),
            ("version", ".value.version", VERSION),
            ("kind", ".value.kind", KIND),
        ] {
            let text = property.text(column);
            let error = match name {
                _ if text.is_empty() => {
                    let hint = property.hint(name);
                    complain(inner, &format!("{name} must be a non-empty string{hint}"));
                    continue;
                }
                "group" => names::group_error(text),
                "version" => names::version_error(text),
                _ => names::kind_error(text),
            };
            match error {
                Some(why) => complain(inner, why),
                None => texts.push(text),
            }
        }
        if property.name == "olm.gvk"
            && let [group, version, kind] = texts.as_slice()
        {
            let api = objects::api(group, version, kind);
            if self.found.listed.contains(&api) {
                let message = format!("olm.gvk {api} is listed more than once");
                findings.add("FBC-39", field(self.blob, property.index, ".value"), message);
            } else {
                self.found.listed.insert(api);
            }
        }
    }

    /// FBC-38.
    fn required_package(&self, property: &Property<'_>, findings: &mut Findings<'_>) {
        let index = property.index;
        let mut complain = |inner: &str, why: &str| {
            let message = format!("property[{index}] of type \"olm.package.required\": {why}");
            findings.add("FBC-38", field(self.blob, index, inner), message);
        };
        if property.kind(VALUE) != Kind::Object {
            let why = wrong_value(property.kind(VALUE), "property.PackageRequired");
            complain(".value", &why);
            return;
        }
        let wanting = |name| format!("{name} must be a non-empty string{}", property.hint(name));
        if property.text(PACKAGE_NAME).is_empty() {
            complain(".value.packageName", &wanting("packageName"));
        }
        let range = property.text(VERSION_RANGE);
        if range.is_empty() {
            complain(".value.versionRange", &wanting("versionRange"));
        } else if let Err(why) = Range::parse(range) {
            complain(".value.versionRange", &why);
        }
    }

    /// FBC-41.
    fn object(&mut self, property: &Property<'_>, findings: &mut Findings<'_>) {
        self.found.objects += 1;
        let index = property.index;
        if !findings.is_on("FBC-41") && !findings.is_on("FBC-39") {
            return;
        }
        let item = property.document();
        let (inner, what, why) = match self.objects.read(item) {
            Outcome::Object(None) => return,
            Outcome::Object(Some(object)) => {
                self.found.provided.extend(objects::owned_by(&object));
                return;
            }
            Outcome::LeftOut => {
                findings.left_out("FBC-41");
                return;
            }
            Outcome::NoProperty(why) => {
                let what = format!("parse property at index {index} as bundle object");
                (".value", what, why)
            }
            Outcome::NoObject(why) => {
                let what = format!("convert bundle object property at index {index} to JSON");
                (".value", what, why)
            }
        };
        let inner = if item.has("/value/data") { ".value.data" } else { inner };
        let (package, name) = (quote(&self.bundle.package), quote(&self.bundle.name));
        let whose = joined([package.as_str(), ", bundle ", name.as_str()], "");
        let message = format!("read bundle objects: package {whose}: {what}: {why}");
        findings.add("FBC-41", field(self.blob, index, inner), message);
    }
}

impl PackageProperty {
    fn of(property: &Property<'_>) -> Self {
        let mut found = Self {
            index: property.index,
            name: property.text(PACKAGE_NAME).to_owned(),
            version: String::new(),
            release: String::new(),
            error: None,
        };
        if property.kind(VALUE) != Kind::Object {
            let why = wrong_value(property.kind(VALUE), "property.Package");
            found.error = Some((".value", why));
            return found;
        }
        for (inner, column, struct_field, text) in [
            (".value.version", VERSION, "Package.version", &mut found.version),
            (".value.release", RELEASE, "Package.release", &mut found.release),
        ] {
            match property.kind(column) {
                Kind::Text => property.text(column).clone_into(text),
                Kind::Missing | Kind::Null => {}
                kind => {
                    let why = wrong_field(kind, struct_field, "string");
                    found.error.get_or_insert((inner, why));
                }
            }
        }
        // `Release` would go unnoticed, and so would the others be told to be empty.
        let names = [("packageName", PACKAGE_NAME), ("version", VERSION), ("release", RELEASE)];
        let missing = names.iter().filter(|(_, column)| property.kind(*column) == Kind::Missing);
        let missing: Vec<_> = missing.map(|(name, _)| *name).collect();
        let known = names.len().saturating_sub(missing.len());
        if property.members().map(usize::try_from) != Some(Ok(known)) {
            let hints = missing.into_iter().map(|name| (name, property.hint(name)));
            if let Some((name, hint)) = hints.into_iter().find(|(_, hint)| !hint.is_empty()) {
                let why = format!("{name} must be set{hint}");
                found.error.get_or_insert((".value", why));
            }
        }
        found
    }
}
