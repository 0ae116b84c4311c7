//! The verdict while it is put together, and the settings by which it is.

use std::collections::BTreeMap;

use opgate_constraint::constraint::{Finding, Options, too_large};
use opgate_sdk::conventions::Conventions;
use opgate_sdk::identities::report_unlisted;
use opgate_sdk::{Document, Level, Request, Verdict};

use crate::rules;

/// Findings of one rule that are told one by one. One finding is a reason to look at the rest, and
/// an object with a hundred thousand wrong constraints must not cost a hundred thousand messages.
const MOST: usize = 20;

/// Bytes of a text that holds constraints. An API server takes no request of more than 3 MiB, so a
/// longer one comes from a file and is of no use; it is refused unread, which takes microseconds.
const LONGEST: u32 = 3 << 20;

/// Base64 that is decoded for one catalog. Memory is not given back in a call, and a package may hold
/// more than all of it. The policy for catalogs decodes no more either, and says so (FBC-41); what is
/// in there is judged when it is created in a cluster.
const DECODED: u32 = 12 << 20;

/// What was found so far.
pub(crate) struct Findings<'s> {
    settings: &'s Document,
    /// How constraints are read.
    pub(crate) options: Options,
    verdict: Verdict,
    decoded: u32,
    counts: BTreeMap<String, usize>,
}

impl<'s> Findings<'s> {
    pub(crate) fn new(settings: &'s Document) -> Self {
        let default = Options::default();
        let number = |pointer: &str, default: usize| {
            settings.integer(pointer).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
        };
        let options = Options {
            max_bytes: number("/constraints/maxBytes", default.max_bytes),
            warn_depth: number("/constraints/warnDepth", default.warn_depth),
            max_depth: number("/constraints/maxDepth", default.max_depth),
            upstream: settings.text_or_empty("/constraints/mode") == "upstream",
            documented_keys: settings.text_or_empty("/constraints/packageKeys") != "code",
            advice: false,
        };
        Self { settings, options, verdict: Verdict::default(), decoded: 0, counts: BTreeMap::new() }
    }

    /// Bytes to which the compressed values of one object may expand.
    pub(crate) fn max_inflated(&self) -> usize {
        let bytes = self.settings.integer("/constraints/maxInflatedBytes");
        bytes.and_then(|n| usize::try_from(n).ok()).unwrap_or(8 << 20)
    }

    /// Whether a rule that is off by default is on: by its level, or by a setting.
    pub(crate) fn is_enabled(&self, rule: &str, setting: &str) -> bool {
        match self.settings.text(&format!("/rules/{rule}")) {
            Some(level) => level != "off",
            None => self.settings.boolean(setting) == Some(true),
        }
    }

    /// Whether so much denies already that the rest need not be read: it may be very large, and
    /// memory is not given back.
    pub(crate) fn is_settled(&self) -> bool {
        self.counts.iter().any(|(rule, count)| {
            *count > MOST
                && Conventions(self.settings).denies(rule, rules::level(rule) == Level::Deny)
        })
    }

    /// Whether a value is small enough to be read; a finding where it is not.
    pub(crate) fn admits(&mut self, object: &Document, pointer: &str, field: &str) -> bool {
        let size = object.size(pointer).unwrap_or_default();
        if size > LONGEST {
            let message = format!(
                "{} (not read: the {size} bytes around it are more than an API server takes)",
                too_large(self.options.max_bytes)
            );
            self.add("CON-01", field, message);
        }
        size <= LONGEST
    }

    /// Whether there is room to decode so many bytes of base64.
    pub(crate) fn can_decode(&mut self, size: u32) -> bool {
        self.decoded = self.decoded.saturating_add(size);
        self.decoded <= DECODED
    }

    /// Whether a copy is left out, because OLM writes it. Who else writes one anew is named.
    pub(crate) fn spares_copy(&mut self, request: &Request, is_new: bool) -> bool {
        let is_olms = Conventions(self.settings).identities().is_olm(request);
        if !is_olms && is_new {
            report_unlisted(request, "writes what claims to be a copy", &mut self.verdict);
        }
        is_olms
    }

    pub(crate) fn add(&mut self, rule: &str, field: &str, message: impl Into<String>) {
        let count = self.counts.entry(rule.to_owned()).or_default();
        *count += 1;
        if *count <= MOST {
            self.verdict.add(rules::level(rule), rule, field, message);
        }
    }

    /// Findings about a value at this field.
    pub(crate) fn extend(&mut self, field: &str, found: Vec<Finding>) {
        for Finding { rule, pointer, message } in found {
            self.add(rule, &format!("{field}{}", path(&pointer)), message);
        }
    }

    pub(crate) fn finish(mut self) -> Verdict {
        for (rule, count) in &self.counts {
            if *count > MOST {
                let message = "more findings of this rule are left out";
                self.verdict.add(rules::level(rule), rule, "", message);
            }
        }
        Conventions(self.settings).finish(self.verdict)
    }
}

/// `/all/constraints/0` → `.all.constraints[0]`, and names that are no words in brackets.
pub(crate) fn path(pointer: &str) -> String {
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
