//! Results of a check, in the forms that people and pipelines read: every violation with its place.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write as _};

use anstream::AutoStream;
use serde::Serialize;
use serde_json::json;

use super::Outcome;
use super::paths::Unread;
use super::report::{ERROR, FAINT, Fault, Format, Out, Violation, sarif_log, sarif_rules, xml};
use super::tree::Tree;
use opgate_admission::policy::{Decision, Effect, Set};
use opgate_files::{Place, Request, Resolver, Subject};
use opgate_text::one_line;

/// Violations among which one that is told twice is looked for.
const RECENT: usize = 1_000;

/// What became of a bundle, a catalog's package or a manifest. The members are part of the command
/// line's contract.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    source: String,
    kind: String,
    name: String,
    ok: bool,
    violations: Vec<Located>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
    /// Of a catalog, the package as its tree names it; empty for what belongs to none.
    #[serde(skip)]
    package: Option<String>,
}

/// A violation and its place.
#[derive(Debug, Serialize)]
struct Located {
    #[serde(flatten)]
    violation: Violation,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<At>,
    /// What of a package it is about, where it denies.
    #[serde(skip)]
    nesting: Vec<String>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
struct At {
    file: String,
    line: u64,
    column: u64,
    #[serde(skip)]
    excerpt: String,
}

impl From<Place> for At {
    fn from(place: Place) -> Self {
        let Place { file, line, column, excerpt } = place;
        Self { file, line, column, excerpt }
    }
}

impl Checked {
    /// Nothing is known yet.
    pub(super) fn new(subject: &Subject) -> Self {
        Self {
            source: subject.source.clone(),
            kind: subject.kind.clone(),
            name: subject.name.clone(),
            ok: true,
            violations: Vec::new(),
            error: None,
            package: subject.package(),
        }
    }

    /// Takes over what the policies say about one document of the subject.
    pub(super) fn take(&mut self, request: &Request, decision: Decision) {
        let mut places = Resolver::new(&request.object);
        self.ok &= decision.denial.is_none() && decision.failure.is_none();
        for mut violation in decision.violations {
            let place = places.place(&violation.field).map(At::from);
            let denies = violation.effect == Effect::Deny;
            let about = std::mem::take(&mut violation.about);
            let nesting = if denies { about } else { Vec::new() };
            let mut violation = Violation::from(violation);
            let (prefix, field) = (request.prefix.as_str(), violation.field.as_str());
            let dot = if prefix.is_empty() || field.is_empty() || field.starts_with('[') {
                ""
            } else {
                "."
            };
            violation.field = format!("{prefix}{dot}{field}");
            // A CSV is judged as part of its bundle and as a manifest: what both say is told once.
            let is_known = |known: &Located| {
                known.violation.rule == violation.rule
                    && known.violation.message == violation.message
                    && known.place == place
                    && (place.is_some() || known.violation.field == violation.field)
            };
            if !self.violations.iter().rev().take(RECENT).any(is_known) {
                self.violations.push(Located { violation, place, nesting });
            }
        }
        let fault = decision.faults.into_iter().next();
        let fault = fault.map(|fault| Fault { policy: fault.policy, cause: fault.cause });
        self.error = self.error.take().or(fault);
    }

    /// After the last document. What could not be read as a whole is not in order.
    pub(super) fn conclude(&mut self, warnings_as_errors: bool, is_complete: bool) {
        self.ok &= is_complete;
        self.ok &=
            !(warnings_as_errors && self.violations.iter().any(|v| v.violation.level == "warn"));
        // In the order of a reader of the files.
        self.violations.sort_by(|a, b| a.position().cmp(&b.position()));
    }

    /// Gives other names to paths.
    pub(super) fn rename(&mut self, named: impl Fn(&str) -> String) {
        self.source = named(&self.source);
        for place in self.violations.iter_mut().filter_map(|v| v.place.as_mut()) {
            place.file = named(&place.file);
        }
    }

    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// Whether a violation is about a file.
    pub(super) fn mentions(&self, file: &str) -> bool {
        self.violations.iter().any(|v| v.place.as_ref().is_some_and(|place| place.file == file))
    }

