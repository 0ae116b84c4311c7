//! ConfigMaps of RukPak's namespace: a ConfigMap that a Bundle refers to does not change and is not
//! deleted. After rukpak v0.16.0 internal/webhook/configmaps.go.

use opgate_sdk::cluster::{IndexMatch, Query, ReadError};
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Operation, Report, Review, is_terminating, rule, rules};

use crate::reads::BUNDLES;
use crate::source;
use crate::targets::CONFIG_MAP;

rules![RPK_19, RPK_20];

/// The maximum size of a message in the host, which cuts longer lists of names.
const MAX_MESSAGE_BYTES: usize = 4_096;
/// The maximum number of entries of Bundles that are read to count references.
const MAX_ENTRIES: usize = 10_000;

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    if review.is_exempt() {
        return;
    }
    if review.operation() == Operation::Delete {
        check_deleted(review, report);
    } else {
        check_created(review, report);
    }
}

rule! {
    /// a ConfigMap that a Bundle refers to is created immutable
    ///
    /// A new ConfigMap in the namespace of RukPak, `rukpak.systemNamespace` (`rukpak-system`), has
    /// `immutable: true` if a Bundle with `spec.source.type: configMaps` names it under
    /// `spec.source.configMaps[].configMap.name`. ConfigMaps of other namespaces are not evaluated.
    ///
    /// The rule reads Bundles. Without cluster state it is skipped for a ConfigMap that is not
    /// immutable, and the audit annotation `skipped-rules` names it; with `messages.skippedRules:
    /// warn` a warning names it too.
    ///
    /// # Why
    ///
    /// You can create a Bundle before its ConfigMaps (RPK-07). ConfigMaps that you create later
    /// must not change either. The webhook of RukPak v0.16.0 rejects such a ConfigMap.
    ///
    /// # Remediation
    ///
    /// Create the ConfigMap with `immutable: true`. If it is not intended for the Bundles in the
    /// message, give it another name.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # while the Bundle b refers to the ConfigMap a
    /// kind: ConfigMap
    /// metadata: {name: a, namespace: rukpak-system}
    /// immutable: true
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # while the Bundle b refers to the ConfigMap a
    /// kind: ConfigMap
    /// metadata: {name: a, namespace: rukpak-system}
    /// ```
    ///
    /// `message: configmap "a" is referenced in .spec.source.configMaps[].configMap.name by bundles
    /// [b]; referenced configmaps must have .immutable == true`
    ///
    /// The list names a Bundle once for each of its references. The list ends after about 4,096
    /// bytes.
    RPK_19: Deny {
        name: "bundle-config-map-created-immutable",
        on: [CONFIG_MAP: Create],
        reads: [BUNDLES],
        source: ["rukpak v0.16.0 internal/webhook/configmaps.go, manifests/base/apis/webhooks/patches/namespace_selectors.yaml"],
    }
}

fn check_created(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.object else { return };
    if object.boolean("/immutable") == Some(true) {
        return;
    }
    let name = review.name(object);
    // Like upstream, the message lists a Bundle once for each of its references.
    let mut bundles: Vec<String> = Vec::new();
    let (mut length, mut remaining) = (0, MAX_ENTRIES);
    let answer = visit_referring_bundles(&name, |bundle| {
        if bundle.text_or_empty("/spec/source/type") == "configMaps" {
            let referrer = bundle.text_or_empty("/metadata/name");
            for _ in 0..count_references(&bundle, &name, &mut remaining) {
                if length >= MAX_MESSAGE_BYTES {
                    break;
                }
                length += referrer.len() + 1;
                bundles.push(referrer.clone());
            }
        }
        length < MAX_MESSAGE_BYTES
    });
    if report.or_skip(&[&RPK_19], "Bundles", answer).is_some() && !bundles.is_empty() {
        let message = format!(
            "configmap {} is referenced in .spec.source.configMaps[].configMap.name by bundles [{}]; referenced configmaps must have .immutable == true",
            quote(&name),
            bundles.join(" ")
        );
        report.add(&RPK_19, "immutable", message);
    }
}

