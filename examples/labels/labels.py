"""Policy `labels`: objects have the labels and annotations that the house rules require.

    settings (by kind) ─▶ enabled targets
    object ─▶ each required label and annotation that the request touches ─▶ LBL-1, LBL-2
"""

from collections.abc import Iterator
from typing import Any

from opgate_policy import CREATE, DENY, UPDATE, Document, Policy, Report, Review, Rule, Target, escape

KINDS = [
    # Group, version, plural, kind, and the sub-resources through which clients can also change labels and annotations.
    ("", "v1", "namespaces", "Namespace", ["status", "finalize"]),
    ("", "v1", "pods", "Pod", ["status"]),
    ("", "v1", "services", "Service", ["status"]),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", ["status"]),
    ("", "v1", "serviceaccounts", "ServiceAccount", []),
    ("apps", "v1", "deployments", "Deployment", ["status"]),
    ("apps", "v1", "statefulsets", "StatefulSet", ["status"]),
    ("apps", "v1", "daemonsets", "DaemonSet", ["status"]),
    ("batch", "v1", "jobs", "Job", ["status"]),
    ("batch", "v1", "cronjobs", "CronJob", ["status"]),
    ("networking.k8s.io", "v1", "ingresses", "Ingress", ["status"]),
]


def changes(list: str) -> str:
    """CEL: whether labels or annotations differ. Controllers write statuses often, and rarely change these."""
    new, old = f"object.metadata.{list}", f"oldObject.metadata.{list}"
    return f"has({new}) != has({old}) || (has({new}) && {new} != {old})"


def target(group: str, version: str, resources: list[str], kind: str, **more: Any) -> Target:
    enabled_by = [f"/kinds/{kind}", "/every"]
    return Target(groups=[group], versions=[version], resources=resources, kind=kind, enabled_by=enabled_by, **more)


OBJECTS = [target(group, version, [plural], kind) for group, version, plural, kind, _ in KINDS]
SUBS = [
    target(
        group,
        version,
        [f"{plural}/{sub}" for sub in subs],
        kind,
        conditions={"changes-metadata": f"{changes('labels')} || {changes('annotations')}"},
    )
    for group, version, plural, kind, subs in KINDS
    if subs
]

ON = {target: [CREATE, UPDATE] for target in OBJECTS} | {target: [UPDATE] for target in SUBS}

LBL_1 = Rule(
    "LBL-1",
    """
    an object has the labels that its kind needs

    The object has each label of the settings `every.labels` and `kinds.KIND.labels`, and its value fits one of the patterns
    there; `*` stands for any characters, also for none. On UPDATE, also of `status`, the rule evaluates only changed labels.

    # Why

    Costs, alerts and network policies depend on labels. The owner of an object without them is unknown.

    # Remediation

    Set the label to a value that fits.

    # Accepted

    With `kinds: {Namespace: {labels: {team: ["team-*"]}}}`: a Namespace with `team: team-a`

    # Rejected

    A Namespace without the label, or with `team: a`
    """,
    name="required-labels",
    level=DENY,
    on=ON,
    sources=["house rules, section 1"],
)

LBL_2 = Rule(
    "LBL-2",
    """
    an object has the annotations that its kind needs

    The object has each annotation of the settings `every.annotations` and `kinds.KIND.annotations`, and its value fits one of
    the patterns there; `*` stands for any characters, also for none. On UPDATE, also of `status`, the rule evaluates only
    changed annotations.

    # Why

    Tools read annotations, for example the contact on call, the backup schedule, or the expiration date.

    # Remediation

    Set the annotation to a value that fits.

    # Accepted

    With `kinds: {Service: {annotations: {house.example/on-call: ["*@house.example"]}}}`: a Service with
    `house.example/on-call: shop@house.example`

    # Rejected

    A Service without the annotation
    """,
    name="required-annotations",
    level=DENY,
    on=ON,
    sources=["house rules, section 2"],
)

PATTERNS = {
    "type": "object",
    "additionalProperties": {"type": "array", "minItems": 1, "items": {"type": "string", "maxLength": 253}},
}
OF_A_KIND = {
    "type": "object",
    "properties": {"labels": PATTERNS, "annotations": PATTERNS},
    "additionalProperties": False,
}

POLICY = Policy(
    name="labels",
    version="1.0.0",
    title="objects have the labels and annotations that the house rules require",
    rules=[LBL_1, LBL_2],
    settings={
        "every": {"description": "Labels and annotations of objects of all kinds: patterns of values by name.", **OF_A_KIND},
        "kinds": {
            "description": "Labels and annotations of objects of one kind, by kind.",
            "type": "object",
            "properties": {kind: OF_A_KIND for *_, kind, _ in KINDS},
            "additionalProperties": False,
        },
    },
)

LISTS = [(LBL_1, "label", "labels"), (LBL_2, "annotation", "annotations")]


def evaluate(review: Review, report: Report) -> None:
    subject = review.object
    if subject is None or review.is_exempt:
        return
    kind = review.request.kind.kind
    for rule, one, name in LISTS:
        if not report.is_on(rule):
            continue
        for key, patterns in required(review.settings, kind, name):
            pointer = f"/metadata/{name}/{escape(key)}"
            if not touches(review, subject, pointer):
                continue
            value = subject.text(pointer)
            if value is None:
                report.add(rule, f"metadata.{name}[{key}]", f"{kind} has no {one} {key}: set it{to(patterns)}")
            elif not any(fits(value, pattern) for pattern in patterns):
                shown = value if len(value) <= 80 else f"{value[:80]}…"
                report.add(rule, f"metadata.{name}[{key}]", f'{one} {key} of {kind} is "{shown}": set it{to(patterns)}')


for _target in OBJECTS + SUBS:
    POLICY.evaluate(_target)(evaluate)


def required(settings: Document, kind: str, name: str) -> Iterator[tuple[str, list[str]]]:
    """Names and patterns for objects of a kind. The patterns of the kind replace those for all kinds."""
    found: dict[str, list[str]] = {}
    for pointer in (f"/every/{name}", f"/kinds/{kind}/{name}"):
        for key in settings.keys(pointer):
            found[key] = settings.texts(f"{pointer}/{escape(key)}")
    yield from sorted(found.items())


def touches(review: Review, subject: Document, pointer: str) -> bool:
    """Whether the request sets or changes a label. For a sub-resource only changes count, whatever the settings are: controllers
    that write a status cannot fix labels."""
    old = review.old_of_update
    if review.request.sub_resource and old is not None:
        return not subject.equal(pointer, old, pointer)
    return review.touches(pointer)


def to(patterns: list[str]) -> str:
    if "*" in patterns:
        return ""
    return f" to {patterns[0]}" if len(patterns) == 1 else f" to one of {', '.join(patterns)}"


def fits(value: str, pattern: str) -> bool:
    """Whether a value fits a pattern with `*`. The time is linear in the length of both: annotations can be long."""
    first, *rest = pattern.split("*")
    if not rest:
        return value == pattern
    *middle, last = rest
    if not value.startswith(first) or not value.endswith(last) or len(value) < len(first) + len(last):
        return False
    at, end = len(first), len(value) - len(last)
    for part in middle:
        found = value.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
