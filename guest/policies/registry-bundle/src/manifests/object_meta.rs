//! The metadata of an object, for [`RBF_12`]: what `ValidateObjectMeta` of apimachinery checks and a
//! bundle needs. Upstream also refuses a namespace. No document says so, and it is not checked here.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Report, escape, names};

use crate::manifests::{CRD, CSV, Manifest, RBF_12};

/// What is wrong with the metadata of one object.
struct Metadata<'m, 'r, 's> {
    manifest: &'m Manifest<'m>,
    report: &'r mut Report<'s>,
}

pub(crate) fn judge(object: &Document, manifest: &Manifest<'_>, report: &mut Report<'_>) {
    // What is no object at all is reported for the file.
    if manifest.kind.is_empty() {
        return;
    }
    let mut metadata = Metadata { manifest, report };
    if object.has("/metadata") && object.kind("/metadata") != Kind::Object {
        metadata.cannot_parse("metadata", "metadata is not an object");
        return;
    }
    // Names of ClusterServiceVersions and CRDs have rules of their own.
    let named = object.has("/metadata/name") || object.has("/metadata/generateName");
    if !named && manifest.kind != CSV && manifest.kind != CRD {
        let error = "metadata.name: Required value: name or generateName is required";
        metadata.invalid("metadata.name", error);
    }
    metadata.map(object, "labels", true);
    metadata.map(object, "annotations", false);
    metadata.owners(object);
}

impl Metadata<'_, '_, '_> {
    fn invalid(&mut self, field: &str, error: &str) {
        // Upstream prints the Go struct; its kind and name say as much.
        let Manifest { api_version, kind, name, .. } = self.manifest;
        let message = format!(
            "error validating object metadata: {error}. {api_version} {kind} {}",
            quote(name)
        );
        self.report.add(&RBF_12, self.manifest.file.within(field), message);
    }

    fn cannot_parse(&mut self, field: &str, why: &str) {
        let file = self.manifest.file;
        let message = format!("{}: cannot parse manifest: {why}", file.path);
        self.report.add(&RBF_12, file.within(field), message);
    }

    /// Labels or annotations: keys, and the values of labels.
    fn map(&mut self, object: &Document, member: &str, is_labels: bool) {
        let pointer = format!("/metadata/{member}");
        if !object.has(&pointer) {
            return;
        }
        let field = format!("metadata.{member}");
        let Some(map) = object.at(&pointer).filter(|map| map.kind("") == Kind::Object) else {
            self.cannot_parse(&field, &format!("{field} is not an object"));
            return;
        };
        for key in map.keys("") {
            let entry = format!("{field}[{key}]");
            // Upstream looks at the keys of annotations in lower case.
            let looked_at = if is_labels { key.clone() } else { key.to_lowercase() };
            if let Some(why) = names::label_key_error(&looked_at) {
                let error = format!("{field}: Invalid value: {}: {why}", quote(&key));
                self.invalid(&entry, &error);
            }
            let value = format!("/{}", escape(&key));
            match map.text(&value) {
                Some(text) if is_labels => {
                    if let Some(why) = names::label_value_error(&text) {
                        let error = format!("{field}: Invalid value: {}: {why}", quote(&text));
                        self.invalid(&entry, &error);
                    }
                }
                None if map.has(&value) => {
                    self.cannot_parse(&entry, &format!("{entry} is not a text"));
                }
                _ => {}
            }
        }
    }

    fn owners(&mut self, object: &Document) {
        let pointer = "/metadata/ownerReferences";
        let field = "metadata.ownerReferences";
        if object.has(pointer) && object.kind(pointer) != Kind::List {
            self.cannot_parse(field, "metadata.ownerReferences is not a list");
        }
        let mut controller: Option<String> = None;
        for (index, owner) in object.items(pointer).enumerate() {
            let at = format!("{field}[{index}]");
            let version = owner.text_or_empty("/apiVersion");
            if version.rsplit('/').next().unwrap_or_default().is_empty() {
                let place = format!("{at}.apiVersion");
                let error = format!(
                    "{place}: Invalid value: {}: version must not be empty",
                    quote(&version)
                );
                self.invalid(&place, &error);
            }
            for member in ["kind", "name", "uid"] {
                if owner.text_or_empty(&format!("/{member}")).is_empty() {
                    let place = format!("{at}.{member}");
                    let error = format!("{place}: Invalid value: \"\": must not be empty");
                    self.invalid(&place, &error);
                }
            }
            if owner.boolean("/controller") == Some(true) {
                let name = owner.text_or_empty("/name");
                if let Some(first) = &controller {
                    let error = format!(
                        "{field}: Invalid value: Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                    );
                    self.invalid(&at, &error);
                } else {
                    controller = Some(name);
                }
            }
        }
    }
}
