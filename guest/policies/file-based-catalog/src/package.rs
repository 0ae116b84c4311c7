//! Packages: FBC-09, FBC-10 and FBC-12.

use opgate_sdk::Kind;
use opgate_sdk::go::{base64, quote};

use crate::blob::{Blob, Meta, Text};
use crate::findings::Findings;
use crate::{go_text, names, spelling};

/// An `olm.package` blob.
pub(crate) struct Package {
    pub(crate) at: u32,
    pub(crate) name: String,
    /// Its default channel and where that is said; none where it lacks.
    pub(crate) default_channel: Option<(String, String)>,
}

/// Judges a package by itself.
pub(crate) fn judge(blob: &Blob<'_>, meta: &Meta, findings: &mut Findings<'_>) -> Package {
    match &meta.name {
        Text::Wrong => {}
        Text::Is(name) if !name.is_empty() => {
            let errors = names::label_errors(name);
            if !errors.is_empty() {
                let errors = errors.join(" ");
                let message = format!("invalid package name {}: [{errors}]", quote(name));
                findings.add("FBC-09", blob.field("name"), message);
            }
        }
        Text::Missing => {
            findings.add("FBC-09", blob.path(), "config contains package with no name");
        }
        Text::Is(_) => {
            findings.add("FBC-09", blob.field("name"), "config contains package with no name");
        }
    }
    let default = blob.text_of("defaultChannel").filter(|name| !name.is_empty());
    if default.is_none() {
        let field = match blob.kind("defaultChannel") {
            Kind::Missing => blob.path(),
            _ => blob.field("defaultChannel"),
        };
        findings.add("FBC-10", field, "default channel must be set");
    }
    description_and_icon(blob, findings);
    Package {
        at: blob.at,
        name: meta.name.as_str().to_owned(),
        default_channel: default.map(|name| (name, blob.field("defaultChannel"))),
    }
}

/// FBC-12. What the icon shows is nobody's business, but that it is base64 is upstream's.
fn description_and_icon(blob: &Blob<'_>, findings: &mut Findings<'_>) {
    let mut complain = |field: String, why: String| {
        findings.add("FBC-12", field, format!("parse package: {why}"));
    };
    match blob.kind("description") {
        Kind::Missing | Kind::Null | Kind::Text => {}
        kind => {
            let why = go_text::wrong_field(kind, "Package.description", "string");
            complain(blob.field("description"), why);
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
                            complain(format!("{}.{name}", blob.field("icon")), why);
                        }
                    }
                    Kind::Text => {}
                    Kind::Missing | Kind::Null => {
                        let hint = spelling::hint(blob.value(), &blob.pointer("icon"), name);
                        complain(blob.field("icon"), format!("icon.{name} must be set{hint}"));
                    }
                    kind => complain(
                        format!("{}.{name}", blob.field("icon")),
                        go_text::wrong_field(kind, &format!("Icon.icon.{name}"), go_type),
                    ),
                }
            }
        }
        kind => {
            let why = go_text::wrong_field(kind, "Package.icon", "declcfg.Icon");
            complain(blob.field("icon"), why);
        }
    }
}
