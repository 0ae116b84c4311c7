//! Structural schemas: the requirements of the API server on the schema of each version of a CRD.
//!
//! ```text
//! version ─▶ text ─▶ Tree ─▶ walk ─┬─▶ keywords     each schema separately
//!                                  ├─▶ structure    types and items
//!                                  ├─▶ validation   schemas below junctors, and their counterparts
//!                                  └─▶ default      defaults with their schemas
//! ```
//!
//! The schemas of a CRD are read once, each schema in them is visited once, and the time is
//! proportional to the size of the texts: some milliseconds for the 1.5 MiB that an API server
//! stores.

mod default;
mod keywords;
mod path;
mod pattern;
mod structure;
mod validation;
mod walk;

use opgate_sdk::{Kind, Report, Review, rule, rules};

use crate::crd::Crd;
use crate::schema::Schema;
use crate::schema::tree::{NodeId, Tree};
use crate::targets::CRD;
use crate::validation::WorkBudget;
use walk::{InheritedRestrictions, Role, Walk};

rules![CRD_33];

/// The maximum size of the schemas of one CRD, in bytes. An API server stores objects of 1.5 MiB.
const MAX_BYTES: u32 = 1_600_000;

/// The maximum number of schemas that are visited for one CRD. Published CRDs have some 20,000.
const MAX_SCHEMAS: usize = 50_000;

rule! {
    /// the schema of each version of a CRD is structural
    ///
    /// In a file, each version of a CRD of `apiextensions.k8s.io/v1` has a schema in
    /// `schema.openAPIV3Schema` that is structural and complete:
    ///
    /// * Each value has one of the `type`s `array`, `boolean`, `integer`, `number`, `object` and
    ///   `string`, unless `x-kubernetes-int-or-string` or `x-kubernetes-preserve-unknown-fields` is
    ///   `true`. The outermost type is `object`. Arrays have `items`.
    /// * Below `allOf`, `anyOf`, `oneOf` and `not`, no keyword defines a value (`type`, `default`,
    ///   `description`, `nullable`, `additionalProperties`, `x-kubernetes-…`). Below these keywords
    ///   of the outermost schema, each property and item is also defined outside of them.
    /// * `$ref`, `definitions`, `dependencies`, `patternProperties`, `additionalItems`, `id`, `$schema` and
    ///   `uniqueItems: true` are not used, nor are `properties` together with `additionalProperties`.
    /// * The outermost `metadata` restricts only `name` and `generateName`.
    /// * `x-kubernetes-list-type`, `x-kubernetes-map-type` and `x-kubernetes-list-map-keys` match
    ///   the type, and each key of a list is a property of its items that is required or has a
    ///   default.
    /// * Each `pattern` is a regular expression of Go, and each `default` is valid by its schema.
    ///
    /// A request for a CRD is not evaluated, because the API server has checked it. A CRD of
    /// `apiextensions.k8s.io/v1beta1` is not evaluated, because its schemas are optional, nor is a
    /// mapping instead of the list of versions (CRD-07).
    ///
    /// # Gap
    ///
    /// Rules in CEL (`x-kubernetes-validations`) are not parsed, and defaults in the metadata of
    /// embedded resources are not checked. Schemas with a total size of more than 1.6 MB, or with
    /// more than 50,000 schemas in them, are evaluated in part, and the verdict reports it.
    ///
    /// # Why
    ///
    /// The API server rejects any other schema when the CRD is created, so the installation of the
    /// Operator fails (OpenShift 4.12, Operators, *Creating a custom resource definition*).
    /// `operator-sdk bundle validate` does not report it: it skips the checks of schemas.
    ///
    /// # Remediation
    ///
    /// Correct the schema at the path in the message. `make manifests` generates structural schemas
    /// from the types in Go. To allow any fields, write `type: object` and
    /// `x-kubernetes-preserve-unknown-fields: true`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// openAPIV3Schema:
    ///   type: object
    ///   properties:
    ///     spec: {type: object, properties: {args: {type: array, items: {type: string}}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// openAPIV3Schema:
    ///   type: object
    ///   properties:
    ///     spec: {type: object, properties: {mode: {type: strng}, args: {type: array}}}
    /// ```
    ///
    /// `message: spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[mode].type: Unsupported value:
    /// "strng": supported values: "array", "boolean", "integer", "number", "object", "string"`
    ///
    /// `message: spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[args].items: Required value:
    /// must be specified`
    ///
    /// A version without a schema: `message: spec.versions[0].schema.openAPIV3Schema: Required value`
    CRD_33: Deny {
        name: "crd-structural-schema",
        on: [CRD: Create | Update],
        may_skip: true,
        source: ["apiextensions-apiserver pkg/apiserver/schema/validation.go", "OCP 4.12 L4906"],
    }
}

/// Evaluates the schemas of a CRD in a file.
pub(crate) fn check(
    review: &Review<'_>,
    crd: &Crd<'_>,
    work: &mut WorkBudget,
    report: &mut Report<'_>,
) {
    if !review.is_from_file() || crd.is_v1beta1 || crd.is_mapping || !report.is_on(&CRD_33) {
        return;
    }
    let (mut left, mut schemas) = (MAX_BYTES, MAX_SCHEMAS);
    for version in &crd.versions {
        let Some(schema) = crd.schema(version) else {
            let field = version.member("schema.openAPIV3Schema");
            let hint = if crd.document.has("/spec/validation") {
                ": spec.validation is a field of apiextensions.k8s.io/v1beta1"
            } else {
                ""
            };
            report.add(&CRD_33, &field, format!("{field}: Required value{hint}"));
            continue;
        };
        let size = crd.document.size(&schema.pointer).unwrap_or(u32::MAX);
        let Some(rest) = left.checked_sub(size) else {
            report.skip_part(&CRD_33, &schema.field, "the schemas are too large to evaluate them");
            return;
        };
        left = rest;
        if crd.document.kind(&schema.pointer) != Kind::Object {
            let message = format!("{}: Invalid value: must be an object", schema.field);
            report.add(&CRD_33, schema.field, message);
            continue;
        }
        let Some(text) = crd.document.raw(&schema.pointer) else { continue };
        let tree = Tree::of(text);
        let status = format!("/spec/versions/{}/subresources/status", version.index());
        let has_status = crd.document.has(&status);
        let mut walk = Walk::new(&tree, &schema.field, has_status, report);
        schemas = walk.run(schemas, check_schema);
        // A default of a schema with an error would be reported for the same error.
        let is_complete = walk.count > 0 || default::check(&mut walk, work);
        let why = if schemas == 0 {
            "the schemas take too long to evaluate all of them"
        } else if !is_complete {
            "the defaults take too long to evaluate all of them"
        } else {
            continue;
        };
        report.skip_part(&CRD_33, &schema.field, why);
        if schemas == 0 {
            return;
        }
    }
}

/// Evaluates one schema in its role.
fn check_schema(
    walk: &mut Walk<'_, '_, '_>,
    node_id: NodeId,
    role: Role,
    restrictions: InheritedRestrictions,
) {
    let schema = Schema::at(walk.tree, node_id);
    keywords::check(walk, &schema, role, restrictions);
    match role {
        Role::Structure(level) => {
            structure::check_structure(walk, node_id, &schema, level, restrictions);
        }
        Role::Validation { counterpart, skips_any_of } => {
            validation::check_validation(walk, &schema, counterpart, skips_any_of, restrictions);
        }
    }
}
