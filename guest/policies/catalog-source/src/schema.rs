//! Requirements of the schema of CatalogSources: for files, and where the schema is incomplete.

use opgate_sdk::{Fix, Kind, Report, corrections, go_format, rule, rules};

use crate::source::{CATALOG_DIR, EXTRACT, Field, ICON, ICON_DATA, ICON_TYPE, PRIORITY, Source};
use crate::targets::CATALOG_SOURCE;

rules![CAT_16, CAT_17];

pub(crate) fn check(source: &Source<'_>, report: &mut Report<'_>) {
    check_priority(source, report);
    check_members(source, ICON, &[ICON_DATA, ICON_TYPE], report);
    check_members(source, EXTRACT, &[CATALOG_DIR], report);
    check_name(source, report);
}

rule! {
    /// priority, icon and extractContent of a CatalogSource have the types that OLM reads
    ///
    /// `spec.priority`, if it is set, is an integer from -2147483648 to 2147483647. `spec.icon`, if
    /// it is set, has the strings `base64data` and `mediatype`.
    /// `spec.grpcPodConfig.extractContent`, if it is set, has the string `catalogDir`. The rule
    /// evaluates an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// The schema of CatalogSources rejects other types. It documents the range of the priority,
    /// but does not enforce it.
    ///
    /// # Remediation
    ///
    /// Write the priority as a whole number without quotes, and `base64data`, `mediatype` and
    /// `catalogDir` as strings. The message names the field. Remove an icon that has only one of
    /// its two members.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {priority: -400}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {icon: {base64data: aGVsbG8=}}
    /// ```
    ///
    /// `message: spec.icon.mediatype: Required value`
    CAT_16: Deny {
        name: "valid-catalog-source-field-types",
        on: [CATALOG_SOURCE: Create | Update],
        source: ["OCP 4.12 L1600, L1658, L2966, L2978-2987", "OCP 4.15 L1249-1331", "api crds/operators.coreos.com_catalogsources.yaml"],
    }
}

fn check_priority(source: &Source<'_>, report: &mut Report<'_>) {
    if !source.has(PRIORITY) || !source.touches(&[PRIORITY]) {
        return;
    }
    let number = source.object.number(PRIORITY.pointer());
    match number {
        Some(number) if number.fract() == 0.0 => {
            if number < f64::from(i32::MIN) || number > f64::from(i32::MAX) {
                let value = source.display_text(PRIORITY);
                let why = format!(
                    "Invalid value: {value}: must be between {} and {}, inclusive",
                    i32::MIN,
                    i32::MAX
                );
                report_type_error(PRIORITY, &why, report);
            }
        }
        _ => check_type(source, PRIORITY, "integer", report),
    }
}

/// Checks an object whose members must be strings.
fn check_members(source: &Source<'_>, object: Field, members: &[Field], report: &mut Report<'_>) {
    if !source.has(object) || !source.touches(&[object]) {
        return;
    }
    if source.kind(object) != Kind::Object {
        check_type(source, object, "object", report);
        return;
    }
    for member in members {
        match source.kind(*member) {
            Kind::Missing | Kind::Null => {
                report_type_error(*member, "Required value", report);
                report.set_fix(&CAT_16, || {
                    let data = source.object.text(ICON_DATA.pointer());
                    let data = data.filter(|_| member.pointer() == ICON_TYPE.pointer())?;
                    let media_type = corrections::media_type(&data)?;
                    let fix = Fix::safe(format!("set the media type of the image, {media_type}"));
                    Some(fix.set_text(member.pointer(), media_type))
                });
            }
            Kind::Text => {}
            _ => check_type(source, *member, "string", report),
        }
    }
}

fn check_type(source: &Source<'_>, field: Field, expected: &str, report: &mut Report<'_>) {
    let name = field.name();
    let message = go_format::wrong_type(source.object, field.pointer(), &name, expected);
    report.add(&CAT_16, name, message);
    report.set_fix(&CAT_16, || {
        (expected == "integer")
            .then(|| corrections::integer_fix(source.object, field.pointer()))
            .flatten()
    });
}

fn report_type_error(field: Field, why: &str, report: &mut Report<'_>) {
    let name = field.name();
    let message = format!("{name}: {why}");
    report.add(&CAT_16, name, message);
}

rule! {
    /// the name of a CatalogSource has no slash
    ///
    /// On CREATE, `metadata.name` of a CatalogSource has no `/`.
    ///
    /// # Why
    ///
    /// The command that mirrors a catalog writes a manifest named after the image. If the content
    /// was on the local file system, the name has slashes, and `oc create` fails with `invalid
    /// resource name` (OpenShift 4.12, Operators, *Creating a catalog from an index image*).
    ///
    /// # Remediation
    ///
    /// Remove the slashes from the name before you create the object.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: redhat-operator-index}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: local/index/redhat-operator-index}
    /// ```
    ///
    /// `message: invalid resource name`
    CAT_17: Deny {
        name: "no-slash-in-catalog-source-name",
        on: [CATALOG_SOURCE: Create],
        source: ["OCP 4.12 L9979", "OCP 4.15 L7099"],
    }
}

fn check_name(source: &Source<'_>, report: &mut Report<'_>) {
    let review = source.review;
    if !review.is_update() && review.name(source.object).contains('/') {
        report.add(&CAT_17, "metadata.name", "invalid resource name");
    }
}
