//! Bundles: the spec never changes (RPK-01), and what is created is sound (RPK-02 to RPK-18).

use opgate_sdk::go::quote;
use opgate_sdk::{Level, Operation, Shape, Verdict};

use crate::source::{self, SOURCES};
use crate::{Review, findings, is_deleting};

const IMMUTABLE: &str = "bundle.spec is immutable";

/// `BundleSpec` of rukpak v0.16.0 api/v1alpha1/bundle_types.go.
const SPEC: Shape = Shape::Struct(&[
    ("provisionerClassName", Shape::Scalar),
    (
        "source",
        Shape::Struct(&[
            ("type", Shape::Scalar),
            ("image", Shape::Pointer(&[("ref", Shape::Scalar), ("pullSecret", Shape::Scalar)])),
            (
                "git",
                Shape::Pointer(&[
                    ("repository", Shape::Scalar),
                    ("directory", Shape::Scalar),
                    (
                        "ref",
                        Shape::Struct(&[
                            ("branch", Shape::Scalar),
                            ("commit", Shape::Scalar),
                            ("tag", Shape::Scalar),
                        ]),
                    ),
                    ("auth", AUTHORIZATION),
                ]),
            ),
            (
                "configMaps",
                Shape::List(&Shape::Struct(&[("configMap", REFERENCE), ("path", Shape::Scalar)])),
            ),
            ("upload", Shape::Pointer(&[])),
            ("http", Shape::Pointer(&[("url", Shape::Scalar), ("auth", AUTHORIZATION)])),
        ]),
    ),
]);
const REFERENCE: Shape = Shape::Struct(&[("name", Shape::Scalar)]);
const AUTHORIZATION: Shape =
    Shape::Struct(&[("secret", REFERENCE), ("insecureSkipVerify", Shape::Scalar)]);

pub(crate) fn judge(review: &Review<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(object) = review.object else { return verdict };
    // Upstream re-checks the source of an unchanged Bundle; here only on demand (decision A-5).
    let mut recheck_source = true;
    let mut recheck_rest = true;
    if let (Operation::Update, Some(old)) = (review.request.operation, review.old) {
        if SPEC.equal(object, old, "/spec") {
            let recheck = || review.settings.boolean("/rukpak/recheckUnchanged") == Some(true);
            recheck_rest = !review.conventions.ratcheting();
            recheck_source = recheck_rest || recheck();
        } else {
            verdict.deny("RPK-01", "spec", IMMUTABLE);
            verdict.reason = Some(IMMUTABLE.to_owned());
            // Upstream looks no further. Where the configuration lets the change pass, the new
            // source must be as sound as that of a new Bundle.
            let denied = review.conventions.denies("RPK-01", true);
            recheck_source = !denied;
            recheck_rest = !denied;
        }
    }
    if !(recheck_source || recheck_rest)
        || is_deleting(object)
        || review.conventions.exempts(review.request)
    {
        return verdict;
    }
    let webhook = source::webhook(object, "/spec/source", "bundle");
    let type_is_wrong = webhook.iter().any(|f| matches!(f.rule, "RPK-02" | "RPK-03" | "RPK-04"));
    if recheck_source {
        for found in webhook {
            verdict.deny(found.rule, found.field, found.message);
        }
    }
    if recheck_rest {
        findings::required_text(object, "/spec/provisionerClassName", &mut verdict);
        findings::required_object(object, "/spec/source", &mut verdict);
        findings::class_pattern(object, "/spec/provisionerClassName", &mut verdict);
        if object.has("/spec/source") {
            for found in source::schema(object, "/spec/source") {
                verdict.deny(found.rule, found.field, found.message);
            }
        }
        findings::class_known(object, "/spec/provisionerClassName", review.settings, &mut verdict);
        findings::pinned(object, "/spec/source", &mut verdict);
    }
    if review.request.operation == Operation::Create {
        let name = object.text("/metadata/name").unwrap_or_else(|| review.request.name.clone());
        findings::name_length("RPK-14", &name, 52, &mut verdict);
        let level = review.conventions.deny_if("/rukpak/strictPaths");
        for found in source::unpackable(object, "/spec/source") {
            verdict.add(level, found.rule, found.field, found.message);
        }
        if !type_is_wrong {
            type_names_source(object, &mut verdict);
        }
    }
    verdict
}

/// RPK-18: the type is a known one and names the member that is there. Where RPK-02, 03 or 04
/// already says so, or no type is set at all (RPK-11), there is nothing to add.
fn type_names_source(object: &opgate_sdk::Document, verdict: &mut Verdict) {
    let kind = object.text_or_empty("/spec/source/type");
    let members = source::present(object, "/spec/source");
    let known = SOURCES.contains(&kind.as_str());
    let named = known && members.contains(&kind.as_str());
    if !kind.is_empty() && !members.is_empty() && !named {
        let message = format!(
            "spec.source.type {} does not match the configured source key {}",
            quote(&kind),
            quote(&members.join(", "))
        );
        verdict.add(Level::Warn, "RPK-18", "spec.source.type", message);
    }
}
