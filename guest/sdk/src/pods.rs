//! Specs of pods, wherever an object has them, and the containers in these.
//!
//! ```text
//! ClusterServiceVersion ─▶ in_csv ───▶ one PodSpec for each deployment ─┬─▶ each ───────────▶ fields
//! Pod, workload ─────────▶ in_object ▶ one PodSpec ─────────────────────┴─▶ PodSpec::each ──▶ Container
//! ```
//!
//! The lists of containers are read as tables: a hundred thousand containers are one call of the
//! host, and a deployment costs one call for each of its lists that is not empty. Places are made
//! only for what a rule reports.

use crate::{Document, Kind, Row};

const DEPLOYMENTS: &str = "/spec/install/spec/deployments";
const SPEC: &str = "/spec/template/spec";
const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// A longer list is none that an API server accepts: each container has a name, and 3 MiB, the
/// maximum of a request, have room for 262,144 of `{"name":""},`. Its table would need more memory
/// than a call has.
const MAX_CONTAINERS: u32 = 262_144;
/// Maximum number of deployments, which have a name and a spec with a selector and a template.
const MAX_DEPLOYMENTS: u32 = 65_536;
/// Maximum number of columns of a table, see `wit/policy.wit`.
const MAX_COLUMNS: usize = 64;
/// A pod has fewer containers in practice.
const MIN_LONG_LIST: u32 = 256;

/// The spec of a pod, or of the pods that a template makes.
#[derive(Debug, Clone)]
pub struct PodSpec {
    /// Name of the deployment, or of the object.
    pub name: String,
    location: SpecLocation,
    /// Number of containers in each of the lists.
    lengths: [u32; 3],
}

