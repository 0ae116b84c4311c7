//! The PackageManifest of the subscribed package.
//!
//! ```text
//! spec.name, source, sourceNamespace ─▶ PackageManifest ─▶ channel ─┬─ install modes ◀─ group
//!                                                                   ├─ version of its head
//!                                                                   ├─ entries
//!                                                                   └─ deprecations
//! ```
//!
//! The package server may be down, and a catalog may not show the package yet. Then the policy
//! skips the rules; it concludes nothing from missing data.

use opgate_compat::version::Version;
use opgate_sdk::install_modes::InstallModes;
use opgate_sdk::{Document, Kind, Report, Rule, operator_groups, package_manifests, rule, rules};

use super::Subscription;
use super::channel::{self, NO_CHANNEL};
use super::provided::SUB_31;
use crate::bounded::quote;
use crate::reads::{GROUPS, MANIFESTS, NAMESPACES};
use crate::targets::SUBSCRIPTION;

rules![SUB_06, SUB_12, SUB_13, SUB_23];

const PACKAGE: [&str; 3] = ["name", "source", "sourceNamespace"];

/// The parts of an UPDATE for which a PackageManifest has information.
struct ChangedParts<'g> {
    /// The only OperatorGroup of the namespace of a new Subscription.
    group: Option<&'g Document>,
    /// The channel before, of an installed Operator.
    before: Option<String>,
    package: bool,
    channel: bool,
    bundle: bool,
}

impl<'g> ChangedParts<'g> {
    fn of(subscription: &Subscription<'_>, group: Option<&'g Document>) -> Self {
        let has_csv = !subscription.starting_csv.is_empty();
        let package = subscription.touches(&PACKAGE);
        let channel = package || subscription.touches(&["channel"]);
        let csv = has_csv && subscription.touches(&["startingCSV"]);
        // OLM reads startingCSV until something is installed.
        let counts = has_csv && !subscription.is_installed();
        let bundle = csv || (counts && channel);
        let before = subscription.changed_channel();
        Self { group, before, package, channel, bundle }
    }

