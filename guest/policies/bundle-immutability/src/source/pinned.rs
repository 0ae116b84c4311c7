//! Whether the content that a source names can change.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, rule, rules};

use super::field;
use crate::targets::{BUNDLE, DEPLOYMENT};

rules![RPK_17];

rule! {
    /// a source names an image by digest or a Git commit
    ///
    /// If the source has an `image.ref`, it ends with `@<algorithm>:<digest>`, and `git.ref` has
    /// neither a `branch` nor a `tag`, regardless of the type of the source. The digest itself is
    /// not checked. The source is `spec.source`, or `spec.template.spec.source` of a `v1alpha1`
    /// BundleDeployment. On UPDATE the rule evaluates a source that changes or a new template; with
    /// `ratcheting: false` also an unchanged source, unless the object is being deleted. If RPK-01
    /// denies the UPDATE of a Bundle, the rule is not evaluated.
    ///
    /// # Why
    ///
    /// A tag or a branch can move. When RukPak unpacks the Bundle again, it finds other content,
    /// and the BundleDeployment pivots to it without a change of a spec. OpenShift 4.12, Operators,
    /// *Further immutability considerations*, recommends digests and commits, but still allows a
    /// Git tag.
    ///
    /// # Remediation
    ///
    /// Name the image by its digest, or the commit instead of the branch or tag.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: image, image: {ref: my-bundle@sha256:xyz123}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   source: {type: git, git: {repository: r, ref: {tag: v0.0.2}}}
    /// ```
    ///
    /// `message: use a digest-based image or a Git commit reference when creating the bundle: Git
    /// tag "v0.0.2" can move to other content`
    ///
    /// Instead of `Git tag` the message can contain `Git branch` or `image`.
    RPK_17: Warn {
        name: "bundle-source-pinned",
        on: [BUNDLE: Create | Update, DEPLOYMENT: Create | Update],
        source: ["OCP 4.12 L1118-1135, L1154-1176", "OCP 4.15 L1022-1034, L19980-19988", "OKD L420-433"],
    }
}

pub(crate) fn check(object: &Document, source: &str, report: &mut Report<'_>) {
    let mut movable = |pointer: String, what: &str, name: &str| {
        let message = format!(
            "use a digest-based image or a Git commit reference when creating the bundle: {what} {} can move to other content",
            quote(name)
        );
        report.add(&RPK_17, field(&pointer), message);
    };
    let image = object.text_or_empty(&format!("{source}/image/ref"));
    if !image.is_empty() && !is_pinned(&image) {
        movable(format!("{source}/image/ref"), "image", &image);
    }
    for (member, what) in [("branch", "Git branch"), ("tag", "Git tag")] {
        let pointer = format!("{source}/git/ref/{member}");
        let name = object.text_or_empty(&pointer);
        if !name.is_empty() {
            movable(pointer, what, &name);
        }
    }
}

/// Whether an image reference has a part `@<algorithm>:<digest>`. The syntax of the digest is not
/// checked: the documentation has `my-bundle@sha256:xyz123`.
fn is_pinned(image: &str) -> bool {
    image.rsplit_once('@').is_some_and(|(_, digest)| {
        digest
            .split_once(':')
            .is_some_and(|(algorithm, value)| !algorithm.is_empty() && !value.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_digest_pins_an_image() {
        for image in ["my-bundle@sha256:xyz123", "quay.io/a/b:v1@sha256:0123"] {
            assert!(is_pinned(image), "{image}");
        }
        for image in ["quay.io/org/my-bundle:latest", "a", "a@", "a@sha256", "a@:x", "a@sha256:"] {
            assert!(!is_pinned(image), "{image}");
        }
    }
}
