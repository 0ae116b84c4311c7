//! Finds the API groups and resources that the rules of a webhook definition must not intercept.
//!
//! The rules are read as JSON text, in one pass: an object can have a hundred thousand of them.

use std::borrow::Cow;
use std::ops::Range;

use opgate_compat::json::{self, Kind, ReadOptions, Sink};

/// A forbidden part of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ForbiddenPart {
    AllGroups,
    OlmGroup,
    Configurations,
}

impl ForbiddenPart {
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::AllGroups => "webhook rules cannot include all groups",
            Self::OlmGroup => "webhook rules cannot include the OLM group",
            Self::Configurations => {
                "webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources"
            }
        }
    }
}

/// The forbidden parts of a list of rules: the rule, the part, and its position in the list that
/// has it, in the order in which OLM checks them.
pub(super) fn find_forbidden(
    rules: &[u8],
    as_upstream: bool,
) -> Vec<(usize, ForbiddenPart, usize)> {
    let mut scan = RuleScanner { text: rules, as_upstream, ..RuleScanner::default() };
    if json::kind(rules) == Some(Kind::List) {
        // The host has parsed the text already: it is JSON.
        drop(json::read(rules, ReadOptions::WHOLE, &mut scan));
    }
    scan.forbidden
}

/// Reads `[{"apiGroups": ["…"], "resources": ["…"]}]` in one pass.
#[derive(Default)]
struct RuleScanner<'j> {
    text: &'j [u8],
    as_upstream: bool,
    depth: usize,
    /// Index of the rule.
    rule: usize,
    /// The member of the rule that is read.
    member: Member,
    /// The position in its list.
    at: usize,
    // The first position of each, in the lists of the rule.
    all: Option<usize>,
    olm: Option<usize>,
    admission: Option<usize>,
    configuration: Option<usize>,
    forbidden: Vec<(usize, ForbiddenPart, usize)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Member {
    Groups,
    Resources,
    #[default]
    Other,
}

impl RuleScanner<'_> {
    /// The value of a JSON string.
    fn decode(&self, range: Range<usize>) -> Cow<'_, str> {
        json::decode_text(self.text.get(range).unwrap_or_default())
    }

    /// Runs after each value.
    fn end(&mut self) {
        match self.depth {
            1 => {
                let parts = [
                    (ForbiddenPart::AllGroups, self.all),
                    (ForbiddenPart::OlmGroup, self.olm),
                    (ForbiddenPart::Configurations, self.admission.and(self.configuration)),
                ];
                let rule = self.rule;
                self.forbidden.extend(parts.into_iter().filter_map(|(p, at)| Some((rule, p, at?))));
                self.rule += 1;
                (self.all, self.olm, self.admission, self.configuration) = (None, None, None, None);
            }
            2 => self.member = Member::Other,
            3 => self.at += 1,
            _ => {}
        }
    }
}

impl Sink for RuleScanner<'_> {
    fn key(&mut self, range: Range<usize>) {
        if self.depth != 2 {
            return;
        }
        // If a member occurs twice, the last one counts.
        self.at = 0;
        self.member = match &*self.decode(range) {
            "apiGroups" => Member::Groups,
            "resources" => Member::Resources,
            _ => Member::Other,
        };
        match self.member {
            Member::Groups => (self.all, self.olm, self.admission) = (None, None, None),
            Member::Resources => self.configuration = None,
            Member::Other => {}
        }
    }

    fn open(&mut self, kind: Kind, _: usize) {
        // A member that is not a list is not read.
        if self.depth == 2 && kind != Kind::List {
            self.member = Member::Other;
        }
        self.depth += 1;
    }

    fn close(&mut self, _: Kind, _: usize) {
        self.depth = self.depth.saturating_sub(1);
        self.end();
    }

    fn scalar(&mut self, kind: Kind, range: Range<usize>) {
        if self.depth == 3 && kind == Kind::Text && self.member != Member::Other {
            let at = Some(self.at);
            let text = self.decode(range);
            if self.member == Member::Resources {
                if self.configuration.is_none() && is_configuration(&text, self.as_upstream) {
                    self.configuration = at;
                }
            } else {
                match &*text {
                    "*" => self.all = self.all.or(at),
                    "operators.coreos.com" => self.olm = self.olm.or(at),
                    "admissionregistration.k8s.io" => self.admission = self.admission.or(at),
                    _ => {}
                }
            }
        }
        self.end();
    }
}

/// Whether a resource of the group stands for configurations of webhooks.
fn is_configuration(resource: &str, as_upstream: bool) -> bool {
    if as_upstream {
        let kinds = ["*", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
        return kinds.contains(&resource);
    }
    if resource == "*" || resource == "*/*" {
        return true;
    }
    let name = resource.split('/').next().unwrap_or_default();
    let singular = name.strip_suffix(['s', 'S']).unwrap_or(name);
    ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"]
        .iter()
        .any(|kind| singular.eq_ignore_ascii_case(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_compared_strictly_or_as_upstream() {
        for (resource, strictly, upstream) in [
            ("*", true, true),
            ("*/*", true, false),
            ("*/status", false, false),
            ("MutatingWebhookConfiguration", true, true),
            ("ValidatingWebhookConfiguration", true, true),
            ("mutatingwebhookconfiguration", true, false),
            ("mutatingwebhookconfigurations", true, false),
            ("validatingwebhookconfiguration", true, false),
            ("validatingwebhookconfigurations", true, false),
            ("ValidatingWebhookConfigurations", true, false),
            ("mutatingwebhookconfigurations/status", true, false),
            ("mutatingwebhookconfigurations/*", true, false),
            ("mutatingwebhookconfigurationss", false, false),
            ("SomeOtherResource", false, false),
            ("", false, false),
        ] {
            assert_eq!(is_configuration(resource, false), strictly, "{resource}");
            assert_eq!(is_configuration(resource, true), upstream, "{resource} upstream");
        }
    }

    #[test]
    fn webhook_violations_have_the_order_of_olm() {
        use ForbiddenPart::{AllGroups, Configurations, OlmGroup};
        let all = r#"[{"apiGroups":["a","operators.coreos.com","admissionregistration.k8s.io","*"],"resources":["a","*"]},
            null, {"apiGroups":"*"}, {"apiGroups":[["*"],null,"*"]}, {"apiGroups":["*"],"apiGroups":[]}]"#;
        let expected =
            [(0, AllGroups, 3), (0, OlmGroup, 1), (0, Configurations, 1), (3, AllGroups, 2)];
        assert_eq!(find_forbidden(all.as_bytes(), false), expected);
        for none in ["{}", "[]", "\"*\"", "[[[\"*\"]]]"] {
            assert!(find_forbidden(none.as_bytes(), false).is_empty(), "{none}");
        }
    }
}
