//! The Go types of a ClusterServiceVersion, for [`RBF_12`](crate::manifests::RBF_12): upstream decodes the
//! manifest into them, and refuses one in which a list is a text.
//!
//! ```text
//! JSON of the manifest, in one pass ─▶ Check: the type of the place ─▶ Wrong: where, and what it should be
//! ```
//!
//! What the policy about ClusterServiceVersions says of types is left to it: the version (CSV-06), install
//! modes (CSV-29), the strategy (CSV-34), names of APIs (CSV-36, CSV-37, CSV-44, CSV-45) and webhooks (CSV-83,
//! CSV-84). Members that a type does not have are ignored, as by Go. Numbers in the place of texts are
//! refused: not all of upstream's decoders take them, and no API server does.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use opgate_sdk::Document;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use Type::{Any, Boolean, Integer, List, Map, Struct, Text};

/// The type of a value. Null fits all.
#[derive(Debug)]
enum Type {
    Any,
    Text,
    Integer,
    Boolean,
    List(&'static Self),
    /// An object with any names.
    Map(&'static Self),
    Struct(&'static [(&'static str, Self)]),
}

impl Type {
    /// What a value of another type is told.
    fn word(&self) -> &'static str {
        match self {
            Any => "a value",
            Text => "a text",
            Integer => "an integer",
            Boolean => "a boolean",
            List(_) => "a list",
            Map(_) | Struct(_) => "an object",
        }
    }
}

const TEXTS: Type = List(&Text);
const OBJECT: Type = Map(&Any);

const VERSION: Type = Struct(&[("metadata", METADATA), ("spec", SPEC), ("status", OBJECT)]);

/// Labels, annotations, finalizers and owners are looked at as those of any object.
const METADATA: Type = Struct(&[("generateName", Text), ("name", Text), ("namespace", Text)]);

const SPEC: Type = Struct(&[
    ("annotations", Map(&Text)),
    ("apiservicedefinitions", Struct(&[("owned", List(&API)), ("required", List(&API))])),
    ("cleanup", Struct(&[("enabled", Boolean)])),
    ("customresourcedefinitions", Struct(&[("owned", List(&API)), ("required", List(&API))])),
    ("description", Text),
    ("displayName", Text),
    ("icon", List(&Struct(&[("base64data", Text), ("mediatype", Text)]))),
    ("install", Struct(&[("spec", STRATEGY)])),
    ("keywords", TEXTS),
    ("labels", Map(&Text)),
    ("links", List(&LINK)),
    ("maintainers", List(&Struct(&[("name", Text), ("email", Text)]))),
    ("maturity", Text),
    ("minKubeVersion", Text),
    ("nativeAPIs", List(&Struct(&[("group", Text), ("kind", Text), ("version", Text)]))),
    ("provider", LINK),
    ("relatedImages", List(&Struct(&[("name", Text), ("image", Text)]))),
    ("release", Text),
    ("replaces", Text),
    ("selector", SELECTOR),
    ("skips", TEXTS),
    ("webhookdefinitions", List(&WEBHOOK)),
]);

const LINK: Type = Struct(&[("name", Text), ("url", Text)]);

/// An owned or required API, of CRDs and of API services.
const API: Type = Struct(&[
    ("actionDescriptors", List(&DESCRIPTOR)),
    ("containerPort", Integer),
    ("deploymentName", Text),
    ("description", Text),
    ("displayName", Text),
    ("group", Text),
    ("resources", List(&Struct(&[("kind", Text), ("name", Text), ("version", Text)]))),
    ("specDescriptors", List(&DESCRIPTOR)),
    ("statusDescriptors", List(&DESCRIPTOR)),
]);

const DESCRIPTOR: Type = Struct(&[
    ("description", Text),
    ("displayName", Text),
    ("path", Text),
    ("x-descriptors", TEXTS),
]);

const WEBHOOK: Type = Struct(&[
    ("admissionReviewVersions", TEXTS),
    ("conversionCRDs", TEXTS),
    ("deploymentName", Text),
    ("failurePolicy", Text),
    ("generateName", Text),
    ("matchPolicy", Text),
    ("objectSelector", SELECTOR),
    ("reinvocationPolicy", Text),
    ("rules", List(&WEBHOOK_RULE)),
    ("sideEffects", Text),
    ("timeoutSeconds", Integer),
    ("webhookPath", Text),
]);

const WEBHOOK_RULE: Type = Struct(&[
    ("apiGroups", TEXTS),
    ("apiVersions", TEXTS),
    ("operations", TEXTS),
    ("resources", TEXTS),
    ("scope", Text),
]);

