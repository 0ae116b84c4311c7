//! Contacts of an Operator: its maintainers and links.

use opgate_sdk::go::{mail, url};
use opgate_sdk::{Kind, Shape, rule, rules};

use super::{add_all, visit_first};
use crate::csv::Csv;
use crate::targets::{CATALOG, CSV};

rules![CSV_12, CSV_18];

const MAINTAINERS: &str = "/spec/maintainers";
const LINKS: &str = "/spec/links";

const MAINTAINER: &[(&str, Shape)] = &[("name", Shape::Scalar), ("email", Shape::Scalar)];
const LINK: &[(&str, Shape)] = &[("name", Shape::Scalar), ("url", Shape::Scalar)];

pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    check_maintainers(csv);
    check_links(csv);
}

/// The problem of an element.
enum ContactError {
    Incomplete(u32),
    Invalid(u32, String),
}

/// The problems of the elements of a list of names, each with a contact.
fn find_errors<E: std::fmt::Display>(
    csv: &Csv<'_, '_>,
    list: &str,
    contact: &str,
    check: ContactCheck<E>,
) -> Vec<ContactError> {
    let mut found = Vec::new();
    visit_first(csv.object, list, &["/name", contact], |index, row| {
        let [name, contact] = [0, 1].map(|column| row.text_or_empty(column));
        if name.is_empty() || contact.is_empty() {
            found.push(ContactError::Incomplete(index));
        }
        if !contact.is_empty()
            && let Err(why) = check(contact)
        {
            found.push(ContactError::Invalid(index, format!("{contact} is invalid: {why}")));
        }
    });
    found
}

/// A check of an address; its error is in the words of Go.
type ContactCheck<E> = fn(&str) -> Result<(), E>;

rule! {
    /// maintainers have a name and an email address
    ///
    /// `spec.maintainers` has at least one element, and each has a `name` and an `email`. Go's
    /// `net/mail` can read the address, as the validators of operator-framework/api require:
    /// `dev@example.com`, or `Name <dev@example.com>`. The setting `csv.requiredFields: deny` makes
    /// this rule deny. Copies that OLM makes are exempt. An UPDATE is evaluated only if it changes
    /// the maintainers.
    ///
    /// # Why
    ///
    /// The documents list the field as required (OpenShift 4.12, Operators, *Manually-defined CSV
    /// fields*). OperatorHub does not accept a maintainer without a name, or without an address.
    ///
    /// # Remediation
    ///
    /// Add the people or the organization that maintain the Operator.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {maintainers: [{name: Example, email: dev@example.com}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {maintainers: [{name: Example}]}
    /// ```
    ///
    /// `message: csv.Spec.Maintainers elements should contain both name and email`
    ///
    /// For `email: invalidemail`: `message: csv.Spec.Maintainers email invalidemail is invalid:
    /// mail: missing '@' or angle-addr`
    CSV_12: Warn {
        name: "valid-maintainers",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_with: ["/csv/requiredFields"],
        source: ["OCP 4.12 L19185, L19238-19242", "OCP 4.15 L14285", "api pkg/validation/internal/operatorhub.go"],
    }
}

fn check_maintainers(csv: &mut Csv<'_, '_>) {
    const INCOMPLETE_MAINTAINER: &str =
        "csv.Spec.Maintainers elements should contain both name and email";
    let shape = Shape::List(&Shape::Struct(MAINTAINER));
    if !csv.has_member_set("maintainers") || !csv.touches(MAINTAINERS, &shape) {
        return;
    }
    if csv.object.is_blank(MAINTAINERS) || csv.object.kind(MAINTAINERS) != Kind::List {
        return csv.add(&CSV_12, "spec.maintainers", INCOMPLETE_MAINTAINER);
    }
    let found = find_errors(csv, MAINTAINERS, "/email", mail::check_address);
    add_all(csv, &CSV_12, found, |wrong| match wrong {
        ContactError::Incomplete(index) => {
            (format!("spec.maintainers[{index}]"), INCOMPLETE_MAINTAINER.to_owned())
        }
        ContactError::Invalid(index, why) => (
            format!("spec.maintainers[{index}].email"),
            format!("csv.Spec.Maintainers email {why}"),
        ),
    });
}

rule! {
    /// links have a name and a URL
    ///
    /// Each element of `spec.links` has a `name` and a `url`. Go's `net/url` can read the URL as
    /// the URL of a request, as the validators of operator-framework/api require: it has a scheme,
    /// or is an absolute path. Copies that OLM makes are exempt. An UPDATE is evaluated only if it
    /// changes the links.
    ///
    /// # Why
    ///
    /// The console shows the links by their names (OpenShift 4.12, Operators, *Manually-defined
    /// CSV fields*). OperatorHub does not accept other links.
    ///
    /// # Remediation
    ///
    /// Complete the link, with `https://` before the host, or remove it.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {links: [{name: Docs, url: "https://example.com"}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {links: [{name: Docs}]}
    /// ```
    ///
    /// `message: csv.Spec.Links elements should contain both name and url`
    ///
    /// For `url: https//example.com`: `message: csv.Spec.Links url https//example.com is invalid:
    /// parse "https//example.com": invalid URI for request`
    CSV_18: Warn {
        name: "valid-links",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19309-19313", "OCP 4.15 L14297", "api pkg/validation/internal/operatorhub.go"],
    }
}

fn check_links(csv: &mut Csv<'_, '_>) {
    if !csv.touches(LINKS, &Shape::List(&Shape::Struct(LINK))) {
        return;
    }
    let found = find_errors(csv, LINKS, "/url", url::check_request_uri);
    add_all(csv, &CSV_18, found, |wrong| match wrong {
        ContactError::Incomplete(index) => {
            let message = "csv.Spec.Links elements should contain both name and url";
            (format!("spec.links[{index}]"), message.to_owned())
        }
        ContactError::Invalid(index, why) => {
            (format!("spec.links[{index}].url"), format!("csv.Spec.Links url {why}"))
        }
    });
}
