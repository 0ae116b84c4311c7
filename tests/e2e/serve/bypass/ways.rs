//! The columns of the table: ways to bring in what a rule refuses.

use serde_json::{Value, json};

use super::subject::{Subject, plural};

/// Names of the columns.
pub(crate) const BYPASS_COLUMNS: [&str; 10] = [
    "two requests",
    "incomparable between",
    "terminating",
    "copied",
    "bulk",
    "update",
    "status",
    "generateName",
    "keys",
    "dry run",
];

/// One request of a way.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    operation: &'static str,
    sub_resource: &'static str,
    /// Plural, where it is not that of the subject.
    resource: Option<&'static str>,
    /// JSON: some have the same member twice.
    object: String,
    old: Option<Value>,
    name: String,
    dry_run: bool,
    /// What is in the cluster besides.
    pub(crate) stored: Vec<Value>,
    /// A request that means the same.
    pub(crate) equivalent: Option<Box<Self>>,
}

impl Step {
    /// The request as the case has it.
    pub(crate) fn base(subject: &Subject) -> Self {
        let step = Self::update(subject, &subject.valid_object(), &subject.bad);
        match subject.operation {
            "UPDATE" => step,
            "DELETE" => Self { operation: "DELETE", old: Some(subject.bad.clone()), ..step },
            _ => Self::create(subject, &subject.bad),
        }
    }

    fn create(subject: &Subject, object: &Value) -> Self {
        Self {
            operation: "CREATE",
            sub_resource: "",
            resource: None,
            object: object.to_string(),
            old: None,
            name: subject.object_name(),
            dry_run: true,
            stored: Vec::new(),
            equivalent: None,
        }
    }

    fn update(subject: &Subject, old: &Value, object: &Value) -> Self {
        Self {
            operation: "UPDATE",
            old: Some(old.clone()),
            stored: vec![old.clone()],
            ..Self::create(subject, object)
        }
    }

    pub(crate) fn creates(&self) -> bool {
        self.operation == "CREATE"
    }

    /// As an API server sends it.
    pub(crate) fn review(&self, subject: &Subject) -> String {
        let resource = self.resource.unwrap_or_else(|| plural(&subject.kind));
        let old = self.old.as_ref().map_or_else(|| "null".to_owned(), Value::to_string);
        let object = if self.operation == "DELETE" { "null" } else { &self.object };
        let request = json!({
            "uid": "u",
            "kind": {"group": subject.group, "version": subject.version, "kind": subject.kind},
            "resource": {
                "group": subject.group, "version": subject.version, "resource": resource,
            },
            "subResource": self.sub_resource,
            "name": self.name,
            "namespace": subject.namespace,
            "operation": self.operation,
            "userInfo": {"username": subject.user, "groups": subject.groups},
            "dryRun": self.dry_run,
        });
        // The objects are put in as they are written.
        let request = request.to_string();
        let request = request.strip_suffix('}').expect("an object");
        format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{request},"object":{object},"oldObject":{old}}}}}"#
        )
    }
}

type Bypass = (String, Vec<Step>);

fn new_bypass(name: &str, steps: Vec<Step>) -> Bypass {
    (name.to_owned(), steps)
}

/// The ways of a column for a subject.
pub(crate) fn bypasses(column: &str, subject: &Subject) -> Vec<Bypass> {
    if subject.operation == "DELETE" && !matches!(column, "dry run") {
        // What is deleted is what is stored; there is one way to do it.
        return vec![new_bypass("deleted", vec![Step::base(subject)])];
    }
    match column {
        "two requests" => two_requests(subject),
        "incomparable between" => intermediate_states(subject),
        "terminating" => terminating(subject),
        "copied" => copied_objects(subject),
        "bulk" => bulk_objects(subject),
        "update" => {
            vec![new_bypass(
                "on nothing",
                vec![Step::update(subject, &minimal_start(subject), &subject.bad)],
            )]
        }
        "status" => status(subject),
        "generateName" => generate_name(subject),
        "keys" => keys(subject),
        "dry run" => {
            let wet = Step { dry_run: false, ..Step::base(subject) };
            vec![new_bypass("then stored", vec![wet]), new_bypass("dry", vec![Step::base(subject)])]
        }
        other => panic!("what is {other}?"),
    }
}

/// The smallest old object of an UPDATE of the subject.
fn minimal_start(subject: &Subject) -> Value {
    subject.old.clone().unwrap_or_else(|| subject.empty_object())
}