    fn applicable_rules(&self, report: &Report<'_>) -> Vec<&'static Rule> {
        let all: [(bool, &'static Rule); 5] = [
            (self.group.is_some(), &SUB_06),
            (self.group.is_some(), &SUB_31),
            (self.before.is_some(), &SUB_12),
            (self.bundle, &SUB_13),
            (self.package || self.channel || self.bundle, &SUB_23),
        ];
        let wanted =
            all.into_iter().filter(|(is_applicable, rule)| *is_applicable && report.is_on(rule));
        wanted.map(|(_, rule)| rule).collect()
    }
}

impl Subscription<'_> {
    pub(super) fn check_catalog(&self, group: Option<&Document>, report: &mut Report<'_>) {
        let parts = ChangedParts::of(self, group);
        let rules = parts.applicable_rules(report);
        if rules.is_empty() {
            return;
        }
        let (package, source, namespace) = (&self.package, &self.source, &self.source_namespace);
        if package.is_empty() || source.is_empty() || namespace.is_empty() {
            let why = "the Subscription does not name a package, a source and its namespace";
            return skip_rules(&rules, why, report);
        }
        let found = package_manifests::find(&MANIFESTS, package, source, namespace);
        let Some(found) = report.or_skip(&rules, "PackageManifests", found) else { return };
        let Some(manifest) = found else {
            return skip_rules(&rules, "the catalog source does not show the package", report);
        };
        let channel = package_manifests::channel(&manifest, &self.channel);
        let is_on = |rule: &'static Rule| rules.iter().any(|on| on.id == rule.id);
        if let Some(group) = parts.group.filter(|_| is_on(&SUB_06)) {
            self.check_install_modes(group, channel.as_ref(), report);
        }
        if let Some(group) = parts.group.filter(|_| is_on(&SUB_31)) {
            self.check_provided_apis(group, channel.as_ref(), report);
        }
        if let Some(before) = parts.before.as_ref().filter(|_| is_on(&SUB_12)) {
            Self::check_head_not_older(&manifest, before, channel.as_ref(), report);
        }
        if is_on(&SUB_13) {
            self.check_starting_csv(channel.as_ref(), report);
        }
        if is_on(&SUB_23) {
            self.check_deprecated(&parts, &manifest, channel.as_ref(), report);
        }
    }
}

fn skip_rules(rules: &[&'static Rule], why: &str, report: &mut Report<'_>) {
    for rule in rules {
        report.skip(rule, "spec.name", why);
    }
}

rule! {
    /// an install mode of a package fits the OperatorGroup of the namespace
    ///
    /// The head of the subscribed channel supports the targets of the OperatorGroup in the
    /// namespace of a new Subscription, as OPG-22 requires it of the ClusterServiceVersion. Without
    /// `spec.channel`, the default channel counts. The rule does not evaluate a namespace without
    /// exactly one group, or a group without targets. The policy skips the rule without cluster
    /// state, if the catalog source does not show the package or the channel, or if it shows no
    /// install modes.
    ///
    /// # Why
    ///
    /// OLM marks such an Operator as failed with the reason `UnsupportedOperatorGroup` after it has
    /// resolved and unpacked it (OpenShift 4.12, Operators, *Installing from OperatorHub using the
    /// CLI*). With `startingCSV`, OLM installs another version than the head, so the rule only
    /// warns.
    ///
    /// # Remediation
    ///
    /// Subscribe in a namespace whose group has targets that the Operator supports: in
    /// `openshift-operators` for all namespaces, otherwise in a namespace with a separate group.
    ///
    /// # Accepted
    ///
    /// A package with the install mode `AllNamespaces`, subscribed in `openshift-operators`.
    ///
    /// # Rejected
    ///
    /// The package `etcd`, which only supports `SingleNamespace`, subscribed in
    /// `openshift-operators`:
    ///
    /// `message: operator group global-operators does not match the install modes of etcd:
    /// AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces`
    pub(crate) SUB_06: Warn {
        name: "subscription-install-mode-fits-operator-group",
        on: [SUBSCRIPTION: Create],
        reads: [GROUPS, MANIFESTS, NAMESPACES],
        may_skip: true,
        source: ["OCP 4.12 L5675-5678, L5778, L6146-6149", "OCP 4.15 L3616-3625", "OLM pkg/package-server/apis/operators/v1/packagemanifest_types.go"],
    }
}

/// There are four install modes. The policy concludes nothing from a catalog that lists many more.
const MAX_INSTALL_MODES: u32 = 64;

impl Subscription<'_> {
    fn check_install_modes(
        &self,
        group: &Document,
        channel: Option<&Document>,
        report: &mut Report<'_>,
    ) {
        let list = "/currentCSVDesc/installModes";
        let is_some =
            |it: &&Document| it.length(list).is_some_and(|n| (1..=MAX_INSTALL_MODES).contains(&n));
        let Some(channel) = channel.filter(is_some) else {
            let why = "the PackageManifest does not show install modes of the channel";
            return report.skip(&SUB_06, "spec.channel", why);
        };
        let modes = InstallModes::at(channel, list);
        let targets = operator_groups::targets(group, &NAMESPACES);
        let Some(targets) = report.or_skip(&[&SUB_06], "Namespaces", targets) else { return };
        if targets.is_empty() {
            return;
        }
        let names: Vec<_> = targets.iter().map(String::as_str).collect();
        if let Err(why) = modes.supports(self.namespace(), &names) {
            let group = group.text_or_empty("/metadata/name");
            let package = &self.package;
            let message = format!(
                "operator group {group} does not match the install modes of {package}: {why}"
            );
            report.add(&SUB_06, "metadata.namespace", message);
        }
    }
}

rule! {
    /// the head of a new channel is not older than that of the current channel
    ///
    /// If an UPDATE of a Subscription with `status.installedCSV` changes `spec.channel`, the
    /// version of the new channel's head (`currentCSVDesc.version` of the PackageManifest) is not
    /// lower than that of the current channel's head. Without a name, the default channel counts.
    /// The rule does not evaluate an UPDATE that changes `spec.name`. The policy skips the rule
    /// without cluster state, or if the catalog source does not show the package, both channels and
    /// their versions.
    ///
    /// # Why
    ///
    /// An installed Operator cannot be moved to an older channel (OpenShift 4.12, Operators,
    /// *Preparing for an Operator update*). The head of a channel need not be its highest
    /// version, so the rule only warns; SUB-11 compares the names.
    ///
    /// # Remediation
    ///
    /// Choose a channel with a newer head, or keep the current one: `kubectl get packagemanifest
    /// NAME -o yaml` shows the heads.
    ///
    /// # Accepted
    ///
    /// From the channel `alpha` with the head 0.9.2 to `beta` with the head 0.9.4.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Before: beta.
    /// spec: {channel: alpha}
    /// ```
    ///
    /// `message: channel "alpha" has head 0.9.2, older than head 0.9.4 of the current channel
    /// "beta"`
    SUB_12: Warn {
        name: "new-channel-head-not-older",
        on: [SUBSCRIPTION: Update],
        reads: [MANIFESTS],
        may_skip: true,
        source: ["OCP 4.12 L2359, L6885", "OCP 4.15 L4857"],
    }
}

impl Subscription<'_> {
    fn check_head_not_older(
        manifest: &Document,
        before: &str,
        channel: Option<&Document>,
        report: &mut Report<'_>,
    ) {
        let current = package_manifests::channel(manifest, before);
        let (Some(new), Some(current)) =
            (channel.and_then(channel_head), current.as_ref().and_then(channel_head))
        else {
            let why = "the PackageManifest does not show the versions of both channels";
            return report.skip(&SUB_12, channel::FIELD, why);
        };
        if new.version < current.version {
            let (name, head) = (quote(&new.channel), new.text);
            let (old_name, old) = (quote(&current.channel), current.text);
            let message = format!(
                "channel {name} has head {head}, older than head {old} of the current channel {old_name}"
            );
            report.add(&SUB_12, channel::FIELD, message);
        }
    }
}

