//! Annotations with templates that the console offers: the first custom resource, and the namespace
//! of the Operator.

use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Document, Kind, corrections, names, rule, rules};
use opgate_yaml::BooleanWords;

use super::{MAX_SHOWN_BYTES, field};
use crate::csv::{Csv, annotation};
use crate::targets::{CATALOG, CSV};

rules![CSV_59, CSV_60, CSV_61];

const RESOURCE: &str = "operatorframework.io/initialization-resource";
const NAMESPACE: &str = "operatorframework.io/suggested-namespace";
const NAMESPACE_TEMPLATE: &str = "operatorframework.io/suggested-namespace-template";

/// Maximum size of YAML that is read, in bytes. Reading YAML takes a hundred times as long as
/// reading JSON.
const MAX_YAML_BYTES: usize = 65_536;
/// Maximum size of the JSON to which YAML can expand, in bytes.
const MAX_JSON_BYTES: usize = 262_144;

const TOO_LARGE: &str = "the template is more than 64 KiB of YAML";

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    check_resource(csv);
    check_namespace(csv);
    check_namespace_template(csv);
}

/// The result of reading a template.
enum Template {
    Object(Document),
    /// The reason why the text is not a template.
    Invalid(String),
    TooLarge,
}

impl Template {
    /// Reads one object in JSON or YAML.
    fn read(text: &str) -> Self {
        let wrong = |why: &str| Self::Invalid(why.to_owned());
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(_) if text.len() > MAX_YAML_BYTES => return Self::TooLarge,
            Err(_) => match opgate_yaml::documents(text, BooleanWords::Yaml11, MAX_JSON_BYTES)
                .as_deref()
            {
                Ok([]) => return wrong("it is empty"),
                Ok([part]) => match Document::parse(&part.json) {
                    Ok(document) => document,
                    Err(why) => return Self::Invalid(why),
                },
                Ok(parts) => return Self::Invalid(format!("it has {} documents", parts.len())),
                Err(error) => return Self::Invalid(error.upstream_message()),
            },
        };
        if document.kind("") != Kind::Object {
            return wrong("it is not an object");
        }
        for (pointer, name) in
            [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")]
        {
            if document.text_or_empty(pointer).is_empty() {
                return Self::Invalid(format!("{name} is missing"));
            }
        }
        Self::Object(document)
    }
}

rule! {
    /// the initialization resource is a complete object
    ///
    /// The annotation `operatorframework.io/initialization-resource` is one object in JSON or YAML
    /// with the strings `apiVersion`, `kind` and `metadata.name`. In YAML it is one document. More
    /// than 64 KiB of YAML are not read, and the rule is reported as skipped. Before it is
    /// published, a wrong template is denied; at admission and in catalogs it is a warning, because
    /// OLM does not read the annotation. Copies are exempt. An UPDATE is evaluated only if it
    /// changes the annotation.
    ///
    /// # Why
    ///
    /// After the installation the console asks the user to create this object. It cannot show or
    /// create other values.
    ///
    /// # Remediation
    ///
    /// Write the complete object, as in a file for `kubectl create`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// operatorframework.io/initialization-resource: >-
    ///   {"apiVersion":"ocs.openshift.io/v1","kind":"StorageCluster",
    ///   "metadata":{"name":"example-storagecluster"},"spec":{"manageNodes":false}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// operatorframework.io/initialization-resource: '[]'
    /// ```
    ///
    /// `message: operatorframework.io/initialization-resource must include a template that contains
    /// a complete YAML definition: it is not an object`
    CSV_59: Deny {
        name: "complete-initialization-resource",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_in: [Bundle, Manifest],
        may_skip: true,
        source: ["OCP 4.12 L19383-19387, L20824-20892", "OCP 4.15 L14405, L15216-15342"],
    }
}

fn check_resource(csv: &mut Csv<'_, '_>) {
    let Some(text) = changed_text(csv, RESOURCE) else { return };
    match Template::read(&text) {
        Template::Object(_) => {}
        Template::Invalid(why) => {
            let message = format!(
                "{RESOURCE} must include a template that contains a complete YAML definition: {why}"
            );
            csv.add(&CSV_59, &field(RESOURCE), message);
        }
        Template::TooLarge => csv.report.skip(&CSV_59, &field(RESOURCE), TOO_LARGE),
    }
}

