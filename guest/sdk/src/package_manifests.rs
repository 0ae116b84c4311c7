//! PackageManifests: what OLM's package server shows of the packages in catalogs.
//!
//! ```text
//! index `name` ─▶ those of the package ─▶ the one of the catalog source ─▶ a channel ─▶ its head
//! ```
//!
//! Each catalog source that has a package gets a PackageManifest of the same name. In the list of a
//! single namespace, `metadata.namespace` is that namespace, and not the one of the source.

use crate::cluster::{IndexMatch, Query, ReadError};
use crate::{ClusterRead, Document, Index, Kind, Rows};

/// API group of PackageManifests.
pub const GROUP: &str = "packages.operators.coreos.com";

/// The index that every read of PackageManifests has.
pub const NAME_INDEX: Index = Index { name: "name", field: "/metadata/name", separator: "" };

/// More channels, or entries of one, do not fit into the answer of a call. Tenants decide what is in
/// their catalogs.
const MAX_ENTRIES: u32 = 16_384;

/// Returns the PackageManifest of a package in one catalog source. The read has the index [`NAME_INDEX`], and the
/// fields `/status/catalogSource` and `/status/catalogSourceNamespace`.
///
/// # Errors
/// If there is no cluster to query.
pub fn find(
    read: &ClusterRead,
    package: &str,
    source: &str,
    namespace: &str,
) -> Result<Option<Document>, ReadError> {
    let names = [package.to_owned()];
    let matches = [IndexMatch { index: NAME_INDEX.name, values: &names, include_missing: false }];
    let mut found = None;
    read.each(Query { matches: &matches, ..Query::default() }, |manifest| {
        if is_from_source(&manifest, source, namespace) {
            found = Some(manifest);
        }
        found.is_none()
    })?;
    Ok(found)
}

/// Compares the namespace, too: a tenant's catalog source may have the same name in another one.
fn is_from_source(manifest: &Document, source: &str, namespace: &str) -> bool {
    let of = manifest.text("/status/catalogSourceNamespace");
    let of = of.unwrap_or_else(|| manifest.text_or_empty("/metadata/namespace"));
    manifest.text_or_empty("/status/catalogSource") == source && (of == namespace || of.is_empty())
}

/// Returns the channel of this name, or the default channel if the name is empty. If there is no name of a
/// default channel, the only channel is it, as for OLM. None if there are too many channels.
#[must_use]
pub fn channel(manifest: &Document, name: &str) -> Option<Document> {
    if manifest.length("/status/channels").is_some_and(|count| count > MAX_ENTRIES) {
        return None;
    }
    let default = if name.is_empty() {
        manifest.text_or_empty("/status/defaultChannel")
    } else {
        name.into()
    };
    let channels = manifest.rows("/status/channels", &["/name"]);
    let is_only = channels.iter().count() == 1;
    let is_it = |found: Option<&str>| match default.as_str() {
        "" => is_only,
        default => found == Some(default),
    };
    let index = channels.iter().position(|row| is_it(row.text(0)))?;
    manifest.at(&format!("/status/channels/{index}"))
}

/// Returns the names of a channel's entries, in their order. None if the package server does not show
/// entries, or if there are too many.
#[must_use]
pub fn entries(channel: &Document) -> Option<Rows> {
    const LIST: &str = "/entries";
    let fits = channel.kind(LIST) == Kind::List
        && channel.length(LIST).is_some_and(|count| count <= MAX_ENTRIES);
    fits.then(|| channel.rows(LIST, &["/name"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(status: &str) -> Document {
        let json = format!(r#"{{"metadata":{{"namespace":"here"}},"status":{status}}}"#);
        Document::parse(&json).unwrap()
    }

    #[test]
    fn a_manifest_belongs_to_one_source() {
        for (status, is_its) in [
            (r#"{"catalogSource":"s","catalogSourceNamespace":"n"}"#, true),
            (r#"{"catalogSource":"s","catalogSourceNamespace":"other"}"#, false),
            (r#"{"catalogSource":"t","catalogSourceNamespace":"n"}"#, false),
            (r#"{"catalogSource":"s","catalogSourceNamespace":""}"#, true),
            (r#"{"catalogSource":"s"}"#, false),
            ("{}", false),
        ] {
            assert_eq!(is_from_source(&manifest(status), "s", "n"), is_its, "{status}");
        }
        assert!(is_from_source(&manifest(r#"{"catalogSource":"s"}"#), "s", "here"));
    }

    #[test]
    fn a_channel_is_found_by_its_name_or_is_the_default() {
        let both = r#"{"defaultChannel":"b","channels":[{"name":"a"},{"name":"b"}]}"#;
        let none = r#"{"channels":[{"name":"a"},{"name":"b"}]}"#;
        for (status, name, found) in [
            (both, "a", Some("a")),
            (both, "", Some("b")),
            (both, "c", None),
            (none, "", None),
            (r#"{"channels":[{"name":"a"}]}"#, "", Some("a")),
            (r#"{"defaultChannel":"c","channels":[{"name":"a"}]}"#, "", None),
            (r#"{"channels":{"name":"a"}}"#, "a", None),
        ] {
            let channel = channel(&manifest(status), name);
            let of = channel.map(|channel| channel.text_or_empty("/name"));
            assert_eq!(of.as_deref(), found, "{status} {name}");
        }
        let list = |length| format!("[{}]", vec!["{}"; length].join(","));
        for (length, is_found) in [(1, true), (16_384, false), (16_385, false)] {
            let channels = format!(r#"{{"channels":{}}}"#, list(length));
            let found = channel(&manifest(&channels), "");
            assert_eq!(found.is_some(), is_found, "{length}");
            let channel = Document::parse(&format!(r#"{{"entries":{}}}"#, list(length))).unwrap();
            assert_eq!(entries(&channel).is_some(), length < 16_385, "{length}");
        }
        assert!(entries(&Document::parse("{}").unwrap()).is_none());
    }
}
