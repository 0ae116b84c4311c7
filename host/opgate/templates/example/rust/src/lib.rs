//! Policy `{{name}}`: images of Pods have a digest and come from known registries.

use opgate_sdk::{
    ClusterRead, Document, Report, Review, SettingsError, Target, policy, rule, rules,
};

static POD: Target =
    Target { groups: &[""], versions: &["v1"], resources: &["pods"], kind: "Pod", ..Target::EMPTY };

static NAMESPACES: ClusterRead = ClusterRead {
    version: "v1",
    resource: "namespaces",
    fields: &["/metadata/annotations"],
    ..ClusterRead::EMPTY
};

policy! {
    name: "{{name}}",
    title: "images of Pods have a digest and come from known registries",
    rules: [RULES],
    routes: [POD => evaluate],
    settings: include_str!("settings.json"),
    check_settings: check,
}

rules![IMG_1, IMG_2, IMG_3];

rule! {
    /// the image of a container has a digest
    ///
    /// `image` of each container and init container contains a digest. On UPDATE the rule
    /// evaluates only changed images.
    ///
    /// # Why
    ///
    /// A tag can move: the same Pod runs other code tomorrow.
    ///
    /// # Remediation
    ///
    /// Name the image by its digest.
    ///
    /// # Accepted
    ///
    /// `image: quay.io/house/a@sha256:…`
    ///
    /// # Rejected
    ///
    /// `image: quay.io/house/a:v1`
    IMG_1: Deny {
        name: "image-digest",
        on: [POD: Create | Update],
        source: ["house rules, section 3"],
    }
}

rule! {
    /// the image of a container comes from a known registry
    ///
    /// `image` of each container and init container starts with one of the setting `registries`.
    ///
    /// # Why
    ///
    /// Images from elsewhere are not scanned.
    ///
    /// # Remediation
    ///
    /// Copy the image to a known registry, and name it there.
    ///
    /// # Accepted
    ///
    /// With `registries: [quay.io/house]`: `image: quay.io/house/a@sha256:…`
    ///
    /// # Rejected
    ///
    /// `image: quay.io/other/a@sha256:…`
    IMG_2: Deny {
        name: "known-image-registry",
        on: [POD: Create | Update],
        enabled_by: ["/registries"],
        source: ["house rules, section 4"],
    }
}

rule! {
    /// the image of a container comes from the registry of its namespace
    ///
    /// If the Namespace of the Pod has the annotation `house.example/registry`, `image` of each
    /// container and init container starts with it.
    ///
    /// # Why
    ///
    /// A team pays for its own registry, and cleans up there.
    ///
    /// # Remediation
    ///
    /// Copy the image to the registry of the namespace, and name it there.
    ///
    /// # Accepted
    ///
    /// With the annotation `house.example/registry: quay.io/team-a`: `image: quay.io/team-a/b@sha256:…`
    ///
    /// # Rejected
    ///
    /// `image: quay.io/house/a@sha256:…`
    IMG_3: Deny {
        name: "namespace-image-registry",
        on: [POD: Create | Update],
        reads: [NAMESPACES],
        source: ["house rules, section 5"],
    }
}

fn evaluate(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(pod) = review.object else { return };
    let images = touched_images(review, pod);
    if images.is_empty() {
        return;
    }
    let registries = review.settings.texts("/registries");
    let namespace = review.namespace();
    let found = NAMESPACES.get("", namespace);
    let found = report.or_skip(&[&IMG_3], "Namespaces", found).flatten();
    let own = found.and_then(|found| found.text("/metadata/annotations/house.example~1registry"));
    for (field, image) in images {
        if !image.contains('@') {
            report.add(&IMG_1, &field, format!("{image} has no digest"));
        }
        if !registries.iter().any(|registry| is_from(&image, registry)) {
            report.add(&IMG_2, &field, format!("{image} is not from a known registry"));
        }
        if let Some(own) = &own
            && !is_from(&image, own)
        {
            let message = format!("{image} is not from {own}, as namespace {namespace} demands");
            report.add(&IMG_3, &field, message);
        }
    }
}

/// Fields and images that the request sets or changes.
fn touched_images(review: &Review<'_>, pod: &Document) -> Vec<(String, String)> {
    let mut images = Vec::new();
    for list in ["initContainers", "containers"] {
        // One call of the host for all containers.
        let containers = pod.rows(&format!("/spec/{list}"), &["/image"]);
        for (index, container) in containers.iter().enumerate() {
            let Some(image) = container.text(0) else {
                continue;
            };
            if review.touches_json(pod, &format!("/spec/{list}/{index}/image")) {
                images.push((format!("spec.{list}[{index}].image"), image.to_owned()));
            }
        }
    }
    images
}

fn is_from(image: &str, registry: &str) -> bool {
    image.strip_prefix(registry).is_some_and(|rest| rest.starts_with('/'))
}

/// Checks constraints that the schema cannot express.
fn check(settings: &Document) -> Result<(), Vec<SettingsError>> {
    let mut wrong = Vec::new();
    for (index, registry) in settings.texts("/registries").iter().enumerate() {
        if registry.ends_with('/') {
            wrong.push(SettingsError {
                pointer: format!("/registries/{index}"),
                message: "remove the slash at the end".to_owned(),
            });
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}