/// The text of an annotation that must be evaluated.
fn changed_text(csv: &Csv<'_, '_>, name: &str) -> Option<String> {
    csv.annotation(name).filter(|_| csv.touches_annotation(name))
}

rule! {
    /// the suggested namespace is the name of a namespace
    ///
    /// The annotation `operatorframework.io/suggested-namespace` is a DNS-1123 label: at most 63
    /// lower case letters, digits and hyphens, with a letter or digit at both ends. Copies are
    /// exempt. An UPDATE is evaluated only if it changes the annotation.
    ///
    /// # Why
    ///
    /// The console creates the Operator's namespace with this name, and the API server rejects any
    /// other.
    ///
    /// # Remediation
    ///
    /// Write the name of one namespace.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// operatorframework.io/suggested-namespace: openshift-storage
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// operatorframework.io/suggested-namespace: a,b
    /// ```
    ///
    /// `message: operatorframework.io/suggested-namespace "a,b" is not a valid namespace name`
    CSV_60: Warn {
        name: "valid-suggested-namespace",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19392-19396, L19947-19961", "OCP 4.15 L14408, L14722-14738"],
    }
}

fn check_namespace(csv: &mut Csv<'_, '_>) {
    let Some(name) = changed_text(csv, NAMESPACE) else { return };
    if !names::label_errors(&name).is_empty() {
        let shown = quote(&shorten(&name, MAX_SHOWN_BYTES));
        csv.add(
            &CSV_60,
            &field(NAMESPACE),
            format!("{NAMESPACE} {shown} is not a valid namespace name"),
        );
        csv.fix(&CSV_60, || {
            let lower = name.trim().to_ascii_lowercase();
            let is_valid = names::label_errors(&lower).is_empty();
            is_valid.then(|| corrections::write(annotation(NAMESPACE), &lower))
        });
    }
}

rule! {
    /// the template of the suggested namespace is a Namespace
    ///
    /// The annotation `operatorframework.io/suggested-namespace-template` is one object in JSON or
    /// YAML, of `apiVersion: v1` and `kind: Namespace`, with `metadata.name`. It replaces
    /// `operatorframework.io/suggested-namespace`. More than 64 KiB of YAML are not read, and the
    /// rule is reported as skipped. In files, the object itself may replace its text. Copies are
    /// exempt. An UPDATE is evaluated only if it changes the annotation.
    ///
    /// # Why
    ///
    /// The console creates the Operator's namespace from this template, and ignores a template that
    /// it cannot read.
    ///
    /// # Remediation
    ///
    /// Write the manifest of the namespace, with its labels and annotations.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// operatorframework.io/suggested-namespace-template: >-
    ///   {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a",
    ///   "annotations":{"openshift.io/node-selector":""}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// operatorframework.io/suggested-namespace-template: >-
    ///   {"apiVersion":"v1","kind":"Project","metadata":{"name":"x"}}
    /// ```
    ///
    /// `message: operatorframework.io/suggested-namespace-template is not a v1 Namespace manifest:
    /// it is a v1 Project`
    CSV_61: Warn {
        name: "valid-suggested-namespace-template",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        may_skip: true,
        source: ["OCP 4.15 L14409, L14740-14780"],
    }
}

fn check_namespace_template(csv: &mut Csv<'_, '_>) {
    let Some(text) = changed_text(csv, NAMESPACE_TEMPLATE) else { return };
    let why = match Template::read(&text) {
        Template::Object(object) => {
            let api_version = object.text_or_empty("/apiVersion");
            let kind = object.text_or_empty("/kind");
            if api_version == "v1" && kind == "Namespace" {
                return;
            }
            shorten(&format!("it is a {api_version} {kind}"), MAX_SHOWN_BYTES)
        }
        Template::Invalid(why) => why,
        Template::TooLarge => {
            return csv.report.skip(&CSV_61, &field(NAMESPACE_TEMPLATE), TOO_LARGE);
        }
    };
    let message = format!("{NAMESPACE_TEMPLATE} is not a v1 Namespace manifest: {why}");
    csv.add(&CSV_61, &field(NAMESPACE_TEMPLATE), message);
}
