"""Policy `{{name}}`: images of Pods have a digest and come from known registries."""

from collections.abc import Iterator

from opgate_policy import CREATE, DENY, UPDATE, ClusterRead, Document, Policy, Report, Review, Rule, Target

POD = Target(groups=[""], versions=["v1"], resources=["pods"], kind="Pod")

NAMESPACES = ClusterRead(version="v1", resource="namespaces", fields=["/metadata/annotations"])

IMG_1 = Rule(
    "IMG-1",
    """
    the image of a container has a digest

    `image` of each container and init container contains a digest. On UPDATE the rule evaluates only changed images.

    # Why

    A tag can move: the same Pod runs other code tomorrow.

    # Remediation

    Name the image by its digest.

    # Accepted

    `image: quay.io/house/a@sha256:…`

    # Rejected

    `image: quay.io/house/a:v1`
    """,
    name="image-digest",
    level=DENY,
    on={POD: [CREATE, UPDATE]},
    sources=["house rules, section 3"],
)

IMG_2 = Rule(
    "IMG-2",
    """
    the image of a container comes from a known registry

    `image` of each container and init container starts with one of the setting `registries`.

    # Why

    Images from elsewhere are not scanned.

    # Remediation

    Copy the image to a known registry, and name it there.

    # Accepted

    With `registries: [quay.io/house]`: `image: quay.io/house/a@sha256:…`

    # Rejected

    `image: quay.io/other/a@sha256:…`
    """,
    name="known-image-registry",
    level=DENY,
    on={POD: [CREATE, UPDATE]},
    enabled_by=["/registries"],
    sources=["house rules, section 4"],
)

IMG_3 = Rule(
    "IMG-3",
    """
    the image of a container comes from the registry of its namespace

    If the Namespace of the Pod has the annotation `house.example/registry`, `image` of each container and init container starts with it.

    # Why

    A team pays for its own registry, and cleans up there.

    # Remediation

    Copy the image to the registry of the namespace, and name it there.

    # Accepted

    With the annotation `house.example/registry: quay.io/team-a`: `image: quay.io/team-a/b@sha256:…`

    # Rejected

    `image: quay.io/house/a@sha256:…`
    """,
    name="namespace-image-registry",
    level=DENY,
    on={POD: [CREATE, UPDATE]},
    reads=[NAMESPACES],
    sources=["house rules, section 5"],
)

POLICY = Policy(
    name="{{name}}",
    version="1.0.0",
    title="images of Pods have a digest and come from known registries",
    rules=[IMG_1, IMG_2, IMG_3],
    settings={
        "registries": {
            "description": "Registries, with or without a path, from which images may come.",
            "type": "array",
            "items": {"type": "string"},
        }
    },
)


@POLICY.evaluate(POD)
def evaluate(review: Review, report: Report) -> None:
    images = list(touched_images(review))
    if not images:
        return
    registries = review.settings.texts("/registries")
    namespace = review.namespace
    found = report.or_skip([IMG_3], "Namespaces", lambda: NAMESPACES.get("", namespace))
    own = found.text("/metadata/annotations/house.example~1registry") if found else None
    for field, image in images:
        if "@" not in image:
            report.add(IMG_1, field, f"{image} has no digest")
        if not any(image.startswith(f"{registry}/") for registry in registries):
            report.add(IMG_2, field, f"{image} is not from a known registry")
        if own is not None and not image.startswith(f"{own}/"):
            report.add(IMG_3, field, f"{image} is not from {own}, as namespace {namespace} demands")


def touched_images(review: Review) -> Iterator[tuple[str, str]]:
    """Fields and images that the request sets or changes."""
    pod = review.object
    if pod is None:
        return
    for kind in ("initContainers", "containers"):
        # One call of the host for all containers.
        for index, (image,) in enumerate(pod.rows(f"/spec/{kind}", "/image")):
            if isinstance(image, str) and review.touches(f"/spec/{kind}/{index}/image"):
                yield f"spec.{kind}[{index}].image", image


@POLICY.check_settings
def check(settings: Document) -> Iterator[tuple[str, str]]:
    """Checks beyond the schema."""
    for index, registry in enumerate(settings.texts("/registries")):
        if registry.endswith("/"):
            yield f"/registries/{index}", "remove the slash at the end"