const SELECTOR: Type = Struct(&[
    ("matchExpressions", List(&Struct(&[("key", Text), ("operator", Text), ("values", TEXTS)]))),
    ("matchLabels", Map(&Text)),
]);

const STRATEGY: Type = Struct(&[
    ("clusterPermissions", List(&PERMISSIONS)),
    ("deployments", List(&DEPLOYMENT)),
    ("permissions", List(&PERMISSIONS)),
]);

const PERMISSIONS: Type = Struct(&[("rules", List(&POLICY_RULE)), ("serviceAccountName", Text)]);

const POLICY_RULE: Type = Struct(&[
    ("apiGroups", TEXTS),
    ("nonResourceURLs", TEXTS),
    ("resourceNames", TEXTS),
    ("resources", TEXTS),
    ("verbs", TEXTS),
]);

const DEPLOYMENT: Type = Struct(&[
    ("label", Map(&Text)),
    ("name", Text),
    (
        "spec",
        Struct(&[
            ("replicas", Integer),
            ("selector", SELECTOR),
            ("strategy", OBJECT),
            ("template", Struct(&[("metadata", TEMPLATE_META), ("spec", POD)])),
        ]),
    ),
]);

const TEMPLATE_META: Type =
    Struct(&[("annotations", Map(&Text)), ("labels", Map(&Text)), ("name", Text)]);

/// What people write of a pod; the API server knows the rest.
const POD: Type = Struct(&[
    ("affinity", OBJECT),
    ("containers", List(&CONTAINER)),
    ("hostIPC", Boolean),
    ("hostNetwork", Boolean),
    ("hostPID", Boolean),
    ("imagePullSecrets", List(&Struct(&[("name", Text)]))),
    ("initContainers", List(&CONTAINER)),
    ("nodeSelector", Map(&Text)),
    ("priorityClassName", Text),
    ("restartPolicy", Text),
    ("securityContext", SECURITY),
    ("serviceAccount", Text),
    ("serviceAccountName", Text),
    ("terminationGracePeriodSeconds", Integer),
    ("tolerations", List(&OBJECT)),
    ("volumes", List(&OBJECT)),
]);

const CONTAINER: Type = Struct(&[
    ("args", TEXTS),
    ("command", TEXTS),
    ("env", List(&Struct(&[("name", Text), ("value", Text), ("valueFrom", OBJECT)]))),
    ("envFrom", List(&OBJECT)),
    ("image", Text),
    ("imagePullPolicy", Text),
    ("livenessProbe", PROBE),
    ("name", Text),
    ("ports", List(&PORT)),
    ("readinessProbe", PROBE),
    ("resources", Struct(&[("limits", OBJECT), ("requests", OBJECT)])),
    ("securityContext", SECURITY),
    ("startupProbe", PROBE),
    ("volumeMounts", List(&Struct(&[("mountPath", Text), ("name", Text), ("readOnly", Boolean)]))),
    ("workingDir", Text),
]);

const PORT: Type = Struct(&[
    ("containerPort", Integer),
    ("hostPort", Integer),
    ("name", Text),
    ("protocol", Text),
]);

const PROBE: Type = Struct(&[
    ("failureThreshold", Integer),
    ("initialDelaySeconds", Integer),
    ("periodSeconds", Integer),
    ("successThreshold", Integer),
    ("timeoutSeconds", Integer),
]);

/// Of a pod and of a container.
const SECURITY: Type = Struct(&[
    ("allowPrivilegeEscalation", Boolean),
    ("capabilities", Struct(&[("add", TEXTS), ("drop", TEXTS)])),
    ("fsGroup", Integer),
    ("privileged", Boolean),
    ("readOnlyRootFilesystem", Boolean),
    ("runAsGroup", Integer),
    ("runAsNonRoot", Boolean),
    ("runAsUser", Integer),
    ("seccompProfile", OBJECT),
]);

/// Values of the wrong type.
#[derive(Debug, Default)]
pub(super) struct Wrong {
    /// The first ones: the field, and what it is not.
    pub(super) first: Vec<(String, &'static str)>,
    /// The number of those after them.
    pub(super) more: usize,
}

/// The values of a ClusterServiceVersion that upstream cannot decode; at most `room` of them are named.
pub(super) fn wrong(csv: &Document, room: usize) -> Wrong {
    let mut wrong = Wrong::default();
    if let Some(json) = csv.json("") {
        let check = Check { wanted: &VERSION, place: &Place::Root, wrong: &mut wrong, room };
        // The text is the JSON of a document.
        let _ = json.parse_with(check);
    }
    wrong
}

/// Where a value is, from the inside out.
enum Place<'p> {
    Root,
    Member(&'p Self, &'p str),
    Item(&'p Self, usize),
}

impl Display for Place<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Self::Root, name) => to.write_str(name),
            Self::Member(outer, name) if name.contains(['.', '/']) => write!(to, "{outer}[{name}]"),
            Self::Member(outer, name) => write!(to, "{outer}.{name}"),
            Self::Item(outer, index) => write!(to, "{outer}[{index}]"),
        }
    }
}

