//! The report of one review: the violations, and the skipped rules.
//!
//! ```text
//! add ─▶ level (configuration, settings, rule) ─▶ exempt? ─▶ at most 256, shared by the rules ─▶ verdict
//! skip ────────────────────────────────────────────────────▶ skipped, warnings where asked for ──┘
//! ```
//!
//! A verdict has a maximum number of violations. If there are more, the verdict shows some for every rule,
//! and the last violation of a rule contains the number of omitted ones. An object with a hundred thousand
//! invalid entries must not cost a hundred thousand messages, and must not hide another violation.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::bindings::opgate::policy::types::AuditAnnotation;
use crate::cluster::ReadError;
use crate::{Document, Fix, Level, Review, Rule, SkippedRule, Verdict, Violation, log};

/// Maximum bytes of a text that the host accepts, see `wit/policy.wit`. More would be a policy error,
/// which may admit what should be denied: the report cuts its texts instead.
const MAX_MESSAGE_BYTES: usize = 4_096;
const MAX_FIELD_BYTES: usize = 1_024;

/// Key of the audit annotation about a user outside of a list.
pub const UNLISTED_IDENTITY_KEY: &str = "unlisted-identity";

/// The violations so far.
#[derive(Debug)]
pub struct Report<'r> {
    review: Review<'r>,
    /// By rule and level.
    violations: Vec<RuleViolations>,
    skipped: Vec<SkipRecord>,
    audit_annotations: Vec<(&'static str, BTreeSet<String>)>,
    reason: Option<String>,
    is_exempt: Option<bool>,
    /// The rules with a configured level, and the names of all settings: read once.
    configured: OnceCell<Vec<String>>,
    settings: OnceCell<Vec<String>>,
    /// Sets the logical locations of the verdict's violations.
    set_locations: Option<fn(&Document, &mut [Violation])>,
    /// Number of violations so far, to keep their order.
    count: usize,
}

/// The violations of one rule.
#[derive(Debug)]
struct RuleViolations {
    rule: &'static Rule,
    /// The level that the caller gave; none for the level of the rule.
    level_override: Option<Level>,
    /// None if the rule is off, or does not apply to the user of the request.
    level: Option<Level>,
    /// The first violations, each with its position among all violations.
    first: Vec<(usize, Violation)>,
    /// Number of all violations.
    count: usize,
}

/// A rule that was not evaluated.
#[derive(Debug)]
struct SkipRecord {
    rule: &'static Rule,
    field: String,
    reason: String,
    is_partial: bool,
}

impl<'r> Report<'r> {
    /// Findings that a verdict has room for: the maximum that the host accepts.
    pub const MAX_VIOLATIONS: usize = 256;

    /// Creates a report without violations.
    #[must_use]
    pub fn new(review: Review<'r>) -> Self {
        Self {
            review,
            violations: Vec::new(),
            skipped: Vec::new(),
            audit_annotations: Vec::new(),
            reason: None,
            is_exempt: None,
            configured: OnceCell::new(),
            settings: OnceCell::new(),
            set_locations: None,
            count: 0,
        }
    }

    /// Adds a violation: the field in the notation of Kubernetes, and one sentence for the user who sent the
    /// request. The level is the configured one, or else the level of the rule.
    pub fn add(
        &mut self,
        rule: &'static Rule,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add_violation((rule, None), field, message, None);
    }

    /// [`Report::add`] with the changes of the object after which it does not violate the rule. The fix may
    /// be an [`Option`].
    pub fn add_with_fix(
        &mut self,
        rule: &'static Rule,
        field: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<Option<Fix>>,
    ) {
        self.add_violation((rule, None), field, message, fix.into());
    }

    /// [`Report::add_as`] with a fix, see [`Report::add_with_fix`].
    pub fn add_as_with_fix(
        &mut self,
        level: Level,
        rule: &'static Rule,
        field: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<Option<Fix>>,
    ) {
        self.add_violation((rule, Some(level)), field, message, fix.into());
    }

