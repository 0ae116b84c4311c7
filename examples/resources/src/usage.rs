//! Requests and limits.

use opgate_sdk::pods::PodSpec;
use opgate_sdk::{Document, Kind, Report, escape, go};

use crate::Container;
use crate::quantity::Quantity;
use crate::rules::{RES_1, RES_2};

/// Without the setting `require`.
const DEFAULT_REQUIRED: [&str; 3] = ["requests.cpu", "requests.memory", "limits.memory"];

/// Requirements of the settings.
pub(crate) struct Requirements {
    required: Vec<String>,
    max: Vec<(String, String, Quantity)>,
}

/// Value of a resource.
enum Amount {
    Missing,
    Value(Quantity, String),
    /// A quantity that an API server rejects.
    Invalid,
}

impl Requirements {
    pub(crate) fn of(settings: &Document) -> Self {
        let require = if settings.has("/require") {
            settings.texts("/require")
        } else {
            DEFAULT_REQUIRED.map(str::to_owned).to_vec()
        };
        let max = settings.keys("/max").into_iter().filter_map(|resource| {
            let written = settings.text(&format!("/max/{}", escape(&resource)))?;
            let most = Quantity::parse(&written)?;
            Some((resource, written, most))
        });
        Self { required: require, max: max.collect() }
    }

    pub(crate) fn check(
        &self,
        object: &Document,
        spec: &PodSpec,
        container: &Container,
        report: &mut Report<'_>,
    ) {
        let name = go::quote(&container.name);
        for path in &self.required {
            let Some((list, resource)) = path.split_once('.') else { continue };
            if !is_set(object, spec, container, list, resource) {
                let message = format!("container {name} has no {path}: set it");
                report.add(&RES_1, format!("{}.resources.{path}", container.field), message);
            }
        }
        for (resource, written, most) in &self.max {
            let field = || format!("{}.resources.limits.{resource}", container.field);
            let too_much = |limit: &str| {
                format!(
                    "container {name} has a limit of {limit} for {resource}, the most is {written}"
                )
            };
            match effective_amount(object, spec, container, resource) {
                Amount::Value(limit, text) if limit > *most => {
                    report.add(&RES_2, field(), too_much(&text));
                }
                // A limit of zero is none.
                Amount::Value(limit, _) if !limit.is_zero() => {}
                Amount::Invalid => {}
                Amount::Value(..) | Amount::Missing => {
                    let message = format!(
                        "container {name} has no limit for {resource}, the most is {written}"
                    );
                    report.add(&RES_2, field(), message);
                }
            }
        }
    }
}

/// Reports whether a container has a request or limit that is not zero, or the pod has it for all of its
/// containers. A limit counts as a missing request.
fn is_set(
    object: &Document,
    spec: &PodSpec,
    container: &Container,
    list: &str,
    resource: &str,
) -> bool {
    [container.pointer.as_str(), &spec.pointer()].into_iter().any(|at| {
        let written = read_amount(object, at, list, resource);
        let found = match written {
            Amount::Missing if list == "requests" => read_amount(object, at, "limits", resource),
            written => written,
        };
        match found {
            Amount::Missing => false,
            Amount::Value(quantity, _) => !quantity.is_zero(),
            // The API server reports it.
            Amount::Invalid => true,
        }
    })
}

/// Returns the limit of the container, or else that of the pod.
fn effective_amount(
    object: &Document,
    spec: &PodSpec,
    container: &Container,
    resource: &str,
) -> Amount {
    match read_amount(object, &container.pointer, "limits", resource) {
        Amount::Missing => read_amount(object, &spec.pointer(), "limits", resource),
        found => found,
    }
}

fn read_amount(object: &Document, at: &str, list: &str, resource: &str) -> Amount {
    let pointer = format!("{at}/resources/{list}/{}", escape(resource));
    let text = match object.kind(&pointer) {
        Kind::Text => object.text(&pointer),
        // Only in files: API servers write texts.
        Kind::Number => object.raw(&pointer).and_then(|raw| String::from_utf8(raw).ok()),
        Kind::Missing | Kind::Null => return Amount::Missing,
        _ => return Amount::Invalid,
    };
    let parsed = text.and_then(|text| Some((Quantity::parse(&text)?, text)));
    parsed.map_or(Amount::Invalid, |(quantity, text)| Amount::Value(quantity, text))
}
