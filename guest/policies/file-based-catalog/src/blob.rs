//! The requirements on every blob.
//!
//! Upstream matches the members of a blob without regard to the case of their names; so does
//! [`Blob`].
//!
//! A host call costs more than most operations of a rule. So one table has the usual members of all
//! blobs. Other members, and the members of blobs with another spelling, need separate calls.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use opgate_sdk::go::quote;
use opgate_sdk::{
    Document, Fix, Kind, Report, Row, Rows, corrections, escape, go_format, rule, rules,
};

use crate::CATALOG;
use crate::files::FBC_43;
use crate::package_list;
use crate::settings::Settings;
use crate::text::{MAX_MESSAGE_BYTES, join};

rules![FBC_01, FBC_02, FBC_07, FBC_08];

pub(crate) const PACKAGE: &str = "olm.package";
pub(crate) const CHANNEL: &str = "olm.channel";
pub(crate) const BUNDLE: &str = "olm.bundle";
pub(crate) const DEPRECATIONS: &str = "olm.deprecations";

/// The table of all blobs: the value, and its usual members in the order of [`USUAL_MEMBERS`].
const COLUMNS: [&str; 8] = [
    "/value",
    "/value/schema",
    "/value/package",
    "/value/name",
    "/value/image",
    "/value/properties",
    "/value/relatedImages",
    "/value/entries",
];
/// The column of the schema of a blob.
pub(crate) const SCHEMA_COLUMN: usize = 1;
/// The column of the name of a blob.
pub(crate) const NAME_COLUMN: usize = 3;
const USUAL_MEMBERS: [&str; 7] =
    ["schema", "package", "name", "image", "properties", "relatedImages", "entries"];

/// All blobs of a document.
pub(crate) fn read_blobs(document: &Document) -> Rows {
    document.rows("/spec/blobs", &COLUMNS)
}

/// A blob while it is read.
pub(crate) struct Blob<'d> {
    document: &'d Document,
    /// Its index in the document.
    pub(crate) at: u32,
    row: Row<'d>,
    /// Whether it has only the usual members, in their usual spelling.
    is_usual: bool,
    keys: OnceCell<Vec<String>>,
    value: OnceCell<Option<Document>>,
}

/// The members that identify a blob. If one is of the wrong type, no further violation of it is
/// reported.
pub(crate) struct BlobIdentity {
    pub(crate) schema: Text,
    pub(crate) package: Text,
    pub(crate) name: Text,
}

/// A text of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text {
    Missing,
    /// A value of the wrong type, which is already reported.
    WrongType,
    Value(String),
}

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Value(text) => text,
            Self::Missing | Self::WrongType => "",
        }
    }

    /// Whether it is missing, and this is not reported yet.
    pub(crate) fn is_missing(&self) -> bool {
        *self != Self::WrongType && self.as_str().is_empty()
    }
}

/// Path of a value in a blob. `inner` starts with a dot, or is empty.
pub(crate) fn blob_path(at: u32, inner: &str) -> String {
    format!("spec.blobs[{at}].value{inner}")
}

impl<'d> Blob<'d> {
    /// A blob from its row of the table of the document.
    pub(crate) fn new(document: &'d Document, at: u32, row: Row<'d>) -> Self {
        let usual = (1..COLUMNS.len()).filter(|column| row.kind(*column) != Kind::Missing).count();
        let is_usual = row.length(0).map(usize::try_from) == Some(Ok(usual));
        Self { document, at, row, is_usual, keys: OnceCell::new(), value: OnceCell::new() }
    }

    /// The schema of the blob.
    pub(crate) fn kind_of_all(&self) -> Kind {
        self.row.kind(0)
    }

    /// The blob itself, for members that are not in its row.
    pub(crate) fn value(&self) -> &Document {
        let found = self.value.get_or_init(|| self.document.at(&self.absolute("")));
        // A blob with a row exists.
        found.as_ref().unwrap_or(self.document)
    }

    /// Whether the list of all packages of the catalog has a name.
    pub(crate) fn is_package_listed(&self, name: &str) -> bool {
        package_list::is_listed(self.document, name)
    }

    /// Pointer, from the document, of a value in the blob.
    pub(crate) fn absolute(&self, pointer: &str) -> String {
        ["/spec/blobs/", &self.at.to_string(), "/value", pointer].concat()
    }