#[derive(Debug, Clone, Copy)]
enum SpecLocation {
    /// Index of the deployment in a `ClusterServiceVersion`.
    Deployment(u32),
    /// A pointer.
    Pointer(&'static str),
}

/// Returns the pod templates of the deployments of a `ClusterServiceVersion`.
#[must_use]
pub fn in_csv(csv: &Document) -> Vec<PodSpec> {
    if csv.length(DEPLOYMENTS).is_none_or(|length| length > MAX_DEPLOYMENTS) {
        return Vec::new();
    }
    let columns = [
        "/name",
        "/spec/template/spec/containers",
        "/spec/template/spec/initContainers",
        "/spec/template/spec/ephemeralContainers",
    ];
    let spec = |(index, row): (u32, Row<'_>)| PodSpec {
        name: row.text_or_empty(0).to_owned(),
        location: SpecLocation::Deployment(index),
        lengths: [1, 2, 3].map(|column| {
            let is_list = row.kind(column) == Kind::List;
            row.length(column).filter(|_| is_list).unwrap_or_default()
        }),
    };
    (0..).zip(csv.rows(DEPLOYMENTS, &columns).iter()).map(spec).collect()
}

/// Returns the spec of a Pod, or of the template of a `Deployment`, `DaemonSet`, `StatefulSet`, `ReplicaSet`,
/// `ReplicationController`, Job, `CronJob` or `PodTemplate`. None for other kinds.
#[must_use]
pub fn in_object(object: &Document, kind: &str) -> Option<PodSpec> {
    let pointer = match kind {
        "Pod" => "/spec",
        "Deployment"
        | "DaemonSet"
        | "StatefulSet"
        | "ReplicaSet"
        | "ReplicationController"
        | "Job" => SPEC,
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        "PodTemplate" => "/template/spec",
        _ => return None,
    };
    let length = |list: &str| {
        let list = format!("{pointer}/{list}");
        object.length(&list).filter(|_| object.kind(&list) == Kind::List).unwrap_or_default()
    };
    let lengths = CONTAINER_LISTS.map(length);
    let name = object.text_or_empty("/metadata/name");
    Some(PodSpec { name, location: SpecLocation::Pointer(pointer), lengths })
}

/// Calls `visit` with each of the specs and the values at the columns, pointers relative to a spec.
/// One call of the host for all templates of a `ClusterServiceVersion`.
pub fn each(
    document: &Document,
    specs: &[PodSpec],
    columns: &[&str],
    mut visit: impl FnMut(&PodSpec, Row<'_>),
) {
    let rows = match specs.first().map(|spec| spec.location) {
        None => return,
        Some(SpecLocation::Pointer(pointer)) => document.fields(pointer, columns),
        Some(SpecLocation::Deployment(_)) => {
            let columns: Vec<String> =
                columns.iter().map(|column| format!("{SPEC}{column}")).collect();
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            document.rows(DEPLOYMENTS, &columns)
        }
    };
    for (spec, row) in specs.iter().zip(rows.iter()) {
        visit(spec, row);
    }
}

/// Calls `visit` with each container of the specs, like [`PodSpec::each`], and the index of its spec.
/// Specs with at most one container in each list, as most are, are read together, in one call of the
/// host for all of them.
pub fn each_container(
    document: &Document,
    specs: &[PodSpec],
    columns: &[&str],
    mut visit: impl FnMut(usize, Container<'_>),
) {
    let is_small = |spec: &&PodSpec| spec.lengths.iter().all(|length| *length <= 1);
    let is_used = |list: &usize| {
        specs.iter().filter(is_small).any(|spec| spec.lengths.get(*list) == Some(&1))
    };
    let lists: Vec<(usize, &'static str)> =
        CONTAINER_LISTS.into_iter().enumerate().filter(|(list, _)| is_used(list)).collect();
    let of_first: Vec<String> = lists
        .iter()
        .flat_map(|(_, list)| columns.iter().map(move |column| format!("/{list}/0{column}")))
        .collect();
    if of_first.is_empty() || of_first.len() > MAX_COLUMNS {
        for (number, spec) in specs.iter().enumerate() {
            spec.each(document, columns, |container| visit(number, container));
        }
        return;
    }
    let of_first: Vec<&str> = of_first.iter().map(String::as_str).collect();
    let mut number = 0;
    each(document, specs, &of_first, |spec, row| {
        if is_small(&spec) {
            for (place, (number_of_list, list)) in lists.iter().enumerate() {
                if spec.lengths.get(*number_of_list) == Some(&1) {
                    let row = row.after(place.saturating_mul(columns.len()));
                    visit(number, Container { spec, list, index: 0, row });
                }
            }
        } else {
            spec.each(document, columns, |container| visit(number, container));
        }
        number += 1;
    });
}

impl PodSpec {
    /// Returns its path as a JSON pointer.
    #[must_use]
    pub fn pointer(&self) -> String {
        match self.location {
            SpecLocation::Deployment(index) => format!("{DEPLOYMENTS}/{index}{SPEC}"),
            SpecLocation::Pointer(pointer) => pointer.to_owned(),
        }
    }

    /// Returns the field.
    #[must_use]
    pub fn field(&self) -> String {
        match self.location {
            SpecLocation::Deployment(index) => {
                format!("spec.install.spec.deployments[{index}].spec.template.spec")
            }
            SpecLocation::Pointer(pointer) => pointer.trim_start_matches('/').replace('/', "."),
        }
    }

    /// Calls `visit` with each container, init container and ephemeral container, and the values at
    /// the columns, pointers relative to a container. Ask for few columns at once: each takes 8 bytes
    /// for each container.
    pub fn each(
        &self,
        document: &Document,
        columns: &[&str],
        mut visit: impl FnMut(Container<'_>),
    ) {
        for (list, length) in CONTAINER_LISTS.into_iter().zip(self.lengths) {
            if length == 0 || length > MAX_CONTAINERS {
                continue;
            }
            let pointer = format!("{}/{list}", self.pointer());
            let mut visit =
                |index: u32, row: Row<'_>| visit(Container { spec: self, list, index, row });
            match common_member(columns).filter(|_| length > MIN_LONG_LIST) {
                Some(member) => {
                    each_sparse(document, &pointer, length, member, columns, &mut visit);
                }
                None => each_row(document, &pointer, columns, &mut visit),
            }
        }
    }

    /// Reports whether there is a container.
    #[must_use]
    pub fn has_containers(&self) -> bool {
        self.lengths.iter().any(|length| *length > 0)
    }
}

/// Returns the member of a container that all columns are in, as a pointer.
fn common_member<'c>(columns: &[&'c str]) -> Option<&'c str> {
    let member = |column: &&'c str| {
        let (first, _) = column.strip_prefix('/')?.split_once('/')?;
        column.get(..=first.len())
    };
    let first = columns.first().and_then(member)?;
    columns.iter().all(|column| member(column) == Some(first)).then_some(first)
}

fn each_row(
    document: &Document,
    list: &str,
    columns: &[&str],
    visit: &mut impl FnMut(u32, Row<'_>),
) {
    for (index, row) in (0..).zip(document.rows(list, columns).iter()) {
        visit(index, row);
    }
}

/// Visits a long list, if all columns are in one member: the list first returns the elements with that
/// member. In such a list, containers are small and have few fields.
fn each_sparse(
    document: &Document,
    list: &str,
    length: u32,
    member: &str,
    columns: &[&str],
    visit: &mut impl FnMut(u32, Row<'_>),
) {
    let members = document.rows(list, &[member]);
    let has_it = |row: &Row<'_>| row.kind(0) == Kind::Object;
    let count = members.iter().filter(has_it).count();
    // A separate row costs as much as eight rows of a table.
    if u32::try_from(count).is_ok_and(|count| count > length / 8) {
        return each_row(document, list, columns, visit);
    }
    for (index, row) in (0..).zip(members.iter()) {
        if has_it(&row) {
            let fields = document.fields(&format!("{list}/{index}"), columns);
            visit(index, fields.iter().next().unwrap_or(Row::EMPTY));
        } else {
            visit(index, Row::EMPTY);
        }
    }
}

/// A container, init container or ephemeral container.
#[derive(Debug, Clone, Copy)]
pub struct Container<'c> {
    /// The spec that it is in.
    pub spec: &'c PodSpec,
    /// `containers`, `initContainers` or `ephemeralContainers`.
    pub list: &'static str,
    /// Its index in the list.
    pub index: u32,
    /// The requested values.
    pub row: Row<'c>,
}

impl Container<'_> {
    /// Returns its path as a JSON pointer.
    #[must_use]
    pub fn pointer(&self) -> String {
        format!("{}/{}/{}", self.spec.pointer(), self.list, self.index)
    }

    /// Returns the field.
    #[must_use]
    pub fn field(&self) -> String {
        format!("{}.{}[{}]", self.spec.field(), self.list, self.index)
    }

    /// Reports whether it is among `containers`, and neither an init container nor an ephemeral one.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        self.list == "containers"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(specs: &[PodSpec], document: &Document) -> Vec<String> {
        let columns = ["/image", "/name"];
        let mut found = Vec::new();
        each_container(document, specs, &columns, |number, container| {
            assert_eq!(
                document.text(&format!("{}/name", container.pointer())).as_deref(),
                container.row.text(1)
            );
            assert_eq!(specs[number].name, container.spec.name);
            let image = container.row.text_or_empty(0);
            found.push(format!("{}: {} {image}", container.spec.name, container.field()));
        });
        let mut alone = Vec::new();
        for spec in specs {
            spec.each(document, &columns, |container| alone.push(container.field()));
        }
        assert!(found.iter().zip(&alone).all(|(found, field)| found.contains(field)));
        assert_eq!(found.len(), alone.len());
        found
    }