/// Reads a value and notes what is wrong in it. The types nest a dozen levels, and so does this.
struct Check<'c> {
    wanted: &'static Type,
    place: &'c Place<'c>,
    wrong: &'c mut Wrong,
    room: usize,
}

impl Check<'_> {
    fn expect(self, fits: bool) {
        if !fits && self.wrong.first.len() < self.room {
            self.wrong.first.push((self.place.to_string(), self.wanted.word()));
        } else if !fits {
            self.wrong.more = self.wrong.more.saturating_add(1);
        }
    }

    /// The same for a value inside.
    fn inner<'i>(&'i mut self, wanted: &'static Type, place: &'i Place<'i>) -> Check<'i> {
        Check { wanted, place, wrong: &mut *self.wrong, room: self.room }
    }
}

impl<'de> DeserializeSeed<'de> for Check<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        match self.wanted {
            Any => IgnoredAny::deserialize(from).map(drop),
            _ => from.deserialize_any(self),
        }
    }
}

/// The name of a member.
#[derive(Deserialize)]
struct Name<'n>(#[serde(borrow)] Cow<'n, str>);

impl<'de> Visitor<'de> for Check<'_> {
    type Value = ();

    fn expecting(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(self.wanted.word())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        let fits = matches!(self.wanted, Boolean);
        self.expect(fits);
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        let fits = matches!(self.wanted, Integer);
        self.expect(fits);
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        let fits = matches!(self.wanted, Integer);
        self.expect(fits);
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.expect(false);
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        let fits = matches!(self.wanted, Text);
        self.expect(fits);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let List(wanted) = self.wanted else {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            self.expect(false);
            return Ok(());
        };
        let mut index = 0;
        loop {
            let place = Place::Item(self.place, index);
            if list.next_element_seed(self.inner(wanted, &place))?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let fits = matches!(self.wanted, Map(_) | Struct(_));
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            let wanted = match self.wanted {
                Map(wanted) => *wanted,
                Struct(fields) => {
                    fields.iter().find(|(known, _)| *known == name).map_or(&Any, |f| &f.1)
                }
                _ => &Any,
            };
            let place = Place::Member(self.place, &name);
            map.next_value_seed(self.inner(wanted, &place))?;
        }
        self.expect(fits);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str) -> Vec<String> {
        let document = Document::parse(json).unwrap();
        let wrong = wrong(&document, 3);
        let first = wrong.first.iter().map(|(field, what)| format!("{field}: {what}"));
        first.chain((wrong.more > 0).then(|| format!("{} more", wrong.more))).collect()
    }

    #[test]
    fn values_of_the_wrong_type_are_named() {
        for (json, expected) in [
            ("{}", &[][..]),
            (r#"{"spec":null,"unknown":[1]}"#, &[]),
            (r#"{"spec":"x"}"#, &["spec: an object"]),
            (r#"{"spec":{"maintainers":"x","unknown":{"a":1}}}"#, &["spec.maintainers: a list"]),
            (r#"{"spec":{"keywords":["a",1,null]}}"#, &["spec.keywords[1]: a text"]),
            (r#"{"spec":{"labels":{"a.b/c":{}}}}"#, &["spec.labels[a.b/c]: a text"]),
            (
                r#"{"spec":{"cleanup":{"enabled":"true"},"icon":{"a":[{}]},"maturity":1.0,"links":5,"skips":[[]]}}"#,
                &[
                    "spec.cleanup.enabled: a boolean",
                    "spec.icon: a list",
                    "spec.maturity: a text",
                    "2 more",
                ],
            ),
            (
                r#"{"spec":{"install":{"spec":{"deployments":[{"spec":{"replicas":1.5,"template":{"spec":{"containers":[{"env":[{"name":"A","value":8080}],"resources":{"limits":{"cpu":1}}}]}}}}]}}}}"#,
                &[
                    "spec.install.spec.deployments[0].spec.replicas: an integer",
                    "spec.install.spec.deployments[0].spec.template.spec.containers[0].env[0].value: a text",
                ],
            ),
        ] {
            assert_eq!(found(json), expected, "{json}");
        }
    }
}
