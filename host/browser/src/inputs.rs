//! What a user has written: manifests and reviews, each with its review and its place.
//!
//! ```text
//! YAML or JSON ─▶ documents ─┬▶ AdmissionReview ─▶ unchanged
//!                            └▶ objects, elements of lists ─▶ CREATE by opgate:check, as `opgate check` does
//! ```

use std::collections::BTreeMap;

use opgate_compat::kinds::plural;
use opgate_document::{Document, Value};
use opgate_input::field::{path_tokens, resolve_tokens};
use opgate_input::objects::{TypedObject, for_each_object};
use opgate_input::yaml::{ValueNumbers, YamlDocument, parse_documents};
use opgate_text::lines::Lines;
use opgate_text::one_line;
use opgate_yaml::BooleanWords;
use serde_json::json;

/// Maximum bytes of a text, and number of its objects.
const MAX_TEXT_BYTES: usize = 4 << 20;
const MAX_INPUTS: usize = 1_000;

/// The user of requests that a check creates from files, its replacement for any other user, and the start of
/// its groups.
const CHECK_USER: &str = "opgate:check";
const CLAIMED_USER: &str = "opgate:check (claimed)";
const CHECK_GROUPS: &str = "opgate:";

/// A text that is no input, with its place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("{0}")]
    Yaml(String),
    #[error("more than 4MiB of text")]
    Size,
    #[error("more than {MAX_INPUTS} objects")]
    Count,
    #[error("nothing to evaluate: write a manifest or an AdmissionReview")]
    Empty,
    #[error("document {number}: {why}")]
    Document { number: usize, why: String },
}

/// An object or review of a text.
struct Input {
    /// Its document in the text, from 0.
    document: usize,
    /// The JSON pointer to the object under review.
    pointer: String,
    is_file: bool,
    kind: String,
    name: String,
    /// JSON.
    review: String,
}

fn parse(text: &str) -> Result<Vec<YamlDocument>, InputError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(InputError::Size);
    }
    parse_documents(text, BooleanWords::Yaml11).map_err(|error| {
        InputError::Yaml(format!("{}:{}: {}", error.line, error.column, error.message))
    })
}

fn document_of(source: &YamlDocument) -> Document {
    Document::part(source.json.clone(), 0..source.json.len())
}

/// Reads manifests and reviews.
pub(crate) fn read(text: &str) -> Result<serde_json::Value, InputError> {
    let inputs = read_inputs(&parse(text)?)?;
    let one = |input: &Input| {
        json!({
            "kind": one_line(&input.kind, 253),
            "name": one_line(&input.name, 253),
            "isFile": input.is_file,
            "review": input.review,
        })
    };
    Ok(inputs.iter().map(one).collect())
}

fn read_inputs(documents: &[YamlDocument]) -> Result<Vec<Input>, InputError> {
    let mut inputs = Vec::new();
    for (index, source) in documents.iter().enumerate() {
        let document = document_of(source);
        let is_review =
            document.get("/kind").and_then(|kind| kind.text()) == Some("AdmissionReview");
        let read = if is_review {
            read_review(index, document.root()).map(|input| inputs.push(input))
        } else {
            read_objects(index, document.root(), &mut inputs)
        };
        read.map_err(|why| InputError::Document { number: index.saturating_add(1), why })?;
        if inputs.len() > MAX_INPUTS {
            return Err(InputError::Count);
        }
    }
    if inputs.is_empty() { Err(InputError::Empty) } else { Ok(inputs) }
}

/// A review, without the names that only files have. Its objects are as they were written: numbers keep their
/// notation.
fn read_review(document: usize, review: Value<'_>) -> Result<Input, String> {
    let text = |pointer: &str| {
        review.get(pointer).and_then(|value| value.text()).unwrap_or_default().to_owned()
    };
    if text("/request/resource/resource").is_empty() {
        return Err("request.resource is missing".to_owned());
    }
    let mut members = Vec::new();
    for (name, value) in review.get("/request").into_iter().flat_map(|request| request.members()) {
        let written = value.raw();
        let written = match name {
            "userInfo" => without_reserved_names(&written)?,
            _ => written.into_owned(),
        };
        members.push(format!("{}:{written}", json!(name)));
    }
    let has_object = review.get("/request/object/kind").is_some();
    let pointer = if has_object { "/request/object" } else { "/request/oldObject" };
    Ok(Input {
        document,
        pointer: pointer.to_owned(),
        is_file: false,
        kind: text("/request/kind/kind"),
        name: text("/request/name"),
        review: format!("{{\"request\":{{{}}}}}", members.join(",")),
    })
}

/// The user of a request, without the name and the groups that only a check of files gives to its requests.
fn without_reserved_names(user: &str) -> Result<String, String> {
    let mut user: serde_json::Value = serde_json::from_str(user).map_err(|e| e.to_string())?;
    if let Some(name) = user.get_mut("username").filter(|name| name.as_str() == Some(CHECK_USER)) {
        *name = json!(CLAIMED_USER);
    }
    if let Some(groups) = user.get_mut("groups").and_then(serde_json::Value::as_array_mut) {
        groups.retain(|group| !group.as_str().is_some_and(|g| g.starts_with(CHECK_GROUPS)));
    }
    Ok(user.to_string())
}

fn read_objects(index: usize, root: Value<'_>, inputs: &mut Vec<Input>) -> Result<(), String> {
    let mut wrong = None;
    for_each_object(root, None, &mut |found| match found {
        Ok(found) => inputs.push(read_object(index, &found)),
        Err(why) => drop(wrong.get_or_insert(why.to_string())),
    });
    wrong.map_or(Ok(()), Err)
}

