//! The metadata of an object, for [`RBF_12`]: the checks of `ValidateObjectMetaAccessor` of
//! apimachinery for an object without a namespace, as `opm alpha bundle validate` and `operator-sdk
//! bundle validate` call it.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Fix, Kind, Report, corrections, escape, names};

use crate::manifests::{CSV, Manifest, RBF_12};

/// The violations in the metadata of one object.
struct MetadataChecker<'m, 'r, 's> {
    manifest: &'m Manifest<'m>,
    report: &'r mut Report<'s>,
}

pub(crate) fn check(object: &Document, manifest: &Manifest<'_>, report: &mut Report<'_>) {
    // A value that is not an object is reported for the file.
    if manifest.kind.is_empty() {
        return;
    }
    let mut metadata = MetadataChecker { manifest, report };
    if object.has("/metadata") && object.kind("/metadata") != Kind::Object {
        metadata.report_unparsable("metadata", "metadata is not an object");
        return;
    }
    // Contrary to upstream's message, a generateName is not enough.
    if manifest.name.is_empty() {
        let error = "metadata.name: Required value: name or generateName is required";
        metadata.report_invalid("metadata.name", error);
    }
    // Upstream does not check a ClusterServiceVersion further. Separate rules evaluate its
    // annotations.
    if manifest.kind != CSV && !object.text_or_empty("/metadata/namespace").is_empty() {
        let error = "metadata.namespace: Forbidden: not allowed on this type";
        metadata.report_invalid("metadata.namespace", error);
        let pointer = manifest.file.pointer("/metadata/namespace");
        let fix = || Some(Fix::safe("remove the namespace").remove(pointer));
        metadata.report.set_fix(&RBF_12, fix);
    }
    metadata.check_map(object, "labels", true);
    metadata.check_map(object, "annotations", false);
    metadata.check_owners(object);
    metadata.check_finalizers(object);
}

impl MetadataChecker<'_, '_, '_> {
    fn report_invalid(&mut self, field: &str, error: &str) {
        // Upstream prints the Go struct; the kind and the name identify the owner as well.
        let Manifest { api_version, kind, name, .. } = self.manifest;
        let message = format!(
            "error validating object metadata: {error}. {api_version} {kind} {}",
            quote(name)
        );
        self.report.add(&RBF_12, self.manifest.file.within(field), message);
    }

    fn report_unparsable(&mut self, field: &str, why: &str) {
        let file = self.manifest.file;
        let message = format!("{}: cannot parse manifest: {why}", file.path);
        self.report.add(&RBF_12, file.within(field), message);
    }

    /// Labels or annotations: keys, and the values of labels.
    fn check_map(&mut self, object: &Document, member: &str, is_labels: bool) {
        let pointer = format!("/metadata/{member}");
        if !object.has(&pointer) {
            return;
        }
        let field = format!("metadata.{member}");
        let Some(map) = object.at(&pointer).filter(|map| map.kind("") == Kind::Object) else {
            self.report_unparsable(&field, &format!("{field} is not an object"));
            return;
        };
        for key in map.keys("") {
            let entry = format!("{field}[{key}]");
            // Upstream checks the keys of annotations in lower case.
            let looked_at = if is_labels { key.clone() } else { key.to_lowercase() };
            if let Some(why) = names::label_key_error(&looked_at) {
                let error = format!("{field}: Invalid value: {}: {why}", quote(&key));
                self.report_invalid(&entry, &error);
            }
            let value = format!("/{}", escape(&key));
            match map.text(&value) {
                Some(text) if is_labels => {
                    if let Some(why) = names::label_value_error(&text) {
                        let error = format!("{field}: Invalid value: {}: {why}", quote(&text));
                        self.report_invalid(&entry, &error);
                    }
                }
                None if map.has(&value) => {
                    self.report_unparsable(&entry, &format!("{entry} is not a text"));
                    let place = self.manifest.file.pointer(&pointer);
                    let fix = || corrections::string_fix(&map, &value, !is_labels);
                    self.report.set_fix(&RBF_12, || fix().map(|fix| fix.below(&place)));
                }
                _ => {}
            }
        }
    }

    fn check_owners(&mut self, object: &Document) {
        let pointer = "/metadata/ownerReferences";
        let field = "metadata.ownerReferences";
        if object.has(pointer) && object.kind(pointer) != Kind::List {
            self.report_unparsable(field, "metadata.ownerReferences is not a list");
        }
        let mut controller: Option<String> = None;
        for (index, owner) in object.items(pointer).enumerate() {
            let at = format!("{field}[{index}]");
            let version = owner.text_or_empty("/apiVersion");
            if version.rsplit('/').next().unwrap_or_default().is_empty() {
                let error = format!(
                    "{field}.apiVersion: Invalid value: {}: version must not be empty",
                    quote(&version)
                );
                self.report_invalid(&format!("{at}.apiVersion"), &error);
            }
            for member in ["kind", "name", "uid"] {
                if owner.text_or_empty(&format!("/{member}")).is_empty() {
                    let error = format!("{field}.{member}: Invalid value: \"\": must not be empty");
                    self.report_invalid(&format!("{at}.{member}"), &error);
                }
            }
            if version == "v1" && owner.text_or_empty("/kind") == "Event" {
                let name = quote(&owner.text_or_empty("/name"));
                let uid = quote(&owner.text_or_empty("/uid"));
                let error = format!(
                    r#"{field}: Invalid value: {{"apiVersion":"v1","kind":"Event","name":{name},"uid":{uid}}}: /v1, Kind=Event is disallowed from being an owner"#
                );
                self.report_invalid(&at, &error);
            }
            if owner.boolean("/controller") == Some(true) {
                let name = owner.text_or_empty("/name");
                if let Some(first) = &controller {
                    let error = format!(
                        "{field}: Invalid value: Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                    );
                    self.report_invalid(&at, &error);
                } else {
                    controller = Some(name);
                }
            }
        }
    }

    fn check_finalizers(&mut self, object: &Document) {
        let pointer = "/metadata/finalizers";
        let field = "metadata.finalizers";
        if object.has(pointer) && object.kind(pointer) != Kind::List {
            self.report_unparsable(field, "metadata.finalizers is not a list");
        }
        let mut deletions = Vec::new();
        for (index, name) in object.items(pointer).enumerate() {
            let at = format!("{field}[{index}]");
            let Some(name) = name.text("") else {
                self.report_unparsable(&at, &format!("{at} is not a text"));
                continue;
            };
            if let Some(why) = names::label_key_error(&name) {
                let error = format!("{field}: Invalid value: {}: {why}", quote(&name));
                self.report_invalid(&at, &error);
            }
            if ["orphan", "foregroundDeletion"].contains(&name.as_str()) {
                deletions.push(name);
            }
        }
        let both = |name: &str| deletions.iter().any(|found| found == name);
        if both("orphan") && both("foregroundDeletion") {
            let all: Vec<_> = object.texts(pointer).iter().map(|name| quote(name)).collect();
            let error = format!(
                "{field}: Invalid value: [{}]: finalizer orphan and foregroundDeletion cannot be both set",
                all.join(",")
            );
            self.report_invalid(field, &error);
        }
    }
}
