//! Connects the exports of the component and the modules of this crate.

use std::sync::Arc;

use opgate_document::Document;
use serde_json::Value;

use crate::bindings::{cluster, document, evaluation, log, request, types};
use crate::call::Call;
use crate::configuration::PolicyConfig;
use crate::decision::Decision;
use crate::documents::Handle;
use crate::loaded_policy::LoadedPolicy;
use crate::requests::RequestHandle;
use crate::{cases, configuration, inputs, queries};

/// The component.
struct Browser;

#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, unreachable_pub, clippy::pedantic, reason = "generated code")]
mod functions {
    use super::Browser;

    crate::bindings::export!(Browser with_types_in crate::bindings::generated);
}

impl document::Guest for Browser {
    type Document = Handle;
}

impl request::Guest for Browser {
    type Request = RequestHandle;
}

impl log::Guest for Browser {
    fn log(severity: log::Severity, message: String) {
        Call::log(severity == log::Severity::Error, &message);
    }
}

impl cluster::Guest for Browser {
    fn get(
        resource: cluster::GroupVersionResource,
        namespace: String,
        name: String,
    ) -> Result<Option<cluster::Document>, cluster::ReadError> {
        queries::get(&resource, &namespace, &name)
    }

    fn list(
        resource: cluster::GroupVersionResource,
        query: cluster::Query,
    ) -> Result<Vec<cluster::Document>, cluster::ReadError> {
        queries::list(&resource, query)
    }

    fn names(
        resource: cluster::GroupVersionResource,
        query: cluster::Query,
    ) -> Result<Vec<cluster::ObjectName>, cluster::ReadError> {
        queries::names(&resource, query)
    }

    fn sample(
        resource: cluster::GroupVersionResource,
        limit: u32,
    ) -> Result<cluster::SampleResult, cluster::ReadError> {
        queries::sample(&resource, limit)
    }
}

impl evaluation::Guest for Browser {
    type LoadedPolicy = LoadedPolicy;

    fn read_inputs(text: String) -> Result<String, String> {
        inputs::read(&text).map(|inputs| inputs.to_string()).map_err(|error| error.to_string())
    }

    fn read_cluster(text: String) -> Result<String, String> {
        inputs::read_cluster(&text).map_err(|error| error.to_string())
    }

    fn read_configuration(text: String) -> Result<String, Vec<String>> {
        configuration::read(&text).map(|found| found.to_string())
    }

    fn locate(text: String, fields: Vec<(u32, String)>) -> String {
        let places = inputs::locate(&text, &fields).unwrap_or_default();
        serde_json::json!(places).to_string()
    }

    fn read_cases(
        descriptor: types::Descriptor,
        files: Vec<(String, String)>,
    ) -> Result<String, Vec<String>> {
        cases::read(&descriptor, files).map(|cases| cases.to_string())
    }
}

fn lend(document: &Arc<Document>) -> document::Document {
    document::Document::new(Handle::of_input(document.clone()))
}

impl evaluation::GuestLoadedPolicy for LoadedPolicy {
    fn load(
        descriptor: types::Descriptor,
        configuration: String,
    ) -> Result<evaluation::LoadedPolicy, Vec<String>> {
        let config: PolicyConfig = serde_json::from_str(&configuration)
            .map_err(|error| vec![format!("the configuration is not valid: {error}")])?;
        Ok(evaluation::LoadedPolicy::new(Self::load(descriptor, config)?))
    }

    fn settings(&self) -> document::Document {
        lend(&self.settings)
    }

    fn settings_errors(&self, errors: Vec<types::SettingsError>) -> Vec<String> {
        Self::settings_errors(&errors)
    }

    fn begin(
        &self,
        review: String,
        cluster: Option<String>,
    ) -> Result<Option<evaluation::Call>, String> {
        let routes = Self::begin(self, &review, cluster).map_err(|error| error.to_string())?;
        let review = self.review.borrow();
        let (Some(routes), Some(review)) = (routes, review.as_ref()) else { return Ok(None) };
        Ok(Some(evaluation::Call {
            operation: review.operation,
            routes,
            request: request::Request::new(review.request.clone()),
            object: review.object.as_ref().map(lend),
            old_object: review.old_object.as_ref().map(lend),
            settings: lend(&self.settings),
        }))
    }

    fn finish(&self, verdict: Result<types::Verdict, String>) -> String {
        let decision = Decision::of(self, verdict);
        serde_json::to_value(decision).unwrap_or(Value::Null).to_string()
    }
}
