//! The checks of RukPak's webhook. After rukpak v0.16.0 internal/webhook/bundle.go.
//!
//! A `v1alpha2` BundleDeployment passes the same checks under a separate rule, and so does the
//! Bundle that a template generates: the functions return violations, and the caller reports them.

use opgate_sdk::go::{clean_path, quote};
use opgate_sdk::{Document, rule, rules};

use super::{Violation, entries, field};
use crate::reads::{CONFIG_MAPS, ConfigMaps};
use crate::targets::BUNDLE;

rules![RPK_02, RPK_03, RPK_04, RPK_05, RPK_06, RPK_07];

impl Violation {
    /// Whether the source that the type names is missing.
    pub(crate) fn is_about_type(&self) -> bool {
        [&RPK_02, &RPK_03, &RPK_04].iter().any(|rule| std::ptr::eq(*rule, self.rule))
    }
}

rule! {
    /// source type image requires spec.source.image
    ///
    /// If `spec.source.type` is `image`, `spec.source.image` is set; `null` counts as not set. On
    /// UPDATE the rule evaluates a source that changes; with `ratcheting: false` or
    /// `rukpak.recheckUnchanged: true` also an unchanged source, unless the Bundle is being
    /// deleted. If RPK-01 denies the UPDATE, the rule is not evaluated.
    ///
    /// # Why
    ///
    /// The type determines where the provisioner gets the content. Without `image` there is nothing
    /// to pull, and RukPak's webhook rejects the Bundle. OpenShift 4.12, Operators, *Bundle*, shows
    /// a Bundle of this type.
    ///
    /// # Remediation
    ///
    /// Set `spec.source.image`, or set `spec.source.type` to the source that is set.
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
    ///   source: {type: image, git: {repository: r, ref: {branch: main}}}
    /// ```
    ///
    /// `message: bundle.spec.source.image must be set for source type "image"`
    RPK_02: Deny {
        name: "bundle-source-image-set",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L1091-1094", "OCP 4.15 L956-965, L19912-19921", "OKD L378-386", "rukpak v0.16.0 internal/webhook/bundle.go"],
    }
}

rule! {
    /// source type git requires spec.source.git
    ///
    /// If `spec.source.type` is `git`, `spec.source.git` is set; `null` counts as not set. On
    /// UPDATE the rule evaluates a source that changes; with `ratcheting: false` or
    /// `rukpak.recheckUnchanged: true` also an unchanged source, unless the Bundle is being
    /// deleted. If RPK-01 denies the UPDATE, the rule is not evaluated.
    ///
    /// # Why
    ///
    /// The type determines where the provisioner gets the content. Without `git` there is no
    /// repository to clone, and RukPak's webhook rejects the Bundle. OpenShift 4.12, Operators,
    /// *Bundle immutability*, shows a Bundle of this type.
    ///
    /// # Remediation
    ///
    /// Set `spec.source.git`, or set `spec.source.type` to the source that is set.
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
    ///   source: {type: git, image: {ref: "quay.io/x/y:v1"}}
    /// ```
    ///
    /// `message: bundle.spec.source.git must be set for source type "git"`
    RPK_03: Deny {
        name: "bundle-source-git-set",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L1118-1129", "OCP 4.15 L987-998, L19940-19951", "OKD L401-412", "rukpak v0.16.0 internal/webhook/bundle.go"],
    }
}

rule! {
    /// source type configMaps requires an entry in spec.source.configMaps
    ///
    /// If `spec.source.type` is `configMaps`, with this exact spelling, `spec.source.configMaps` is
    /// a list with at least one entry. On UPDATE the rule evaluates a source that changes; with
    /// `ratcheting: false` or `rukpak.recheckUnchanged: true` also an unchanged source, unless the
    /// Bundle is being deleted. If RPK-01 denies the UPDATE, the rule is not evaluated.
    ///
    /// # Why
    ///
    /// Without an entry the Bundle has no files. The webhook of RukPak v0.16.0 rejects such a
    /// Bundle.
    ///
    /// # Remediation
    ///
    /// List the ConfigMaps under `spec.source.configMaps`, or set `spec.source.type` to the source
    /// that is set.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: configMaps, configMaps: [{configMap: {name: a}}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: configMaps, configMaps: []}
    /// ```
    ///
    /// `message: bundle.spec.source.configmaps must be set for source type "configmaps"`
    RPK_04: Deny {
        name: "bundle-source-config-maps-set",
        on: [BUNDLE: Create | Update],
        source: ["rukpak v0.16.0 internal/webhook/bundle.go"],
    }
}