    #[test]
    fn containers_of_a_csv_have_their_places() {
        let csv = Document::parse(
            r#"{"spec":{"install":{"spec":{"deployments":[
                {"name":"a","spec":{"template":{"spec":{
                    "containers":[{"name":"x","image":"i"},{"name":"y"},7,null],
                    "initContainers":[{"name":"z","image":"j"}]}}}},
                {"spec":{"template":{"spec":{"containers":{"name":"x"}}}}}, 3,
                {"name":"b","spec":{"template":{"spec":{"ephemeralContainers":[{"image":"k"}]}}}},
                {"name":"c","spec":{"template":{"spec":{
                    "containers":[{"image":"l"}],
                    "initContainers":[{"name":"m","image":"n"}]}}}}
            ]}}}}"#,
        )
        .unwrap();
        let of = |deployment: u32, rest: &str| {
            format!("spec.install.spec.deployments[{deployment}].spec.template.spec.{rest}")
        };
        assert_eq!(
            found(&in_csv(&csv), &csv),
            [
                format!("a: {} i", of(0, "containers[0]")),
                format!("a: {} ", of(0, "containers[1]")),
                format!("a: {} ", of(0, "containers[2]")),
                format!("a: {} ", of(0, "containers[3]")),
                format!("a: {} j", of(0, "initContainers[0]")),
                format!("b: {} k", of(3, "ephemeralContainers[0]")),
                format!("c: {} l", of(4, "containers[0]")),
                format!("c: {} n", of(4, "initContainers[0]")),
            ]
        );
        for none in ["{}", r#"{"spec":{"install":{"spec":{"deployments":{"a":1}}}}}"#, "[]"] {
            assert!(found(&in_csv(&Document::parse(none).unwrap()), &csv).is_empty(), "{none}");
        }
    }

    #[test]
    fn long_lists_are_read_like_short_ones() {
        for every in [1, 2, 100, 10_000] {
            let container = |n: usize| match n % every {
                0 => format!(r#"{{"name":"c{n}","s":{{"a":{n},"b":"b{n}"}}}}"#),
                1 => r#"{"s":7}"#.to_owned(),
                _ => "{}".to_owned(),
            };
            let containers: Vec<_> = (0..300).map(container).collect();
            let pod = format!(r#"{{"spec":{{"containers":[{}]}}}}"#, containers.join(","));
            let pod = Document::parse(&pod).unwrap();
            let spec = in_object(&pod, "Pod").unwrap();
            let mut number = 0;
            // With and without a member that all columns are in.
            for columns in [&["/s/a", "/s/b"][..], &["/s/a", "/s/b", "/name"]] {
                spec.each(&pod, columns, |container| {
                    let n = number % 300;
                    assert_eq!(container.index, n);
                    let has_it = usize::try_from(n).unwrap() % every == 0;
                    let kind = if has_it { Kind::Number } else { Kind::Missing };
                    let text = has_it.then(|| format!("b{n}"));
                    assert_eq!(
                        (container.row.kind(0), container.row.text(1)),
                        (kind, text.as_deref())
                    );
                    number += 1;
                });
            }
            assert_eq!(number, 600);
        }
    }

    #[test]
    fn fields_of_specs_are_asked_for_together() {
        let csv = Document::parse(
            r#"{"spec":{"install":{"spec":{"deployments":[
                {"name":"a","spec":{"template":{"spec":{"hostPID":true,"serviceAccountName":"x"}}}},
                7, {"name":"b","spec":{"template":{"spec":{"serviceAccountName":"y"}}}}
            ]}}}}"#,
        )
        .unwrap();
        let pod = Document::parse(r#"{"spec":{"serviceAccountName":"z"}}"#).unwrap();
        let mut found = Vec::new();
        let pods = in_object(&pod, "Pod");
        for (document, specs) in [(&csv, in_csv(&csv)), (&pod, pods.into_iter().collect())] {
            each(document, &specs, &["/hostPID", "/serviceAccountName"], |spec, row| {
                let account = row.text_or_empty(1);
                found.push(format!("{}: {:?} {account}", spec.name, row.boolean(0)));
            });
        }
        assert_eq!(found, ["a: Some(true) x", ": None ", "b: None y", ": None z"]);
    }

    #[test]
    fn pods_and_workloads_have_a_spec_each() {
        for (kind, object, field) in [
            ("Pod", r#"{"metadata":{"name":"p"},"spec":SPEC}"#, "spec.containers[0]"),
            (
                "Job",
                r#"{"metadata":{"name":"p"},"spec":{"template":{"spec":SPEC}}}"#,
                "spec.template.spec.containers[0]",
            ),
            (
                "CronJob",
                r#"{"metadata":{"name":"p"},"spec":{"jobTemplate":{"spec":{"template":{"spec":SPEC}}}}}"#,
                "spec.jobTemplate.spec.template.spec.containers[0]",
            ),
        ] {
            let object = object.replace("SPEC", r#"{"containers":[{"name":"c","image":"i"}]}"#);
            let object = Document::parse(&object).unwrap();
            let spec = in_object(&object, kind).unwrap();
            assert_eq!(found(&[spec], &object), [format!("p: {field} i")]);
        }
        assert!(in_object(&Document::parse("{}").unwrap(), "Service").is_none());
    }
}
