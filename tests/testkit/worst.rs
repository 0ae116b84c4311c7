//! ClusterServiceVersions of 1.5 MiB, the most that an API server stores, each with one list or text as
//! long as there is room for.

/// Bytes of an object.
pub const MAX_OBJECT_BYTES: usize = 3 << 19;

/// One element of a list: its number, and a letter that differs between an object and the one before it.
type MakeElement = fn(usize, char) -> String;

/// Text of an object up to the element, the element, and the rest.
type WorstShape = (&'static str, &'static str, MakeElement, &'static str);

const CONTAINERS: &str = r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"install":{"strategy":"deployment","spec":{"deployments":[{"name":"d","spec":{"template":{"spec":{"containers":["#;
const DISCONNECTED: &str = r#"{"metadata":{"name":"a.v1.0.0","annotations":{"features.operators.openshift.io/disconnected":"true"}},"spec":{"install":{"strategy":"deployment","spec":{"deployments":[{"name":"d","spec":{"template":{"spec":{"containers":["#;
const CONTAINERS_END: &str = "]}}}}]}}}}";

/// Quotes in a text are written as `'` here.
const WORST_SHAPES: [WorstShape; 44] = [
    (
        "owned CRDs",
        OWNED,
        |n, c| format!(r#"{{"name":"{c}{n}.b","version":"v1","kind":"K"}}"#),
        "]}}}",
    ),
    ("owned CRDs, all alike", OWNED, |_, c| format!(r#"{{"name":"{c}"}}"#), "]}}}"),
    ("owned CRDs, empty", OWNED, |_, _| "{}".to_owned(), "]}}}"),
    ("owned CRDs, numbers", OWNED, |_, _| "1".to_owned(), "]}}}"),
    (
        "owned CRDs with a descriptor",
        OWNED,
        |n, c| format!(r#"{{"name":"a{n}.b","specDescriptors":[{{"path":"{c}"}}]}}"#),
        "]}}}",
    ),
    (
        "descriptors",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"customresourcedefinitions":{"owned":[{"name":"a.b","version":"v1","kind":"K","specDescriptors":["#,
        |n, c| format!(r#"{{"path":"{c}{n}"}}"#),
        "]}]}}}",
    ),
    (
        "required CRDs",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"customresourcedefinitions":{"required":["#,
        |n, c| format!(r#"{{"name":"{c}{n}.b","version":"v1","kind":"K"}}"#),
        "]}}}",
    ),
    (
        "owned API services",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"apiservicedefinitions":{"owned":["#,
        |n, c| format!(r#"{{"group":"{c}{n}.b","version":"v1","kind":"K"}}"#),
        "]}}}",
    ),
    (
        "required API services",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"apiservicedefinitions":{"required":["#,
        |n, c| format!(r#"{{"group":"{c}{n}.b","version":"v1"}}"#),
        "]}}}",
    ),
    ("deployments", DEPLOYMENTS, |n, c| format!(r#"{{"name":"{c}{n}"}}"#), "]}}}}"),
    (
        "deployments with a container",
        DEPLOYMENTS,
        |n, c| {
            format!(
                r#"{{"name":"d{n}","spec":{{"template":{{"spec":{{"containers":[{{"image":"{c}"}}]}}}}}}}}"#
            )
        },
        "]}}}}",
    ),
    ("containers", CONTAINERS, |n, c| format!(r#"{{"name":"{c}{n}"}}"#), CONTAINERS_END),
    (
        "containers with an environment",
        CONTAINERS,
        |n, c| format!(r#"{{"name":"c{n}","env":[{{"name":"{c}"}}]}}"#),
        CONTAINERS_END,
    ),
    (
        "disconnected containers",
        DISCONNECTED,
        |n, c| format!(r#"{{"image":"{c}{n}"}}"#),
        CONTAINERS_END,
    ),
    (
        "disconnected containers with an environment",
        DISCONNECTED,
        |_, c| format!(r#"{{"env":[{{"name":"{c}"}}]}}"#),
        CONTAINERS_END,
    ),
    (
        "containers with a security context",
        CONTAINERS,
        |n, c| format!(r#"{{"name":"{c}{n}","securityContext":{{}}}}"#),
        CONTAINERS_END,
    ),
    (
        "containers with a probe",
        CONTAINERS,
        |_, c| format!(r#"{{"livenessProbe":{{"timeoutSeconds":9,"path":"{c}"}}}}"#),
        CONTAINERS_END,
    ),
    (
        "containers with a mount",
        CONTAINERS,
        |_, c| format!(r#"{{"volumeMounts":[{{"name":"{c}"}}]}}"#),
        CONTAINERS_END,
    ),
    (
        "environment",
        r#"{"metadata":{"name":"a.v1.0.0","annotations":{"features.operators.openshift.io/disconnected":"true"}},"spec":{"install":{"strategy":"deployment","spec":{"deployments":[{"name":"d","spec":{"template":{"spec":{"containers":[{"env":["#,
        |n, c| format!(r#"{{"name":"RELATED_IMAGE_{n}","value":"{c}{n}"}}"#),
        "]}]}}}}]}}}}",
    ),
    (
        "rules",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"install":{"strategy":"deployment","spec":{"clusterPermissions":[{"serviceAccountName":"a","rules":["#,
        |_, c| format!(r#"{{"verbs":["{c}"],"resources":["*"]}}"#),
        "]}]}}}}",
    ),
    (
        "permissions",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"install":{"strategy":"deployment","spec":{"permissions":["#,
        |n, c| format!(r#"{{"serviceAccountName":"{c}{n}"}}"#),
        "]}}}}",
    ),
    ("webhook definitions", WEBHOOKS, |n, c| format!(r#"{{"generateName":"{c}{n}"}}"#), "]}}"),
    (
        "webhook definitions, full",
        WEBHOOKS,
        |n, c| {
            format!(
                r#"{{"type":"ValidatingAdmissionWebhook","generateName":"{c}{n}","admissionReviewVersions":["v1"],"sideEffects":"None"}}"#
            )
        },
        "]}}",
    ),
    (
        "webhook definitions with a rule",
        WEBHOOKS,
        |n, c| format!(r#"{{"generateName":"{c}{n}","rules":[{{"apiGroups":["*"]}}]}}"#),
        "]}}",
    ),
    (
        "rules of a webhook",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"webhookdefinitions":[{"generateName":"a","rules":["#,
        |_, c| format!(r#"{{"apiGroups":["*","{c}"]}}"#),
        "]}]}}",
    ),
    (
        "converted CRDs",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"webhookdefinitions":[{"type":"ConversionWebhook","generateName":"a","conversionCRDs":["#,
        |n, c| format!(r#""{c}{n}.b""#),
        "]}]}}",
    ),
    (
        "conversion webhooks",
        WEBHOOKS,
        |n, c| format!(r#"{{"type":"ConversionWebhook","conversionCRDs":["{c}{n}"]}}"#),
        "]}}",
    ),
    ("related images", IMAGES, |n, c| format!(r#"{{"image":"a/{c}{n}"}}"#), "]}}"),
    ("related images, empty", IMAGES, |_, _| "{}".to_owned(), "]}}"),
    (
        "keywords",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"keywords":["#,
        |_, c| format!("\"{c}\""),
        "]}}",
    ),
    (
        "links",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"links":["#,
        |_, c| format!(r#"{{"url":"{c}"}}"#),
        "]}}",
    ),
    (
        "maintainers",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"maintainers":["#,
        |_, c| format!(r#"{{"email":"{c}"}}"#),
        "]}}",
    ),
    (
        "icons",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"icon":["#,
        |_, c| format!(r#"{{"mediatype":"{c}"}}"#),
        "]}}",
    ),
    (
        "skips",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"skips":["#,
        |n, c| format!("\"{c}{n}\""),
        "]}}",
    ),
    (
        "install modes",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"installModes":["#,
        |n, c| format!(r#"{{"type":"{c}{n}","supported":true}}"#),
        "]}}",
    ),
    (
        "nested lists",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"selector":["#,
        |_, c| format!("{}\"{c}\"{}", "[".repeat(400), "]".repeat(400)),
        "]}}",
    ),
    (
        "labels of a selector",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"selector":{"matchLabels":{"#,
        |n, c| format!(r#""{c}{n}":"""#),
        "}}}}",
    ),
    (
        "annotations",
        r#"{"metadata":{"name":"a.v1.0.0","annotations":{"#,
        |n, c| format!(r#""features.operators.openshift.io/{n}":"{c}""#),
        "}},\"spec\":{}}",
    ),
    (
        "labels",
        r#"{"metadata":{"name":"a.v1.0.0","labels":{"#,
        |n, c| format!(r#""operatorframework.io/arch.{n}":"{c}""#),
        "}},\"spec\":{}}",
    ),
    (
        "examples",
        r#"{"metadata":{"name":"a.v1.0.0","annotations":{"alm-examples":"["#,
        |_, c| format!(r"{{'apiVersion':'a/v1','kind':'{c}'}}"),
        "]\"}},\"spec\":{}}",
    ),
    (
        "examples, empty",
        r#"{"metadata":{"name":"a.v1.0.0","annotations":{"alm-examples":"["#,
        |_, _| "{}".to_owned(),
        "]\"}},\"spec\":{}}",
    ),
    (
        "properties",
        r#"{"metadata":{"name":"a.v1.0.0","annotations":{"olm.properties":"["#,
        |_, c| format!(r"{{'type':'{c}','value':1}}"),
        "]\"}},\"spec\":{}}",
    ),
    (
        "features",
        r#"{"metadata":{"name":"a.v1.0.0","annotations":{"operators.openshift.io/infrastructure-features":"["#,
        |_, c| format!("'{c}'"),
        "]\"}},\"spec\":{}}",
    ),
    (
        "an icon",
        r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"icon":[{"mediatype":"image/png","base64data":""#,
        |_, c| c.to_string(),
        "\"}]}}",
    ),
];

const OWNED: &str =
    r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"customresourcedefinitions":{"owned":["#;
const DEPLOYMENTS: &str = r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"install":{"strategy":"deployment","spec":{"deployments":["#;
const WEBHOOKS: &str = r#"{"metadata":{"name":"a.v1.0.0"},"spec":{"webhookdefinitions":["#;
const IMAGES: &str = r#"{"metadata":{"name":"a.v1.0.0","annotations":{"features.operators.openshift.io/disconnected":"true"}},"spec":{"relatedImages":["#;

/// What the objects have much of, and two of each as JSON, of which every element differs.
pub fn csvs() -> impl Iterator<Item = (&'static str, [String; 2])> {
    WORST_SHAPES.into_iter().map(|shape| (shape.0, ['a', 'b'].map(|letter| fill(shape, letter))))
}

fn fill((_, before, item, after): WorstShape, letter: char) -> String {
    let mut text = String::with_capacity(MAX_OBJECT_BYTES);
    text.push_str(before);
    // In a text, quotes are escaped and elements of an icon are not separated.
    let is_text = before.ends_with("\"[") || before.ends_with('"');
    let separator = if before.ends_with('"') { "" } else { "," };
    for number in 0.. {
        let item = item(number, letter);
        let item = if is_text { item.replace('\'', "\\\"") } else { item };
        if text.len() + item.len() + after.len() + 1 > MAX_OBJECT_BYTES {
            break;
        }
        if number > 0 {
            text.push_str(separator);
        }
        text.push_str(&item);
    }
    text.push_str(after);
    text
}
