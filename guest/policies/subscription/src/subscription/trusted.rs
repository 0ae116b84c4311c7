//! Volumes with the trusted certificates of the cluster.
//!
//! ```text
//! config.volumes ─┬▶ named trusted-ca ──────────────────────────────────────┬▶ its items
//!                 └▶ of a ConfigMap with OpenShift's label, if these are read ─┘
//! ```

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::Query;
use opgate_sdk::{Document, Kind, Report, Row, Rows, corrections, rule, rules};

use super::Subscription;
use super::volumes::VOLUMES;
use crate::bounded::{self, TOO_MANY};
use crate::reads::{CONFIG_MAPS, READS_CONFIG_MAPS};
use crate::targets::SUBSCRIPTION;

rules![SUB_15];

const CA_BUNDLE_KEY: &str = "ca-bundle.crt";
const CA_BUNDLE_PATH: &str = "tls-ca-bundle.pem";

const COLUMNS: [&str; 6] = [
    "/name",
    "",
    "/configMap",
    "/configMap/name",
    "/configMap/items/0/key",
    "/configMap/items/0/path",
];
const NAME_COLUMN: usize = 0;
const VOLUME_COLUMN: usize = 1;
const CONFIG_MAP_COLUMN: usize = 2;
const CONFIG_MAP_NAME_COLUMN: usize = 3;
const FIRST_KEY_COLUMN: usize = 4;
const FIRST_PATH_COLUMN: usize = 5;

rule! {
    /// a volume with trusted certificates has the bundle at the path that pods read
    ///
    /// An entry of `spec.config.volumes` with the name `trusted-ca` lists in `configMap.items` the
    /// key `ca-bundle.crt` with the path `tls-ca-bundle.pem`. The same applies to an entry with a
    /// ConfigMap of the namespace that has the label `config.openshift.io/inject-trusted-cabundle:
    /// "true"`: in files, and in a server with the setting `subscription.readConfigMaps`. The entry
    /// may list other items, and be mounted anywhere. The rule does not evaluate a volume
    /// `trusted-ca` that is not a ConfigMap. On UPDATE, the rule evaluates only the volumes that
    /// the request changes. If the ConfigMaps are required but not available, only the name counts,
    /// and the policy evaluates the rule in part.
    ///
    /// # Gap
    ///
    /// Without the setting, a server reads no ConfigMaps and recognizes volumes by their names
    /// only: a permission cannot be limited to ConfigMaps with a label.
    ///
    /// # Why
    ///
    /// OpenShift writes the certificates to this key, and programs read them from this file below
    /// `/etc/pki/ca-trust/extracted/pem` (OpenShift 4.12, Operators, *Injecting a custom CA
    /// certificate*). With other names the Operator does not trust the proxy, and fails with `x509:
    /// certificate signed by unknown authority`.
    ///
    /// # Remediation
    ///
    /// Write the items as below. Choose another name for a volume without trusted certificates.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// volumes:
    /// - name: trusted-ca
    ///   configMap:
    ///     name: trusted-ca
    ///     items: [{key: ca-bundle.crt, path: tls-ca-bundle.pem}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// items: [{key: ca-bundle.crt, path: ca.pem}]
    /// ```
    ///
    /// `message: tls-ca-bundle.pem is required as the config map path`
    ///
    /// Without the key, the message is `ca-bundle.crt is required as the config map key`.
    SUB_15: Deny {
        name: "trusted-ca-volume-file-name",
        on: [SUBSCRIPTION: Create | Update],
        reads: [CONFIG_MAPS],
        may_skip: true,
        source: ["OCP 4.12 L7466-7524", "OCP 4.15 L5279-5333", "OCP 4.5 L2648-2660"],
    }
}