/// The head of a channel.
struct ChannelHead {
    channel: String,
    text: String,
    version: Version,
}

fn channel_head(channel: &Document) -> Option<ChannelHead> {
    let text = channel.text("/currentCSVDesc/version")?;
    let version = Version::parse(&text).ok()?;
    Some(ChannelHead { channel: channel.text_or_empty("/name"), text, version })
}

rule! {
    /// the starting version of a Subscription is in the channel
    ///
    /// `spec.startingCSV` is an entry of the subscribed channel, or its head, as the
    /// PackageManifest shows them. Without `spec.channel`, the default channel counts. The rule
    /// evaluates an UPDATE only if it changes `startingCSV` or, until something is installed, the
    /// package, its source or the channel. The policy skips the rule without cluster state, if the
    /// catalog source does not show the package, or if the package server is too old to show
    /// entries.
    ///
    /// # Why
    ///
    /// OLM cannot resolve a Subscription to a version that the channel does not have. Versions that
    /// only a `skipRange` names are pruned from it, and can no longer be installed (OpenShift 4.12,
    /// Operators, *olm.channel schema*).
    ///
    /// # Remediation
    ///
    /// Choose an entry of the channel: `kubectl get packagemanifest NAME -o yaml` lists them below
    /// `status.channels`. As the author of the catalog, add `replaces` to the versions in addition
    /// to `skipRange`.
    ///
    /// # Accepted
    ///
    /// `startingCSV: etcdoperator.v0.9.4`, which is an entry of the channel `alpha`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {name: etcd, channel: alpha, startingCSV: etcdoperator.v0.9.0}
    /// ```
    ///
    /// `message: startingCSV "etcdoperator.v0.9.0" is not an installable entry of channel "alpha"`
    SUB_13: Warn {
        name: "starting-csv-in-channel",
        on: [SUBSCRIPTION: Create | Update],
        reads: [MANIFESTS],
        may_skip: true,
        source: ["OCP 4.12 L773-778", "OCP 4.15 L615-619"],
    }
}

const STARTING_CSV_FIELD: &str = "spec.startingCSV";