    pub(super) fn outcome(&self) -> Outcome {
        match (&self.error, self.ok) {
            (Some(_), _) => Outcome::Engine,
            (None, false) => Outcome::Denied,
            (None, true) => Outcome::Ok,
        }
    }

    /// What cannot be read stands in lists beside what was judged: nobody has to look elsewhere to see that
    /// not everything is in order.
    fn unread(unread: &Unread) -> Self {
        Self {
            source: unread.source.clone(),
            kind: String::new(),
            name: String::new(),
            ok: false,
            violations: Vec::new(),
            error: Some(Fault { policy: String::new(), cause: unread.line.clone() }),
            package: None,
        }
    }

    fn object(&self) -> String {
        one_line(format!("{} {}", self.kind, self.name).trim_end(), 512)
    }
}

impl Located {
    fn position(&self) -> Option<(&str, u64, u64)> {
        self.place.as_ref().map(|place| (place.file.as_str(), place.line, place.column))
    }

    /// `file:line:column`, or what the violation is about as a whole.
    fn at(&self, checked: &Checked) -> String {
        let text = self.place.as_ref().map_or_else(
            || checked.source.clone(),
            |place| format!("{}:{}:{}", place.file, place.line, place.column),
        );
        one_line(&text, 1_024)
    }

    /// The message; the field only where no place stands for it.
    fn sentence(&self) -> String {
        if self.place.is_some() {
            self.violation.message.clone()
        } else {
            self.violation.sentence()
        }
    }
}

/// A report under way.
pub(super) struct Findings {
    format: Format,
    out: Out,
    kept: Vec<Checked>,
    unread: Vec<Unread>,
    rules: Vec<serde_json::Value>,
}

impl Findings {
    pub(super) fn start(format: Format, set: &Set) -> Self {
        let out = BufWriter::new(AutoStream::auto(io::stdout()));
        let (kept, unread) = (Vec::new(), Vec::new());
        Self { format, out, kept, unread, rules: sarif_rules(set) }
    }

    pub(super) fn add(&mut self, checked: Checked) {
        self.kept.push(checked);
    }

    /// Notes what cannot be read.
    pub(super) fn miss(&mut self, unread: Unread) {
        self.unread.push(unread);
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        let mut kept = std::mem::take(&mut self.kept);
        if matches!(self.format, Format::Json | Format::Jsonl) {
            kept.extend(self.unread.iter().map(Checked::unread));
        }
        match self.format {
            Format::Table => self.table(&kept)?,
            Format::Jsonl => {
                for checked in &kept {
                    serde_json::to_writer(&mut self.out, checked)?;
                    writeln!(self.out)?;
                }
            }
            Format::Json => {
                serde_json::to_writer_pretty(&mut self.out, &kept)?;
                writeln!(self.out)?;
            }
            Format::Junit => self.junit(&kept)?,
            Format::Sarif => {
                serde_json::to_writer_pretty(
                    &mut self.out,
                    &sarif(&self.rules, &kept, &self.unread),
                )?;
                writeln!(self.out)?;
            }
        }
        self.out.flush()
    }

    fn table(&mut self, kept: &[Checked]) -> io::Result<()> {
        let mut rows: Vec<_> =
            kept.iter().flat_map(|c| c.violations.iter().map(move |v| (c, v))).collect();
        let file = |checked: &Checked, located: &Located| {
            located.place.as_ref().map_or_else(|| checked.source.clone(), |p| p.file.clone())
        };
        rows.sort_by_cached_key(|(checked, located)| {
            (file(checked, located), located.place.as_ref().map(|p| (p.line, p.column)))
        });
        let mut last = None;
        for (checked, located) in rows {
            let file = file(checked, located);
            if last.as_ref().is_some_and(|last| *last != file) {
                writeln!(self.out)?;
            }
            last = Some(file);
            let Violation { level, rule, .. } = &located.violation;
            let (at, style) = (located.at(checked), located.violation.style());
            writeln!(self.out, "{at}: {style}{level}{style:#} {rule} {}", located.sentence())?;
            if let Some(place) = &located.place {
                excerpt(&mut self.out, place)?;
            }
        }
        self.trees(kept)?;
        for checked in kept {
            if let Some(Fault { policy, cause }) = &checked.error {
                let (source, object) = (one_line(&checked.source, 512), checked.object());
                writeln!(
                    self.out,
                    "{source}: {ERROR}fault{ERROR:#} {object}: policy {policy}: {cause}"
                )?;
            }
        }
        self.out.flush()?;
        if !kept.is_empty() {
            let [ok, denied, failed] = counts(kept);
            let unread = match self.unread.len() {
                0 => String::new(),
                count => format!(", {count} not read"),
            };
            anstream::eprintln!("{ok} ok, {denied} denied, {failed} failed{unread}");
        }
        Ok(())
    }

