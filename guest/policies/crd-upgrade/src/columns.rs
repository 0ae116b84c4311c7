//! The columns that `kubectl get` prints for custom resources.

use opgate_sdk::go::quote;
use opgate_sdk::{Fix, Kind, Level, Report, Review, corrections, rule, rules};

use crate::crd::Crd;
use crate::targets::CRD;

rules![CRD_28];

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

rule! {
    /// the printer columns of a CRD have a name, a type and a path
    ///
    /// In a file, each entry of `spec.versions[].additionalPrinterColumns` of a CRD of
    /// `apiextensions.k8s.io/v1` has a `name`, one of the `type`s `boolean`, `date`, `integer`,
    /// `number` and `string`, and a `jsonPath` that begins with a dot. Its `format`, if it has one,
    /// is `byte`, `date`, `date-time`, `double`, `float`, `int32`, `int64` or `password`. A
    /// `jsonPath` with unbalanced brackets or quotes is a warning: the API server accepts it, and
    /// then prints only the default columns. `JSONPath` instead of `jsonPath` is also a warning in
    /// a bundle, because OLM decodes CRDs of bundles without regard to case; `kubectl apply` fails
    /// with it. A request for a CRD is not evaluated, because the API server has checked it.
    ///
    /// # Why
    ///
    /// The API server rejects the CRD when it is created, so the installation of the Operator
    /// fails.
    ///
    /// # Remediation
    ///
    /// Correct the field that the message names. The field is called `jsonPath` in `apiextensions.k8s.io/v1`, and
    /// `JSONPath` in `apiextensions.k8s.io/v1beta1`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// additionalPrinterColumns: [{name: Age, type: date, jsonPath: .metadata.creationTimestamp}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// additionalPrinterColumns: [{name: Age, type: data, jsonPath: .metadata.creationTimestamp}]
    /// ```
    ///
    /// `message: spec.versions[0].additionalPrinterColumns[0].type: Invalid value: "data": must be one of
    /// boolean,date,integer,number,string`
    ///
    /// With `jsonPath: status.phase`: `message: spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid
    /// value: "status.phase": must be a simple json path starting with .`
    CRD_28: Deny {
        name: "crd-printer-columns",
        on: [CRD: Create | Update],
        source: ["apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go", "OCP 4.12 L4906"],
    }
}

pub(crate) fn check(review: &Review<'_>, crd: &Crd<'_>, report: &mut Report<'_>) {
    if !review.is_from_file() || crd.is_v1beta1 || crd.is_mapping || !report.is_on(&CRD_28) {
        return;
    }
    for version in &crd.versions {
        let list = format!("/spec/versions/{}/additionalPrinterColumns", version.index());
        let columns =
            crd.document.rows(&list, &["/name", "/type", "/format", "/jsonPath", "/JSONPath"]);
        for (index, column) in columns.iter().enumerate() {
            let field = version.member(&format!("additionalPrinterColumns[{index}]"));
            let text = |at| column.text_or_empty(at);
            let pointer = format!("{list}/{index}");
            let mut add = |member: &str, why: Option<String>| {
                if let Some(why) = why {
                    let field = format!("{field}.{member}");
                    let message = format!("{field}: {why}");
                    report.add(&CRD_28, field, message);
                    report.set_fix(&CRD_28, || match member {
                        "type" => correct_type(&format!("{pointer}/type"), text(1)),
                        "jsonPath" if text(3).is_empty() => rename_path(&pointer, text(4)),
                        "jsonPath" => add_dot(&format!("{pointer}/jsonPath"), text(3)),
                        _ => None,
                    });
                }
            };
            add("name", text(0).is_empty().then(|| "Required value".to_owned()));
            add("type", choice_error(text(1), &COLUMN_TYPES, true));
            add("format", choice_error(text(2), &COLUMN_FORMATS, false));
            let has_old_name = column.kind(3) != Kind::Text && column.kind(4) == Kind::Text;
            // OLM decodes the CRDs of a bundle without regard to case.
            let is_read = has_old_name && review.is_from_bundle();
            let path = text(if is_read { 4 } else { 3 });
            add("jsonPath", path_error(path, has_old_name));
            let why = if !is_balanced(path) {
                "brackets or quotes do not match, so the API server prints the default columns only"
            } else if is_read {
                "the field is called jsonPath, and only OLM reads JSONPath"
            } else {
                continue;
            };
            let field = format!("{field}.jsonPath");
            let message = format!("{field}: Invalid value: {}: {why}", quote(path));
            report.add_as(Level::Warn, &CRD_28, field, message);
            let has_path = column.kind(3) != Kind::Missing;
            report.set_fix(&CRD_28, || {
                (is_read && !has_path).then(|| rename_path(&pointer, path)).flatten()
            });
        }
    }
}

fn choice_error(value: &str, choices: &[&str], is_required: bool) -> Option<String> {
    let wanted = choices.join(",");
    match value {
        "" if is_required => Some(format!("Required value: must be one of {wanted}")),
        "" => None,
        value if choices.contains(&value) => None,
        value => Some(format!("Invalid value: {}: must be one of {wanted}", quote(value))),
    }
}

fn path_error(path: &str, has_old_name: bool) -> Option<String> {
    if path.is_empty() {
        let hint = ": JSONPath is its name in apiextensions.k8s.io/v1beta1";
        return Some(format!("Required value{}", if has_old_name { hint } else { "" }));
    }
    let why = "must be a simple json path starting with .";
    (!path.starts_with('.')).then(|| format!("Invalid value: {}: {why}", quote(path)))
}

/// Whether each bracket and each quote in brackets is closed.
fn is_balanced(path: &str) -> bool {
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    for c in path.chars() {
        match (c, quote) {
            _ if is_escaped => is_escaped = false,
            ('\\', _) => is_escaped = true,
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) if depth > 0 => quote = Some(c),
            ('[', None) => depth = depth.saturating_add(1),
            (']', None) => match depth.checked_sub(1) {
                Some(rest) => depth = rest,
                None => return false,
            },
            _ => {}
        }
    }
    depth == 0 && quote.is_none()
}

/// The type of a column that another word means.
fn correct_type(pointer: &str, value: &str) -> Option<Fix> {
    const ALIASES: [(&str, &str); 8] = [
        ("bool", "boolean"),
        ("int", "integer"),
        ("int32", "integer"),
        ("int64", "integer"),
        ("float", "number"),
        ("double", "number"),
        ("str", "string"),
        ("text", "string"),
    ];
    let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(value));
    let known = alias.map(|(_, name)| *name).or_else(|| corrections::word(value, &COLUMN_TYPES));
    let meant = known.map(|name| corrections::write(pointer, name));
    meant.or_else(|| {
        Some(corrections::propose(pointer, corrections::nearest(value, &COLUMN_TYPES)?))
    })
}

/// The name of the member in `apiextensions.k8s.io/v1`.
fn rename_path(column: &str, path: &str) -> Option<Fix> {
    let fix = Fix::safe("rename JSONPath to jsonPath");
    path.starts_with('.').then(|| fix.rename_key(format!("{column}/JSONPath"), "jsonPath"))
}

/// A path with the dot before it.
fn add_dot(pointer: &str, path: &str) -> Option<Fix> {
    let is_field = path.starts_with(|c: char| c.is_ascii_alphabetic()) && is_balanced(path);
    is_field.then(|| corrections::write(pointer, &format!(".{path}")))
}
