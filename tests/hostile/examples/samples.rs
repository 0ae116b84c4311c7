//! Reads custom resources, and Secrets if a setting enables it, and reports what it has found.

use opgate_hostile::{Hostile, deny, descriptor, verdict};
use opgate_sdk::bindings::opgate::policy::types;
use opgate_sdk::cluster::Query;
use opgate_sdk::{ClusterRead, Document, GroupVersionResource, Setting, Verdict, sample};

/// The policy.
#[derive(Debug)]
pub struct Samples;

opgate_hostile::export!(Samples);

static SECRETS: ClusterRead = ClusterRead {
    version: "v1",
    resource: "secrets",
    fields: &["/type"],
    keys: &["/data"],
    namespace: Some(Setting { pointer: "/secrets/namespace", default: "openshift-marketplace" }),
    enabled_by: &["/secrets/read"],
    ..ClusterRead::EMPTY
};

impl Hostile for Samples {
    fn describe() -> types::Descriptor {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let secrets = types::ClusterRead {
            resource: GroupVersionResource {
                group: String::new(),
                version: "v1".into(),
                resource: "secrets".into(),
            },
            fields: texts(SECRETS.fields),
            keys: texts(SECRETS.keys),
            label_selector: String::new(),
            namespace: SECRETS.namespace.map(Into::into),
            indexes: Vec::new(),
            rules: Vec::new(),
            enabled_by: texts(SECRETS.enabled_by),
        };
        let of_bundles = descriptor().matches;
        let of_secrets = of_bundles.iter().map(|bundles| types::MatchRule {
            groups: vec![String::new()],
            resources: vec!["secrets".into()],
            ..bundles.clone()
        });
        let of_secrets: Vec<_> = of_secrets.collect();
        types::Descriptor {
            reads: vec![secrets],
            sampling_rules: vec!["EVIL-1".into()],
            matches: of_bundles.into_iter().chain(of_secrets).collect(),
            ..descriptor()
        }
    }

    /// Says what a sample has for each reference of the Bundle, `PLURAL.GROUP/VERSION/LIMIT`; the Secrets
    /// for a Bundle named `secrets`; all of the object that it gets for a Secret.
    fn validate(object: Option<&Document>, _: &Document) -> Verdict {
        let mut verdict = verdict();
        let Some(object) = object else { return verdict };
        if object.text_or_empty("/kind") == "Secret" {
            let raw = object.raw("").map(|raw| String::from_utf8_lossy(&raw).into_owned());
            deny(&mut verdict, "EVIL-1", "", raw.unwrap_or_default());
            return verdict;
        }
        if object.text_or_empty("/metadata/name") == "secrets" {
            let mut found = Vec::new();
            let asked = SECRETS.each(Query::default(), |secret| {
                let (name, kind) =
                    (secret.text_or_empty("/metadata/name"), secret.text_or_empty("/type"));
                found.push(format!("{name} {kind} {}", secret.keys("/data").join(",")));
                true
            });
            let said = asked.map_or_else(|why| format!("{why:?}"), |()| found.join("; "));
            deny(&mut verdict, "EVIL-1", "", said);
            return verdict;
        }
        let mut said = Vec::new();
        for asked in object.text_or_empty("/spec/source/image/ref").split_whitespace() {
            let mut parts = asked.split('/');
            let (named, version) =
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let limit = parts.next().and_then(|limit| limit.parse().ok()).unwrap_or(500);
            let (resource, group) = named.split_once('.').unwrap_or((named, ""));
            let (group, version) = (group.to_owned(), version.to_owned());
            let resource = GroupVersionResource { group, version, resource: resource.to_owned() };
            said.push(match sample(&resource, limit) {
                Ok(sample) => {
                    let first = sample.objects.first();
                    let name = first.map(|first| first.text_or_empty("/metadata/name"));
                    let whole = first.is_some_and(|first| first.has("/spec"));
                    let (count, complete) = (sample.objects.len(), sample.complete);
                    format!(
                        "{count} complete={complete} first={} whole={whole}",
                        name.unwrap_or_default()
                    )
                }
                Err(why) => format!("{why:?}"),
            });
        }
        deny(&mut verdict, "EVIL-1", "", said.join(" | "));
        verdict
    }
}
