//! The installation that reports belong to. Audits with other policies have other reports about the same objects.

use aws_lc_rs::digest::{SHA256, digest};

use super::{MANAGED_BY_LABEL, NAME_PREFIX};

/// Label with the installation.
pub const INSTALLATION_LABEL: &str = "opgate.dev/installation";

/// Maximum bytes of the value of a label.
const MAX_LABEL_BYTES: usize = 63;

/// Bytes of the digest of an installation in the names of its reports.
const NAME_BYTES: usize = 4;

/// The installation that reports belong to, or none: then a user has started the audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportOwner {
    /// Value of the label, and the digits in names.
    installation: Option<(String, String)>,
}

impl ReportOwner {
    /// The owner of the reports of an installation.
    #[must_use]
    pub fn installation(namespace: &str, service: &str) -> Self {
        let name = format!("{namespace}/{service}");
        let hash = digest(&SHA256, name.as_bytes());
        let bytes = hash.as_ref().iter().take(NAME_BYTES);
        let digits = bytes.map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let label = format!("{namespace}.{service}");
        let label = if label.len() <= MAX_LABEL_BYTES { label } else { digits.clone() };
        Self { installation: Some((label, digits)) }
    }

    /// Prefix of the names of its reports; the UID of the object follows.
    pub(super) fn name_prefix(&self) -> String {
        match &self.installation {
            Some((_, digits)) => format!("{NAME_PREFIX}{digits}-"),
            None => NAME_PREFIX.to_owned(),
        }
    }

    /// Labels of its reports.
    pub(super) fn labels(&self) -> Vec<(&'static str, &str)> {
        let label =
            self.installation.as_ref().map(|(label, _)| (INSTALLATION_LABEL, label.as_str()));
        std::iter::once(MANAGED_BY_LABEL).chain(label).collect()
    }

    /// Selector of its reports, and of no others.
    pub(super) fn selector(&self) -> String {
        let (key, value) = MANAGED_BY_LABEL;
        match &self.installation {
            Some((label, _)) => format!("{key}={value},{INSTALLATION_LABEL}={label}"),
            None => format!("{key}={value},!{INSTALLATION_LABEL}"),
        }
    }
}
