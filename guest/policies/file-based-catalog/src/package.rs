//! Separate checks of each package.

use opgate_sdk::go::{base64, quote};
use opgate_sdk::{Fix, Kind, Report, corrections, names, rule, rules};

use crate::CATALOG;
use crate::blob::{Blob, BlobIdentity, Text};
use crate::{go_text, spelling};

rules![FBC_09, FBC_10, FBC_12];

/// An `olm.package` blob.
pub(crate) struct Package {
    pub(crate) at: u32,
    pub(crate) name: String,
    /// The default channel and its field. `None` if it is missing.
    pub(crate) default_channel: Option<(String, String)>,
}

rule! {
    /// the name of a package is a DNS-1123 label
    ///
    /// `name` of an `olm.package` blob is not empty and is a DNS-1123 label: at most 63 lower-case
    /// letters, digits and hyphens, with a letter or digit at both ends. FBC-02 reports a name that
    /// is not a string.
    ///
    /// # Why
    ///
    /// `opm validate` rejects other names (operator-registry; OpenShift 4.12, Operators,
    /// *olm.package schema*).
    ///
    /// # Remediation
    ///
    /// Rename the package, also in its channels, bundles, `olm.package` properties and
    /// deprecations.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.package, name: 3scale-operator, defaultChannel: stable}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.package, name: foo.bar, defaultChannel: stable}
    /// ```
    ///
    /// `message: invalid package name "foo.bar": [must not contain dots]`, or for an empty name
    /// `message: config contains package with no name`
    FBC_09: Deny {
        name: "package-name-dns-label",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L711-715", "OCP 4.15 L541-571", "OKD L188-190", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

rule! {
    /// a package names its default channel
    ///
    /// `defaultChannel` of an `olm.package` blob is a non-empty string. FBC-11 evaluates whether
    /// the channel exists.
    ///
    /// # Why
    ///
    /// `opm validate` rejects a package without a default channel, and the schema requires it
    /// (OpenShift 4.12, Operators, *olm.package schema*). `opm init` leaves it empty unless you set
    /// it.
    ///
    /// # Remediation
    ///
    /// Set `defaultChannel` to the name of a channel of the package.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.package, name: etcd, defaultChannel: stable}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.package, name: etcd, defaultChannel: ""}
    /// ```
    ///
    /// `message: default channel must be set`
    FBC_10: Deny {
        name: "package-default-channel-set",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L720-721", "OCP 4.15 L562, L21870, L21926-21930", "OKD L194-195", "operator-registry alpha/model/model.go"],
    }
}

/// Evaluates a package separately.
pub(crate) fn check(
    blob: &Blob<'_>,
    meta: &BlobIdentity,
    only_channel: Option<&str>,
    report: &mut Report<'_>,
) -> Package {
    match &meta.name {
        Text::WrongType => {}
        Text::Value(name) if !name.is_empty() => {
            let errors = names::label_errors(name);
            if !errors.is_empty() {
                let errors = errors.join(" ");
                let message = format!("invalid package name {}: [{errors}]", quote(name));
                report.add(&FBC_09, blob.field("name"), message);
            }
        }
        Text::Missing => {
            report.add(&FBC_09, blob.path(), "config contains package with no name");
        }
        Text::Value(_) => {
            report.add(&FBC_09, blob.field("name"), "config contains package with no name");
        }
    }
    let default = blob.text_of("defaultChannel").filter(|name| !name.is_empty());
    if default.is_none() {
        let field = match blob.kind("defaultChannel") {
            Kind::Missing => blob.path(),
            _ => blob.field("defaultChannel"),
        };
        report.add(&FBC_10, field, "default channel must be set");
        report.set_fix(&FBC_10, || {
            let channel = only_channel?;
            let fix = Fix::safe(format!("set the only channel, {}", corrections::shown(channel)));
            Some(fix.set_text(blob.absolute(&blob.pointer("defaultChannel")), channel))
        });
    }
    check_description_and_icon(blob, report);
    Package {
        at: blob.at,
        name: meta.name.as_str().to_owned(),
        default_channel: default.map(|name| (name, blob.field("defaultChannel"))),
    }
}

rule! {
    /// the description of a package is a text, its icon has data and a media type
    ///
    /// `description` of an `olm.package` blob, if set, is a string. `icon`, if set, is an object
    /// with the strings `base64data`, which is valid base64, and `mediatype`. The rule does not
    /// check the image itself. `null` counts as not set.
    ///
    /// # Why
    ///
    /// `opm` decodes the icon while it loads the package, and loading fails otherwise (OpenShift
    /// 4.12, Operators, *olm.package schema*; operator-registry).
    ///
    /// # Remediation
    ///
    /// Correct the member that the message names. To encode an icon, use `base64 -w0 icon.svg`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// icon: {base64data: PHN2Zz4=, mediatype: image/svg+xml}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// icon: {base64data: PHN2Zz4=}
    /// ```
    ///
    /// `message: parse package: icon.mediatype must be set`
    FBC_12: Deny {
        name: "package-description-and-icon",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L717-727", "OCP 4.15 L541-571", "OKD L191-200", "operator-registry alpha/declcfg/load.go"],
    }
}

/// Evaluates description and icon. Upstream decodes the icon, and does not check the image itself.
fn check_description_and_icon(blob: &Blob<'_>, report: &mut Report<'_>) {
    let complain = |report: &mut Report<'_>, field: String, why: String| {
        report.add(&FBC_12, field, format!("parse package: {why}"));
    };
    match blob.kind("description") {
        Kind::Missing | Kind::Null | Kind::Text => {}
        kind => {
            let why = go_text::wrong_field(kind, "Package.description", "string");
            complain(report, blob.field("description"), why);
        }
    }
    match blob.kind("icon") {
        Kind::Missing | Kind::Null => {}
        Kind::Object => {
            let mut decoded = Vec::new();
            for (name, go_type) in [("base64data", "[]uint8"), ("mediatype", "string")] {
                let pointer = format!("{}/{name}", blob.pointer("icon"));
                match blob.value().kind(&pointer) {
                    Kind::Text if name == "base64data" => {
                        let data = blob.value().text_or_empty(&pointer);
                        if let Err(at) = base64::decode(data.as_str(), &mut decoded) {
                            let why = format!("illegal base64 data at input byte {at}");
                            complain(report, format!("{}.{name}", blob.field("icon")), why);
                        }
                    }
                    Kind::Text => {}
                    Kind::Missing | Kind::Null => {
                        let hint =
                            spelling::spelling_hint(blob.value(), &blob.pointer("icon"), name);
                        complain(
                            report,
                            blob.field("icon"),
                            format!("icon.{name} must be set{hint}"),
                        );
                        report.set_fix(&FBC_12, || {
                            spelling::rename_fix(blob, &blob.pointer("icon"), name)
                        });
                    }
                    kind => complain(
                        report,
                        format!("{}.{name}", blob.field("icon")),
                        go_text::wrong_field(kind, &format!("Icon.icon.{name}"), go_type),
                    ),
                }
            }
        }
        kind => {
            let why = go_text::wrong_field(kind, "Package.icon", "declcfg.Icon");
            complain(report, blob.field("icon"), why);
        }
    }
}