impl Subscription<'_> {
    pub(super) fn check_trusted_ca(&self, report: &mut Report<'_>) {
        if !report.is_on(&SUB_15) || !self.review.touches_json(self.object, VOLUMES) {
            return;
        }
        let Some(volumes) = bounded::read_rows(self.object, VOLUMES, &COLUMNS) else {
            return report.skip(&SUB_15, "spec.config.volumes", TOO_MANY);
        };
        let labelled = self.labelled_config_maps(&volumes, report);
        let old = self.review.ratchet_base().and_then(OldVolumes::of);
        for (at, row) in volumes.iter().enumerate() {
            let is_labelled =
                row.text(CONFIG_MAP_NAME_COLUMN).is_some_and(|name| labelled.contains(name));
            if !(is_trusted(row) || is_labelled)
                || is_ca_bundle_item(row.text(FIRST_KEY_COLUMN), row.text(FIRST_PATH_COLUMN))
            {
                continue;
            }
            if report.is_full(&SUB_15) {
                report.add_count(&SUB_15, 1);
                continue;
            }
            let is_old = old.as_ref().is_some_and(|old| old.has(self.object, at, row));
            if !is_old {
                self.check_items(at, report);
            }
        }
    }

    /// The ConfigMaps of the namespace with OpenShift's label, if a volume may be one of them.
    fn labelled_config_maps(&self, volumes: &Rows, report: &mut Report<'_>) -> BTreeSet<String> {
        if !volumes.iter().any(|row| !is_trusted(row) && row.text(CONFIG_MAP_NAME_COLUMN).is_some())
        {
            return BTreeSet::new();
        }
        let query = Query { namespace: Some(self.namespace()), ..Query::default() };
        if let Ok(names) = CONFIG_MAPS.names(query) {
            return names.into_iter().map(|found| found.name).collect();
        }
        // The query requests only the names.
        let is_applicable = self.review.is_from_file()
            || self.review.settings.boolean(READS_CONFIG_MAPS) == Some(true);
        if !is_applicable {
            return BTreeSet::new();
        }
        let why = "the cluster's ConfigMaps are not available";
        report.skip_part(&SUB_15, "spec.config.volumes", why);
        BTreeSet::new()
    }

    /// Checks the items of a volume.
    fn check_items(&self, at: usize, report: &mut Report<'_>) {
        let list = format!("{VOLUMES}/{at}/configMap/items");
        let field = format!("spec.config.volumes[{at}].configMap.items");
        let Some(items) = bounded::read_rows(self.object, &list, &["/key", "/path"]) else {
            return report.skip(&SUB_15, &field, TOO_MANY);
        };
        if items.iter().any(|item| is_ca_bundle_item(item.text(0), item.text(1))) {
            return;
        }
        let path = format!("{CA_BUNDLE_PATH} is required as the config map path");
        if let Some(item) = items.iter().position(|item| item.text(0) == Some(CA_BUNDLE_KEY)) {
            report.add(&SUB_15, format!("{field}[{item}].path"), path);
            report.set_fix(&SUB_15, || {
                // The Operator can read the file under its present name.
                Some(corrections::propose(format!("{list}/{item}/path"), CA_BUNDLE_PATH))
            });
            return;
        }
        let key = format!("{CA_BUNDLE_KEY} is required as the config map key");
        report.add(&SUB_15, field.as_str(), key);
        if !items.iter().any(|item| item.text(1) == Some(CA_BUNDLE_PATH)) {
            report.add(&SUB_15, field, path);
        }
    }
}

/// Whether a volume is the documented one: by its name, and because it is not of another type than
/// ConfigMap.
fn is_trusted(row: Row<'_>) -> bool {
    let is_of_config_map =
        row.kind(CONFIG_MAP_COLUMN) == Kind::Object || row.length(VOLUME_COLUMN) == Some(1);
    row.text(NAME_COLUMN) == Some("trusted-ca") && is_of_config_map
}

fn is_ca_bundle_item(key: Option<&str>, path: Option<&str>) -> bool {
    key == Some(CA_BUNDLE_KEY) && path == Some(CA_BUNDLE_PATH)
}

/// The volumes before an UPDATE, by their names.
struct OldVolumes<'d> {
    object: &'d Document,
    places: BTreeMap<String, usize>,
}

impl<'d> OldVolumes<'d> {
    /// None if there were too many.
    fn of(object: &'d Document) -> Option<Self> {
        let rows = bounded::read_rows(object, VOLUMES, &["/name"])?;
        let places =
            rows.iter().enumerate().filter_map(|(at, row)| Some((row.text(0)?.to_owned(), at)));
        Some(Self { object, places: places.collect() })
    }

    /// Whether the same volume existed before, unchanged.
    fn has(&self, object: &Document, at: usize, row: Row<'_>) -> bool {
        let before = row.text(NAME_COLUMN).and_then(|name| self.places.get(name));
        before.is_some_and(|before| {
            object.equal(&format!("{VOLUMES}/{at}"), self.object, &format!("{VOLUMES}/{before}"))
        })
    }
}