fn two_requests(subject: &Subject) -> Vec<Bypass> {
    let then_bad = |first: &Value| {
        vec![Step::create(subject, first), Step::update(subject, first, &subject.bad)]
    };
    let mut ways = vec![new_bypass("innocent first", then_bad(&subject.valid_object()))];
    let annotations = &subject.bad["metadata"]["annotations"];
    if annotations.is_object() {
        let mut first = subject.bad.clone();
        first["metadata"].as_object_mut().expect("metadata").remove("annotations");
        ways.push(new_bypass("annotations second", then_bad(&first)));
        let first = set_at(&subject.valid_object(), &["metadata", "annotations"], annotations);
        ways.push(new_bypass("annotations first", then_bad(&first)));
    }
    ways
}

/// Two changes in place of one: what is between has nothing, or something that cannot be compared, in
/// all places that differ.
fn intermediate_states(subject: &Subject) -> Vec<Bypass> {
    let innocent = subject.valid_object();
    let mut places = Vec::new();
    differences(&innocent, &subject.bad, &mut Vec::new(), &mut places);
    let (mut without, mut other) = (innocent.clone(), innocent.clone());
    for path in &places {
        let (last, parents) = path.split_last().expect("a member");
        let parent = format!("/{}", parents.join("/"));
        let parent = if parents.is_empty() { "" } else { parent.as_str() };
        if let Some(members) = without.pointer_mut(parent).and_then(Value::as_object_mut) {
            members.remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        let at = format!("/{}", path.join("/"));
        let Some(value) = other.pointer_mut(&at) else { continue };
        *value = match &value {
            Value::String(_) => json!("between"),
            Value::Number(_) => json!(0),
            Value::Bool(is_so) => json!(!is_so),
            Value::Array(_) => json!([]),
            _ => json!({}),
        };
    }
    let over = |between: &Value| {
        vec![
            Step::update(subject, &innocent, between),
            Step::update(subject, between, &subject.bad),
        ]
    };
    vec![new_bypass("nothing", over(&without)), new_bypass("another value", over(&other))]
}

/// The places that a user can write and in which two objects differ, as parts of JSON pointers.
fn differences(left: &Value, right: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let is_fixed = match path.as_slice() {
        [member] => matches!(member.as_str(), "apiVersion" | "kind" | "status"),
        [first, member] => {
            first == "metadata" && !matches!(member.as_str(), "labels" | "annotations")
        }
        _ => false,
    };
    if is_fixed || left == right {
        return;
    }
    let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else {
        found.push(path.clone());
        return;
    };
    for name in left.keys().chain(right.keys().filter(|name| !left.contains_key(*name))) {
        path.push(name.replace('~', "~0").replace('/', "~1"));
        let of = |members: &serde_json::Map<String, Value>| {
            members.get(name).cloned().unwrap_or_default()
        };
        differences(&of(left), &of(right), path, found);
        path.pop();
    }
}

/// Sets what a pointer names, and all that it leads through.
fn set_at(object: &Value, path: &[&str], value: &Value) -> Value {
    let mut object = object.clone();
    let mut at = &mut object;
    for name in path {
        at = &mut at[*name];
    }
    at.clone_from(value);
    object
}

fn terminating(subject: &Subject) -> Vec<Bypass> {
    let pinned = |object: &Value| {
        let when = json!("2026-01-01T00:00:00Z");
        let object = set_at(object, &["metadata", "deletionTimestamp"], &when);
        set_at(&object, &["metadata", "finalizers"], &json!(["mine/keep"]))
    };
    let (old, new) = (pinned(&subject.valid_object()), pinned(&subject.bad));
    vec![new_bypass("pinned by a finalizer", vec![Step::update(subject, &old, &new)])]
}

fn copied_objects(subject: &Subject) -> Vec<Bypass> {
    let elsewhere = json!("elsewhere");
    let marks: [(&str, &[&str], Value); 3] = [
        ("label", &["metadata", "labels", "olm.copiedFrom"], elsewhere.clone()),
        ("annotation", &["metadata", "annotations", "olm.operatorNamespace"], elsewhere),
        ("reason", &["status", "reason"], json!("Copied")),
    ];
    let innocent = subject.valid_object();
    let mut ways = Vec::new();
    for (mark, path, value) in &marks {
        let (old, new) = (set_at(&innocent, path, value), set_at(&subject.bad, path, value));
        if subject.operation == "CREATE" {
            ways.push(new_bypass(mark, vec![Step::create(subject, &new)]));
        }
        let marked = Step::update(subject, &old, &new);
        ways.push(new_bypass(&format!("{mark} before and after"), vec![marked]));
        // The status cannot be dropped by who changes the rest.
        if *mark != "reason" {
            let added = Step::update(subject, &innocent, &new);
            ways.push(new_bypass(&format!("{mark} added"), vec![added]));
            let dropped = Step::update(subject, &old, &subject.bad);
            ways.push(new_bypass(&format!("{mark} dropped"), vec![dropped]));
        }
    }
    ways
}

/// Makes one innocent element of a list.
type MakeElement = fn(usize) -> Value;

/// Elements in front of lists.
const FILLER_ELEMENTS: usize = 500;

fn bulk_objects(subject: &Subject) -> Vec<Bypass> {
    let padding = json!("x".repeat(1 << 20));
    let padded = set_at(&subject.bad, &["padding"], &padding);
    let mut long = subject.bad.clone();
    let lists: [(&[&str], MakeElement); 16] = [
        (&["spec", "targetNamespaces"], |n| json!(format!("pad-{n}"))),
        (&["spec", "source", "configMaps"], |n| json!({"configMap": {"name": format!("pad-{n}")}})),
        (&["rules"], |_| json!({"verbs": ["get"], "resources": ["pods"], "apiGroups": [""]})),
        (&["subjects"], |n| json!({"kind": "User", "name": format!("pad-{n}")})),
        (
            &["spec", "customresourcedefinitions", "owned"],
            |n| json!({"name": format!("pads{n}.pad.io"), "version": "v1", "kind": format!("Pad{n}")}),
        ),
        (
            &["spec", "apiservicedefinitions", "owned"],
            |n| json!({"group": format!("p{n}.pad.io"), "version": "v1", "kind": format!("Pad{n}")}),
        ),
        (
            &["spec", "customresourcedefinitions", "required"],
            |n| json!({"name": format!("needs{n}.pad.io"), "version": "v1", "kind": format!("Need{n}")}),
        ),
        (
            &["spec", "relatedImages"],
            |n| json!({"name": format!("pad-{n}"), "image": format!("pad.io/pad@sha256:{n:064x}")}),
        ),
        (
            &["spec", "webhookdefinitions"],
            |n| json!({"type": "ValidatingAdmissionWebhook", "generateName": format!("pad{n}.pad.io"), "deploymentName": "pad-0", "sideEffects": "None", "admissionReviewVersions": ["v1"]}),
        ),
        (
            &["spec", "install", "spec", "deployments"],
            |n| json!({"name": format!("pad-{n}"), "spec": {"template": {"spec": {"containers": []}}}}),
        ),
        (&["spec", "install", "spec", "permissions"], |_| json!({"rules": []})),
        (&["spec", "install", "spec", "clusterPermissions"], |_| json!({"rules": []})),
        (
            &["spec", "versions"],
            |n| json!({"name": format!("v{}", n + 1000), "served": false, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}),
        ),
        (&["spec", "config", "env"], |n| json!({"name": format!("PAD_{n}"), "value": "x"})),
        (&["spec", "config", "volumes"], |n| json!({"name": format!("pad-{n}"), "emptyDir": {}})),
        (
            &["spec", "config", "volumeMounts"],
            |n| json!({"name": format!("pad-{n}"), "mountPath": format!("/pad/{n}")}),
        ),
    ];
    for (path, element) in lists {
        let pointer = format!("/{}", path.join("/"));
        let list = long.pointer_mut(&pointer).and_then(Value::as_array_mut);
        // Some rules apply to lists with one element.
        if let Some(list) = list.filter(|list| !list.is_empty()) {
            let mut all: Vec<Value> = (0..FILLER_ELEMENTS).map(element).collect();
            all.append(list);
            *list = all;
        }
    }
    for (name, item) in [
        ("olm.providedAPIs", "Pad.v1.pad.io"),
        ("operatorframework.io/properties", r#"{"type":"pad","value":1}"#),
        ("olm.properties", r#"{"type":"pad","value":1}"#),
    ] {
        let annotation = &mut long["metadata"]["annotations"];
        let Some(text) = annotation.get(name).and_then(Value::as_str) else { continue };
        let more = vec![item; FILLER_ELEMENTS].join(",");
        let text = if name == "olm.providedAPIs" {
            format!("{more},{text}")
        } else {
            let Some((start, rest)) = text.split_once('[') else { continue };
            format!("{start}[{more},{rest}")
        };
        annotation[name] = json!(text);
    }
    let steps = |object: &Value| match subject.operation {
        "UPDATE" => vec![Step::update(subject, &subject.valid_object(), object)],
        _ => vec![Step::create(subject, object)],
    };
    vec![new_bypass("1 MiB", steps(&padded)), new_bypass("long lists", steps(&long))]
}

/// A client writes the status first, and then the rest. The API server keeps the status in the
/// second write.
fn status(subject: &Subject) -> Vec<Bypass> {
    let poisoned = |object: &Value| {
        let status = json!({"namespaces": ["nowhere"], "phase": "Replacing", "reason": "Copied"});
        set_at(object, &["status"], &status)
    };
    let (old, new) = (poisoned(&subject.valid_object()), poisoned(&subject.bad));
    let mut ways = vec![new_bypass("poisoned before", vec![Step::update(subject, &old, &new)])];
    // If the policy reads the status itself, it evaluates the status.
    let properties = &subject.bad["metadata"]["annotations"]["operatorframework.io/properties"];
    if let Some(properties) = properties.as_str()
        && subject.policy == "constraint-limits"
    {
        let old = json!({"metadata": {"name": "p", "namespace": "ns"}, "status": {}});
        let lookup = json!([{"properties": properties}]);
        let plan = set_at(&old, &["status", "bundleLookups"], &lookup);
        let write = Step {
            resource: Some("installplans"),
            sub_resource: "status",
            stored: Vec::new(),
            ..Step::update(subject, &old, &plan)
        };
        ways.push(new_bypass("of an InstallPlan", vec![write]));
    }
    ways
}

fn generate_name(subject: &Subject) -> Vec<Bypass> {
    let generated = set_at(&subject.bad, &["metadata", "generateName"], &json!("x-"));
    let step = match subject.operation {
        "UPDATE" => Step::update(subject, &subject.valid_object(), &generated),
        _ => Step::create(subject, &generated),
    };
    let unnamed = Step { name: String::new(), ..step.clone() };
    vec![new_bypass("chosen", vec![step]), new_bypass("no name in the request", vec![unnamed])]
}

/// Members twice, and in another case: the last one of exactly the name counts.
fn keys(subject: &Subject) -> Vec<Bypass> {
    let innocent = subject.valid_object();
    let members = |object: &Value, rename: fn(&str) -> String| {
        let members = object.as_object().expect("an object").iter();
        let member = |(name, value): (&String, &Value)| format!("{}:{value}", json!(rename(name)));
        members.map(member).collect::<Vec<_>>().join(",")
    };
    let same: fn(&str) -> String = str::to_owned;
    let capital: fn(&str) -> String = |name| {
        let (first, rest) = name.split_at(1);
        format!("{}{rest}", first.to_uppercase())
    };
    let (bad, good) = (members(&subject.bad, same), members(&innocent, same));
    // What only one of the two has stands in both, as nothing.
    let blank = |object: &Value, other: &Value| {
        let only = other.as_object().expect("an object").keys();
        let only = only.filter(|name| object.get(name).is_none());
        only.fold(String::new(), |all, name| format!("{all},{}:null", json!(name)))
    };
    let (bad_all, good_all) = (
        format!("{bad}{}", blank(&subject.bad, &innocent)),
        format!("{good}{}", blank(&innocent, &subject.bad)),
    );
    let base = Step::base(subject);
    let written = |object: String| Step { object, ..base.clone() };
    let innocently = Step { object: innocent.to_string(), ..base.clone() };
    let as_innocent =
        |object: String| Step { equivalent: Some(Box::new(innocently.clone())), ..written(object) };
    vec![
        new_bypass("the bad one last", vec![written(format!("{{{good_all},{bad_all}}}"))]),
        new_bypass("the bad one first", vec![as_innocent(format!("{{{bad_all},{good_all}}}"))]),
        new_bypass(
            "a good one in another case",
            vec![written(format!("{{{bad},{}}}", members(&innocent, capital)))],
        ),
        new_bypass(
            "a bad one in another case",
            vec![as_innocent(format!("{{{good},{}}}", members(&subject.bad, capital)))],
        ),
    ]
}
