//! Weights and operators in the terms of a node affinity.

use opgate_sdk::go::quote;
use opgate_sdk::pods::{self, PodSpec};
use opgate_sdk::{Document, Kind, Row, rule, rules};

use super::{PREFERRED, REQUIRED, TERMS};
use crate::subject::{Subject, Violations};
use crate::targets::{CATALOG, CSV, with_affinity};

rules![PSA_16];

const NODE: &str = "affinity.nodeAffinity";
const NODE_POINTER: &str = "/affinity/nodeAffinity";

rule! {
    /// terms of node affinity have weights and operators that Kubernetes accepts
    ///
    /// In the node affinity of a Pod, of the template of a Deployment, DaemonSet or StatefulSet,
    /// and of the pod templates in `spec.install.spec.deployments` of a CSV, each `weight` in
    /// `preferredDuringSchedulingIgnoredDuringExecution` is 1 to 100, and each operator in
    /// `matchExpressions`, preferred or required, is `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`
    /// or `Lt`. Absent values count as 0 and as empty. The rule exempts copies that OLM created. On
    /// UPDATE, it does not evaluate a value that the old object has in the same field.
    ///
    /// # Why
    ///
    /// Kubernetes rejects pods with other values (OpenShift 4.15, Operators, *Using preferred node
    /// affinity rules to configure support for multi-architecture compute machines*). It rejects
    /// pods and workloads immediately; the deployment of an Operator fails later.
    ///
    /// # Remediation
    ///
    /// Use a weight from 1 to 100, and one of the operators.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// - weight: 90
    ///   preference: {matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// - weight: 0
    ///   preference: {matchExpressions: [{key: kubernetes.io/arch, operator: Equals, values: [arm64]}]}
    /// ```
    ///
    /// `message: weight: Invalid value: 0: must be in the range 1-100`, and `operator: Invalid
    /// value: "Equals": not a valid selector operator`
    PSA_16: Deny {
        name: "valid-node-affinity-terms",
        on: [
            CSV: Create | Update,
            CATALOG: Create | Update,
            with_affinity::POD: Create | Update,
            with_affinity::DEPLOYMENT: Create | Update,
            with_affinity::DAEMON_SET: Create | Update,
            with_affinity::STATEFUL_SET: Create | Update,
        ],
        source: ["OCP 4.15 L18290-18312"],
    }
}

/// A value that Kubernetes rejects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct InvalidTerm {
    /// Index of the spec.
    spec: usize,
    is_preferred: bool,
    /// Index of the term.
    term: usize,
    error: TermError,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum TermError {
    Weight(i64),
    /// An operator, with the index of its expression.
    Operator(usize, String),
}

/// PSA-16.
pub(crate) fn check(subject: &mut Subject<'_, '_>) {
    if !subject.report.is_on(&PSA_16) {
        return;
    }
    subject.add_new(
        &PSA_16,
        find_invalid,
        |_, spec, wrong| violation_texts(spec, wrong),
        |wrong| wrong.spec,
    );
}

fn violation_texts(spec: &PodSpec, wrong: &InvalidTerm) -> (String, String) {
    let InvalidTerm { is_preferred, term, error: what, .. } = wrong;
    let at = format!("{}.{NODE}", spec.field());
    match what {
        TermError::Weight(weight) => (
            format!("{at}.{PREFERRED}[{term}].weight"),
            format!("weight: Invalid value: {weight}: must be in the range 1-100"),
        ),
        TermError::Operator(expression, operator) => {
            let term = if *is_preferred {
                format!("{PREFERRED}[{term}].preference")
            } else {
                format!("{REQUIRED}.nodeSelectorTerms[{term}]")
            };
            let operator = quote(operator);
            (
                format!("{at}.{term}.matchExpressions[{expression}].operator"),
                format!("operator: Invalid value: {operator}: not a valid selector operator"),
            )
        }
    }
}

/// The values that Kubernetes rejects, in the order of the object.
fn find_invalid(object: &Document, specs: &[PodSpec]) -> Violations<InvalidTerm> {
    let columns = ["/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution", TERMS];
    let mut found = Violations::new();
    let mut spec_number = 0;
    pods::each(object, specs, &columns, |spec, row| {
        let [preferred, required] = [0, 1].map(|column| row.kind(column) == Kind::List);
        if preferred || required {
            let mut search = Search { object, spec: spec_number, found: &mut found };
            if preferred {
                search.check_preferred(&format!("{}{NODE_POINTER}/{PREFERRED}", spec.pointer()));
            }
            if required {
                search.check_required(&format!("{}{TERMS}", spec.pointer()));
            }
        }
        spec_number += 1;
    });
    found
}

struct Search<'s> {
    object: &'s Document,
    spec: usize,
    found: &'s mut Violations<InvalidTerm>,
}

impl Search<'_> {
    fn check_preferred(&mut self, list: &str) {
        let columns =
            ["/weight", "/preference/matchExpressions", "/preference/matchExpressions/0/operator"];
        for (term, row) in self.object.rows(list, &columns).iter().enumerate() {
            // Kubernetes rejects a value that is not an integer before it evaluates anything else.
            let weight = match row.kind(0) {
                Kind::Missing | Kind::Null => Some(0),
                Kind::Number => self.object.integer(&format!("{list}/{term}/weight")),
                _ => None,
            };
            if let Some(weight) = weight.filter(|weight| !(1..=100).contains(weight)) {
                let what = TermError::Weight(weight);
                self.found.push(InvalidTerm {
                    spec: self.spec,
                    is_preferred: true,
                    term,
                    error: what,
                });
            }
            self.check_operators(row, 1, true, term, || {
                format!("{list}/{term}/preference/matchExpressions")
            });
        }
    }

    fn check_required(&mut self, list: &str) {
        let columns = ["/matchExpressions", "/matchExpressions/0/operator"];
        for (term, row) in self.object.rows(list, &columns).iter().enumerate() {
            self.check_operators(row, 0, false, term, || format!("{list}/{term}/matchExpressions"));
        }
    }

    /// The operators of a term. `column` has its expressions, the next one the operator of the
    /// first.
    fn check_operators(
        &mut self,
        row: Row<'_>,
        column: usize,
        is_preferred: bool,
        term: usize,
        pointer: impl FnOnce() -> String,
    ) {
        if row.kind(column) != Kind::List {
            return;
        }
        match row.length(column) {
            None | Some(0) => {}
            Some(1) => self.check_operator(row, column + 1, is_preferred, term, 0),
            Some(_) => {
                let rows = self.object.rows(&pointer(), &["/operator"]);
                for (expression, row) in rows.iter().enumerate() {
                    self.check_operator(row, 0, is_preferred, term, expression);
                }
            }
        }
    }

    fn check_operator(
        &mut self,
        row: Row<'_>,
        column: usize,
        is_preferred: bool,
        term: usize,
        expression: usize,
    ) {
        let operator = row.text_or_empty(column);
        let is_read = matches!(row.kind(column), Kind::Text | Kind::Missing | Kind::Null);
        if is_read && !matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt")
        {
            let what = TermError::Operator(expression, operator.to_owned());
            self.found.push(InvalidTerm { spec: self.spec, is_preferred, term, error: what });
        }
    }
}
