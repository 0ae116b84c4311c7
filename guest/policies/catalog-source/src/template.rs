//! The annotation `olm.catalogImageTemplate`: a reference to an image with variables in it.
//!
//! ```text
//! template ─▶ the three variables become digits ─▶ a reference?
//!        └──▶ text in braces ─▶ variables that OLM does not know
//! ```

use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Report, image, rule, rules};

use crate::source::{ADDRESS, IMAGE, Source, TEMPLATE};
use crate::targets::CATALOG_SOURCE;

rules![CAT_11, CAT_12, CAT_13];

/// The variables that OLM replaces.
const VARIABLES: [&str; 3] =
    ["{kube_major_version}", "{kube_minor_version}", "{kube_patch_version}"];
/// Bytes of a template, or of a variable, that a message shows.
const MAX_SHOWN_BYTES: usize = 256;

pub(crate) fn check(source: &Source<'_>, report: &mut Report<'_>) {
    let template = source.text(TEMPLATE);
    if template.is_empty() {
        return;
    }
    if !source.text(IMAGE).is_empty() {
        check_variables(template, source, report);
        check_image_overwritten(source, report);
    } else if source.text(ADDRESS).is_empty() {
        check_resolution(template, source, report);
    }
}

/// The template with numbers in place of the variables. The numbers do not affect whether the
/// result is a reference.
pub(crate) fn resolve(template: &str) -> String {
    VARIABLES.iter().fold(template.to_owned(), |text, variable| text.replace(variable, "1"))
}

/// The first variable of a template that OLM does not know.
fn unknown_variable(template: &str) -> Option<&str> {
    let mut rest = template;
    while let Some((_, after)) = rest.split_once('{') {
        let (name, next) = after.split_once('}')?;
        // `{a{b}` has the variable `{b}`.
        let name = name.rsplit_once('{').map_or(name, |(_, inner)| inner);
        if !VARIABLES.iter().any(|known| known.get(1..known.len() - 1) == Some(name)) {
            return Some(name);
        }
        rest = next;
    }
    None
}

rule! {
    /// the template of a catalog's image resolves to an image
    ///
    /// If `spec.image` and `spec.address` are empty, the annotation `olm.catalogImageTemplate`
    /// becomes a reference to an image when `{kube_major_version}`, `{kube_minor_version}` and
    /// `{kube_patch_version}` are replaced by numbers. There are no other variables, and no brace
    /// may remain. The rule does not evaluate sources of type `configmap` or `internal`, which have
    /// no image. It evaluates an UPDATE only if it changes the annotation, the image or the
    /// address.
    ///
    /// # Why
    ///
    /// OLM stops reconciling the source and sets the reason `UnableToResolve` (OpenShift 4.12,
    /// Operators, *Image template for custom catalog sources*; operator-lifecycle-manager
    /// `pkg/controller/operators/catalogtemplate/operator.go`).
    ///
    /// # Remediation
    ///
    /// Use the variables listed above. Templates have no variables for versions of OpenShift.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// olm.catalogImageTemplate: quay.io/example-org/example-catalog:v{kube_major_version}.{kube_minor_version}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// olm.catalogImageTemplate: quay.io/x/y:v{openshift_major_version}
    /// ```
    ///
    /// `message: annotation olm.catalogImageTemplate does not resolve to a usable pull spec:
    /// "quay.io/x/y:v{openshift_major_version}": invalid reference format`
    CAT_11: Deny {
        name: "valid-catalog-image-template",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1794-1809, L1839-1842", "OCP 4.15 L1360-1434", "OLM pkg/lib/catalogsource/image_template.go"],
    }
}

fn check_resolution(template: &str, source: &Source<'_>, report: &mut Report<'_>) {
    if source.is_config_map() || !source.touches(&[TEMPLATE, IMAGE, ADDRESS]) {
        return;
    }
    if let Some(why) = image::plain_error(&resolve(template)) {
        let message = format!(
            "annotation olm.catalogImageTemplate does not resolve to a usable pull spec: {}: {why}",
            quote(&shorten(template, MAX_SHOWN_BYTES))
        );
        report.add(&CAT_11, TEMPLATE.name(), message);
    }
}

