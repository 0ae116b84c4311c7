//! The scan of one object: how constraints are read, the limits on memory, and the report.

use opgate_constraint::Violation;
use opgate_constraint::constraint::{self, Options, too_large};
use opgate_constraint::properties::{self, Property};
use opgate_sdk::{Document, Report, Review, Rule};

use crate::checks::{CON_01, rule_of};

/// The maximum size of a text with constraints, in bytes. An API server accepts no request of more
/// than 3 MiB, so a longer text comes from a file and cannot be used. It is rejected without
/// reading it, which takes microseconds.
const MAX_TEXT_BYTES: u32 = 3 << 20;

/// Base64 that is decoded for one catalog. Memory is not freed during a call, and a package can
/// contain more data than the memory limit. The policy for catalogs has the same limit and reports
/// it (FBC-41). The remaining objects are evaluated when they are created in a cluster.
const MAX_DECODED_BYTES: u32 = 12 << 20;

/// The number of denials of one rule after which the rest of a large list is not read.
const MAX_DENIALS: usize = 20;
/// Memory that the properties of a large list take.
const LARGE_LIST_BYTES: usize = 16 << 20;
/// Memory for each property, and for each byte of its value. A list of many small values takes the
/// most.
const BYTES_PER_PROPERTY: usize = 1 << 10;
const BYTES_PER_VALUE_BYTE: usize = 200;

/// The state of the scan.
pub(crate) struct Scan<'s, 'r> {
    pub(crate) report: &'s mut Report<'r>,
    settings: &'s Document,
    /// The settings, read when the first constraint is found: most objects have none.
    options: Option<Options>,
    decoded: u32,
    /// An upper bound of the memory used.
    spent: usize,
    /// A rule that denies many times.
    denied_rule: Option<&'static Rule>,
    is_settled: bool,
}

impl<'s, 'r> Scan<'s, 'r> {
    pub(crate) fn new(review: &Review<'s>, report: &'s mut Report<'r>) -> Self {
        let settings = review.settings;
        Self {
            report,
            settings,
            options: None,
            decoded: 0,
            spent: 0,
            denied_rule: None,
            is_settled: false,
        }
    }

    fn options(&mut self) -> &mut Options {
        let settings = self.settings;
        self.options.get_or_insert_with(|| {
            let default = Options::default();
            let number = |pointer: &str, default: usize| {
                settings.integer(pointer).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
            };
            Options {
                max_bytes: number("/constraints/maxBytes", default.max_bytes),
                warn_depth: number("/constraints/warnDepth", default.warn_depth),
                max_depth: number("/constraints/maxDepth", default.max_depth),
                upstream: settings.text_or_empty("/constraints/mode") == "upstream",
                documented_keys: settings.text_or_empty("/constraints/packageKeys") != "code",
                ..default
            }
        })
    }

    /// The maximum size of the expanded values of one object, in bytes.
    pub(crate) fn max_inflated(&self) -> usize {
        let bytes = self.settings.integer("/constraints/maxInflatedBytes");
        bytes.and_then(|n| usize::try_from(n).ok()).unwrap_or(8 << 20)
    }

    /// Whether there are enough denials that the rest need not be read: it can be very large, and
    /// memory is not freed. The first call that returns true reports a violation at this field.
    pub(crate) fn check_settled(&mut self, field: impl FnOnce() -> String) -> bool {
        let rule = self.denied_rule.filter(|_| !self.is_settled && self.spent > LARGE_LIST_BYTES);
        if let Some(rule) = rule {
            self.is_settled = true;
            let message =
                "the rest of the list is not read, because so much of it is refused already";
            self.report.add(rule, field(), message);
        }
        self.is_settled
    }

    /// Whether a value is small enough to be read. Reports a violation if it is not.
    pub(crate) fn check_size(&mut self, object: &Document, pointer: &str, field: &str) -> bool {
        let size = object.size(pointer).unwrap_or_default();
        if size > MAX_TEXT_BYTES {
            let message = format!(
                "{} (not read: the {size} bytes around it are more than an API server takes)",
                too_large(self.options().max_bytes)
            );
            self.add(&CON_01, field, message);
        }
        size <= MAX_TEXT_BYTES
    }

    /// Whether the limit permits decoding this number of bytes of base64.
    pub(crate) fn reserve_decoding(&mut self, size: u32) -> bool {
        self.decoded = self.decoded.saturating_add(size);
        self.decoded <= MAX_DECODED_BYTES
    }

    pub(crate) fn add(
        &mut self,
        rule: &'static Rule,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.report.add(rule, field, message);
        if self.denied_rule.is_none() && self.report.denials(rule) > MAX_DENIALS {
            self.denied_rule = Some(rule);
        }
    }

    /// The problems of the value of a property.
    pub(crate) fn evaluate_property(&mut self, property: Property<'_>) -> constraint::Report {
        self.evaluate(property, false)
    }

    /// The problems of the value of a property in a file, with recommendations for ranges.
    pub(crate) fn evaluate_file_property(&mut self, property: Property<'_>) -> constraint::Report {
        self.evaluate(property, true)
    }

    fn evaluate(&mut self, property: Property<'_>, advice: bool) -> constraint::Report {
        let cost = property
            .value
            .len()
            .saturating_mul(BYTES_PER_VALUE_BYTE)
            .saturating_add(BYTES_PER_PROPERTY);
        self.spent = self.spent.saturating_add(cost);
        let options = self.options();
        let report = properties::check(property, &Options { advice, ..*options });
        let texts = report.violations.iter().map(|f| f.pointer.len() + f.message.len()).sum();
        options.max_message_bytes = options.max_message_bytes.saturating_sub(texts);
        report
    }

    /// Reports the problems of the value at this field.
    pub(crate) fn add_problems(&mut self, field: &str, found: constraint::Report) {
        for Violation { check, pointer, message } in found.violations {
            self.add(rule_of(check), format!("{field}{}", path(&pointer)), message);
        }
        for (check, more) in found.omitted {
            self.report.add_count(rule_of(check), more);
        }
    }
}

/// `/all/constraints/0` → `.all.constraints[0]`, with brackets around names that are not words.
fn path(pointer: &str) -> String {
    let mut path = String::new();
    for token in pointer.split('/').skip(1) {
        let name = token.replace("~1", "/").replace("~0", "~");
        if !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
        {
            path.push('.');
            path.push_str(&name);
        } else {
            path.push('[');
            path.push_str(&name);
            path.push(']');
        }
    }
    path
}
