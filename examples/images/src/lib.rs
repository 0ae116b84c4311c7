//! Policy `images`: images come from known registries, and have a digest.
//!
//! ```text
//! Pod, template ─▶ images of containers and volumes ─▶ those that the old object does not have ─▶ rules
//! ```

mod found;
mod reference;
mod targets;

use std::collections::BTreeMap;

use found::images;
use opgate_sdk::{Document, Report, Review, SettingsError, go, image, pods, policy, rule, rules};
use reference::{is_domain, is_from, repository};
use targets::{CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, POD, REPLICA_SET, STATEFUL_SET};

policy! {
    name: "images",
    title: "images come from known registries, and have a digest",
    rules: [RULES],
    routes: [
        POD => judge,
        DEPLOYMENT => judge,
        STATEFUL_SET => judge,
        DAEMON_SET => judge,
        REPLICA_SET => judge,
        JOB => judge,
        CRON_JOB => judge,
    ],
    settings: include_str!("settings.json"),
    check_settings: check,
}

rules![IMG_1, IMG_2];

rule! {
    /// an image comes from a known registry
    ///
    /// The images of containers, init containers, ephemeral containers and image volumes come from
    /// one of the setting `registries`, or from below it. References are completed as container
    /// runtimes do: `nginx` is `docker.io/library/nginx`. `quay.io/household` is not in
    /// `quay.io/house`. Off until the setting is there. On UPDATE the rule looks at images that
    /// change, and at containers and volumes with a new name.
    ///
    /// # Why
    ///
    /// Images from elsewhere are not scanned, and whoever owns their name decides what runs.
    ///
    /// # Repair
    ///
    /// Copy the image to a known registry, and name it there.
    ///
    /// # Accepted
    ///
    /// With `registries: [quay.io/house]`: `image: quay.io/house/shop:v1`
    ///
    /// # Rejected
    ///
    /// `image: quay.io/household/shop:v1`
    IMG_1: Deny {
        on: [
            POD: Create | Update,
            DEPLOYMENT: Create | Update,
            STATEFUL_SET: Create | Update,
            DAEMON_SET: Create | Update,
            REPLICA_SET: Create | Update,
            JOB: Create | Update,
            CRON_JOB: Create | Update,
        ],
        off_until: ["/registries"],
        source: "Kubernetes, Images, Image names",
    }
}

rule! {
    /// an image has a digest
    ///
    /// The images of containers, init containers, ephemeral containers and image volumes end with a
    /// digest: `@sha256:` and 64 hexadecimal digits. A tag may stand before it. On UPDATE the rule
    /// looks at images that change, and at containers and volumes with a new name.
    ///
    /// # Why
    ///
    /// A tag can move: the pod runs other code when it starts again, and nobody has decided that.
    ///
    /// # Repair
    ///
    /// Name the image by its digest: `skopeo inspect docker://IMAGE` prints it.
    ///
    /// # Accepted
    ///
    /// `image: quay.io/house/shop:v1@sha256:…`
    ///
    /// # Rejected
    ///
    /// `image: quay.io/house/shop:v1`
    IMG_2: Deny {
        on: [
            POD: Create | Update,
            DEPLOYMENT: Create | Update,
            STATEFUL_SET: Create | Update,
            DAEMON_SET: Create | Update,
            REPLICA_SET: Create | Update,
            JOB: Create | Update,
            CRON_JOB: Create | Update,
        ],
        source: "Kubernetes, Images, Image names",
    }
}

fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    let kind = review.request.kind().kind.as_str();
    let images_of = |object: &Document| {
        pods::in_object(object, kind).map(|spec| images(object, &spec)).unwrap_or_default()
    };
    let before: BTreeMap<_, _> = review
        .spares()
        .map(images_of)
        .into_iter()
        .flatten()
        .map(|found| (found.owner, found.image))
        .collect();
    let registries = review.settings.texts("/registries");
    for found in images_of(object) {
        if before.get(&found.owner) == Some(&found.image) {
            continue;
        }
        let image = &found.image;
        // What is no reference could look like one of a known registry.
        if let Some(why) = image::plain_error(image) {
            let message = format!("image {} is no reference: {why}", go::quote(image));
            report.add(&IMG_1, &found.field, message);
        } else if !registries.iter().any(|registry| is_from(&repository(image), registry)) {
            let message = format!(
                "image {} is not from a known registry: use one of {}",
                go::quote(image),
                registries.join(", ")
            );
            report.add(&IMG_1, &found.field, message);
        }
        if image::digest(image).is_none() {
            let message = format!("image {} has no digest: add @sha256:… to it", go::quote(image));
            report.add(&IMG_2, &found.field, message);
        }
    }
}

/// What the schema cannot say.
fn check(settings: &Document) -> Result<(), Vec<SettingsError>> {
    let mut wrong = Vec::new();
    for (index, registry) in settings.texts("/registries").iter().enumerate() {
        let first = registry.split('/').next().unwrap_or_default();
        let message = if registry.ends_with('/') {
            "remove the slash at the end"
        } else if !is_domain(first) {
            "write the domain, too: docker.io/library"
        } else if registry.contains('@') || registry.split('/').skip(1).any(|it| it.contains(':')) {
            "write a registry without tag and digest"
        } else {
            continue;
        };
        wrong.push(SettingsError {
            pointer: format!("/registries/{index}"),
            message: message.to_owned(),
        });
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}
