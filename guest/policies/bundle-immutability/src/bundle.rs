//! Bundles: the spec never changes (RPK-01), and new Bundles are valid.
//!
//! Upstream runs no further checks if the spec changed. If the configuration allows the change, the
//! changed fields must be as valid as in a new Bundle.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Fix, Operation, Report, Review, Shape, corrections, rule, rules};

use crate::reads::{ConfigMaps, NO_CONFIG_MAPS};
use crate::source::webhook::RPK_07;
use crate::source::{self, pinned, schema, unpacking, webhook};
use crate::targets::BUNDLE;
use crate::{class, name};

rules![RPK_01, RPK_18];

const IMMUTABLE: &str = "bundle.spec is immutable";

const CLASS: &str = "/spec/provisionerClassName";
const SOURCE: &str = "/spec/source";

/// `BundleSpec` of rukpak v0.16.0, `api/v1alpha1/bundle_types.go`.
const SPEC: Shape =
    Shape::Struct(&[("provisionerClassName", Shape::Scalar), ("source", source::SHAPE)]);

rule! {
    /// the spec of a Bundle is semantically the same before and after an UPDATE
    ///
    /// All of `spec` counts, in Bundles that a user creates and in those that a BundleDeployment
    /// generates. The rule compares like Kubernetes: an absent field equals its empty value, and
    /// the order of keys and unknown keys make no difference. The order of a list, the spelling of
    /// a path, and the presence of `image`, `git`, `upload` or `http` make a difference. Metadata
    /// and status can change. No user is exempt, and the rule also evaluates a Bundle that is being
    /// deleted.
    ///
    /// If this rule denies the UPDATE, no other rule evaluates it. If the configuration sets this
    /// rule to `warn` or `off`, the other rules evaluate the changed fields.
    ///
    /// # Why
    ///
    /// A Bundle represents fixed content, and objects that refer to it rely on that. RukPak unpacks
    /// the content of the Bundle as created, and its webhook rejects changes; see OpenShift 4.12,
    /// Operators, *Bundle immutability*.
    ///
    /// # Remediation
    ///
    /// Create another Bundle with the new content. To replace the content over time, change the
    /// template of a BundleDeployment: it pivots to a new Bundle.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # before
    /// spec: {source: {type: image, image: {ref: a}}}
    /// ---
    /// # after: an empty value means the same as none
    /// spec: {source: {type: image, image: {ref: a, pullSecret: ""}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # before
    /// spec: {source: {type: git, git: {repository: r, ref: {tag: v0.0.2}}}}
    /// ---
    /// # after
    /// spec: {source: {type: git, git: {repository: r, ref: {tag: v0.0.3}}}}
    /// ```
    ///
    /// `message: bundle.spec is immutable`
    RPK_01: Deny {
        name: "immutable-bundle-spec",
        on: [BUNDLE: Update],
        no_exemptions: true,
        source: ["OCP 4.12 L1099-1152, L1246", "OCP 4.15 L971-1034, L19926-19988", "OKD L387-419", "rukpak v0.16.0 internal/webhook/bundle.go"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.object else { return };
    let same = review.old_of_update().map(|old| SPEC.equal(object, old, "/spec"));
    if same == Some(false) {
        report.add(&RPK_01, "spec", IMMUTABLE);
        if report.denies(&RPK_01) {
            report.set_reason(IMMUTABLE);
            return;
        }
    }
    let (source_counts, class_counts) = if same == Some(true) {
        let again = review.ratchet_base().is_none();
        (again, again)
    } else {
        let source = review.touches(object, SOURCE, &source::SHAPE);
        (source, review.touches(object, CLASS, &Shape::Scalar))
    };
    let webhook_counts = source_counts || source::is_rechecked(review, object);
    if !(webhook_counts || class_counts) || review.is_exempt() {
        return;
    }
    let mut config_maps = ConfigMaps::new(review.settings);
    let mut type_is_wrong = false;
    if webhook_counts {
        for found in webhook::find_violations(object, SOURCE, "bundle", &mut config_maps) {
            type_is_wrong |= found.is_about_type();
            report.add(found.rule, found.field, found.message);
        }
    }
    if config_maps.are_unavailable() {
        report.skip(&RPK_07, "spec.source.configMaps", NO_CONFIG_MAPS);
    }
    if class_counts {
        class::check(object, CLASS, review.settings, report);
    }
    if source_counts {
        class::check_source_set(object, SOURCE, report);
        if object.has(SOURCE) {
            for found in schema::find_violations(object, SOURCE) {
                let is_type = found.field == "spec.source.type";
                report.add(found.rule, found.field, found.message);
                report.set_fix(found.rule, || is_type.then(|| name_only_source(object)).flatten());
            }
        }
        pinned::check(object, SOURCE, report);
    }
    if review.operation() == Operation::Create {
        name::check_bundle(review, object, report);
        unpacking::check_paths(object, SOURCE, report);
        if !type_is_wrong {
            check_source_type(object, report);
        }
        unpacking::check_duplicate_files(object, SOURCE, &mut config_maps, report);
    }
}

rule! {
    /// the source type is known and names the source that is set
    ///
    /// `spec.source.type` of a new Bundle is the name of a source that is set: `image`, `git`,
    /// `configMaps`, `upload` or `http`, with this exact spelling. The rule reports nothing if
    /// RPK-02, RPK-03 or RPK-04 reports a missing source, if the type is missing (RPK-11), or if no
    /// source is set (RPK-09).
    ///
    /// # Why
    ///
    /// RukPak's webhook and CRD accept any text as the type. Unpacking then fails, because there is
    /// no source of that type, and the spec of the Bundle cannot be corrected. OpenShift 4.12,
    /// Operators, *Bundle* and *Bundle immutability*, show matching types and sources.
    ///
    /// # Remediation
    ///
    /// Set `spec.source.type` to the key in `spec.source` that has the content.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
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
    ///   source: {type: Image, image: {ref: my-bundle@sha256:xyz123}}
    /// ```
    ///
    /// `message: spec.source.type "Image" does not match the configured source key "image"`
    RPK_18: Warn {
        name: "known-bundle-source-type",
        on: [BUNDLE: Create],
        source: ["OCP 4.12 L1091-1094, L1123-1128", "rukpak v0.16.0 api/v1alpha1/bundle_types.go"],
    }
}

/// The caller does not call this if RPK-02, RPK-03 or RPK-04 reports the missing source.
fn check_source_type(object: &Document, report: &mut Report<'_>) {
    let pointer = "/spec/source/type";
    // A value that is not a text is not a known type either.
    let other = || object.raw(pointer).filter(|_| object.has(pointer)).unwrap_or_default();
    let kind = object.text(pointer);
    let kind = kind.unwrap_or_else(|| String::from_utf8_lossy(&other()).into_owned());
    let members = source::present_sources(object, SOURCE);
    if !kind.is_empty() && !members.is_empty() && !members.contains(&kind.as_str()) {
        let message = format!(
            "spec.source.type {} does not match the configured source key {}",
            quote(&kind),
            quote(&members.join(", "))
        );
        report.add(&RPK_18, "spec.source.type", message);
        report.set_fix(&RPK_18, || {
            let spelt = corrections::spelling(pointer, &kind, &members);
            let only = || Some(corrections::propose(pointer, members.first()?));
            spelt.or_else(|| (members.len() == 1).then(only).flatten())
        });
    }
}

/// The type of the only source that is set.
fn name_only_source(object: &Document) -> Option<Fix> {
    match source::present_sources(object, SOURCE)[..] {
        [only] => Some(corrections::write("/spec/source/type", only)),
        _ => None,
    }
}