    /// The elements of a list in the blob.
    pub(crate) fn rows(&self, pointer: &str, columns: &[&str]) -> Rows {
        self.document.rows(&self.absolute(pointer), columns)
    }

    /// Members of an object in the blob.
    pub(crate) fn fields(&self, pointer: &str, columns: &[String]) -> Rows {
        let columns: Vec<_> = columns.iter().map(String::as_str).collect();
        self.document.fields(&self.absolute(pointer), &columns)
    }

    /// Whether the catalog has a package of this name.
    pub(crate) fn has_package(&self, name: &str) -> bool {
        package_list::is_listed(self.document, name)
    }

    /// The column of a member, if the row has the complete information.
    fn column(&self, name: &str) -> Option<usize> {
        let position = USUAL_MEMBERS.iter().position(|usual| *usual == name)?;
        self.is_usual.then_some(position.saturating_add(1))
    }

    fn keys(&self) -> &[String] {
        self.keys.get_or_init(|| self.value().keys(""))
    }

    /// The name of a member as the blob spells it.
    fn key<'b>(&'b self, name: &'b str) -> &'b str {
        if self.is_usual {
            return name;
        }
        let exact = self.keys().iter().find(|key| *key == name);
        let folded = || self.keys().iter().find(|key| key.eq_ignore_ascii_case(name));
        exact.or_else(folded).map_or(name, String::as_str)
    }

    pub(crate) fn pointer(&self, name: &str) -> String {
        if self.is_usual {
            return ["/", name].concat();
        }
        format!("/{}", escape(self.key(name)))
    }

    pub(crate) fn kind(&self, name: &str) -> Kind {
        match self.column(name) {
            Some(column) => self.row.kind(column),
            None if self.is_usual => Kind::Missing,
            None => self.value().kind(&self.pointer(name)),
        }
    }

    /// The text of a member.
    pub(crate) fn text_of(&self, name: &str) -> Option<String> {
        match self.column(name) {
            Some(column) => self.row.text(column).map(str::to_owned),
            None if self.is_usual => None,
            None => self.value().text(&self.pointer(name)),
        }
    }

    /// Elements of a list, or members of an object.
    pub(crate) fn length(&self, name: &str) -> Option<u32> {
        match self.column(name) {
            Some(column) => self.row.length(column),
            None if self.is_usual => None,
            None => self.value().length(&self.pointer(name)),
        }
    }

    /// Path of a member.
    pub(crate) fn field(&self, name: &str) -> String {
        blob_path(self.at, &format!(".{}", self.key(name)))
    }

    /// Path of the blob.
    pub(crate) fn path(&self) -> String {
        blob_path(self.at, "")
    }
}

rule! {
    /// every blob has a schema
    ///
    /// Every blob needs the member `schema` with a non-empty string. Members that OLM does not know
    /// are allowed. FBC-02 reports a `schema` of another type. The message shows the blob, or only
    /// the names of its members if the blob is large or nested.
    ///
    /// # Why
    ///
    /// The schema defines the type of a blob, and `opm` does not load a blob without one (OpenShift
    /// 4.12, Operators, *File-based catalogs, Schemas*).
    ///
    /// # Remediation
    ///
    /// Set `schema`, or list a file that is not a catalog file in `.indexignore`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.package, name: etcd, defaultChannel: stable, x-custom: 1}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: "", name: etcd}
    /// ```
    ///
    /// `message: object '{"schema":"","name":"etcd"}' is missing root schema field`
    FBC_01: Deny {
        name: "catalog-blob-schema",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L660-668, L589, L689", "OCP 4.15 L500-539", "OKD L161-174", "operator-registry alpha/declcfg/load.go"],
    }
}