    /// [`Report::add`] with another level than the rule's, if none is configured.
    pub fn add_as(
        &mut self,
        level: Level,
        rule: &'static Rule,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add_violation((rule, Some(level)), field, message, None);
    }

    fn add_violation(
        &mut self,
        (rule, level_override): (&'static Rule, Option<Level>),
        field: impl Into<String>,
        message: impl Into<String>,
        fix: Option<Fix>,
    ) {
        let count = self.count.saturating_add(1);
        let Some(found) = self.violations_of(rule, level_override) else { return };
        let Some(level) = found.level else { return };
        found.count = found.count.saturating_add(1);
        if found.first.len() < Report::MAX_VIOLATIONS {
            let violation = Violation {
                rule: rule.id.to_owned(),
                level,
                field: field.into(),
                message: message.into(),
                logical_location: Vec::new(),
                fix: fix.map(Into::into),
            };
            found.first.push((count, violation));
            self.count = count;
        }
    }

    /// Gives a fix to the violation that was added last, if it is a violation of the rule. A rule can be off and
    /// a report full: the fix is then not created.
    pub fn set_fix(&mut self, rule: &Rule, fix: impl FnOnce() -> Option<Fix>) {
        if !self.review.request.wants_fixes() {
            return;
        }
        let last = self.count;
        let of_rule = self.violations.iter_mut().filter(|found| std::ptr::eq(found.rule, rule));
        let shown = of_rule.filter(|found| found.count == found.first.len());
        let newest = shown.filter_map(|found| found.first.last_mut());
        let newest = newest.into_iter().find(|(place, _)| *place == last);
        if let Some((_, violation)) = newest
            && let Some(fix) = fix()
        {
            violation.fix = Some(fix.into());
        }
    }

    /// Adds one violation for an error that violates several rules. It is a violation of the strictest
    /// enabled rule, of the first of these in the given order, and names the others.
    pub fn add_once(
        &mut self,
        field: impl Into<String>,
        broken: impl IntoIterator<Item = (&'static Rule, String)>,
    ) {
        let mut broken: Vec<_> = broken.into_iter().collect();
        broken.retain(|(rule, _)| self.is_on(rule) && self.applies(rule));
        let strictest = broken.iter().position(|(rule, _)| self.denies(rule)).unwrap_or_default();
        if broken.is_empty() {
            return;
        }
        let (rule, mut message) = broken.remove(strictest);
        let others: Vec<_> = broken.iter().map(|(rule, _)| rule.id).collect();
        if !others.is_empty() {
            message = format!("{message} (also breaks {})", others.join(", "));
        }
        self.add(rule, field, message);
    }

    /// Reports whether the report has as many violations of a rule as a verdict can contain: texts of further
    /// ones are not shown, and need not be created. See [`Report::add_count`].
    #[must_use]
    pub fn is_full(&self, rule: &Rule) -> bool {
        let own = self.violations.iter().filter(|found| std::ptr::eq(found.rule, rule));
        own.map(|found| found.first.len()).sum::<usize>() >= Self::MAX_VIOLATIONS
    }

    /// Counts violations of a rule after those that were added with their texts. If there can be more than
    /// [`Report::MAX_VIOLATIONS`] at once, create the texts of that number and count the others.
    pub fn add_count(&mut self, rule: &'static Rule, more: usize) {
        self.add_to_count(rule, None, more);
    }

    /// [`Report::add_count`] for violations of another level than the rule's, see [`Report::add_as`].
    pub fn add_count_as(&mut self, level: Level, rule: &'static Rule, more: usize) {
        self.add_to_count(rule, Some(level), more);
    }

    fn add_to_count(&mut self, rule: &'static Rule, level_override: Option<Level>, more: usize) {
        if more == 0 {
            return;
        }
        if let Some(found) = self.violations_of(rule, level_override) {
            found.count = found.count.saturating_add(more);
        }
    }

    /// Adds a violation for each of the things. `texts` returns field and message, and is not called for
    /// things that do not fit into a verdict.
    pub fn add_each<T>(
        &mut self,
        rule: &'static Rule,
        things: impl IntoIterator<Item = T>,
        mut texts: impl FnMut(T) -> (String, String),
    ) {
        let mut things = things.into_iter();
        for thing in things.by_ref().take(Self::MAX_VIOLATIONS) {
            let (field, message) = texts(thing);
            self.add(rule, field, message);
        }
        self.add_count(rule, things.count());
    }

    /// Returns the violations of a rule.
    fn violations_of(
        &mut self,
        rule: &'static Rule,
        level_override: Option<Level>,
    ) -> Option<&mut RuleViolations> {
        let known = self
            .violations
            .iter()
            .position(|f| std::ptr::eq(f.rule, rule) && f.level_override == level_override);
        let at = known.unwrap_or_else(|| {
            let level = self.applies(rule).then(|| self.level(rule, level_override)).flatten();
            self.violations.push(RuleViolations {
                rule,
                level_override,
                level,
                first: Vec::new(),
                count: 0,
            });
            self.violations.len().saturating_sub(1)
        });
        self.violations.get_mut(at)
    }

    /// Sets the function that adds logical locations to violations, by the object and their fields. It is
    /// called when the report is finished, only for the violations of the verdict. For catalogs it is
    /// [`crate::catalog::set_logical_locations`].
    pub fn locate_with(&mut self, explain: fn(&Document, &mut [Violation])) {
        self.set_locations = Some(explain);
    }

    /// Returns the number of violations of a rule so far that deny the request.
    #[must_use]
    pub fn denials(&self, rule: &'static Rule) -> usize {
        let denies =
            |f: &&RuleViolations| std::ptr::eq(f.rule, rule) && f.level == Some(Level::Deny);
        self.violations.iter().filter(denies).map(|found| found.count).sum()
    }

    /// Sets the reason of a denial, `Forbidden` by default.
    pub fn set_reason(&mut self, reason: impl Into<String>) {
        self.reason = Some(reason.into());
    }

    /// Adds a word to the API server's audit log. Words with the same key are in one annotation, in
    /// byte order.
    pub fn annotate(&mut self, key: &'static str, word: impl Into<String>) {
        let word = word.into();
        match self.audit_annotations.iter_mut().find(|(known, _)| *known == key) {
            Some((_, words)) => drop(words.insert(word)),
            None => self.audit_annotations.push((key, BTreeSet::from([word]))),
        }
    }

    /// Warns once for a request if a user outside of OLM's identities performs an operation of OLM. If
    /// that user is OLM, the list is wrong: policies would repeatedly deny necessary operations of OLM.
    pub fn warn_unlisted_user(&mut self, what: &str) {
        if self.audit_annotations.iter().any(|(key, _)| *key == UNLISTED_IDENTITY_KEY) {
            return;
        }
        let request = self.review.request;
        let user = &request.user().username;
        // Files have no author whom a list could name.
        if user == crate::review::CHECK_USER {
            return;
        }
        let at = match (request.namespace(), request.name()) {
            ("", name) => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        log::warn(&format!(
            "user {user} {what} ({} {at}), as only OLM does, and is not one of OLM's identities; if this is OLM, add the user to identities.olm in the configuration, or set the profile of the cluster",
            request.resource().resource,
        ));
        self.annotate(UNLISTED_IDENTITY_KEY, format!("{user} {what}"));
    }

    /// Returns the level that the configuration sets for a rule.
    fn configured_level(&self, rule: &Rule) -> Option<String> {
        let settings = self.review.settings;
        let known = self.configured.get_or_init(|| settings.keys("/rules"));
        known.binary_search_by(|id| id.as_str().cmp(rule.id)).ok()?;
        settings.text(&format!("/rules/{}", rule.id))
    }

    /// Reports whether a pointer of the settings may be set. Most settings are not set, and each look-up is a
    /// call of the host.
    fn has_setting(&self, pointer: &str) -> bool {
        let known = self.settings.get_or_init(|| self.review.settings.keys(""));
        let name = pointer.split('/').nth(1).unwrap_or_default();
        pointer.is_empty() || name.contains('~') || known.iter().any(|known| known == name)
    }

    /// Reports whether the configuration sets a level for the rule that is not `off`.
    #[must_use]
    pub fn is_configured(&self, rule: &Rule) -> bool {
        self.configured_level(rule).is_some_and(|level| level != "off")
    }

    /// Reports whether a rule is on: by its configured level, or else by default or by one of its settings. A
    /// rule that is off reads nothing from the cluster.
    #[must_use]
    pub fn is_on(&self, rule: &Rule) -> bool {
        match self.configured_level(rule) {
            Some(level) => level != "off",
            None => self.is_on_by_settings(rule),
        }
    }

    /// Reports whether a setting enables a rule: it is present and not `false`.
    fn is_on_by_settings(&self, rule: &Rule) -> bool {
        let settings = self.review.settings;
        let is_set =
            |s: &&str| self.has_setting(s) && settings.has(s) && settings.boolean(s) != Some(false);
        rule.enabled_by.is_none_or(|pointers| pointers.iter().any(is_set))
    }

    /// Reports whether violations of a rule deny the request. A rule that is off denies nothing.
    #[must_use]
    pub fn denies(&self, rule: &Rule) -> bool {
        self.level(rule, None) == Some(Level::Deny)
    }

    /// Reports whether the configuration sets the rule to deny.
    #[must_use]
    pub fn is_configured_to_deny(&self, rule: &Rule) -> bool {
        self.configured_level(rule).is_some_and(|level| level == "deny")
    }

    /// Returns the level of a violation; none if the rule is off.
    fn level(&self, rule: &Rule, level_override: Option<Level>) -> Option<Level> {
        match self.configured_level(rule).as_deref() {
            Some("off") => return None,
            Some("deny") => return Some(Level::Deny),
            Some(_) => return Some(Level::Warn),
            None if !self.is_on_by_settings(rule) => return None,
            None => {}
        }
        let settings = self.review.settings;
        let denies = |pointer: &&str| {
            self.has_setting(pointer)
                && (settings.boolean(pointer) == Some(true)
                    || settings.text_or_empty(pointer) == "deny")
        };
        let denies_here = || {
            let is_everywhere = rule.denies_in.is_empty();
            is_everywhere || rule.denies_in.contains(&self.review.input_type())
        };
        let level = match level_override.unwrap_or(rule.level) {
            Level::Deny if !denies_here() => Level::Warn,
            level => level,
        };
        Some(match level {
            Level::Warn if rule.denies_with.iter().any(denies) => Level::Deny,
            level => level,
        })
    }

    fn applies(&mut self, rule: &Rule) -> bool {
        rule.no_exemptions || !*self.is_exempt.get_or_insert_with(|| self.review.is_exempt())
    }

    /// Records that a rule could not be evaluated, and why: `the cluster's Bundles are not
    /// available`. Only the first reason for a rule counts.
    pub fn skip(&mut self, rule: &'static Rule, field: &str, why: &str) {
        self.record_skip(rule, field, why, false);
    }

    /// Records that a rule could only be evaluated in part, and why.
    pub fn skip_part(&mut self, rule: &'static Rule, field: &str, why: &str) {
        self.record_skip(rule, field, why, true);
    }

    fn record_skip(&mut self, rule: &'static Rule, field: &str, why: &str, is_partial: bool) {
        if !self.skipped.iter().any(|known| std::ptr::eq(known.rule, rule)) {
            let (field, why) = (field.to_owned(), why.to_owned());
            self.skipped.push(SkipRecord { rule, field, reason: why, is_partial });
        }
    }

    /// Returns the result of a query, if there is one. Otherwise the rules that need it are skipped: unknown
    /// state violates no rule, and the verdict lists the skipped rules. An invalid selector does not concern
    /// them.
    pub fn or_skip<T>(
        &mut self,
        rules: &[&'static Rule],
        needed: &str,
        answer: Result<T, ReadError>,
    ) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(ReadError::NoCluster) => {
                let why = format!("the cluster's {needed} are not available");
                for rule in rules {
                    self.skip(rule, "", &why);
                }
                None
            }
            Err(ReadError::Unavailable(reason)) => {
                let why = format!("the cluster's {needed} are not available: {reason}");
                for rule in rules {
                    self.skip(rule, "", &why);
                }
                None
            }
            Err(ReadError::Invalid(_)) => None,
        }
    }

    /// Returns the verdict.
    #[must_use]
    pub fn finish(mut self) -> Verdict {
        // A rule that is off is not skipped.
        let mut skipped = std::mem::take(&mut self.skipped);
        skipped.retain(|missing| self.is_on(missing.rule));
        skipped.sort_by_key(|missing| missing.rule.sort_key());
        let settings = self.review.settings;
        if !skipped.is_empty() && settings.text_or_empty("/messages/skippedRules") == "warn" {
            // Without a cluster, a rule that the configuration sets to deny would deny every
            // request.
            for missing in &skipped {
                if self.is_configured_to_deny(missing.rule) {
                    continue;
                }
                let SkipRecord { rule, field, reason: why, is_partial } = missing;
                let how = if *is_partial { "evaluated in part" } else { "not evaluated" };
                let message = format!("{} was {how}: {why}", rule.id);
                let (rule, level) = (rule.id.to_owned(), Level::Warn);
                let field = field.clone();
                let (logical_location, fix) = (Vec::new(), None);
                let warning = Violation { rule, level, field, message, logical_location, fix };
                self.violations.push(RuleViolations {
                    rule: missing.rule,
                    level_override: Some(Level::Warn),
                    level: Some(Level::Warn),
                    first: vec![(usize::MAX, warning)],
                    count: 1,
                });
            }
        }
        let mut violations = distribute(self.violations);
        if let Some(explain) = self.set_locations
            && let Some(object) = self.review.object
            && !violations.is_empty()
        {
            explain(object, &mut violations);
        }
        let is_prefixed =
            !violations.is_empty() && settings.boolean("/messages/prefixRuleId") == Some(true);
        for violation in &mut violations {
            if is_prefixed {
                violation.message = format!("{}: {}", violation.rule, violation.message);
            }
            truncate(&mut violation.message, MAX_MESSAGE_BYTES);
            truncate(&mut violation.field, MAX_FIELD_BYTES);
        }
        let reason = |missing: SkipRecord| {
            let why = missing.reason;
            if missing.is_partial { format!("in part: {why}") } else { why }
        };
        let skipped = skipped
            .into_iter()
            .map(|m| SkippedRule { rule: m.rule.id.to_owned(), reason: reason(m) })
            .collect();
        let note = |(key, words): (&str, BTreeSet<String>)| AuditAnnotation {
            key: key.to_owned(),
            value: words.into_iter().collect::<Vec<_>>().join(" "),
        };
        let audit_annotations = self.audit_annotations.into_iter().map(note).collect();
        Verdict { violations, reason: self.reason, audit_annotations, skipped }
    }
}

/// Returns as many violations of each rule as fit into a verdict together, in the order of their addition.
fn distribute(found: Vec<RuleViolations>) -> Vec<Violation> {
    let share = max_per_rule(&found);
    let mut violations: Vec<(usize, Violation)> = Vec::new();
    for mut found in found {
        found.first.truncate(share);
        let more = found.count.saturating_sub(found.first.len());
        if let Some((_, last)) = found.first.last_mut().filter(|_| more > 0) {
            // A message that is too long is cut, and this is the important part.
            let message = &last.message;
            last.message = format!("{more} more violations of this rule are omitted; {message}");
        }
        violations.append(&mut found.first);
    }
    violations.sort_by_key(|(place, _)| *place);
    violations.into_iter().map(|(_, violation)| violation).collect()
}

/// Returns the number of violations of each rule that fit into a verdict. There are fewer rules than
/// violations in a verdict.
fn max_per_rule(found: &[RuleViolations]) -> usize {
    let fits = |share: usize| {
        found.iter().map(|found| found.first.len().min(share)).sum::<usize>()
            <= Report::MAX_VIOLATIONS
    };
    (1..=Report::MAX_VIOLATIONS).rev().find(|share| fits(*share)).unwrap_or(1)
}

fn truncate(text: &mut String, limit: usize) {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Operation, Request, Target};

    static THING: Target = Target { kind: "Thing", ..Target::EMPTY };

    crate::rule! {
        /// one
        T_1: Deny { on: [THING: Create], source: [""], }
    }
    crate::rule! {
        /// two
        T_2: Warn { on: [THING: Create], denies_with: ["/strict"], source: [""], }
    }
    crate::rule! {
        /// four
        ///
        /// Text.
        T_4: Deny { on: [THING: Create], denies_in: [Bundle, Catalog], source: [""], }
    }
    crate::rule! {
        /// three
        T_3: Warn { on: [THING: Create], enabled_by: ["/three"], no_exemptions: true, source: [""], }
    }

    fn report(settings: &str, fill: impl FnOnce(&mut Report<'_>)) -> Verdict {
        let settings = Document::parse(settings).unwrap();
        let mut parts = crate::RequestParts::default();
        parts.user.username = "me".to_owned();
        let request = Request::from(parts);
        let review = Review { request: &request, object: None, old: None, settings: &settings };
        assert_eq!(review.operation(), Operation::Create);
        let mut report = Report::new(review);
        fill(&mut report);
        report.finish()
    }

    fn found(verdict: &Verdict) -> Vec<(&str, Level)> {
        verdict.violations.iter().map(|v| (v.rule.as_str(), v.level)).collect()
    }

    #[test]
    fn level_prefers_configuration_then_settings_then_rule() {
        use Level::{Deny, Warn};
        for (settings, expected) in [
            ("{}", &[("T-1", Deny), ("T-2", Warn)][..]),
            (r#"{"rules": {"T-1": "off", "T-2": "deny"}}"#, &[("T-2", Deny)]),
            (
                r#"{"rules": {"T-1": "warn", "T-3": "deny"}}"#,
                &[("T-1", Warn), ("T-2", Warn), ("T-3", Deny)],
            ),
            (r#"{"strict": true}"#, &[("T-1", Deny), ("T-2", Deny)]),
            (r#"{"strict": "deny", "three": []}"#, &[("T-1", Deny), ("T-2", Deny), ("T-3", Warn)]),
            (r#"{"strict": "warn", "three": false}"#, &[("T-1", Deny), ("T-2", Warn)]),
            (r#"{"three": 1, "exempt": {"users": ["me"]}}"#, &[("T-3", Warn)]),
            (r#"{"exempt": {"users": ["you"]}}"#, &[("T-1", Deny), ("T-2", Warn)]),
        ] {
            let verdict = report(settings, |report| {
                for rule in [&T_1, &T_2, &T_3] {
                    report.add(rule, "spec", "no");
                }
            });
            assert_eq!(found(&verdict), expected, "{settings}");
        }
        let verdict = report("{}", |report| report.add_as(Warn, &T_1, "spec", "no"));
        assert_eq!(found(&verdict), [("T-1", Warn)]);
    }

    #[test]
    fn rule_denies_in_its_input_types_and_warns_in_others() {
        assert!(T_4.docs.ends_with("\n # Level\n\n * Bundle\n * Catalog\n"), "{:?}", T_4.docs);
        let files = |resource: &str| crate::GroupVersionResource {
            group: "opgate.dev".to_owned(),
            version: "v1alpha1".to_owned(),
            resource: resource.to_owned(),
        };
        let things =
            || crate::GroupVersionResource { group: "example.com".to_owned(), ..files("things") };
        for (user, group, resource, expected) in [
            ("me", "", things(), Level::Warn),
            ("me", "opgate:bundle", things(), Level::Warn),
            ("opgate:check", "", things(), Level::Warn),
            ("opgate:check", "opgate:audit", things(), Level::Warn),
            ("opgate:check", "opgate:bundle", things(), Level::Deny),
            ("opgate:check", "", files("registrybundles"), Level::Deny),
            ("opgate:check", "", files("filebasedcatalogs"), Level::Deny),
            ("opgate:check", "", files("operatorprojects"), Level::Warn),
        ] {
            let mut parts = crate::RequestParts { resource, ..crate::RequestParts::default() };
            parts.user.username = user.to_owned();
            parts.user.groups = vec![group.to_owned()];
            let request = Request::from(parts);
            let shown = format!("{user} {group} {:?}", request.resource());
            for (settings, expected) in [
                ("{}", expected),
                (r#"{"rules": {"T-4": "deny"}}"#, Level::Deny),
                (r#"{"rules": {"T-4": "warn"}}"#, Level::Warn),
            ] {
                let settings = Document::parse(settings).unwrap();
                let settings = &settings;
                let mut report =
                    Report::new(Review { request: &request, object: None, old: None, settings });
                report.add(&T_4, "", "no");
                assert_eq!(found(&report.finish()), [("T-4", expected)], "{shown}");
            }
        }
    }

    #[test]
    fn one_mistake_is_one_violation_of_the_strictest_rule() {
        let broken = |rules: &[&'static Rule]| {
            rules.iter().map(|rule| (*rule, rule.title.to_owned())).collect::<Vec<_>>()
        };
        for (settings, rules, expected) in [
            ("{}", &[&T_2, &T_1][..], Some((Level::Deny, "one (also breaks T-2)"))),
            ("{}", &[&T_2, &T_4, &T_3], Some((Level::Warn, "two (also breaks T-4)"))),
            (r#"{"rules": {"T-1": "off"}}"#, &[&T_2, &T_1], Some((Level::Warn, "two"))),
            (r#"{"rules": {"T-1": "off", "T-2": "off"}}"#, &[&T_2, &T_1], None),
            (r#"{"exempt": {"users": ["me"]}}"#, &[&T_2, &T_1], None),
        ] {
            let verdict = report(settings, |report| report.add_once("spec", broken(rules)));
            let found = verdict.violations.iter().map(|v| (v.level, v.message.as_str())).next();
            assert_eq!(found, expected, "{settings}");
            assert!(verdict.violations.len() < 2);
        }
    }

    #[test]
    fn violations_over_the_limit_are_shared_and_counted() {
        let verdict = report("{}", |report| {
            for n in 0..1_000 {
                report.add(&T_2, format!("f{n}"), "é".repeat(3_000));
            }
            report.add(&T_1, "x".repeat(2_000), "no");
        });
        assert_eq!(verdict.violations.len(), Report::MAX_VIOLATIONS);
        assert!(verdict.violations.iter().all(|v| v.message.len() <= MAX_MESSAGE_BYTES));
        let last = verdict.violations.last().unwrap();
        assert_eq!((last.rule.as_str(), last.field.len()), ("T-1", MAX_FIELD_BYTES));
        let last = &verdict.violations[Report::MAX_VIOLATIONS - 2];
        let start = "745 more violations of this rule are omitted; é";
        assert!(last.rule == "T-2" && last.message.starts_with(start), "{}", last.message);
        assert_eq!(found(&report("{}", |r| r.add(&T_1, "", "no"))).len(), 1);
    }

    #[test]
    fn violations_over_the_limit_are_counted_without_texts() {
        let verdict = report("{}", |report| {
            let mut things = 0..1_000;
            for n in things.by_ref().take(Report::MAX_VIOLATIONS) {
                report.add(&T_1, format!("f{n}"), "no");
            }
            report.add_count(&T_1, things.count());
            report.add_count(&T_2, 0);
        });
        assert_eq!(verdict.violations.len(), Report::MAX_VIOLATIONS);
        let last = verdict.violations.last().unwrap();
        let message = "744 more violations of this rule are omitted; no";
        assert_eq!((last.field.as_str(), last.message.as_str()), ("f255", message));
    }

    #[test]
    fn texts_are_created_only_for_reported_violations() {
        let mut made = 0;
        let verdict = report("{}", |report| {
            report.add_each(&T_1, 0..1_000, |n| {
                made += 1;
                (format!("f{n}"), "no".to_owned())
            });
        });
        assert_eq!(
            (verdict.violations.len(), made),
            (Report::MAX_VIOLATIONS, Report::MAX_VIOLATIONS)
        );
        let last = verdict.violations.last().unwrap();
        let message = "744 more violations of this rule are omitted; no";
        assert_eq!((last.field.as_str(), last.message.as_str()), ("f255", message));
    }

    #[test]
    fn counted_violations_add_to_the_total() {
        let fill = |report: &mut Report<'_>| {
            for _ in 0..2 {
                report.add(&T_1, "", "no");
                report.add_count(&T_1, 20);
            }
            assert_eq!(report.denials(&T_1), if report.is_on(&T_1) { 42 } else { 0 });
        };
        let messages = |verdict: Verdict| {
            verdict.violations.into_iter().map(|v| v.message).collect::<Vec<_>>()
        };
        let more = "40 more violations of this rule are omitted; no";
        assert_eq!(messages(report("{}", fill)), ["no", more]);
        assert_eq!(messages(report(r#"{"rules": {"T-1": "off"}}"#, fill)), [""; 0]);
    }

    #[test]
    fn skipped_rules_are_reported() {
        let fill = |report: &mut Report<'_>| {
            report.skip_part(&T_2, "spec", "half is missing");
            report.skip(&T_1, "", "all is missing");
            report.skip(&T_1, "", "really");
            report.skip(&T_3, "", "it is off");
        };
        let verdict = report("{}", fill);
        let skipped = |v: &Verdict| {
            v.skipped.iter().map(|s| format!("{}: {}", s.rule, s.reason)).collect::<Vec<_>>()
        };
        assert_eq!(skipped(&verdict), ["T-1: all is missing", "T-2: in part: half is missing"]);
        assert!(verdict.violations.is_empty());
        let verdict =
            report(r#"{"messages": {"skippedRules": "warn"}, "rules": {"T-1": "deny"}}"#, fill);
        assert_eq!(skipped(&verdict).len(), 2);
        let [warning] = &verdict.violations[..] else { panic!("{verdict:?}") };
        assert_eq!(warning.message, "T-2 was evaluated in part: half is missing");
        assert_eq!(warning.field, "spec");
    }

    #[test]
    fn words_for_the_audit_log_are_in_one_annotation() {
        let verdict = report("{}", |report| {
            for word in ["b", "a", "b"] {
                report.annotate("olm-reason", word);
            }
        });
        let [note] = &verdict.audit_annotations[..] else { panic!("{verdict:?}") };
        assert_eq!((note.key.as_str(), note.value.as_str()), ("olm-reason", "a b"));
    }

    #[test]
    fn unlisted_user_is_reported_once() {
        let settings = Document::parse("{}").unwrap();
        let mut parts = crate::RequestParts::default();
        parts.user.username = "mallory".to_owned();
        (parts.namespace, parts.name) = ("ns".to_owned(), "g".to_owned());
        "operatorgroups".clone_into(&mut parts.resource.resource);
        let request = Request::from(parts);
        let mut report =
            Report::new(Review { request: &request, object: None, old: None, settings: &settings });
        for _ in 0..2 {
            report.warn_unlisted_user("writes olm.providedAPIs");
        }
        let verdict = report.finish();
        let [note] = &verdict.audit_annotations[..] else { panic!("{verdict:?}") };
        assert_eq!(
            (note.key.as_str(), note.value.as_str()),
            (UNLISTED_IDENTITY_KEY, "mallory writes olm.providedAPIs")
        );
        let [line] = log::take_lines().try_into().unwrap();
        for part in ["mallory", "operatorgroups ns/g", "identities.olm"] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn messages_may_start_with_the_rule() {
        let verdict = report(r#"{"messages": {"prefixRuleId": true}}"#, |r| r.add(&T_1, "", "no"));
        assert_eq!(verdict.violations[0].message, "T-1: no");
    }
}