/// Upstream's messages start with `owner`, either `bundle` or `bundledeployment`.
pub(crate) fn find_violations(
    object: &Document,
    source: &str,
    owner: &str,
    config_maps: &mut ConfigMaps,
) -> Vec<Violation> {
    let kind = object.text_or_empty(&format!("{source}/type"));
    let member = format!("{source}/{kind}");
    let missing = |rule, spelled: &str| {
        let message =
            format!("{owner}.spec.source.{spelled} must be set for source type \"{spelled}\"");
        vec![Violation { rule, field: field(&member), message }]
    };
    match kind.as_str() {
        "image" if !object.has(&member) => missing(&RPK_02, "image"),
        "git" if !object.has(&member) => missing(&RPK_03, "git"),
        // An object has a length too, but no entries.
        "configMaps" if object.items(&member).next().is_none() => missing(&RPK_04, "configmaps"),
        "git" => check_directory(object, &member, owner).into_iter().collect(),
        "configMaps" => {
            let mut found = Vec::new();
            for (index, entry) in entries(object, &member) {
                let at = format!("{}[{index}]", field(&member));
                found.extend(check_path(object, &entry, &at, index, owner));
                found.extend(check_reference(object, &entry, &at, index, owner, config_maps));
            }
            found
        }
        _ => Vec::new(),
    }
}

/// Whether a cleaned path leads out of the root, with the same check as RukPak's webhook.
fn leaves_root(cleaned: &str) -> bool {
    cleaned.starts_with("../")
}

rule! {
    /// the directory of a Git source stays within the repository
    ///
    /// If `spec.source.type` is `git`, `spec.source.git.directory` does not start with `../` once
    /// `.`, `..` and repeated slashes are resolved. A directory that is not set is accepted. RPK-08
    /// evaluates `..` itself and absolute paths. On UPDATE the rule evaluates a source that
    /// changes; with `ratcheting: false` or `rukpak.recheckUnchanged: true` also an unchanged
    /// source, unless the Bundle is being deleted. If RPK-01 denies the UPDATE, the rule is not
    /// evaluated.
    ///
    /// # Why
    ///
    /// A path that leads out of the repository names no directory in it. The webhook of RukPak
    /// v0.16.0 rejects such a Bundle.
    ///
    /// # Remediation
    ///
    /// Set `spec.source.git.directory` to the path of the manifests, relative to the root of the
    /// repository.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: git, git: {repository: r, ref: {commit: 8f3b8a6}, directory: ./manifests/}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: git, git: {repository: r, ref: {commit: 8f3b8a6}, directory: a/../../b}}
    /// ```
    ///
    /// `message: bundle.spec.source.git.directory begins with "../": directory must define path
    /// within the repository`
    RPK_05: Deny {
        name: "git-directory-within-repository",
        on: [BUNDLE: Create | Update],
        source: ["rukpak v0.16.0 internal/webhook/bundle.go"],
    }
}

fn check_directory(object: &Document, git: &str, owner: &str) -> Option<Violation> {
    let pointer = format!("{git}/directory");
    leaves_root(&clean_path(&object.text_or_empty(&pointer))).then(|| {
        let message = format!(
            "{owner}.spec.source.git.directory begins with \"../\": directory must define path within the repository"
        );
        Violation { rule: &RPK_05, field: field(&pointer), message }
    })
}

