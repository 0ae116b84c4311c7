//! `.opgate.yaml`: the rules that the owner of a bundle, a catalog or manifests waives, and why.
//!
//! ```text
//! checked directory ─▶ .opgate.yaml, a regular file of at most 64 KiB ─▶ YAML with locations ─▶ Waivers
//! ```
//!
//! The file arrives together with the checked files, often in a pull request. Its effect is therefore
//! limited: it lists rules, reasons and days. It contains no path, pattern or setting, and an invalid entry
//! is an error with its location, never a waiver.

use std::path::Path;

use serde_json::{Map, Value};
use time::{Date, Month};

use opgate_input::read::{FilePath, ReadPurpose, Reader, RootDirectory};
use opgate_input::yaml::LocatedValue;
use opgate_text::{hint, one_line, units};

/// The errors of a file with waivers, one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WaiverError(String);

/// The name of the file.
pub const FILE_NAME: &str = ".opgate.yaml";

/// Maximum bytes of the file.
const MAX_FILE_BYTES: usize = 64 << 10;
/// Maximum number of waivers in it.
const MAX_WAIVERS: usize = 256;
/// Maximum bytes of a reason.
const MAX_REASON_BYTES: usize = 512;
/// Maximum number of errors that are listed.
const MAX_ERRORS: usize = 20;
/// Maximum bytes of an error.
const MAX_ERROR_BYTES: usize = 1 << 10;

/// A rule that is waived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiver {
    /// Its id.
    pub rule: String,
    /// Why, in one line.
    pub reason: String,
    /// The last day, in UTC, on which the waiver holds.
    pub until: Option<Date>,
    /// Its first line in the file.
    pub line: u64,
    /// In characters, from 1.
    pub column: u64,
}

/// The waivers of a directory.
#[derive(Debug, PartialEq, Eq)]
pub struct Waivers {
    /// The file in messages.
    pub file: String,
    /// In the order of the file. Each rule has at most one.
    pub list: Vec<Waiver>,
}

/// A rule that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRule {
    /// A rule with a similar name, as the end of the error; empty if there is none.
    pub hint: String,
}

/// Returns the id of a rule that is written by its id or its name.
pub type ResolveRule<'r> = &'r dyn Fn(&str) -> Result<String, UnknownRule>;

/// Reads the waivers of a directory, if it has any.
///
/// # Errors
/// One line for each error, with its place.
pub fn read(
    directory: &Path,
    resolve: ResolveRule<'_>,
    reader: &Reader,
) -> Result<Option<Waivers>, WaiverError> {
    let file = opgate_platform::files::display_path(&directory.join(FILE_NAME));
    let here = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    // An unreadable directory has no waivers. The reader of its files reports it.
    let Ok(root) = RootDirectory::open(here) else { return Ok(None) };
    let fail = |why: &dyn std::fmt::Display| WaiverError(format!("{file}: {why}"));
    let at = FilePath::Below(&root, Path::new(FILE_NAME));
    let unsaved = reader.unsaved_text(&at, ReadPurpose::Keep).map_err(|error| fail(&error))?;
    let bytes = if let Some(bytes) = unsaved {
        bytes
    } else {
        let opened = match at.open() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| fail(&error))?,
        };
        if !usize::try_from(opened.size).is_ok_and(|size| size <= MAX_FILE_BYTES) {
            return Err(fail(&format!("larger than {}", units::bytes(MAX_FILE_BYTES))));
        }
        reader.read(opened, true, ReadPurpose::Keep).map_err(|error| fail(&error))?
    };
    if bytes.len() > MAX_FILE_BYTES {
        return Err(fail(&format!("larger than {}", units::bytes(MAX_FILE_BYTES))));
    }
    let text = String::from_utf8(bytes).map_err(|error| fail(&format!("not UTF-8: {error}")))?;
    let list = parse(&file, text.trim_start_matches('\u{feff}'), resolve)?;
    Ok(Some(Waivers { file, list }))
}

/// Reports whether there is such a file, or anything else with its name.
#[must_use]
pub fn exists_in(directory: &Path) -> bool {
    directory.join(FILE_NAME).symlink_metadata().is_ok()
}

fn parse(file: &str, text: &str, resolve: ResolveRule<'_>) -> Result<Vec<Waiver>, WaiverError> {
    let located = LocatedValue::read(text).map_err(|e| {
        WaiverError(one_line(
            &format!("{file}:{}:{}: not YAML: {}", e.line, e.column, e.message),
            MAX_ERROR_BYTES,
        ))
    })?;
    let mut errors = ErrorCollector { document: &located, errors: Vec::new() };
    let mut waivers: Vec<Waiver> = Vec::new();
    for (index, entry) in errors.entries().iter().enumerate() {
        if let Some(waiver) = errors.parse_waiver(&format!("/waivers/{index}"), entry, resolve) {
            if let Some(first) = waivers.iter().find(|known| known.rule == waiver.rule) {
                let why = format!("{} is waived already on line {}", waiver.rule, first.line);
                errors.add(&format!("/waivers/{index}/rule"), &why);
            }
            waivers.push(waiver);
        }
    }
    errors.into_result(file, waivers)
}

