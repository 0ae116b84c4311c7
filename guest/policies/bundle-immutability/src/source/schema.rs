//! The checks of RukPak's CRD.

use opgate_sdk::{Document, Rule, rule, rules};

use super::{Violation, entries, field, present_sources};
use crate::targets::BUNDLE;

rules![RPK_09, RPK_10, RPK_11];

pub(crate) fn find_violations(object: &Document, source: &str) -> Vec<Violation> {
    let members = present_sources(object, source);
    let mut found = Vec::new();
    found.extend(check_one_source(source, members.len()));
    found.extend(check_one_reference(object, source));
    check_required_fields(object, source, &members, &mut found);
    found
}

/// Reports a violation if not exactly one of several keys is set.
fn check_exactly_one(rule: &'static Rule, pointer: &str, count: usize) -> Option<Violation> {
    let alternatives = match count {
        0 => "none valid".to_owned(),
        1 => return None,
        count => format!("{count} valid alternatives"),
    };
    let field = field(pointer);
    let message =
        format!("\"{field}\" must validate one and only one schema (oneOf). Found {alternatives}");
    Some(Violation { rule, field, message })
}

rule! {
    /// spec.source has exactly one of git, image, configMaps, upload and http
    ///
    /// Exactly one of these five keys is set, regardless of `spec.source.type`. `null` counts as
    /// not set, an empty list or object counts as set. RPK-12 evaluates a Bundle without
    /// `spec.source`. On UPDATE the rule evaluates a source that changes; with `ratcheting: false`
    /// also an unchanged source, unless the Bundle is being deleted. If RPK-01 denies the UPDATE,
    /// the rule is not evaluated.
    ///
    /// # Why
    ///
    /// Two sources are ambiguous, and without a source there is nothing to unpack. The CRD of
    /// RukPak v0.16.0 has the same requirement, so the Kubernetes API server also rejects such an
    /// object. This rule also evaluates files, before you apply them to a cluster.
    ///
    /// # Remediation
    ///
    /// Keep the one source that `spec.source.type` names, and remove the others.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: image, image: {ref: my-bundle@sha256:xyz123}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: image, image: {ref: a@sha256:0123}, http: {url: https://example.com}}
    /// ```
    ///
    /// `message: "spec.source" must validate one and only one schema (oneOf). Found 2 valid
    /// alternatives`
    ///
    /// If no key is set, the message ends with `Found none valid`.
    RPK_09: Deny {
        name: "exactly-one-bundle-source",
        on: [BUNDLE: Create | Update],
        source: ["rukpak v0.16.0 manifests/base/apis/crds/patches/bundle_validation.yaml, test/e2e/api_validation_test.go"],
    }
}

fn check_one_source(source: &str, count: usize) -> Option<Violation> {
    check_exactly_one(&RPK_09, source, count)
}

rule! {
    /// a Git reference has exactly one of branch, commit and tag
    ///
    /// If `spec.source.git.ref` is set, exactly one of its keys `branch`, `commit` and `tag` is
    /// set, regardless of `spec.source.type`. `null` counts as not set, an empty text counts as
    /// set. RPK-11 evaluates a missing `ref`. On UPDATE the rule evaluates a source that changes;
    /// with `ratcheting: false` also an unchanged source, unless the Bundle is being deleted. If
    /// RPK-01 denies the UPDATE, the rule is not evaluated.
    ///
    /// # Why
    ///
    /// Two references can name two commits, and none names no commit. The CRD of RukPak v0.16.0 has
    /// the same requirement, so the Kubernetes API server also rejects such an object. This rule
    /// also evaluates files, before you apply them to a cluster. OpenShift 4.12, Operators, *Bundle
    /// immutability*, shows a source with only a tag.
    ///
    /// # Remediation
    ///
    /// Keep one reference. Prefer `commit`, which cannot move (RPK-17).
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: git, git: {repository: r, ref: {commit: 8f3b8a6}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: git, git: {repository: r, ref: {commit: 0f1e2d, tag: v0.0.2}}}
    /// ```
    ///
    /// `message: "spec.source.git.ref" must validate one and only one schema (oneOf). Found 2 valid
    /// alternatives`
    ///
    /// If no key is set, the message ends with `Found none valid`.
    RPK_10: Deny {
        name: "exactly-one-git-reference",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L1126-1127, L1159", "rukpak v0.16.0 manifests/base/apis/crds/patches/bundle_validation.yaml, test/e2e/api_validation_test.go"],
    }
}

fn check_one_reference(object: &Document, source: &str) -> Option<Violation> {
    let reference = format!("{source}/git/ref");
    // A value that is not an object has none of the three keys.
    if !object.has(&reference) {
        return None;
    }
    let kinds = ["branch", "commit", "tag"];
    let count = kinds.iter().filter(|k| object.has(&format!("{reference}/{k}"))).count();
    check_exactly_one(&RPK_10, &reference, count)
}

rule! {
    /// the required fields of the source are set
    ///
    /// `spec.source.type` is set, and each source that is set has its required fields: `image.ref`,
    /// `git.repository` and `git.ref`, `http.url`, and `configMap` in each entry of `configMaps`.
    /// `null` counts as not set, an empty value counts as set. On UPDATE the rule evaluates a
    /// source that changes; with `ratcheting: false` also an unchanged source, unless the Bundle is
    /// being deleted. If RPK-01 denies the UPDATE, the rule is not evaluated.
    ///
    /// # Why
    ///
    /// Without these fields the provisioner does not know what to fetch. The CRD of RukPak v0.16.0
    /// has the same requirement, so the Kubernetes API server also rejects such an object. This
    /// rule also evaluates files, before you apply them to a cluster. OpenShift 4.12, Operators,
    /// *Bundle* and *Bundle immutability*, show sources with all their fields.
    ///
    /// # Remediation
    ///
    /// Set the field that the message names.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: git, git: {repository: r, ref: {tag: v0.0.2}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: git, git: {ref: {branch: main}}}
    /// ```
    ///
    /// `message: spec.source.git.repository: Required value`
    RPK_11: Deny {
        name: "bundle-source-required-fields",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L1091-1094, L1123-1128", "rukpak v0.16.0 api/v1alpha1/bundle_types.go"],
    }
}

fn check_required_fields(
    object: &Document,
    source: &str,
    members: &[&str],
    found: &mut Vec<Violation>,
) {
    let mut required = |field: String| {
        let message = format!("{field}: Required value");
        found.push(Violation { rule: &RPK_11, message, field });
    };
    let mut members_required = vec!["type"];
    for member in members {
        members_required.extend(match *member {
            "git" => ["git/repository", "git/ref"].as_slice(),
            "image" => &["image/ref"],
            "http" => &["http/url"],
            _ => &[],
        });
    }
    for member in members_required {
        let pointer = format!("{source}/{member}");
        if !object.has(&pointer) {
            required(field(&pointer));
        }
    }
    let config_maps = format!("{source}/configMaps");
    for (index, entry) in entries(object, &config_maps) {
        if !object.has(&format!("{entry}/configMap")) {
            required(format!("{}[{index}].configMap", field(&config_maps)));
        }
    }
}
