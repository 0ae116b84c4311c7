//! Bundles: the spec never changes (RPK-01), and what is created is sound (RPK-02 to RPK-18, RPK-21).

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Level, Operation, Shape, Verdict};

use crate::context::{ConfigMaps, LeftOut, NO_CONFIG_MAPS, TOO_MANY_FILES};
use crate::{Review, findings, source};

const IMMUTABLE: &str = "bundle.spec is immutable";

const CLASS: &str = "/spec/provisionerClassName";
const SOURCE: &str = "/spec/source";

/// `BundleSpec` of rukpak v0.16.0, `api/v1alpha1/bundle_types.go`.
const SPEC: Shape =
    Shape::Struct(&[("provisionerClassName", Shape::Scalar), ("source", source::SHAPE)]);

pub(crate) fn judge(review: &Review<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(object) = review.object else { return verdict };
    let same = review.updates_from().map(|old| SPEC.equal(object, old, "/spec"));
    if same == Some(false) {
        verdict.deny("RPK-01", "spec", IMMUTABLE);
        // Upstream looks no further. Where the configuration lets the change pass, what it changes
        // must be as sound as in a new Bundle, and the reason is that of whoever else denies.
        if review.conventions.denies("RPK-01", true) {
            verdict.reason = Some(IMMUTABLE.to_owned());
            return verdict;
        }
    }
    let (source_counts, class_counts) = if same == Some(true) {
        let again = review.spares(object).is_none();
        (again, again)
    } else {
        let source = review.touches(object, SOURCE, &source::SHAPE);
        (source, review.touches(object, CLASS, &Shape::Scalar))
    };
    let webhook_counts = source_counts || review.rechecks_sources(object);
    if !(webhook_counts || class_counts) || review.conventions.exempts(review.request) {
        return verdict;
    }
    let mut config_maps = ConfigMaps::new(review.settings);
    let mut left_out = LeftOut::default();
    let webhook = if webhook_counts {
        source::webhook(object, SOURCE, "bundle", &mut config_maps)
    } else {
        Vec::new()
    };
    if config_maps.are_absent() {
        left_out.add("RPK-07", NO_CONFIG_MAPS);
    }
    let type_is_wrong = webhook.iter().any(|f| matches!(f.rule, "RPK-02" | "RPK-03" | "RPK-04"));
    for found in webhook {
        verdict.deny(found.rule, found.field, found.message);
    }
    if class_counts {
        findings::required_text(object, CLASS, &mut verdict);
        findings::class_pattern(object, CLASS, &mut verdict);
        findings::class_known(object, CLASS, review.settings, &mut verdict);
    }
    if source_counts {
        findings::required_object(object, SOURCE, &mut verdict);
        if object.has(SOURCE) {
            for found in source::schema(object, SOURCE) {
                verdict.deny(found.rule, found.field, found.message);
            }
        }
        findings::pinned(object, SOURCE, &mut verdict);
    }
    if review.request.operation == Operation::Create {
        let name = object.text("/metadata/name").unwrap_or_else(|| review.request.name.clone());
        findings::name_length("RPK-14", &name, 52, &mut verdict);
        let level = review.conventions.deny_if("/rukpak/strictPaths");
        for found in source::unpackable(object, SOURCE) {
            verdict.add(level, found.rule, found.field, found.message);
        }
        if !type_is_wrong {
            type_names_source(object, &mut verdict);
        }
        files_are_distinct(object, &mut config_maps, &mut left_out, &mut verdict);
    }
    left_out.report(review, "spec.source.configMaps", &mut verdict);
    verdict
}

/// RPK-21: what the ConfigMaps of a source give can be unpacked together.
fn files_are_distinct(
    object: &Document,
    config_maps: &mut ConfigMaps,
    left_out: &mut LeftOut,
    verdict: &mut Verdict,
) {
    if object.text_or_empty("/spec/source/type") != "configMaps" {
        return;
    }
    let duplicates = source::duplicate_files(object, SOURCE, config_maps);
    if config_maps.are_absent() {
        left_out.add("RPK-21", NO_CONFIG_MAPS);
    } else if duplicates.is_none() {
        left_out.add("RPK-21", TOO_MANY_FILES);
    }
    for found in duplicates.into_iter().flatten() {
        verdict.warn(found.rule, found.field, found.message);
    }
}

/// RPK-18: the type is a known one and names the member that is there. Where RPK-02, 03 or 04
/// already says so, or no type is set at all (RPK-11), there is nothing to add.
fn type_names_source(object: &Document, verdict: &mut Verdict) {
    let pointer = "/spec/source/type";
    // What is there and is no text is no known type either.
    let other = || object.raw(pointer).filter(|_| object.has(pointer)).unwrap_or_default();
    let kind = object.text(pointer);
    let kind = kind.unwrap_or_else(|| String::from_utf8_lossy(&other()).into_owned());
    let members = source::present(object, "/spec/source");
    if !kind.is_empty() && !members.is_empty() && !members.contains(&kind.as_str()) {
        let message = format!(
            "spec.source.type {} does not match the configured source key {}",
            quote(&kind),
            quote(&members.join(", "))
        );
        verdict.add(Level::Warn, "RPK-18", "spec.source.type", message);
    }
}
