//! Objects whose texts are prepared: a page of a list costs little more than a copy of its bytes, so that a
//! benchmark does not measure this server. Clients only list and watch them; a watch has no events.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Value, json};

use super::read_request::ReadRequest;
use super::request::number;
use super::status::ApiResult;

/// One object.
struct PreparedObject {
    namespace: String,
    /// What selectors select: the metadata.
    metadata: Value,
    whole: Box<str>,
    partial: Box<str>,
}

/// The objects of a resource type, in the order of lists.
pub(super) struct PreparedObjects {
    kind: String,
    objects: Vec<PreparedObject>,
}

impl PreparedObjects {
    /// Prepares objects with their metadata complete.
    pub(super) fn new(kind: &str, mut objects: Vec<Value>) -> Self {
        let key = |object: &Value| {
            let text =
                |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
            (text("namespace"), text("name"))
        };
        objects.sort_by_key(key);
        let prepared = |object: Value| {
            let metadata = json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            });
            PreparedObject {
                namespace: key(&object).0,
                whole: object.to_string().into(),
                partial: metadata.to_string().into(),
                metadata,
            }
        };
        Self { kind: kind.to_owned(), objects: objects.into_iter().map(prepared).collect() }
    }

    /// A page, at a version. The token is the number of the next object.
    pub(super) fn page(&self, view: &ReadRequest, version: u64) -> ApiResult<Bytes> {
        let call = &view.call;
        let first = usize::try_from(call.number("continue")?).unwrap();
        let limit = usize::try_from(number(match call.query("limit") {
            "" | "0" => "1000000000",
            limit => limit,
        })?)
        .unwrap();
        let is_selective =
            !call.query("labelSelector").is_empty() || !call.query("fieldSelector").is_empty();
        let is_selected = |object: &PreparedObject| {
            let is_within =
                view.namespace.as_ref().is_none_or(|within| object.namespace == *within);
            is_within && (!is_selective || view.is_selected(&object.metadata))
        };
        let (mut items, mut next) = (String::new(), None);
        let mut count = 0;
        for (index, object) in self.objects.iter().enumerate().skip(first) {
            if !is_selected(object) {
                continue;
            }
            if count == limit {
                next = Some(index);
                break;
            }
            count += 1;
            let separator = if items.is_empty() { "" } else { "," };
            let text = if call.partial { &object.partial } else { &object.whole };
            write!(items, "{separator}{text}").unwrap();
        }
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if let Some(next) = next {
            metadata["continue"] = json!(next.to_string());
        }
        let (kind, api) = if call.partial {
            ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned())
        } else {
            (&*self.kind, super::resource::api_version(&view.of.0, &view.version))
        };
        let head = format!(
            "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api}\",\"metadata\":{metadata},\"items\":["
        );
        Ok(format!("{head}{items}]}}").into())
    }
}