/// The review of a manifest, as `opgate check` creates it.
fn read_object(document: usize, found: &TypedObject<'_, '_>) -> Input {
    let text = |pointer: &str| found.value.get(pointer).and_then(|v| v.text()).unwrap_or_default();
    let (group, version) = found.group_version();
    let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
    let request = json!({
        "uid": format!("{} {name}", found.kind).trim_end(),
        "kind": {"group": group, "version": version, "kind": found.kind},
        "resource": {"group": group, "version": version, "resource": plural(found.kind)},
        "name": name,
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": CHECK_USER},
    });
    let request = request.to_string();
    let head = request.strip_suffix('}').unwrap_or(&request);
    Input {
        document,
        pointer: found.pointer.to_owned(),
        is_file: true,
        kind: found.kind.to_owned(),
        name: name.to_owned(),
        review: format!("{{\"request\":{head},\"object\":{}}}}}", found.value.raw()),
    }
}

/// Reads the objects of cluster state.
pub(crate) fn read_cluster(text: &str) -> Result<String, InputError> {
    let documents = parse(text)?;
    let texts: Vec<&str> = documents.iter().map(|document| &**document.json).collect();
    Ok(format!("[{}]", texts.join(",")))
}

/// Returns line and column of each field, which are those of the nearest value; none if there is no such input.
pub(crate) fn locate(
    text: &str,
    fields: &[(u32, String)],
) -> Result<Vec<Option<(u64, u64)>>, InputError> {
    if fields.is_empty() {
        return Ok(Vec::new());
    }
    let documents = parse(text)?;
    let inputs = read_inputs(&documents)?;
    let lines = Lines::of(text);
    let mut indexed = BTreeMap::new();
    let mut place = |(input, field): &(u32, String)| {
        let input = inputs.get(usize::try_from(*input).ok()?)?;
        let source = documents.get(input.document)?;
        let (document, numbers) = indexed
            .entry(input.document)
            .or_insert_with(|| (document_of(source), ValueNumbers::of(&source.json)));
        let root = document.get(&input.pointer).unwrap_or_else(|| document.root());
        let tokens = path_tokens(field);
        let (pointer, _) = resolve_tokens(root, &tokens);
        let value = root.get(&pointer).unwrap_or(root).range().start;
        Some(lines.place(text, numbers.offset(&source.json, &source.offsets, value)))
    };
    Ok(fields.iter().map(&mut place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFESTS: &str = "\
# comment
kind: OperatorGroup
apiVersion: operators.coreos.com/v1
metadata: {name: g, namespace: ns}
spec:
  a.b: [9007199254740993, 2]
---
{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}]}
";

    #[test]
    fn manifests_become_requests_of_a_check() {
        let found = read(MANIFESTS).unwrap();
        let requests: Vec<serde_json::Value> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|input| serde_json::from_str(input["review"].as_str().unwrap()).unwrap())
            .collect();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0]["request"]["resource"]["resource"], "operatorgroups");
        assert_eq!(requests[0]["request"]["namespace"], "ns");
        assert_eq!(requests[1]["request"]["kind"]["kind"], "Pod");
        assert!(requests.iter().all(|one| one["request"]["userInfo"]["username"] == CHECK_USER));
        assert!(found[0]["review"].as_str().unwrap().contains("[9007199254740993,2]"), "{found}");
    }

    #[test]
    fn fields_have_the_place_of_the_nearest_value() {
        let table = [
            (0, "spec.a.b[1]", Some((6, 27))),
            (0, "spec.missing.x", Some((5, 1))),
            (1, "kind", Some((8, 69))),
            (9, "kind", None),
            (0, "", Some((2, 1))),
            (0, "metadata.name", Some((4, 12))),
        ];
        let fields = table.map(|(input, field, _)| (input, field.to_owned()));
        assert_eq!(locate(MANIFESTS, &fields).unwrap(), table.map(|(_, _, place)| place));
    }

    #[test]
    fn reserved_user_and_groups_are_removed_from_reviews() {
        for (user, groups, expected) in [
            ("opgate:check", "opgate:bundle", (CLAIMED_USER, 0)),
            ("eve", "opgate:bundle", ("eve", 0)),
            ("opgate:checker", "dev", ("opgate:checker", 1)),
        ] {
            let review = json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "request": {"uid": "u", "resource": {"resource": "pods"}, "userInfo": {"username": user, "groups": [groups]}},
            });
            let found = read(&review.to_string()).unwrap();
            let review = found[0]["review"].as_str().unwrap();
            let review: serde_json::Value = serde_json::from_str(review).unwrap();
            let user = &review["request"]["userInfo"];
            assert_eq!(user["username"], expected.0);
            assert_eq!(user["groups"].as_array().map(Vec::len), Some(expected.1));
        }
    }

    #[test]
    fn invalid_texts_are_rejected_with_their_place() {
        for (text, expected) in [
            ("", "nothing to evaluate: write a manifest or an AdmissionReview"),
            ("a: [1", "1:4: unclosed bracket"),
            ("kind: A\napiVersion: v1\n---\na: 1", "document 2: /apiVersion is missing"),
            ("kind: AdmissionReview", "document 1: request.resource is missing"),
            ("kind: AdmissionReview\nrequest: {}", "document 1: request.resource is missing"),
            (&"x".repeat(MAX_TEXT_BYTES + 1), "more than 4MiB of text"),
            (&"---\n{apiVersion: v1, kind: A}\n".repeat(MAX_INPUTS + 1), "more than 1000 objects"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
