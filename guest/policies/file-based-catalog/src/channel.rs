//! Separate checks of each channel. [`crate::graph`] evaluates the upgrade graph of the entries.

use std::collections::BTreeSet;

use opgate_constraint::range::Range;
use opgate_sdk::go::quote;
use opgate_sdk::{Fix, Kind, Report, Row, corrections, escape, rule, rules};

use crate::CATALOG;
use crate::blob::{Blob, BlobIdentity, blob_path};
use crate::{go_text, spelling};

rules![FBC_13, FBC_15, FBC_16, FBC_17, FBC_22, FBC_25];

/// An `olm.channel` blob.
pub(crate) struct Channel {
    pub(crate) at: u32,
    pub(crate) name: String,
    pub(crate) package: String,
    /// The spelling of `entries` in the blob.
    key: String,
    /// One entry for each name, the first.
    pub(crate) entries: Vec<Entry>,
}

/// An entry of a channel.
pub(crate) struct Entry {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// Empty if the entry replaces nothing.
    pub(crate) replaces: String,
    pub(crate) skips: Vec<String>,
    /// Whether there is a `skipRange`, valid or not.
    pub(crate) has_range: bool,
    pub(crate) skip_range: Option<Range>,
    /// Its text.
    skip_range_text: String,
    /// Whether it has only members that OLM reads.
    is_plain: bool,
}

impl Entry {
    /// Whether it has a name and nothing else.
    fn is_bare(&self) -> bool {
        let has_edges = !self.replaces.is_empty() || !self.skips.is_empty() || self.has_range;
        self.is_plain && !has_edges
    }

    /// Whether it has the edges of another entry.
    fn is_equal(&self, other: &Self) -> bool {
        self.replaces == other.replaces
            && self.skips == other.skips
            && self.skip_range_text == other.skip_range_text
    }
}

impl Channel {
    /// Path of the list of entries.
    pub(crate) fn entries_field(&self) -> String {
        blob_path(self.at, &format!(".{}", self.key))
    }

    /// The pointer of a value of an entry in the document.
    fn entry_pointer(&self, entry: &Entry, inner: &str) -> String {
        format!("/spec/blobs/{}/value/{}/{}{inner}", self.at, self.key, entry.index)
    }

    /// Path of a member of an entry.
    pub(crate) fn entry_field(&self, entry: &Entry, member: &str) -> String {
        blob_path(self.at, &format!(".{}[{}].{member}", self.key, entry.index))
    }
}

/// The members that one host call reads for all entries.
const COLUMNS: [&str; 5] = ["/name", "/replaces", "/skipRange", "/skips", ""];
const NAME_COLUMN: usize = 0;
const REPLACES_COLUMN: usize = 1;
const RANGE_COLUMN: usize = 2;
const SKIPS_COLUMN: usize = 3;
const ENTRY_COLUMN: usize = 4;