rule! {
    /// the paths of a ConfigMap source stay within the bundle
    ///
    /// If `spec.source.type` is `configMaps`, no `spec.source.configMaps[].path` starts with `../`
    /// once `.`, `..` and repeated slashes are resolved. A path that is not set is the root of the
    /// bundle. RPK-08 evaluates `..` itself and absolute paths. On UPDATE the rule evaluates a
    /// source that changes; with `ratcheting: false` or `rukpak.recheckUnchanged: true` also an
    /// unchanged source, unless the Bundle is being deleted. If RPK-01 denies the UPDATE, the rule
    /// is not evaluated.
    ///
    /// # Why
    ///
    /// The path determines the directory of the ConfigMap's files in the bundle. A path that leads
    /// out of the bundle puts them outside the bundle. The webhook of RukPak v0.16.0 rejects such a
    /// Bundle.
    ///
    /// # Remediation
    ///
    /// Set each `path` to a path below the root of the bundle, for example `manifests`, or remove
    /// it.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   source:
    ///     type: configMaps
    ///     configMaps: [{configMap: {name: a}}, {configMap: {name: b}, path: manifests}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: configMaps, configMaps: [{configMap: {name: a}, path: ../x}]}
    /// ```
    ///
    /// `message: bundle.spec.source.configmaps[0].path is invalid: "../x" is outside bundle root`
    ///
    /// The rule reports each such path, with its index and its original spelling.
    RPK_06: Deny {
        name: "config-map-paths-within-bundle",
        on: [BUNDLE: Create | Update],
        source: ["rukpak v0.16.0 internal/webhook/bundle.go"],
    }
}

fn check_path(
    object: &Document,
    entry: &str,
    at: &str,
    index: u32,
    owner: &str,
) -> Option<Violation> {
    let path = object.text_or_empty(&format!("{entry}/path"));
    leaves_root(&clean_path(&path)).then(|| {
        let message = format!(
            "{owner}.spec.source.configmaps[{index}].path is invalid: {} is outside bundle root",
            quote(&path)
        );
        Violation { rule: &RPK_06, field: format!("{at}.path"), message }
    })
}

rule! {
    /// existing ConfigMaps that a Bundle refers to are immutable
    ///
    /// If `spec.source.type` is `configMaps`, each ConfigMap that
    /// `spec.source.configMaps[].configMap.name` names has `immutable: true`. RukPak reads them
    /// from its own namespace, `rukpak.systemNamespace` (`rukpak-system`). A ConfigMap that does
    /// not exist yet is accepted; RPK-19 evaluates it when it is created. On UPDATE the rule
    /// evaluates a source that changes; with `ratcheting: false` or `rukpak.recheckUnchanged: true`
    /// also an unchanged source, unless the Bundle is being deleted. If RPK-01 denies the UPDATE,
    /// the rule is not evaluated.
    ///
    /// The rule reads the ConfigMaps of that namespace. Without cluster state it is skipped, and
    /// the audit annotation `skipped-rules` names it; with `messages.skippedRules: warn` a warning
    /// names it too.
    ///
    /// # Why
    ///
    /// A Bundle does not change (RPK-01), so its content must not change either. The webhook of
    /// RukPak v0.16.0 rejects such a Bundle.
    ///
    /// # Remediation
    ///
    /// Set `immutable: true` on the ConfigMap, which is possible at any time, and send the Bundle
    /// again.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: Bundle
    /// spec: {source: {type: configMaps, configMaps: [{configMap: {name: a}}]}}
    /// ---
    /// kind: ConfigMap
    /// metadata: {name: a, namespace: rukpak-system}
    /// immutable: true
    /// ```
    ///
    /// # Rejected
    ///
    /// This Bundle, while the ConfigMap is not immutable:
    ///
    /// ```yaml
    /// kind: ConfigMap
    /// metadata: {name: a, namespace: rukpak-system}
    /// ```
    ///
    /// `message: bundle.spec.source.configmaps[0].configmap.name is invalid: configmap "a" is not
    /// immutable`
    pub(crate) RPK_07: Deny {
        name: "bundle-config-maps-immutable",
        on: [BUNDLE: Create | Update],
        reads: [CONFIG_MAPS],
        source: ["rukpak v0.16.0 internal/webhook/bundle.go, test/e2e/plain_provisioner_test.go"],
    }
}

fn check_reference(
    object: &Document,
    entry: &str,
    at: &str,
    index: u32,
    owner: &str,
    config_maps: &mut ConfigMaps,
) -> Option<Violation> {
    let name = object.text_or_empty(&format!("{entry}/configMap/name"));
    config_maps.query_mutable(&name).then(|| {
        let message = format!(
            "{owner}.spec.source.configmaps[{index}].configmap.name is invalid: configmap {} is not immutable",
            quote(&name)
        );
        Violation { rule: &RPK_07, field: format!("{at}.configMap.name"), message }
    })
}
