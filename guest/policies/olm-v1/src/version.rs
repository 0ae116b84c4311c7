//! The version constraint of an Operator.

use opgate_compat::masterminds::Constraint;
use opgate_sdk::go::shorten;
use opgate_sdk::{Document, Kind, Report, Review, corrections, go_format, rule, rules};

use crate::operator::is_new;
use crate::targets::OPERATOR;

rules![OL1_03];

pub(crate) const VERSION: &str = "/spec/version";
pub(crate) const FIELD: &str = "spec.version";
/// Maximum characters of a constraint in the schema.
const MAX_CHARS: usize = 64;

rule! {
    /// the version of an Operator of OLM 1.0 is a version constraint
    ///
    /// `spec.version`, if it is set, is a string of at most 64 characters: a version, or
    /// comparisons with spaces or commas between them, joined by `||`. The operators are `=`, `!=`,
    /// `>`, `<`, `>=`, `<=`, `~` and `^`, and also `=>`, `=<` and `~>`. A version may have a `v`
    /// prefix, may omit its last numbers, and may have `x`, `X` or `*` for any of them. Numbers
    /// have no leading zeroes, and there are no ranges with a hyphen. An empty string counts as
    /// not set. The rule evaluates an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// OLM does not resolve the Operator (operator-controller v0.8.0
    /// `internal/controllers/validators/validators.go`), or its schema rejects it. YAML can read an
    /// unquoted value as a number: `1.10` is `1.1`.
    ///
    /// # Remediation
    ///
    /// Correct the part that the message quotes. Put the constraint in quotes: `version: "1.11"`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {packageName: a, version: '>=1.11, <1.13'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {packageName: a, version: latest}
    /// ```
    ///
    /// `message: invalid .spec.version: improper constraint: latest`
    ///
    /// With `version: 1.11`: `message: invalid .spec.version: improper constraint: 1.11 is not a string: put the
    /// version in quotes`
    OL1_03: Deny {
        name: "valid-olm-v1-version-range",
        on: [OPERATOR: Create | Update],
        source: ["OCP 4.15 L19816-19838, L20889, L21431-21513", "operator-controller v0.8.0 internal/controllers/validators/validators.go, api/v1alpha1/operator_types.go"],
    }
}

pub(crate) fn check(review: &Review<'_>, operator: &Document, report: &mut Report<'_>) {
    if !is_new(review, operator, VERSION) {
        return;
    }
    let Some(version) = operator.text(VERSION) else {
        let value = go_format::format_value(operator, VERSION, false);
        let value = shorten(&value, MAX_CHARS);
        let hint = match operator.kind(VERSION) {
            Kind::Number | Kind::Boolean => " is not a string: put the version in quotes",
            _ => "",
        };
        let message = format!("invalid .spec.version: improper constraint: {value}{hint}");
        report.add(&OL1_03, FIELD, message);
        report.set_fix(&OL1_03, || corrections::text_fix(operator, VERSION));
        return;
    };
    if version.chars().count() > MAX_CHARS {
        let message = format!("{FIELD}: Too long: may not be longer than {MAX_CHARS}");
        report.add(&OL1_03, FIELD, message);
    } else if !version.is_empty()
        && let Err(why) = Constraint::parse(&version)
    {
        report.add(&OL1_03, FIELD, format!("invalid .spec.version: {why}"));
    }
}

/// A constraint of an Operator, as written and as parsed.
pub(crate) struct VersionConstraint {
    pub(crate) text: String,
    pub(crate) constraint: Constraint,
}

impl VersionConstraint {
    /// The constraint of an Operator. None if it has no valid constraint.
    pub(crate) fn of(operator: &Document) -> Option<Self> {
        let text = operator.text(VERSION).filter(|text| text.len() <= 4 * MAX_CHARS)?;
        let constraint = Constraint::parse(&text).ok()?;
        Some(Self { text, constraint })
    }
}
