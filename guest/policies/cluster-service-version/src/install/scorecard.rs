//! Requirements of the Operator SDK scorecard for owned CRDs.

use std::collections::{HashMap, HashSet};

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, rule, rules};

use crate::csv::Csv;
use crate::entries::{Entries, RuleViolations};
use crate::targets::{CATALOG, CSV};

rules![CSV_43];

const OWNED: &str = "/spec/customresourcedefinitions/owned";
const EXAMPLES: &str = "alm-examples";

rule! {
    /// owned CRDs list resources, and describe the fields of their examples
    ///
    /// Each entry of `spec.customresourcedefinitions.owned` has `resources`. For each object of the
    /// annotation `alm-examples` the first owned CRD of its kind and version has a spec descriptor
    /// for each field directly below `spec`, with that field as its `path`. Objects of other APIs,
    /// and an annotation that is not JSON, are not evaluated. The rule is off unless a level is
    /// configured for it. Copies are exempt if OLM writes them or the original exists. An UPDATE is
    /// evaluated only if it changes the owned CRDs or the annotation.
    ///
    /// # Why
    ///
    /// The tests `olm-crds-have-resources-test` and `olm-spec-descriptors-test` of the scorecard
    /// fail if the rule is violated, see OpenShift 4.12, Operators, *Selected scorecard tests*. The
    /// tables of the same document call both fields optional, so the rule is off.
    ///
    /// # Remediation
    ///
    /// In `resources`, list the kinds of objects that the Operator creates for an object of the
    /// API. Add a descriptor with the field as its `path` to `specDescriptors`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// owned:
    /// - name: etcdclusters.etcd.database.coreos.com
    ///   version: v1beta2
    ///   kind: EtcdCluster
    ///   resources: [{kind: Pod, name: '', version: v1}]
    ///   specDescriptors: [{path: size}]
    /// ```
    ///
    /// # Rejected
    ///
    /// The accepted entry without `specDescriptors`, where the example has `spec: {size: 3}`.
    ///
    /// `message: owned CRD "etcdclusters.etcd.database.coreos.com": spec.size has no descriptor`
    ///
    /// Without `resources`: `message: owned CRD "etcdclusters.etcd.database.coreos.com" has no
    /// resources section`
    CSV_43: Warn {
        name: "owned-crd-resources-and-descriptors",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        enabled_by: [],
        source: ["OCP 4.12 L20397-20466, L22220-22241", "OCP 4.15 L16942-16960"],
    }
}

const COLUMNS: [&str; 5] = ["/name", "/version", "/kind", "/resources", "/specDescriptors"];

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    let is_new = csv.touches_json(OWNED) || csv.touches_annotation(EXAMPLES);
    if !csv.is_on(&CSV_43) || !is_new {
        return;
    }
    let owned = Entries::read_first(csv.object, OWNED, &COLUMNS);
    let mut wrong = RuleViolations::of(&CSV_43);
    // If several have the same kind and version, the first one counts.
    let mut by_kind: HashMap<[&str; 2], (usize, &str)> = HashMap::new();
    for (index, crd) in owned.iter() {
        let name = crd.text_or_empty(0);
        let api = [crd.text_or_empty(1), crd.text_or_empty(2)];
        by_kind.entry(api).or_insert((index, name));
        if crd.kind(3) != Kind::List || crd.length(3) == Some(0) {
            wrong.add(csv, || {
                let message = format!("owned CRD {} has no resources section", quote(name));
                [format!("spec.customresourcedefinitions.owned[{index}].resources"), message]
            });
        }
    }
    let examples = csv.annotation(EXAMPLES).and_then(|text| Document::parse(&text).ok());
    let Some(examples) = examples else { return };
    let mut described: HashMap<usize, HashSet<String>> = HashMap::new();
    for (number, example) in
        Entries::read_first(&examples, "", &["/apiVersion", "/kind", "/spec"]).iter()
    {
        if example.kind(2) != Kind::Object || wrong.is_full() {
            continue;
        }
        let version = example.text_or_empty(0).rsplit('/').next().unwrap_or_default();
        let Some(&(index, name)) = by_kind.get(&[version, example.text_or_empty(1)]) else {
            continue;
        };
        let object = csv.object;
        let paths = described.entry(index).or_insert_with(|| {
            let list = format!("{OWNED}/{index}/specDescriptors");
            let descriptors = Entries::read_first(object, &list, &["/path"]);
            descriptors.iter().filter_map(|(_, row)| row.text(0).map(str::to_owned)).collect()
        });
        for field in examples.keys(&format!("/{number}/spec")) {
            // Each field is reported once, regardless of the number of examples.
            if paths.insert(field.clone()) {
                wrong.add(csv, || {
                    let name = quote(name);
                    let message = format!("owned CRD {name}: spec.{field} has no descriptor");
                    let place = "spec.customresourcedefinitions.owned";
                    [format!("{place}[{index}].specDescriptors"), message]
                });
            }
        }
    }
}
