//! Channels, one by one: FBC-13, FBC-15 to FBC-17, FBC-22 and FBC-25. Their graphs are [`crate::graph`]'s
//! business.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind};

use crate::blob::{Blob, Meta, place};
use crate::findings::Findings;
use crate::go_text;
use crate::version::Range;

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
        Kind::List if blob.value.length(&pointer) != Some(0) => {}
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
    let items = (0_u32..).zip(blob.value.items(&pointer));
    let entries = items.filter_map(|(index, item)| read(&item, index, &channel, findings));
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
    item: &Document,
    index: u32,
    channel: &Channel,
    findings: &mut Findings<'_>,
) -> Option<Entry> {
    let name = item.text("/name").filter(|name| !name.is_empty());
    let mut entry = Entry {
        index,
        name: name.unwrap_or_default(),
        replaces: String::new(),
        skips: Vec::new(),
        has_range: false,
        skip_range: None,
    };
    if entry.name.is_empty() {
        let field = match item.kind("/name") {
            Kind::Missing => format!("{}[{index}]", channel.entries_field()),
            _ => channel.entry_field(&entry, "name"),
        };
        findings.add("FBC-16", field, wanting(index, "name"));
    }
    entry.replaces = optional(item, "/replaces", &entry, channel, findings).unwrap_or_default();
    entry.skips = skips(item, &entry, channel, findings);
    if let Some(text) = optional(item, "/skipRange", &entry, channel, findings) {
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

fn wanting(index: u32, what: &str) -> String {
    format!("entries[{index}].{what}: must be a non-empty string")
}

/// A text that may be left out, but not empty.
fn optional(
    item: &Document,
    pointer: &str,
    entry: &Entry,
    channel: &Channel,
    findings: &mut Findings<'_>,
) -> Option<String> {
    match item.text(pointer) {
        Some(text) if !text.is_empty() => return Some(text),
        None if !item.has(pointer) => return None,
        Some(_) | None => {}
    }
    let name = pointer.trim_start_matches('/');
    findings.add("FBC-16", channel.entry_field(entry, name), wanting(entry.index, name));
    None
}

fn skips(
    item: &Document,
    entry: &Entry,
    channel: &Channel,
    findings: &mut Findings<'_>,
) -> Vec<String> {
    let count = match item.kind("/skips") {
        Kind::Missing | Kind::Null => return Vec::new(),
        Kind::List => item.length("/skips").unwrap_or_default(),
        _ => {
            let message =
                format!("entries[{}].skips: must be a list of non-empty strings", entry.index);
            findings.add("FBC-16", channel.entry_field(entry, "skips"), message);
            return Vec::new();
        }
    };
    let mut skips = Vec::new();
    for index in 0..count {
        let message = match item.text(&format!("/skips/{index}")) {
            Some(skip) if !skip.is_empty() => {
                skips.push(skip);
                continue;
            }
            Some(_) => format!("skip[{index}] is empty"),
            None => wanting(entry.index, &format!("skips[{index}]")),
        };
        findings.add("FBC-16", channel.entry_field(entry, &format!("skips[{index}]")), message);
    }
    skips
}
