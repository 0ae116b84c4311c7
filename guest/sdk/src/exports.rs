//! Connects the exports of the component and a [`Policy`]: conversions, and panics that reach the
//! log.

use std::marker::PhantomData;

use crate::bindings::opgate::policy::document::Document as Handle;
use crate::bindings::opgate::policy::request::Request as RequestHandle;
use crate::bindings::opgate::policy::types as wit;
use crate::{Document, Operation, Policy, Report, Request, Review, Verdict};

/// The policy of a component.
#[doc(hidden)]
pub trait ExportedPolicy {
    const POLICY: &'static Policy;
}

#[doc(hidden)]
pub struct PolicyExports<P>(PhantomData<P>);

/// Sets the hook, in each call, because each call has a new instance.
#[doc(hidden)]
pub fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        use crate::bindings::opgate::policy::log::{Severity, log};
        log(Severity::Error, &info.to_string());
    }));
}

impl<P: ExportedPolicy> crate::bindings::Guest for PolicyExports<P> {
    fn describe() -> wit::Descriptor {
        report_panics();
        P::POLICY.describe()
    }

    fn validate_settings(settings: &Handle) -> Result<(), Vec<wit::SettingsError>> {
        report_panics();
        (P::POLICY.check_settings)(Document::of(settings))
    }

    fn validate(
        operation: Operation,
        routes: u64,
        request: &RequestHandle,
        object: Option<&Handle>,
        old_object: Option<&Handle>,
        settings: &Handle,
    ) -> Verdict {
        report_panics();
        let (object, old) = (object.map(Document::of), old_object.map(Document::of));
        let request = Request::of(operation, request);
        P::POLICY.validate(&request, routes, object, old, Document::of(settings))
    }
}

impl Policy {
    /// Evaluates a request. Bit n of `routes` selects the function of route n.
    #[must_use]
    pub fn validate(
        &self,
        request: &Request<'_>,
        routes: u64,
        object: Option<&Document>,
        old: Option<&Document>,
        settings: &Document,
    ) -> Verdict {
        let object = object.filter(|_| request.operation() != Operation::Delete);
        let review = Review { request, object, old, settings };
        let mut report = Report::new(review);
        for (number, route) in (0_u32..).zip(self.routes) {
            if routes.checked_shr(number).unwrap_or_default() & 1 == 1 {
                (route.evaluate)(&review, &mut report);
            }
        }
        report.finish()
    }

    /// Returns the routes of a request, as the host finds them, for native tests.
    #[must_use]
    pub fn routes_of(&self, request: &Request<'_>, settings: &Document) -> u64 {
        let resource = request.resource();
        let name = match request.sub_resource() {
            "" => resource.resource.clone(),
            sub => format!("{}/{sub}", resource.resource),
        };
        let any = |wanted: &[String], found: &str| wanted.iter().any(|w| w == "*" || w == found);
        let is_set =
            |pointer: &String| settings.has(pointer) && settings.boolean(pointer) != Some(false);
        let matches_request = |rule: &wit::MatchRule| {
            (rule.enabled_by.is_empty() || rule.enabled_by.iter().any(is_set))
                && rule.operations.contains(&request.operation())
                && any(&rule.groups, &resource.group)
                && any(&rule.versions, &resource.version)
                && any(&rule.resources, &name)
                && rule.namespace.as_ref().is_none_or(|setting| {
                    let named = settings.text(&setting.pointer);
                    named.as_deref().unwrap_or(&setting.default) == request.namespace()
                })
        };
        let matches = self.matches(&self.all_rules());
        let bit = |rule: &wit::MatchRule| 1_u64.checked_shl(u32::from(rule.route));
        matches
            .iter()
            .filter(|rule| matches_request(rule))
            .filter_map(bit)
            .fold(0, |all, bit| all | bit)
    }
}