rule! {
    /// a channel has a name, a package and a list of entries
    ///
    /// `name` of an `olm.channel` blob is not empty, and `entries` is a list. FBC-04 reports a
    /// missing `package`, FBC-15 missing or empty `entries`, and FBC-02 a `name` or `package` that
    /// is not a string.
    ///
    /// # Why
    ///
    /// Users subscribe to a channel by its name. `opm` does not load a channel whose `entries` are
    /// not a list (OpenShift 4.12, Operators, *olm.channel schema*).
    ///
    /// # Remediation
    ///
    /// Name the channel, and write `entries` as a list.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v1.0.0}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, entries: [{name: etcd.v1.0.0}]}
    /// ```
    ///
    /// `message: package "etcd" contains channel with no name`
    FBC_13: Deny {
        name: "channel-required-fields",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L746-751", "OCP 4.15 L573-619", "OKD L208-213", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

rule! {
    /// a channel has an entry
    ///
    /// `entries` of an `olm.channel` blob has at least one element.
    ///
    /// # Why
    ///
    /// An empty channel cannot be installed, and `opm validate` rejects it (OpenShift 4.12,
    /// Operators, *Creating a file-based catalog image*).
    ///
    /// # Remediation
    ///
    /// Add an entry for a bundle, or remove the channel.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v1.0.0}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable, entries: []}
    /// ```
    ///
    /// `message: channel must contain at least one bundle`
    FBC_15: Deny {
        name: "channel-has-entries",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L8514-8516", "OCP 4.15 L6003-6007", "operator-registry alpha/model/model.go"],
    }
}

rule! {
    /// a bundle has one entry in a channel
    ///
    /// No two entries of an `olm.channel` blob have the same `name`. The same bundle can be an
    /// entry of several channels. The rules for the update graph use the first of the entries.
    ///
    /// # Why
    ///
    /// Two entries of one bundle could contradict each other. `opm validate` rejects them
    /// (OpenShift 4.12, Operators, *olm.channel schema*).
    ///
    /// # Remediation
    ///
    /// Put `replaces`, `skips` and `skipRange` into one entry, and remove the other.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v1.0.0}]}
    /// ---
    /// {schema: olm.channel, package: etcd, name: fast, entries: [{name: etcd.v1.0.0}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable,
    ///  entries: [{name: etcd.v1.0.0}, {name: etcd.v1.0.0}]}
    /// ```
    ///
    /// `message: invalid package "etcd", channel "stable": duplicate entry "etcd.v1.0.0"`
    FBC_17: Deny {
        name: "unique-bundle-entry-in-channel",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L740", "OCP 4.15 L577", "OKD L204-205", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

/// Evaluates a channel separately.
pub(crate) fn check(blob: &Blob<'_>, meta: &BlobIdentity, report: &mut Report<'_>) -> Channel {
    let package = meta.package.as_str().to_owned();
    if meta.name.is_missing() {
        let message = format!("package {} contains channel with no name", quote(&package));
        report.add(&FBC_13, blob.path(), message);
    }
    let pointer = blob.pointer("entries");
    let mut channel = Channel {
        at: blob.at,
        name: meta.name.as_str().to_owned(),
        package,
        key: pointer.trim_start_matches('/').to_owned(),
        entries: Vec::new(),
    };
    match blob.kind("entries") {
        Kind::List if blob.length("entries") != Some(0) => {}
        Kind::List => {
            let message = "channel must contain at least one bundle";
            report.add(&FBC_15, channel.entries_field(), message);
        }
        Kind::Missing | Kind::Null => {
            report.add(&FBC_15, blob.path(), "channel must contain at least one bundle");
        }
        kind => {
            let why = go_text::wrong_field(kind, "Channel.entries", "[]declcfg.ChannelEntry");
            report.add(&FBC_13, channel.entries_field(), format!("parse channel: {why}"));
        }
    }
    let rows = blob.rows(&pointer, &COLUMNS);
    let rows = (0_u32..).zip(rows.iter());
    let entries = rows.filter_map(|(index, row)| check_entry(blob, row, index, &channel, report));
    let entries: Vec<_> = entries.collect();
    let mut names = BTreeSet::new();
    let is_first: Vec<_> = entries.iter().map(|entry| names.insert(entry.name.as_str())).collect();
    drop(names);
    for (entry, is_first) in entries.into_iter().zip(is_first) {
        if is_first {
            channel.entries.push(entry);
        } else {
            let message = format!(
                "invalid package {}, channel {}: duplicate entry {}",
                quote(&channel.package),
                quote(&channel.name),
                quote(&entry.name)
            );
            report.add(&FBC_17, channel.entry_field(&entry, "name"), message);
            report.set_fix(&FBC_17, || {
                let first = channel.entries.iter().find(|first| first.name == entry.name)?;
                let adds_nothing =
                    entry.is_bare() || entry.is_equal(first) && entry.is_plain && first.is_plain;
                let pointer = channel.entry_pointer(&entry, "");
                adds_nothing.then(|| Fix::safe("remove the duplicate").remove(pointer))
            });
        }
    }
    channel
}

rule! {
    /// the members of an entry are non-empty strings
    ///
    /// Each entry of a channel has `name`, a non-empty string. `replaces` and `skipRange`, if set,
    /// are non-empty strings; `skips`, if set, is a list of non-empty strings. `null` counts as not
    /// set, except for `name`. The names are case-sensitive, so `Replaces` is rejected.
    ///
    /// # Why
    ///
    /// An entry with an unreadable member has another position in the update graph than its author
    /// intended (OpenShift 4.12, Operators, *olm.channel schema*).
    ///
    /// # Remediation
    ///
    /// Correct the member that the message names. Remove a member that is empty.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v1.0.1, replaces: etcd.v1.0.0, skips: [etcd.v0.9.0], skipRange: <1.0.1}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// entries:
    /// - {name: etcd.v1.0.1, replaces: "", skips: [""]}
    /// ```
    ///
    /// `message: entries[0].replaces: must be a non-empty string` and `message: skip[0] is empty`
    FBC_16: Deny {
        name: "channel-entry-non-empty-strings",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L753-770", "OCP 4.15 L573-619", "OKD L214-228", "operator-registry alpha/model/model.go"],
    }
}

rule! {
    /// a skipRange is a range of semantic versions
    ///
    /// `skipRange` of an entry is a range in the syntax of OLM's semver library: comparisons such
    /// as `>=2.6.0` separated by spaces, which must all be satisfied, and alternatives separated by
    /// `||`.
    ///
    /// # Why
    ///
    /// OLM cannot determine which versions the entry skips, and `opm validate` rejects it
    /// (OpenShift 4.12, Operators, *olm.channel schema*).
    ///
    /// # Remediation
    ///
    /// Write the range with operators and full versions.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// entries: [{name: etcd.v2.7.1, replaces: etcd.v2.7.0, skipRange: ">=2.6.0 <2.7.1"}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// entries: [{name: etcd.v2.7.1, replaces: etcd.v2.7.0, skipRange: 2.6.x to 2.7}]
    /// ```
    ///
    /// `message: invalid skipRange "2.6.x to 2.7": Could not get version from string: "to"`
    FBC_22: Deny {
        name: "skip-range-semver-range",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L767-769", "OCP 4.15 L606-608", "OKD L225-227", "operator-registry alpha/model/model.go"],
    }
}

rule! {
    /// the name of an entry has a period between package and version
    ///
    /// The name of an entry does not start with the name of the package, `v` and a digit. Names
    /// with another stem, or without `v`, are accepted.
    ///
    /// # Why
    ///
    /// The documentation requires `<package>.v<version>`: an entry without the period fails
    /// validation (OpenShift 4.12, Operators, *Creating a file-based catalog image*).
    ///
    /// # Remediation
    ///
    /// Write the period, in the entry and in the name of the bundle.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v0.1.0}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcdv0.1.0}]}
    /// ```
    ///
    /// `message: entry "etcdv0.1.0": include the period (.) after "etcd" but before the v in the
    /// version`
    FBC_25: Deny {
        name: "channel-entry-name-separator",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L8527-8538, L7142, L7376-7379", "OCP 4.15 L6005-6022"],
    }
}

/// Reads an entry and evaluates its members. An entry without a name is not evaluated further.
fn check_entry(
    blob: &Blob<'_>,
    row: Row<'_>,
    index: u32,
    channel: &Channel,
    report: &mut Report<'_>,
) -> Option<Entry> {
    let name = row.text(NAME_COLUMN).filter(|name| !name.is_empty()).map(str::to_owned);
    let mut entry = Entry {
        index,
        name: name.unwrap_or_default(),
        replaces: String::new(),
        skips: Vec::new(),
        has_range: false,
        skip_range: None,
        skip_range_text: String::new(),
        is_plain: false,
    };
    let misspelt = check_spelling(blob, row, &entry, channel, report);
    let known = (0..ENTRY_COLUMN).filter(|column| row.kind(*column) != Kind::Missing).count();
    entry.is_plain = row.length(ENTRY_COLUMN).map(usize::try_from) == Some(Ok(known));
    if entry.name.is_empty() && !misspelt.contains(&NAME_COLUMN) {
        let field = match row.kind(NAME_COLUMN) {
            Kind::Missing => format!("{}[{index}]", channel.entries_field()),
            _ => channel.entry_field(&entry, "name"),
        };
        report.add(&FBC_16, field, missing_message(index, "name"));
    }
    entry.replaces =
        check_optional(blob, row, REPLACES_COLUMN, &entry, channel, report).unwrap_or_default();
    entry.skips = check_skips(blob, row, &entry, channel, report);
    if let Some(text) = check_optional(blob, row, RANGE_COLUMN, &entry, channel, report) {
        entry.has_range = true;
        entry.skip_range_text.clone_from(&text);
        match Range::parse(&text) {
            Ok(range) => entry.skip_range = Some(range),
            Err(why) => {
                let message = format!("invalid skipRange {}: {why}", quote(&text));
                report.add(&FBC_22, channel.entry_field(&entry, "skipRange"), message);
                report.set_fix(&FBC_22, || {
                    let range = corrections::version_range(&text)?;
                    Some(corrections::write(channel.entry_pointer(&entry, "/skipRange"), &range))
                });
            }
        }
    }
    if entry.name.is_empty() {
        return None;
    }
    let version = entry.name.strip_prefix(channel.package.as_str());
    let version = version.filter(|_| !channel.package.is_empty());
    let without_period = version
        .and_then(|rest| rest.strip_prefix('v'))
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if without_period {
        let message = format!(
            "entry {}: include the period (.) after {} but before the v in the version",
            quote(&entry.name),
            quote(&channel.package)
        );
        report.add(&FBC_25, channel.entry_field(&entry, "name"), message);
    }
    Some(entry)
}

/// The columns of members with another spelling. An entry that replaces nothing because its member
/// is `Replaces` would count as another head.
fn check_spelling(
    blob: &Blob<'_>,
    row: Row<'_>,
    entry: &Entry,
    channel: &Channel,
    report: &mut Report<'_>,
) -> Vec<usize> {
    let (known, missing): (Vec<usize>, Vec<usize>) =
        (0..ENTRY_COLUMN).partition(|column| row.kind(*column) != Kind::Missing);
    if row.length(ENTRY_COLUMN).is_none_or(|length| usize::try_from(length) == Ok(known.len())) {
        return Vec::new();
    }
    let pointer = format!("{}/{}", blob.pointer("entries"), entry.index);
    let is_misspelt = |column: &usize| {
        let name = COLUMNS.get(*column).map_or("", |pointer| pointer.trim_start_matches('/'));
        let Some(key) = spelling::other_spelling(blob.value(), &pointer, name) else {
            return false;
        };
        let hint = spelling::key_spelling(&key, name);
        let message = format!("entries[{}].{name}: must be spelt like this{hint}", entry.index);
        report.add(&FBC_16, channel.entry_field(entry, &key), message);
        report.set_fix(&FBC_16, || {
            let pointer = channel.entry_pointer(entry, &format!("/{}", escape(&key)));
            let title = format!("rename the member to {name}");
            Some(member_fix(blob, entry, name, title).rename_key(pointer, name))
        });
        true
    };
    missing.into_iter().filter(is_misspelt).collect()
}

/// The fix of a member of an entry, without edits. With another spelling of the member, its author may have
/// meant the other one.
fn member_fix(blob: &Blob<'_>, entry: &Entry, name: &str, title: impl Into<String>) -> Fix {
    let pointer = format!("{}/{}", blob.pointer("entries"), entry.index);
    if spelling::is_ambiguous(blob.value(), &pointer, name) {
        Fix::needs_review(title)
    } else {
        Fix::safe(title)
    }
}

fn missing_message(index: u32, what: &str) -> String {
    format!("entries[{index}].{what}: must be a non-empty string")
}

/// A text that is optional, but not empty.
fn check_optional(
    blob: &Blob<'_>,
    row: Row<'_>,
    column: usize,
    entry: &Entry,
    channel: &Channel,
    report: &mut Report<'_>,
) -> Option<String> {
    match (row.text(column), row.kind(column)) {
        (Some(text), _) if !text.is_empty() => return Some(text.to_owned()),
        (None, Kind::Missing | Kind::Null) => return None,
        _ => {}
    }
    let name = COLUMNS.get(column).map_or("", |pointer| pointer.trim_start_matches('/'));
    report.add(&FBC_16, channel.entry_field(entry, name), missing_message(entry.index, name));
    report.set_fix(&FBC_16, || {
        let pointer = channel.entry_pointer(entry, &format!("/{name}"));
        let is_empty = row.text(column) == Some("");
        let title = format!("remove the empty {name}");
        is_empty.then(|| member_fix(blob, entry, name, title).remove(pointer))
    });
    None
}

fn check_skips(
    blob: &Blob<'_>,
    row: Row<'_>,
    entry: &Entry,
    channel: &Channel,
    report: &mut Report<'_>,
) -> Vec<String> {
    match row.kind(SKIPS_COLUMN) {
        Kind::Missing | Kind::Null => return Vec::new(),
        Kind::List => {}
        _ => {
            let message =
                format!("entries[{}].skips: must be a list of non-empty strings", entry.index);
            report.add(&FBC_16, channel.entry_field(entry, "skips"), message);
            report.set_fix(&FBC_16, || {
                let skip = row.text(SKIPS_COLUMN).filter(|skip| !skip.is_empty())?;
                let list = format!("[{}]", opgate_sdk::json_string(skip));
                let fix = member_fix(blob, entry, "skips", "write a list");
                Some(fix.set(channel.entry_pointer(entry, "/skips"), list))
            });
            return Vec::new();
        }
    }
    let mut skips = Vec::new();
    let pointer = format!("{}/{}/skips", blob.pointer("entries"), entry.index);
    let rows = blob.rows(&pointer, &[""]);
    for (index, row) in rows.iter().enumerate() {
        let message = match row.text(0) {
            Some(skip) if !skip.is_empty() => {
                skips.push(skip.to_owned());
                continue;
            }
            Some(_) => format!("skip[{index}] is empty"),
            None => missing_message(entry.index, &format!("skips[{index}]")),
        };
        report.add(&FBC_16, channel.entry_field(entry, &format!("skips[{index}]")), message);
        report.set_fix(&FBC_16, || {
            let pointer = channel.entry_pointer(entry, &format!("/skips/{index}"));
            let is_empty = row.text(0) == Some("");
            let fix = || member_fix(blob, entry, "skips", "remove the empty name");
            is_empty.then(|| fix().remove(pointer))
        });
    }
    skips
}