rule! {
    /// schema, package and name of a blob are strings, and package is not empty
    ///
    /// `schema`, `package` and `name` of a blob are strings if they are set; `null` is not a
    /// string. `package` is not empty if it is set. If an `olm.channel`, `olm.bundle` or
    /// `olm.deprecations` blob has an empty `package`, FBC-04, FBC-26 or FBC-47 reports it instead.
    ///
    /// # Why
    ///
    /// Otherwise `opm` cannot determine the package of a blob, and does not load the file
    /// (OpenShift 4.12, Operators, *File-based catalogs, Schemas*).
    ///
    /// # Remediation
    ///
    /// Write a string, in quotes if YAML would read a number. Remove an empty `package`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: example.com.notes, package: etcd}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: example.com.notes, package: 5}
    /// ---
    /// {schema: example.com.notes, package: ""}
    /// ```
    ///
    /// `message: expected value for key "package" to be a string, got %!t(float64=5): 5`
    ///
    /// `message: package is optional, but if it's defined, it must be a non-empty string`
    FBC_02: Deny {
        name: "catalog-blob-string-fields",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L670-671", "OCP 4.15 L500-539", "OKD L164-165", "operator-registry alpha/declcfg/declcfg.go"],
    }
}

impl Blob<'_> {
    /// Evaluates the common members of every blob.
    pub(crate) fn check(&self, settings: &Settings, report: &mut Report<'_>) -> BlobIdentity {
        self.check_unique_keys(report);
        let schema = self.check_text("schema", report);
        if schema.is_missing() {
            report.add(&FBC_01, self.path(), self.without_schema());
        }
        let package = self.check_text("package", report);
        let name = self.check_text("name", report);
        if let Text::Value(schema) = &schema
            && !schema.is_empty()
        {
            self.check_known_schema(schema, settings, report);
            // Other rules report a missing package for the other schemas.
            if !matches!(schema.as_str(), CHANNEL | BUNDLE | DEPRECATIONS)
                && package == Text::Value(String::new())
            {
                let message =
                    "package is optional, but if it's defined, it must be a non-empty string";
                report.add(&FBC_02, self.field("package"), message);
                report.set_fix(&FBC_02, || {
                    let pointer = self.absolute(&self.pointer("package"));
                    Some(Fix::safe("remove the empty package").remove(pointer))
                });
            }
        }
        BlobIdentity { schema, package, name }
    }

    /// Evaluates one of the members that are texts.
    fn check_text(&self, name: &str, report: &mut Report<'_>) -> Text {
        if let Some(text) = self.text_of(name) {
            return Text::Value(text);
        }
        if self.kind(name) == Kind::Missing {
            return Text::Missing;
        }
        let pointer = self.pointer(name);
        let [found, written] =
            [true, false].map(|t| go_format::format_value(self.value(), &pointer, t));
        let message = format!(
            "expected value for key {} to be a string, got {found}: {written}",
            quote(self.key(name))
        );
        report.add(&FBC_02, self.field(name), message);
        report.set_fix(&FBC_02, || {
            // The schema and the package decide to what the blob belongs.
            let fix = corrections::text_fix(self.value(), &pointer).filter(|_| name == "name")?;
            Some(fix.below(&self.absolute("")))
        });
        Text::WrongType
    }

    /// The message contains the blob, unless it is too large to be readable.
    fn without_schema(&self) -> String {
        let few = self.value().length("").unwrap_or_default() <= 8;
        let shallow = || {
            self.keys().iter().all(|key| {
                !matches!(
                    self.value().kind(&format!("/{}", escape(key))),
                    Kind::List | Kind::Object
                )
            })
        };
        let raw = if few && shallow() { self.value().raw("") } else { None };
        let raw = raw.and_then(|raw| String::from_utf8(raw).ok());
        let blob = raw.filter(|raw| raw.len() < MAX_MESSAGE_BYTES).unwrap_or_else(|| {
            format!("{{{}}}", join(self.keys().iter().map(String::as_str), ", "))
        });
        format!("object '{blob}' is missing root schema field")
    }
}