    /// What denies a catalog once more, in the form of `opm validate`.
    fn trees(&mut self, kept: &[Checked]) -> io::Result<()> {
        let mut trees: BTreeMap<&str, Tree<'_>> = BTreeMap::new();
        for (checked, package) in kept.iter().filter_map(|c| Some((c, c.package.as_deref()?))) {
            for located in checked.violations.iter().filter(|v| v.violation.denies()) {
                let titles = located.nesting.iter().map(String::as_str);
                let titles =
                    Some(package).filter(|title| !title.is_empty()).into_iter().chain(titles);
                let (at, rule) = (located.at(checked), &located.violation.rule);
                let line = format!("{at}: {rule} {}", located.sentence());
                trees.entry(&checked.source).or_default().add(titles, line);
            }
        }
        for (source, tree) in trees {
            writeln!(self.out, "\n{}: invalid index:", one_line(source, 1_024))?;
            tree.draw(&mut self.out, "")?;
        }
        Ok(())
    }

    fn junit(&mut self, kept: &[Checked]) -> io::Result<()> {
        let out = &mut self.out;
        let [_, denied, failed] = counts(kept);
        let (tests, errors) = (kept.len() + self.unread.len(), failed + self.unread.len());
        let counts = format!("tests=\"{tests}\" failures=\"{denied}\" errors=\"{errors}\"");
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(out, "<testsuites {counts}>")?;
        writeln!(out, "  <testsuite name=\"opgate check\" {counts}>")?;
        for checked in kept {
            let (class, name) = (xml(&checked.source), xml(&checked.object()));
            writeln!(out, "    <testcase classname=\"{class}\" name=\"{name}\">")?;
            let line = |v: &Located| {
                let Violation { level, rule, .. } = &v.violation;
                xml(&format!("{}: {level} {rule} {}", v.at(checked), v.sentence()))
            };
            let lines = checked.violations.iter().map(line).collect::<Vec<_>>().join("\n");
            match (&checked.error, checked.ok) {
                (Some(Fault { policy, cause }), _) => {
                    let message = xml(&format!("policy {policy}: {cause}"));
                    writeln!(out, "      <error message=\"{message}\">{lines}</error>")?;
                }
                (None, false) => {
                    let first = checked.violations.iter().find(|v| v.violation.level == "deny");
                    let first = first.or(checked.violations.first());
                    let message = first.map(|v| xml(&v.violation.message)).unwrap_or_default();
                    writeln!(out, "      <failure message=\"{message}\">{lines}</failure>")?;
                }
                (None, true) if lines.is_empty() => {}
                (None, true) => writeln!(out, "      <system-out>{lines}</system-out>")?,
            }
            writeln!(out, "    </testcase>")?;
        }
        for Unread { source, line } in &self.unread {
            let (source, line) = (xml(source), xml(line));
            writeln!(out, "    <testcase classname=\"{source}\" name=\"read\">")?;
            writeln!(out, "      <error message=\"{line}\"></error>")?;
            writeln!(out, "    </testcase>")?;
        }
        writeln!(out, "  </testsuite>\n</testsuites>")
    }
}

/// Allowed, denied, failed.
fn counts(kept: &[Checked]) -> [usize; 3] {
    let count = |outcome: Outcome| kept.iter().filter(|c| c.outcome() == outcome).count();
    [count(Outcome::Ok), count(Outcome::Denied), count(Outcome::Engine)]
}

/// Characters of a line that are shown.
const WIDTH: usize = 120;

/// The line of a place, with a mark below the column.
fn excerpt(out: &mut impl io::Write, place: &At) -> io::Result<()> {
    let column = usize::try_from(place.column.saturating_sub(1)).unwrap_or(usize::MAX);
    let length = place.excerpt.chars().count();
    if place.excerpt.trim().is_empty() || column > length {
        return Ok(());
    }
    // Of a long line what is around the place.
    let start = if length <= WIDTH { 0 } else { column.saturating_sub(WIDTH / 2) };
    let shown: String = place.excerpt.chars().skip(start).take(WIDTH).collect();
    let shown = one_line(shown.trim_end(), WIDTH * 4);
    let (number, space) = (place.line.to_string(), "");
    let (margin, mark) = (number.len(), column - start);
    writeln!(out, "  {FAINT}{number} |{FAINT:#} {shown}")?;
    writeln!(out, "  {FAINT}{space:margin$} |{FAINT:#} {space:mark$}{ERROR}^{ERROR:#}")
}

fn sarif(rules: &[serde_json::Value], kept: &[Checked], unread: &[Unread]) -> serde_json::Value {
    let mut results = Vec::new();
    for checked in kept {
        let result = |rule: &str, level: &str, text: String, place: Option<&At>| {
            let mut physical = json!({
                "artifactLocation": {"uri": uri(place.map_or(&checked.source, |place| &place.file))},
            });
            if let (Some(place), Some(members)) = (place, physical.as_object_mut()) {
                let region = json!({"startLine": place.line, "startColumn": place.column});
                members.insert("region".to_owned(), region);
            }
            json!({
                "ruleId": rule,
                "level": level,
                "message": {"text": text},
                "locations": [{
                    "physicalLocation": physical,
                    "logicalLocations": [{"fullyQualifiedName": checked.object()}],
                }],
            })
        };
        for located in &checked.violations {
            let v = &located.violation;
            let place = located.place.as_ref();
            results.push(result(&v.rule, v.severity(), located.sentence(), place));
        }
        if let Some(fault) = &checked.error {
            let text = format!("policy {}: {}", fault.policy, fault.cause);
            results.push(result("fault", "error", text, None));
        }
    }
    let notification = |Unread { source, line }: &Unread| {
        let place = json!({"physicalLocation": {"artifactLocation": {"uri": uri(source)}}});
        json!({"level": "error", "message": {"text": line}, "locations": [place]})
    };
    let notifications: Vec<_> = unread.iter().map(notification).collect();
    sarif_log(rules, &results, &notifications)
}

/// A path as a reference: what is special there is escaped.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match char::from(byte) {
            c if c.is_ascii_alphanumeric() || "-._~/".contains(c) => uri.push(c),
            _ => {
                // Writing to a text does not fail.
                let _ = std::fmt::Write::write_fmt(&mut uri, format_args!("%{byte:02X}"));
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_references() {
        assert_eq!(uri("a b/ä#2.yaml"), "a%20b/%C3%A4%232.yaml");
    }

    fn shown(line: u64, column: u64, excerpt: &str) -> String {
        let at = At { file: String::new(), line, column, excerpt: excerpt.to_owned() };
        let mut out = Vec::new();
        super::excerpt(&mut out, &at).unwrap();
        anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
    }

    #[test]
    fn the_mark_stands_below_the_column() {
        assert_eq!(shown(12, 3, "  ä: x\r"), "  12 |   ä: x\n     |   ^\n");
        assert_eq!(shown(7, 2, "\tkey:"), "  7 |  key:\n    |  ^\n");
        assert_eq!(shown(1, 1, "  "), "");
        assert_eq!(shown(1, 9, "short"), "");
        let long = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let lines = shown(1, 501, &long);
        let (first, second) = lines.split_once('\n').unwrap();
        assert_eq!(first.find('X').unwrap(), second.find('^').unwrap());
        assert!(first.len() < 140);
    }
}