rule! {
    /// a ConfigMap that a Bundle refers to is not deleted
    ///
    /// A ConfigMap in the namespace of RukPak, `rukpak.systemNamespace` (`rukpak-system`), is not
    /// deleted while a Bundle names it under `spec.source.configMaps[].configMap.name`. Bundles of
    /// every source type count, as in RukPak; with `rukpak.deleteRespectsType: true` only those
    /// with `spec.source.type: configMaps` do. ConfigMaps of other namespaces, and ConfigMaps that
    /// are already being deleted, are not evaluated.
    ///
    /// The rule reads Bundles. Without cluster state it is skipped, and the audit annotation
    /// `skipped-rules` names it; with `messages.skippedRules: warn` a warning names it too.
    ///
    /// # Why
    ///
    /// RukPak reads the ConfigMap every time it unpacks the Bundle. After the deletion, unpacking
    /// fails. The webhook of RukPak v0.16.0 rejects the deletion.
    ///
    /// # Remediation
    ///
    /// Delete the Bundle in the message first, or the BundleDeployment that generated it. The
    /// message names one Bundle; there can be more.
    ///
    /// # Accepted
    ///
    /// DELETE of the ConfigMap `unused` in `rukpak-system`, to which no Bundle refers.
    ///
    /// # Rejected
    ///
    /// DELETE of the ConfigMap `a` in `rukpak-system` while this Bundle exists:
    ///
    /// ```yaml
    /// kind: Bundle
    /// metadata: {name: b}
    /// spec:
    ///   source: {type: configMaps, configMaps: [{configMap: {name: a}}]}
    /// ```
    ///
    /// `message: configmap "a" is in-use by bundle "b"`
    RPK_20: Deny {
        name: "bundle-config-map-not-deleted",
        on: [CONFIG_MAP: Delete],
        reads: [BUNDLES],
        source: ["rukpak v0.16.0 internal/webhook/configmaps.go"],
    }
}

/// Upstream names the first Bundle that it finds, of any source type.
fn check_deleted(review: &Review<'_>, report: &mut Report<'_>) {
    // An object that is already being deleted is not evaluated again.
    let Some(object) = review.old.filter(|old| !is_terminating(old)) else { return };
    let name = review.name(object);
    let respects_type = review.settings.boolean("/rukpak/deleteRespectsType") == Some(true);
    let mut user = None;
    let answer = visit_referring_bundles(&name, |bundle| {
        if !respects_type || bundle.text_or_empty("/spec/source/type") == "configMaps" {
            user = Some(bundle.text_or_empty("/metadata/name"));
        }
        user.is_none()
    });
    report.or_skip(&[&RPK_20], "Bundles", answer);
    if let Some(bundle) = user {
        let message = format!("configmap {} is in-use by bundle {}", quote(&name), quote(&bundle));
        report.add(&RPK_20, "", message);
    }
}

/// The Bundles that refer to a ConfigMap, in byte order of their names.
fn visit_referring_bundles(
    name: &str,
    visit: impl FnMut(Document) -> bool,
) -> Result<(), ReadError> {
    let values = [name.to_owned()];
    let matches = [IndexMatch { index: "configmap", values: &values, include_missing: false }];
    BUNDLES.each(Query { matches: &matches, ..Query::default() }, visit)
}

/// The number of references of a Bundle to a ConfigMap: at least one, because the query returned
/// the Bundle.
fn count_references(bundle: &Document, name: &str, remaining: &mut usize) -> usize {
    let entries = source::entries(bundle, "/spec/source/configMaps").take(*remaining);
    let (mut looked_at, mut count) = (0, 0);
    for (_, entry) in entries {
        looked_at += 1;
        count += usize::from(bundle.text_or_empty(&format!("{entry}/configMap/name")) == name);
    }
    *remaining -= looked_at;
    count.max(1)
}
