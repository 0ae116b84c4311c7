//! What every blob must be: FBC-01, FBC-02, FBC-07, FBC-08 and the keys of FBC-43.
//!
//! Upstream finds the members of a blob whatever the case of their names; so does [`Blob`].
//!
//! A call of the host costs more than most of what a rule does. So the usual members of all blobs come
//! in one table; whatever else somebody wants to know of a blob, or of one that spells them
//! otherwise, is asked for.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Row, Rows, escape};

use crate::findings::{Findings, LONGEST, joined};
use crate::go_text;
use crate::settings::Settings;

pub(crate) const PACKAGE: &str = "olm.package";
pub(crate) const CHANNEL: &str = "olm.channel";
pub(crate) const BUNDLE: &str = "olm.bundle";
pub(crate) const DEPRECATIONS: &str = "olm.deprecations";

/// The table of all blobs: the value, and its usual members in the order of [`USUAL`].
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
const USUAL: [&str; 7] =
    ["schema", "package", "name", "image", "properties", "relatedImages", "entries"];

/// All blobs of a document.
pub(crate) fn table(document: &Document) -> Rows {
    document.rows("/spec/blobs", &COLUMNS)
}

/// A blob while it is read.
pub(crate) struct Blob<'d> {
    document: &'d Document,
    /// Its index in the document.
    pub(crate) at: u32,
    row: Row<'d>,
    /// Whether it has none but the usual members, in their usual spelling.
    is_usual: bool,
    keys: OnceCell<Vec<String>>,
    value: OnceCell<Option<Document>>,
}

/// The members that say what a blob is. Where one is of the wrong type, nothing more is said about
/// it.
pub(crate) struct Meta {
    pub(crate) schema: Text,
    pub(crate) package: Text,
    pub(crate) name: Text,
}

/// A text of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text {
    Missing,
    /// Of the wrong type, and reported.
    Wrong,
    Is(String),
}

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Is(text) => text,
            Self::Missing | Self::Wrong => "",
        }
    }

    /// Whether it lacks, and nobody has said so yet.
    pub(crate) fn is_lacking(&self) -> bool {
        *self != Self::Wrong && self.as_str().is_empty()
    }
}

/// Path of a place in a blob. `inner` starts with a dot, or is empty.
pub(crate) fn place(at: u32, inner: &str) -> String {
    format!("spec.blobs[{at}].value{inner}")
}

impl<'d> Blob<'d> {
    /// A blob from its row of the table of the document.
    pub(crate) fn new(document: &'d Document, at: u32, row: Row<'d>) -> Self {
        let usual = (1..COLUMNS.len()).filter(|column| row.kind(*column) != Kind::Missing).count();
        let is_usual = row.length(0).map(usize::try_from) == Some(Ok(usual));
        Self { document, at, row, is_usual, keys: OnceCell::new(), value: OnceCell::new() }
    }

    /// What the blob is.
    pub(crate) fn kind_of_all(&self) -> Kind {
        self.row.kind(0)
    }

    /// The blob itself, for what is not in its row.
    pub(crate) fn value(&self) -> &Document {
        let found = self.value.get_or_init(|| self.document.at(&self.absolute("")));
        // A blob that has a row is there.
        found.as_ref().unwrap_or(self.document)
    }

    /// Pointer, from the document, of a place in the blob.
    pub(crate) fn absolute(&self, pointer: &str) -> String {
        ["/spec/blobs/", &self.at.to_string(), "/value", pointer].concat()
    }

    /// The elements of a list in the blob.
    pub(crate) fn rows(&self, pointer: &str, columns: &[&str]) -> Rows {
        self.document.rows(&self.absolute(pointer), columns)
    }

    /// The column of a member, where the row says all about it.
    fn column(&self, name: &str) -> Option<usize> {
        let position = USUAL.iter().position(|usual| *usual == name)?;
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
        place(self.at, &format!(".{}", self.key(name)))
    }

    /// Path of the blob.
    pub(crate) fn path(&self) -> String {
        place(self.at, "")
    }

    /// Judges what every blob has in common.
    pub(crate) fn judge(&self, settings: &Settings, findings: &mut Findings<'_>) -> Meta {
        self.unique_keys(findings);
        let schema = self.text("schema", findings);
        if schema.is_lacking() {
            findings.add("FBC-01", self.path(), self.without_schema());
        }
        let package = self.text("package", findings);
        let name = self.text("name", findings);
        if let Text::Is(schema) = &schema
            && !schema.is_empty()
        {
            self.known_schema(schema, settings, findings);
            // The others say themselves that they need a package.
            if !matches!(schema.as_str(), CHANNEL | BUNDLE | DEPRECATIONS)
                && package == Text::Is(String::new())
            {
                let message =
                    "package is optional, but if it's defined, it must be a non-empty string";
                findings.add("FBC-02", self.field("package"), message);
            }
        }
        Meta { schema, package, name }
    }

    /// FBC-02 for one of the members.
    fn text(&self, name: &str, findings: &mut Findings<'_>) -> Text {
        if let Some(text) = self.text_of(name) {
            return Text::Is(text);
        }
        if self.kind(name) == Kind::Missing {
            return Text::Missing;
        }
        let pointer = self.pointer(name);
        let [found, written] = [true, false].map(|t| go_text::value(self.value(), &pointer, t));
        let message = format!(
            "expected value for key {} to be a string, got {found}: {written}",
            quote(self.key(name))
        );
        findings.add("FBC-02", self.field(name), message);
        Text::Wrong
    }

    /// The message has the blob, unless it is so large that nobody would read it.
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
        let blob = raw.filter(|raw| raw.len() < LONGEST).unwrap_or_else(|| {
            format!("{{{}}}", joined(self.keys().iter().map(String::as_str), ", "))
        });
        format!("object '{blob}' is missing root schema field")
    }

    /// FBC-07 and FBC-08.
    fn known_schema(&self, schema: &str, settings: &Settings, findings: &mut Findings<'_>) {
        if schema.starts_with("olm.") {
            let known = [PACKAGE, CHANNEL, BUNDLE, DEPRECATIONS].contains(&schema)
                || settings.reserved_schemas.iter().any(|reserved| reserved == schema);
            if !known {
                let message = format!(
                    "schema {}: all olm.* schemas are reserved for OLM-defined schemas",
                    quote(schema)
                );
                findings.add("FBC-07", self.field("schema"), message);
            }
        } else if !schema.contains('.') {
            let message = format!(
                "custom schema {} must use a unique prefix, such as a domain that you own",
                quote(schema)
            );
            findings.add("FBC-08", self.field("schema"), message);
        }
    }

    /// FBC-43: keys are unique whatever their case.
    fn unique_keys(&self, findings: &mut Findings<'_>) {
        if self.is_usual {
            return;
        }
        let mut folded: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for key in self.keys() {
            folded.entry(key.to_lowercase()).or_default().push(key);
        }
        for (key, keys) in folded.iter().filter(|(_, keys)| keys.len() > 1) {
            let all = joined(keys.iter().copied(), " ");
            let message = format!("duplicate keys for key {}: [{all}]", quote(key));
            findings.add("FBC-43", self.path(), message);
        }
    }
}