impl Subscription<'_> {
    fn check_starting_csv(&self, channel: Option<&Document>, report: &mut Report<'_>) {
        let csv = self.starting_csv.as_str();
        if let Some(channel) = channel {
            if channel.text_or_empty("/currentCSV") == csv || entry_index(channel, csv).is_some() {
                return;
            }
            if package_manifests::entries(channel).is_none() {
                let why = "the PackageManifest does not show the entries of the channel";
                return report.skip(&SUB_13, STARTING_CSV_FIELD, why);
            }
        } else if self.channel.is_empty() {
            return report.skip(&SUB_13, STARTING_CSV_FIELD, NO_CHANNEL);
        }
        let name = channel.map_or_else(|| self.channel.clone(), |it| it.text_or_empty("/name"));
        let (csv, name) = (quote(csv), quote(&name));
        let message = format!("startingCSV {csv} is not an installable entry of channel {name}");
        report.add(&SUB_13, STARTING_CSV_FIELD, message);
    }
}

/// The index of a version among the entries of a channel.
fn entry_index(channel: &Document, csv: &str) -> Option<usize> {
    package_manifests::entries(channel)?.iter().position(|row| row.text(0) == Some(csv))
}

rule! {
    /// the subscribed package, channel and version are not deprecated
    ///
    /// The PackageManifest shows no deprecation of the package, of the subscribed channel, or of
    /// the version in `spec.startingCSV`. Without `spec.channel`, the default channel counts. On
    /// UPDATE, the rule evaluates only the fields that the request changes; an unchanged
    /// `startingCSV` counts until something is installed. The policy skips the rule without cluster
    /// state, or if the catalog source does not show the package. The messages end with that of the
    /// catalog.
    ///
    /// # Why
    ///
    /// Authors deprecate content that they will no longer support, and name the replacement
    /// (OpenShift 4.15, Operators, *olm.deprecations schema*). OLM shows that on the Subscription
    /// only after the installation. A deprecation is advice, so the rule only warns.
    ///
    /// # Remediation
    ///
    /// Follow the message of the catalog: choose another package, channel or version.
    ///
    /// # Accepted
    ///
    /// The channel `stable`, for which the catalog has no deprecation.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {name: my-operator, channel: alpha}
    /// ```
    ///
    /// `message: ChannelDeprecated: The 'alpha' channel is no longer supported. Please switch to
    /// the 'stable' channel.`
    SUB_23: Warn {
        name: "no-deprecated-subscription-content",
        on: [SUBSCRIPTION: Create | Update],
        reads: [MANIFESTS],
        may_skip: true,
        source: ["OCP 4.15 L657-664, L672-691", "OLM pkg/package-server/apis/operators/v1/packagemanifest_types.go"],
    }
}

impl Subscription<'_> {
    fn check_deprecated(
        &self,
        parts: &ChangedParts<'_>,
        manifest: &Document,
        channel: Option<&Document>,
        report: &mut Report<'_>,
    ) {
        if parts.package {
            report_deprecation(
                manifest,
                "/status/deprecation",
                "PackageDeprecated",
                "spec.name",
                report,
            );
        }
        let Some(channel) = channel else {
            if parts.channel || parts.bundle {
                report.skip_part(&SUB_23, channel::FIELD, NO_CHANNEL);
            }
            return;
        };
        if parts.channel {
            report_deprecation(
                channel,
                "/deprecation",
                "ChannelDeprecated",
                channel::FIELD,
                report,
            );
        }
        if let Some(index) = entry_index(channel, &self.starting_csv).filter(|_| parts.bundle) {
            let pointer = format!("/entries/{index}/deprecation");
            report_deprecation(channel, &pointer, "BundleDeprecated", STARTING_CSV_FIELD, report);
        }
    }
}

fn report_deprecation(
    document: &Document,
    pointer: &str,
    what: &str,
    field: &str,
    report: &mut Report<'_>,
) {
    if document.kind(pointer) == Kind::Object {
        let message = document.text_or_empty(&format!("{pointer}/message"));
        report.add(&SUB_23, field, format!("{what}: {message}"));
    }
}