/// The errors of a file, by location.
struct ErrorCollector<'l> {
    document: &'l LocatedValue,
    errors: Vec<((u64, u64), String)>,
}

impl<'l> ErrorCollector<'l> {
    fn add(&mut self, pointer: &str, why: &str) {
        self.errors.push((self.document.location(pointer), why.to_owned()));
    }

    fn into_result<T>(mut self, file: &str, value: T) -> Result<T, WaiverError> {
        if self.errors.is_empty() {
            return Ok(value);
        }
        self.errors.sort();
        let line = |((line, column), why): &((u64, u64), String)| {
            one_line(&format!("{file}:{line}:{column}: {why}"), MAX_ERROR_BYTES)
        };
        let mut lines: Vec<_> = self.errors.iter().take(MAX_ERRORS).map(line).collect();
        if let more @ 1.. = self.errors.len() - lines.len() {
            lines.push(format!("{file}: {more} more errors"));
        }
        Err(WaiverError(lines.join("\n")))
    }

    /// Names of members that do not exist.
    fn check_keys(
        &mut self,
        pointer: &str,
        members: &Map<String, Value>,
        known: &[&str],
        what: &str,
    ) {
        for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
            let escaped = name.replace('~', "~0").replace('/', "~1");
            let hint = hint(name, known.iter().copied());
            self.add(
                &format!("{pointer}/{escaped}"),
                &format!("unknown key {name:?}: {what}{hint}"),
            );
        }
    }

    /// Returns the entries of the file.
    fn entries(&mut self) -> &'l [Value] {
        const FORM: &str = "write waivers: [{rule: …, reason: …}]";
        let located = self.document;
        let Some(members) = located.value.as_object() else {
            self.add("", &format!("not an object: {FORM}"));
            return &[];
        };
        self.check_keys("", members, &["waivers"], "this file can waive rules and nothing else");
        match members.get("waivers") {
            Some(Value::Array(entries)) if entries.len() > MAX_WAIVERS => {
                let count = entries.len();
                self.add("/waivers", &format!("{count} waivers are more than {MAX_WAIVERS}"));
                &[]
            }
            Some(Value::Array(entries)) => entries,
            Some(_) => {
                self.add("/waivers", &format!("waivers is not a list: {FORM}"));
                &[]
            }
            None => {
                self.add("", &format!("waivers is missing: {FORM}"));
                &[]
            }
        }
    }

    fn parse_waiver(
        &mut self,
        pointer: &str,
        entry: &Value,
        resolve: ResolveRule<'_>,
    ) -> Option<Waiver> {
        let Some(members) = entry.as_object() else {
            self.add(pointer, "not an object: write {rule: …, reason: …}");
            return None;
        };
        let what = "a waiver has rule, reason and until";
        self.check_keys(pointer, members, &["rule", "reason", "until"], what);
        let rule = self.parse_text(pointer, members, "rule");
        let reason = self.parse_text(pointer, members, "reason");
        let rule = rule.map(|rule| {
            resolve(rule).unwrap_or_else(|UnknownRule { hint }| {
                let why = format!("there is no rule {rule:?}{hint}");
                self.add(&format!("{pointer}/rule"), &why);
                rule.to_owned()
            })
        });
        if reason.is_some_and(|reason| reason.len() > MAX_REASON_BYTES) {
            let why = format!("reason has more than {MAX_REASON_BYTES} bytes");
            self.add(&format!("{pointer}/reason"), &why);
        }
        let until = match members.get("until") {
            None => None,
            Some(written) => {
                let until = written.as_str().and_then(parse_day);
                if until.is_none() {
                    let why = "until is not a day: write it like 2027-01-31";
                    self.add(&format!("{pointer}/until"), why);
                }
                until
            }
        };
        let (line, column) = self.document.location(pointer);
        let (rule, reason) = (rule?, one_line(reason?, MAX_REASON_BYTES));
        Some(Waiver { rule, reason, until, line, column })
    }

    /// Returns a member that must be a text with something in it.
    fn parse_text<'m>(
        &mut self,
        pointer: &str,
        members: &'m Map<String, Value>,
        name: &str,
    ) -> Option<&'m str> {
        // Many characters are invisible.
        let is_seen = |c: char| c.is_alphanumeric() || c.is_ascii_punctuation();
        let why = match members.get(name) {
            None => "is missing",
            Some(Value::String(text)) if text.contains(is_seen) => return Some(text.trim()),
            Some(Value::String(_) | Value::Null) => "is empty",
            Some(_) => "is not a text",
        };
        self.add(&format!("{pointer}/{name}"), &format!("{name} {why}"));
        None
    }
}

/// Returns a `full-date` of RFC 3339.
fn parse_day(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let mut number = |digits: usize| -> Option<u16> {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
        part.parse().ok().filter(|_| is_number)
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(year.into(), month, u8::try_from(day).ok()?).ok()?;
    parts.next().is_none().then_some(date)
}

#[cfg(test)]
mod tests;