rule! {
    /// schemas that start with olm. are OLM's
    ///
    /// A `schema` that starts with `olm.` is one of `olm.package`, `olm.channel`, `olm.bundle` and
    /// `olm.deprecations`. The setting `catalog.reservedSchemas` lists further ones. Templates of
    /// `opm` (`olm.semver`, `olm.template.basic`, `olm.template.substitutes` and others that match
    /// `olm.template.*`) are the sources of catalogs: no rule is evaluated for them, and the audit
    /// annotation `skipped-rules` names this rule.
    ///
    /// # Why
    ///
    /// The prefix is reserved: a later version of OLM can use the same name with another meaning
    /// (OpenShift 4.12, Operators, *File-based catalogs, Schemas*).
    ///
    /// # Remediation
    ///
    /// Correct the spelling, or use your own prefix. For a schema of a later OLM, add it to
    /// `catalog.reservedSchemas`. Render a template with `opm alpha render-template`, and check the
    /// catalog that it prints.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: example.com.support, package: etcd}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.support, package: etcd}
    /// ```
    ///
    /// `message: schema "olm.support": all olm.* schemas are reserved for OLM-defined schemas`
    FBC_07: Deny {
        name: "reserved-olm-schemas",
        on: [CATALOG: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L693-700", "OCP 4.15 L531-539, L653-691", "OKD L176-184"],
    }
}

rule! {
    /// a custom schema has a prefix such as a domain
    ///
    /// A `schema` that does not start with `olm.` contains at least one period.
    ///
    /// # Why
    ///
    /// Catalogs can be composed of other catalogs. Without a unique prefix, the custom schemas of
    /// two authors can have the same name (OpenShift 4.12, Operators, *File-based catalogs,
    /// Schemas*).
    ///
    /// # Remediation
    ///
    /// Prefix the name of the schema with a domain that you own.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: example.com.support, package: etcd}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: support, package: etcd}
    /// ```
    ///
    /// `message: custom schema "support" must use a unique prefix, such as a domain that you own`
    FBC_08: Warn {
        name: "custom-schema-prefix",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L700", "OCP 4.15 L539"],
    }
}

/// Whether a schema is that of a template, from which `opm` renders a catalog.
fn is_template(schema: &str) -> bool {
    schema == "olm.semver" || schema.starts_with("olm.template.")
}

/// Reports templates as not evaluated: all blobs of a document, or some of them.
pub(crate) fn skip_templates(templates: usize, blobs: usize, report: &mut Report<'_>) {
    let why = "templates of opm are no catalogs: render them with opm alpha render-template";
    match templates {
        0 => {}
        all if all == blobs => report.skip(&FBC_07, "spec.blobs", why),
        _ => report.skip_part(&FBC_07, "spec.blobs", why),
    }
}

impl Blob<'_> {
    /// Whether the blob is a template. Templates are not catalogs, and no rule applies to them.
    pub(crate) fn is_template(&self, settings: &Settings) -> bool {
        let schema = self.text_of("schema").unwrap_or_default();
        is_template(&schema) && !settings.reserved_schemas.contains(&schema)
    }

    /// Evaluates a schema by its name.
    fn check_known_schema(&self, schema: &str, settings: &Settings, report: &mut Report<'_>) {
        if schema.starts_with("olm.") {
            let known = [PACKAGE, CHANNEL, BUNDLE, DEPRECATIONS].contains(&schema)
                || settings.reserved_schemas.iter().any(|reserved| reserved == schema);
            if !known {
                let message = format!(
                    "schema {}: all olm.* schemas are reserved for OLM-defined schemas",
                    quote(schema)
                );
                report.add(&FBC_07, self.field("schema"), message);
                report.set_fix(&FBC_07, || {
                    let (words, pointer) = ([PACKAGE, CHANNEL, BUNDLE, DEPRECATIONS], "/schema");
                    let pointer = self.absolute(&self.pointer(pointer.trim_start_matches('/')));
                    let spelt = corrections::spelling(&pointer, schema, &words);
                    spelt.or_else(|| {
                        let near = corrections::nearest(schema, &words)?;
                        Some(corrections::propose(pointer, near))
                    })
                });
            }
        } else if !schema.contains('.') {
            let message = format!(
                "custom schema {} must use a unique prefix, such as a domain that you own",
                quote(schema)
            );
            report.add(&FBC_08, self.field("schema"), message);
        }
    }
}

impl Blob<'_> {
    /// FBC-43: keys are unique, regardless of their case.
    fn check_unique_keys(&self, report: &mut Report<'_>) {
        if self.is_usual {
            return;
        }
        let mut folded: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for key in self.keys() {
            folded.entry(key.to_lowercase()).or_default().push(key);
        }
        for (key, keys) in folded.iter().filter(|(_, keys)| keys.len() > 1) {
            let all = join(keys.iter().copied(), " ");
            let message = format!("duplicate keys for key {}: [{all}]", quote(key));
            report.add(&FBC_43, self.path(), message);
        }
    }
}
