//! Defaults of OperatorHub: the default catalog sources of a cluster, and which of them are enabled.

use std::collections::BTreeMap;

use opgate_compat::controllers::has_global_catalogs;

use crate::identities::Identities;
use crate::{Document, Rows};

/// Names of the default CatalogSources, unless the settings name others.
const DEFAULT_SOURCES: [&str; 4] =
    ["redhat-operators", "certified-operators", "redhat-marketplace", "community-operators"];

/// Returns the names of the default CatalogSources: those of the setting `catalog.defaults`, or else
/// OpenShift's. A policy that calls this has this setting in its schema.
#[must_use]
pub fn default_sources(settings: &Document) -> Vec<String> {
    const SETTING: &str = "/catalog/defaults";
    if settings.has(SETTING) {
        settings.texts(SETTING)
    } else {
        DEFAULT_SOURCES.map(str::to_owned).into()
    }
}

/// Namespaces whose CatalogSources count everywhere, unless the settings name others: that of
/// OpenShift, and that of upstream's manifests.
const GLOBAL_NAMESPACES: [&str; 2] = ["openshift-marketplace", "olm"];

/// Returns the namespaces whose CatalogSources apply to the whole cluster: those of the setting
/// `subscription.globalNamespaces`, or else the usual ones and those in which OLM runs outside of OpenShift.
/// A policy that calls this has this setting in its schema, and `identities.olm` and `profile` to determine
/// the namespace of OLM.
#[must_use]
pub fn global_namespaces(settings: &Document) -> Vec<String> {
    const SETTING: &str = "/subscription/globalNamespaces";
    if settings.has(SETTING) {
        settings.texts(SETTING)
    } else {
        let mut all: Vec<_> = GLOBAL_NAMESPACES.map(str::to_owned).into();
        for namespace in Identities(settings).olm_namespaces() {
            if has_global_catalogs(&namespace) && !all.contains(&namespace) {
                all.push(namespace);
            }
        }
        all
    }
}

/// More entries do not fit into the memory of a call. There are four default sources.
const MAX_SOURCES: u32 = 32_768;

/// Why there are no entries.
pub const TOO_MANY_SOURCES: &str = "spec.sources has more entries than can be evaluated";

/// Returns the entries of an OperatorHub, with the columns entry, `name` and `disabled`. None if there are
/// too many.
#[must_use]
pub fn sources(hub: &Document) -> Option<Rows> {
    const LIST: &str = "/spec/sources";
    let fits = hub.length(LIST).is_none_or(|length| length <= MAX_SOURCES);
    fits.then(|| hub.rows(LIST, &["", "/name", "/disabled"]))
}

/// The default sources that an OperatorHub enables.
#[derive(Debug)]
pub struct EnabledSources {
    all_disabled: bool,
    /// Whether their entries disable them, and the places of these. The last entry for a source
    /// counts, as in the Marketplace Operator.
    entries: BTreeMap<String, (bool, usize)>,
}

impl EnabledSources {
    /// Reads the default sources of an OperatorHub. None if it has too many entries.
    #[must_use]
    pub fn of(hub: &Document, defaults: &[String]) -> Option<Self> {
        let rows = sources(hub)?;
        let mut entries = BTreeMap::new();
        for (index, row) in rows.iter().enumerate() {
            let name = row.text_or_empty(1);
            if defaults.iter().any(|default| default == name) {
                entries.insert(name.to_owned(), (row.boolean(2) == Some(true), index));
            }
        }
        let all_disabled = hub.boolean("/spec/disableAllDefaultSources") == Some(true);
        Some(Self { all_disabled, entries })
    }

    /// Returns the field that enables a source, if one does.
    #[must_use]
    pub fn enabling_field(&self, name: &str) -> Option<String> {
        match self.entries.get(name) {
            Some((true, _)) => None,
            Some((false, index)) => Some(format!("spec.sources[{index}].disabled")),
            None if self.all_disabled => None,
            None => Some("spec.disableAllDefaultSources".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_of_a_source_counts_before_all() {
        const ALL: &str = "spec.disableAllDefaultSources";
        for (spec, field) in [
            ("{}", Some(ALL)),
            (r#"{"disableAllDefaultSources":true}"#, None),
            (r#"{"disableAllDefaultSources":true,"sources":[{"name":"b"}]}"#, None),
            (
                r#"{"disableAllDefaultSources":true,"sources":[{"name":"a","disabled":true},{"name":"a"}]}"#,
                Some("spec.sources[1].disabled"),
            ),
            (r#"{"sources":[{"name":"a"},{"name":"a","disabled":true}]}"#, None),
        ] {
            let hub = Document::parse(&format!(r#"{{"spec":{spec}}}"#)).unwrap();
            let enabled = EnabledSources::of(&hub, &["a".to_owned()]).unwrap();
            assert_eq!(enabled.enabling_field("a").as_deref(), field, "{spec}");
        }
    }

    #[test]
    fn entries_are_read_unless_there_are_too_many() {
        let count = |sources: &str| {
            let hub = Document::parse(&format!(r#"{{"spec":{{"sources":{sources}}}}}"#)).unwrap();
            super::sources(&hub).map(|rows| rows.iter().count())
        };
        assert_eq!([count("[{},1]"), count("{}"), count("null")], [Some(2), Some(0), Some(0)]);
        let list = |length| format!("[{}]", vec!["0"; length].join(","));
        assert_eq!([count(&list(32_768)), count(&list(32_769))], [Some(32_768), None]);
    }

    #[test]
    fn settings_replace_the_defaults() {
        for (settings, sources) in [
            ("{}", &DEFAULT_SOURCES[..]),
            (r#"{"catalog":{"defaults":["a","b"]}}"#, &["a", "b"]),
            (r#"{"catalog":{"defaults":[]}}"#, &[]),
        ] {
            let settings = Document::parse(settings).unwrap();
            assert_eq!(default_sources(&settings), sources);
        }
        for (settings, namespaces) in [
            ("{}", &GLOBAL_NAMESPACES[..]),
            (r#"{"profile":"ocp-4.12"}"#, &GLOBAL_NAMESPACES),
            (
                r#"{"profile":"upstream"}"#,
                &["openshift-marketplace", "olm", "operator-lifecycle-manager"],
            ),
            (
                r#"{"identities":{"olm":["system:serviceaccount:my-olm:x", "me"]}}"#,
                &["openshift-marketplace", "olm", "my-olm"],
            ),
            (r#"{"profile":"upstream","subscription":{"globalNamespaces":["a"]}}"#, &["a"]),
            (r#"{"subscription":{"globalNamespaces":[]}}"#, &[]),
        ] {
            let settings = Document::parse(settings).unwrap();
            assert_eq!(global_namespaces(&settings), namespaces);
        }
    }
}
