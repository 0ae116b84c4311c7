//! Channels, one by one: FBC-13, FBC-15 to FBC-17, FBC-22 and FBC-25. Their graphs are [`crate::graph`]'s
//! business.

use std::collections::BTreeSet;

use opgate_constraint::range::Range;
use opgate_sdk::go::quote;
use opgate_sdk::{Kind, Row};

use crate::blob::{Blob, Meta, place};
use crate::findings::Findings;
use crate::{go_text, spelling};

/// An `olm.channel` blob.
pub(crate) struct Channel {
    pub(crate) at: u32,
    pub(crate) name: String,
    pub(crate) package: String,
    /// How the blob spells `entries`.
    key: String,
    /// One entry for each name, the first.
    pub(crate) entries: Vec<Entry>,
}

/// An entry of a channel.
pub(crate) struct Entry {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// Empty where nothing is replaced.
    pub(crate) replaces: String,
    pub(crate) skips: Vec<String>,
    /// Whether there is a `skipRange`, sound or not.
    pub(crate) has_range: bool,
    pub(crate) skip_range: Option<Range>,
}

impl Channel {
    /// Path of the list of entries.
    pub(crate) fn entries_field(&self) -> String {
        place(self.at, &format!(".{}", self.key))
    }

    /// Path of a member of an entry.
    pub(crate) fn entry_field(&self, entry: &Entry, member: &str) -> String {
        place(self.at, &format!(".{}[{}].{member}", self.key, entry.index))
    }
}

/// What is asked of all entries at once.
const COLUMNS: [&str; 5] = ["/name", "/replaces", "/skipRange", "/skips", ""];
const NAME: usize = 0;
const REPLACES: usize = 1;
const RANGE: usize = 2;
const SKIPS: usize = 3;
const WHOLE: usize = 4;

/// Judges a channel by itself.
pub(crate) fn judge(blob: &Blob<'_>, meta: &Meta, findings: &mut Findings<'_>) -> Channel {
    let package = meta.package.as_str().to_owned();
    if meta.name.is_lacking() {
        let message = format!("package {} contains channel with no name", quote(&package));
        findings.add("FBC-13", blob.path(), message);
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
            findings.add("FBC-15", channel.entries_field(), message);
        }
        Kind::Missing | Kind::Null => {
            findings.add("FBC-15", blob.path(), "channel must contain at least one bundle");
        }
        kind => {
            let why = go_text::wrong_field(kind, "Channel.entries", "[]declcfg.ChannelEntry");
            findings.add("FBC-13", channel.entries_field(), format!("parse channel: {why}"));
        }
    }
    let rows = blob.rows(&pointer, &COLUMNS);
    let rows = (0_u32..).zip(rows.iter());
    let entries = rows.filter_map(|(index, row)| read(blob, row, index, &channel, findings));
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
            findings.add("FBC-17", channel.entry_field(&entry, "name"), message);
        }
    }
    channel
}

/// Reads an entry and judges what it says. One without a name is good for nothing more.
fn read(
    blob: &Blob<'_>,
    row: Row<'_>,
    index: u32,
    channel: &Channel,
    findings: &mut Findings<'_>,
) -> Option<Entry> {
    let name = row.text(NAME).filter(|name| !name.is_empty()).map(str::to_owned);
    let mut entry = Entry {
        index,
        name: name.unwrap_or_default(),
        replaces: String::new(),
        skips: Vec::new(),
        has_range: false,
        skip_range: None,
    };
    let misspelt = misspelt(blob, row, &entry, channel, findings);
    if entry.name.is_empty() && !misspelt.contains(&NAME) {
        let field = match row.kind(NAME) {
            Kind::Missing => format!("{}[{index}]", channel.entries_field()),
            _ => channel.entry_field(&entry, "name"),
        };
        findings.add("FBC-16", field, wanting(index, "name"));
    }
    entry.replaces = optional(row, REPLACES, &entry, channel, findings).unwrap_or_default();
    entry.skips = skips(blob, row, &entry, channel, findings);
    if let Some(text) = optional(row, RANGE, &entry, channel, findings) {
        entry.has_range = true;
        match Range::parse(&text) {
            Ok(range) => entry.skip_range = Some(range),
            Err(why) => {
                let message = format!("invalid skipRange {}: {why}", quote(&text));
                findings.add("FBC-22", channel.entry_field(&entry, "skipRange"), message);
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
        findings.add("FBC-25", channel.entry_field(&entry, "name"), message);
    }
    Some(entry)
}

/// Members that are there in another spelling: their columns. An entry that replaces nothing because
/// it says `Replaces` would be taken for another head.
fn misspelt(
    blob: &Blob<'_>,
    row: Row<'_>,
    entry: &Entry,
    channel: &Channel,
    findings: &mut Findings<'_>,
) -> Vec<usize> {
    let (known, missing): (Vec<usize>, Vec<usize>) =
        (0..WHOLE).partition(|column| row.kind(*column) != Kind::Missing);
    if row.length(WHOLE).is_none_or(|length| usize::try_from(length) == Ok(known.len())) {
        return Vec::new();
    }
    let pointer = format!("{}/{}", blob.pointer("entries"), entry.index);
    let is_misspelt = |column: &usize| {
        let name = COLUMNS.get(*column).map_or("", |pointer| pointer.trim_start_matches('/'));
        let Some(key) = spelling::other(blob.value(), &pointer, name) else { return false };
        let hint = spelling::written(&key, name);
        let message = format!("entries[{}].{name}: must be spelt like this{hint}", entry.index);
        findings.add("FBC-16", channel.entry_field(entry, &key), message);
        true
    };
    missing.into_iter().filter(is_misspelt).collect()
}

fn wanting(index: u32, what: &str) -> String {
    format!("entries[{index}].{what}: must be a non-empty string")
}

/// A text that may be left out, but not empty.
fn optional(
    row: Row<'_>,
    column: usize,
    entry: &Entry,
    channel: &Channel,
    findings: &mut Findings<'_>,
) -> Option<String> {
    match (row.text(column), row.kind(column)) {
        (Some(text), _) if !text.is_empty() => return Some(text.to_owned()),
        (None, Kind::Missing | Kind::Null) => return None,
        _ => {}
    }
    let name = COLUMNS.get(column).map_or("", |pointer| pointer.trim_start_matches('/'));
    findings.add("FBC-16", channel.entry_field(entry, name), wanting(entry.index, name));
    None
}

fn skips(
    blob: &Blob<'_>,
    row: Row<'_>,
    entry: &Entry,
    channel: &Channel,
    findings: &mut Findings<'_>,
) -> Vec<String> {
    match row.kind(SKIPS) {
        Kind::Missing | Kind::Null => return Vec::new(),
        Kind::List => {}
        _ => {
            let message =
                format!("entries[{}].skips: must be a list of non-empty strings", entry.index);
            findings.add("FBC-16", channel.entry_field(entry, "skips"), message);
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
            None => wanting(entry.index, &format!("skips[{index}]")),
        };
        findings.add("FBC-16", channel.entry_field(entry, &format!("skips[{index}]")), message);
    }
    skips
}
