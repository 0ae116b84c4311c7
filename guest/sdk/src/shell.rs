//! Between the component's exports and a [`Policy`]: conversions, and panics that reach the log.

use std::marker::PhantomData;

use crate::bindings::opgate::policy::document::Document as Handle;
use crate::bindings::opgate::policy::types as wit;
use crate::{Document, Policy};

#[doc(hidden)]
pub struct Shell<P>(PhantomData<P>);

/// A call lives in a fresh instance, so the hook is set anew by each.
fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        use crate::bindings::opgate::policy::log::{Severity, log};
        log(Severity::Error, &info.to_string());
    }));
}

impl<P: Policy> crate::bindings::Guest for Shell<P> {
    fn describe() -> wit::Descriptor {
        report_panics();
        P::describe().into()
    }

    fn validate_settings(settings: &Handle) -> Result<(), Vec<wit::SettingsError>> {
        report_panics();
        P::validate_settings(Document::of(settings))
    }

    fn validate(
        request: wit::Request,
        object: Option<&Handle>,
        old_object: Option<&Handle>,
        settings: &Handle,
    ) -> wit::Verdict {
        report_panics();
        let (object, old) = (object.map(Document::of), old_object.map(Document::of));
        P::validate(&request, object, old, Document::of(settings)).into()
    }
}
