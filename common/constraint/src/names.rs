//! Names of Kubernetes APIs, with the texts of its validators.

use std::fmt;

use opgate_compat::go::shorten;
use opgate_compat::names;

/// Bytes of a name that a message repeats.
const MAX_SHOWN_BYTES: usize = 300;
const SUBDOMAIN_ERROR: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Group, version and kind of an API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [group, version, kind] =
            [&self.group, &self.version, &self.kind].map(|text| shorten(text, MAX_SHOWN_BYTES));
        write!(f, "{group}/{version}, Kind={kind}")
    }
}

impl Gvk {
    /// Returns the errors in the names, field by field. Empty ones are left to the caller.
    #[must_use]
    pub fn name_errors(&self) -> Vec<(&'static str, String)> {
        let named = |field, text: &str, what| {
            let text = text.to_owned();
            (!text.is_empty()).then_some(what).flatten().map(|why| (field, why))
        };
        let kind = self.kind.to_lowercase();
        [
            named("group", &self.group, subdomain_error(&self.group)),
            named("version", &self.version, label_error(&self.version)),
            named("kind", &self.kind, label_error(&kind)),
        ]
        .into_iter()
        .flatten()
        .map(|(field, why)| (field, format!("invalid GVK {self}: {why}")))
        .collect()
    }
}

fn has_alphanumeric_ends(label: &[u8]) -> bool {
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    label.iter().all(inner)
        && label.first().is_some_and(|&b| b != b'-')
        && label.last().is_some_and(|&b| b != b'-')
}

fn subdomain_error(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 characters".to_owned());
    }
    let valid = text.split('.').all(|label| has_alphanumeric_ends(label.as_bytes()));
    (!valid).then(|| SUBDOMAIN_ERROR.to_owned())
}

fn label_error(text: &str) -> Option<String> {
    names::dns1035_errors(text).first().map(|&why| why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_kubernetes() {
        let gvk = |group: &str, version: &str, kind: &str| Gvk {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        };
        for good in [
            gvk("olm.coreos.io", "v1alpha1", "myresource"),
            gvk("a.example.com", "v1alpha", "CronTab"),
            gvk("1a", "v1", "K"),
            gvk("", "", ""),
        ] {
            assert_eq!(good.name_errors(), [], "{good}");
        }
        let fields = |gvk: Gvk| gvk.name_errors().into_iter().map(|(f, _)| f).collect::<Vec<_>>();
        assert_eq!(fields(gvk("Foo_Bar", "1", "-")), ["group", "version", "kind"]);
        assert_eq!(fields(gvk("a..b", "v1", "1K")), ["group", "kind"]);
        assert_eq!(fields(gvk("a.-b", &"v".repeat(64), "K_")), ["group", "version", "kind"]);
        assert_eq!(
            gvk("a.b", "1", "K").name_errors(),
            [("version", format!("invalid GVK a.b/1, Kind=K: {}", names::dns1035_errors("1")[0]))]
        );
    }
}