rule! {
    /// the template of a catalog with an image follows the version of Kubernetes
    ///
    /// If `spec.image` is set, an annotation `olm.catalogImageTemplate` has at least one of the
    /// variables `{kube_major_version}`, `{kube_minor_version}` and `{kube_patch_version}`, has no
    /// other variable in braces, and becomes a reference to an image when they are replaced by
    /// numbers. The rule evaluates an UPDATE only if it changes the annotation or the image.
    ///
    /// # Why
    ///
    /// A template without a variable never changes, and OLM falls back to `spec.image` if it cannot
    /// resolve a template (OpenShift 4.12, Operators, *Image template for custom catalog sources*).
    /// In both cases the catalog does not follow updates of the cluster.
    ///
    /// # Remediation
    ///
    /// Use the variables listed above, or remove the annotation.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata:
    ///   annotations:
    ///     olm.catalogImageTemplate: quay.io/example-org/example-catalog:v{kube_major_version}
    /// spec: {sourceType: grpc, image: 'quay.io/example-org/example-catalog:v1'}
    /// ```
    ///
    /// # Rejected
    ///
    /// `olm.catalogImageTemplate: quay.io/x/y:latest` with `spec.image`.
    ///
    /// `message: olm.catalogImageTemplate: "quay.io/x/y:latest" has no Kubernetes version variable;
    /// use one or more of {kube_major_version}, {kube_minor_version}, {kube_patch_version}`
    CAT_12: Warn {
        name: "catalog-image-template-uses-kube-version",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1640-1643, L1794-1809, L1839, L9334-9354", "OCP 4.15 L1360-1434"],
    }
}

fn check_variables(template: &str, source: &Source<'_>, report: &mut Report<'_>) {
    if !source.touches(&[TEMPLATE, IMAGE]) {
        return;
    }
    let shown = || quote(&shorten(template, MAX_SHOWN_BYTES));
    let why = if let Some(name) = unknown_variable(template) {
        format!("{{{}}} is not a Kubernetes version variable", shorten(name, MAX_SHOWN_BYTES))
    } else if !VARIABLES.iter().any(|variable| template.contains(variable)) {
        format!("{} has no Kubernetes version variable", shown())
    } else if image::plain_error(&resolve(template)).is_some() {
        format!("{} does not resolve to a usable pull spec", shown())
    } else {
        return;
    };
    let [major, minor, patch] = VARIABLES;
    let message =
        format!("olm.catalogImageTemplate: {why}; use one or more of {major}, {minor}, {patch}");
    report.add(&CAT_12, TEMPLATE.name(), message);
}

rule! {
    /// a catalog has an image or an image template, not both
    ///
    /// A CatalogSource has `spec.image` or the annotation `olm.catalogImageTemplate`, not both. The
    /// rule is off by default. It does not evaluate requests of OLM. It evaluates an UPDATE only if
    /// it changes one of the two.
    ///
    /// # Why
    ///
    /// OLM overwrites `spec.image` with the resolved template (OpenShift 4.12, Operators, *Image
    /// template for custom catalog sources*): a value that you set manually is lost.
    ///
    /// # Remediation
    ///
    /// Omit `spec.image`, unless it is the fallback for a template that cannot be resolved.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {sourceType: grpc, image: 'quay.io/example-org/example-catalog:v1'}
    /// ```
    ///
    /// # Rejected
    ///
    /// The source above with an annotation `olm.catalogImageTemplate`.
    ///
    /// `message: spec.image is overwritten by the resolved value from the olm.catalogImageTemplate
    /// annotation`
    CAT_13: Warn {
        name: "no-catalog-image-with-template",
        on: [CATALOG_SOURCE: Create | Update],
        enabled_by: [],
        source: ["OCP 4.12 L1643, L1813, L1839-1848", "OCP 4.15 L1360-1434"],
    }
}

fn check_image_overwritten(source: &Source<'_>, report: &mut Report<'_>) {
    if report.is_on(&CAT_13) && source.touches(&[TEMPLATE, IMAGE]) && !source.review.may_be_olm() {
        let message = "spec.image is overwritten by the resolved value from the olm.catalogImageTemplate annotation";
        report.add(&CAT_13, IMAGE.name(), message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_those_of_olm() {
        for (template, expected) in [
            ("foo", "foo"),
            ("foo{kube_major_version}", "foo1"),
            ("{kube_major_version}foo{kube_minor_version}", "1foo1"),
            ("foo/v{foobar}", "foo/v{foobar}"),
            ("{{kube_patch_version}}", "{1}"),
            ("{kube_major_version", "{kube_major_version"),
            ("{Kube_Major_Version}", "{Kube_Major_Version}"),
        ] {
            assert_eq!(resolve(template), expected);
        }
    }

    #[test]
    fn other_variables_are_found() {
        for (template, expected) in [
            ("a:{kube_major_version}.{kube_minor_version}", None),
            ("a:{kube_major_version}.{openshift_version}", Some("openshift_version")),
            ("a:{}", Some("")),
            ("a:{b", None),
            ("a:b}", None),
            ("a:{{kube_major_version}", None),
            ("a:{{b}}", Some("b")),
        ] {
            assert_eq!(unknown_variable(template), expected, "{template}");
        }
    }
}
