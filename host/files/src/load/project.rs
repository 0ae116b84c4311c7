//! The project of an Ansible or Helm Operator as one review: of its `watches.yaml`.

use std::path::Path;
use std::sync::Arc;

use opgate_input::read::Reader;

use super::bundle::{ensure_readable, subject};
use crate::bundle::{Bundle, BundleKind};
use crate::reviews::Subject;

/// Reads a project, by its directory or by its `watches.yaml`.
///
/// # Errors
/// If there is no such file.
pub(super) fn load(
    root: &Path,
    baseline: Option<&Path>,
    reader: &Reader,
) -> anyhow::Result<Subject> {
    let project = Arc::new(Bundle::read_project(root, reader)?);
    let old = baseline.map(|old| Bundle::read_project(old, reader).map(Arc::new)).transpose()?;
    if let Some(old) = &old {
        ensure_readable(old)?;
    }
    Ok(subject(root, BundleKind::Project, &project, old.as_ref()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::reviews::LocationResolver;
    use crate::testing::TempDirectory;

    const WATCHES: &str = "---\n# comment\n- version: v1\n  group: a.b\n  kind: K\n  role: r\n  manageStatus: False\n";

    fn object(subject: &Subject) -> Value {
        let review: Value = serde_json::from_str(&subject.requests[0].review()).unwrap();
        review["request"]["object"].clone()
    }

    #[test]
    fn project_is_loaded_from_its_watches_file() {
        let directory = TempDirectory::new(&[
            ("watches.yaml", WATCHES),
            ("PROJECT", "layout: x\n"),
            ("config/crd/a.yaml", "kind: [\n"),
            ("helm-charts/a/templates/a.yaml", "{{ if }}\n"),
        ]);
        let file = directory.path().join("watches.yaml");
        for path in [directory.path(), &file] {
            let subject = load(path, None, &Reader::default()).unwrap();
            assert!(subject.unreadable.is_empty() && subject.requests.len() == 1);
            let request = &subject.requests[0];
            let asked = (request.kind.as_str(), request.resource.as_str());
            assert_eq!(asked, ("OperatorProject", "operatorprojects"));
            let files = object(&subject)["spec"]["files"].clone();
            let entry = json!({"version": "v1", "group": "a.b", "kind": "K", "role": "r", "manageStatus": false});
            assert_eq!(files[0]["path"], "watches.yaml");
            assert_eq!(
                (&files[0]["documents"], files.as_array().unwrap().len()),
                (&json!([[entry]]), 1)
            );
            let mut resolver = LocationResolver::new(&request.object);
            for (field, line, column) in [
                ("spec.files[0].documents[0][0].manageStatus", 7, 3),
                ("spec.files[0].documents[0][0].chart", 3, 3),
                ("spec.files[0].documents[0]", 3, 1),
            ] {
                let place = resolver.resolve(field).unwrap();
                assert_eq!((place.line, place.column), (line, column), "{field}");
                assert_eq!(place.file, file.display().to_string());
            }
        }
        let baseline = load(directory.path(), Some(directory.path()), &Reader::default()).unwrap();
        assert!(baseline.requests[0].review().contains("UPDATE"));
    }

    #[test]
    fn existing_charts_are_listed() {
        let outside = TempDirectory::new(&[("Chart.yaml", "name: a\n")]);
        let away = outside.path().display();
        let text = format!(
            "- chart: helm-charts/a\n- Chart: ./helm-charts/a\n- chart: missing\n- chart: {away}\n- chart: link\n- chart: ../x\n- 5\n- chart: 5\n- chart: b.tgz\n"
        );
        let directory = TempDirectory::new(&[
            ("watches.yaml", text.as_str()),
            ("helm-charts/a/Chart.yaml", "name: a\n"),
            ("b.tgz", ""),
        ]);
        std::os::unix::fs::symlink(outside.path(), directory.path().join("link")).unwrap();
        for path in [directory.path(), &directory.path().join("watches.yaml")] {
            let subject = load(path, None, &Reader::default()).unwrap();
            let found = object(&subject)["spec"]["directories"].clone();
            assert_eq!(found, json!(["./helm-charts/a", "b.tgz", "helm-charts/a"]));
        }
    }

    /// The documents print dots around parts of files. In front of the first line they are an error.
    #[test]
    fn document_end_marker_is_ignored() {
        let directory = TempDirectory::new(&[("watches.yaml", "- kind: K\n  chart: c\n...\n")]);
        let subject = load(directory.path(), None, &Reader::default()).unwrap();
        let documents = &object(&subject)["spec"]["files"][0]["documents"];
        assert_eq!(*documents, json!([[{"kind": "K", "chart": "c"}]]));
    }

    /// As in the tests of Ansible Operators.
    #[test]
    fn variables_are_accepted_where_yaml_allows_none() {
        let text = "- kind: K\n  selector: {key: ${THE_KEY}, values: [a]}\n  role: ${x y\n";
        let directory = TempDirectory::new(&[("watches.yaml", text)]);
        let subject = load(directory.path(), None, &Reader::default()).unwrap();
        let documents = object(&subject)["spec"]["files"][0]["documents"].clone();
        let selector = json!({"key": "$_THE_KEY_", "values": ["a"]});
        assert_eq!(documents, json!([[{"kind": "K", "selector": selector, "role": "${x y"}]]));
        let mut resolver = LocationResolver::new(&subject.requests[0].object);
        let place = resolver.resolve("spec.files[0].documents[0][0].selector.values").unwrap();
        assert_eq!((place.line, place.column), (2, 31));
        assert_eq!(place.excerpt, "  selector: {key: ${THE_KEY}, values: [a]}");
    }

    #[test]
    fn invalid_watches_files_are_reported() {
        let outside = TempDirectory::new(&[("watches.yaml", WATCHES)]);
        let directory = TempDirectory::new(&[("other", "")]);
        let load = |directory: &TempDirectory| load(directory.path(), None, &Reader::default());
        let error = load(&directory).unwrap_err().to_string();
        assert!(error.ends_with("not the project of an Ansible or Helm Operator"), "{error}");
        for (content, line, why) in [
            ("...\n- a: b\n", 1, "not YAML: "),
            ("- kind: [\n", 1, "not YAML: "),
            ("- a: b\n\tc: d\n", 2, "not YAML: "),
            ("\0", 1, "not a text"),
            ("- role: {{ .Role }}\n", 1, "render it first"),
        ] {
            directory.write("watches.yaml", content);
            let subject = load(&directory).unwrap();
            let error = &object(&subject)["spec"]["files"][0]["error"];
            assert_eq!(
                (&error["line"], subject.unreadable.len()),
                (&json!(line), 1),
                "{content:?}"
            );
            assert!(error["message"].as_str().unwrap().contains(why), "{content:?}: {error}");
        }
        directory.write("watches.yaml", "- kind: A\n  kind: B\n");
        let files = object(&load(&directory).unwrap())["spec"]["files"].clone();
        assert_eq!(files[0]["documents"], json!([[{"kind": "B"}]]));
        assert_eq!(files[0]["twice"]["line"], 2);
        directory.write("watches.yaml", "# nothing\n");
        assert_eq!(object(&load(&directory).unwrap())["spec"]["files"][0]["documents"], json!([]));
        let path = directory.path().join("watches.yaml");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(outside.path().join("watches.yaml"), &path).unwrap();
        let error = object(&load(&directory).unwrap())["spec"]["files"][0]["error"].clone();
        let why = error["message"].as_str().unwrap();
        assert!(why.starts_with("a symbolic link that leads out of the directory"), "{why}");
    }
}
