"""Reviews that languages could evaluate differently, and the cluster objects for them. They are JSON as text, because a
parser loses some of their details: duplicate members, numbers, escapes."""

import json

KIND = {
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
}


class Text(str):
    """JSON that is written unchanged."""


def pod(*images, init=None, **more):
    """A Pod with these images."""
    spec = {"containers": [{"name": f"c{n}", "image": image} for n, image in enumerate(images)]}
    if init is not None:
        spec["initContainers"] = [{"name": f"i{n}", "image": image} for n, image in enumerate(init)]
    metadata = {"name": "shop", "namespace": "team-a", **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **more}}


def raw(spec):
    """A Pod with this text as its spec."""
    return Text(
        '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"shop","namespace":"team-a"},"spec":%s}' % spec
    )


HOUSE = "quay.io/house/shop@sha256:00"
TEAM = "quay.io/team-a/shop@sha256:00"
TAG = "quay.io/house/shop:v1"
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
# Two kilobytes, as most Pods are.
USUAL = pod(
    TAG,
    TEAM,
    init=[HOUSE],
    metadata={"labels": {f"app.kubernetes.io/label-{n}": f"value-{n}" for n in range(20)}},
    volumes=[{"name": f"v{n}", "configMap": {"name": f"config-{n}"}} for n in range(15)],
)

# Name, new object, old object, and further members of the request.
CASES = [
    ("a digest", pod(HOUSE), None, {}),
    ("the registry of the team", pod(TEAM), None, {}),
    ("a tag", pod(TAG), None, {}),
    ("a usual Pod", USUAL, None, {}),
    ("an update of a usual Pod", USUAL, pod(TAG), {}),
    ("init containers come first", pod(TAG, HOUSE, init=["init", "quay.io/team-a/init:1"]), None, {}),
    ("three hundred violations", pod(*(f"quay.io/house/a{n}:v1" for n in range(300))), None, {}),
    ("more than a verdict has room for", pod(*(f"a{n}" for n in range(1000)), init=["x"] * 300), None, {}),
    ("three hundred without a violation", pod(*([TEAM] * 300)), None, {}),
    ("a long image", pod("x" * 5_000), None, {}),
    ("a long image of letters of two bytes", pod("é" * 3_000), None, {}),
    ("letters of other languages", pod("quay.io/häuser/лавка:最新🛒", "quay.io/häuser/a@sha256:00"), None, {}),
    ("composed and decomposed letters", pod("quay.io/h\u00e4user/a@1", "quay.io/ha\u0308user/a@1"), None, {}),
    ("control characters", pod("a\tb\nc\u0000d\u2028e\u202ef"), None, {}),
    ("quotes and braces", pod("a'\"{0}%s`$x\\"), None, {}),
    ("blanks around", pod(" quay.io/house/a ", "\ufeffa@b"), None, {}),
    ("escapes of pairs", raw(r'{"containers":[{"image":"\ud83d\uded2:v1"},{"image":"\u0061\/b"}]}'), None, {}),
    ("members that stand twice", raw('{"containers":[{"image":"a","image":"b@c"},{"image":"b@c","image":"a"}]}'), None, {}),
    ("lists that stand twice", raw('{"containers":[{"image":"a"}],"containers":[{"image":"b"}]}'), None, {}),
    ("no spec", Text('{"apiVersion":"v1","kind":"Pod","metadata":{"name":"shop"}}'), None, {}),
    ("spec is null", raw("null"), None, {}),
    ("spec is a text", raw('"containers"'), None, {}),
    ("no containers", raw("{}"), None, {}),
    ("containers are null", raw('{"containers":null}'), None, {}),
    ("containers are an object", raw('{"containers":{"0":{"image":"a"},"length":1}}'), None, {}),
    ("containers are a text", raw('{"containers":"image"}'), None, {}),
    ("containers of other types", raw('{"containers":[null,7,"image",[{"image":"a"}],{},{"image":"a"}]}'), None, {}),
    ("images of other types", raw('{"containers":[{"image":7},{"image":1.5e400},{"image":null},{"image":true},{"image":["a"]},{"image":{"a":"b"}},{"image":""}]}'), None, {}),
    ("a member of every object", raw('{"containers":[{"__proto__":{"image":"a"},"constructor":"x","toString":1}],"__proto__":{"initContainers":[{"image":"a"}]}}'), None, {}),
    ("an update that changes nothing", pod(TAG), pod(TAG), {}),
    ("an update of a label", pod(TAG, metadata={"labels": {"a": "b"}}), pod(TAG), {}),
    ("an update to a tag", pod(TAG), pod(HOUSE), {}),
    ("an update that adds", pod(TAG, "more"), pod(TAG), {}),
    ("an update that moves", pod("a", "b"), pod("b", "a"), {}),
    ("an update that removes", pod("b"), pod("a", "b"), {}),
    ("an update of one list", pod("a", init=["b"]), pod("a", init=["c"]), {}),
    ("an update from another type", pod("7"), raw('{"containers":[{"image":7}]}'), {}),
    ("an update to another type", raw('{"containers":[{"image":null}]}'), pod("a"), {}),
    ("an update of what is being deleted", pod(TAG, metadata=DELETED), pod(TAG), {}),
    ("an update that changes what is being deleted", pod(TAG, metadata=DELETED), pod(HOUSE), {}),
    ("an update to no old containers", pod(TAG), raw("{}"), {}),
    ("another operation", None, pod(TAG), {"operation": "DELETE"}),
    ("a sub-resource", pod(TAG), None, {"subResource": "ephemeralcontainers"}),
    ("a dry run", pod(TAG), None, {"dryRun": True}),
    ("an exempt user", pod(TAG), None, {"userInfo": {"username": "admin"}}),
    ("a user with letters", pod(TAG), None, {"userInfo": {"username": "jürgen"}}),
    ("a user that starts alike", pod(TAG), None, {"userInfo": {"username": "administrator"}}),
    ("an exempt group", pod(TAG), None, {"userInfo": {"username": "x", "groups": ["users", "admins"]}}),
    ("no user", pod(TAG), None, {"userInfo": {}}),
    ("a namespace without the annotation", pod(HOUSE), None, {"namespace": "team-b"}),
    ("a namespace that does not exist", pod(HOUSE), None, {"namespace": "team-x"}),
    ("an annotation that is empty", pod(HOUSE, "/a@b"), None, {"namespace": "team-c"}),
    ("an annotation with letters", pod(HOUSE, "quay.io/häuser/a@b"), None, {"namespace": "team-d"}),
    ("an annotation that ends with a slash", pod("quay.io/e/a@b", "quay.io/e//a@b"), None, {"namespace": "team-e"}),
    ("another kind of pods", {**pod(TAG), "kind": "PodMetrics"}, None, {"resource": {"group": "metrics.k8s.io", "version": "v1", "resource": "pods"}}),
    ("another resource", pod(TAG), None, {"resource": {"group": "", "version": "v1", "resource": "podtemplates"}}),
]


def text(value):
    """As JSON, with parts that are text already."""
    if isinstance(value, Text):
        return value
    if isinstance(value, dict):
        return "{%s}" % ",".join(f"{json.dumps(key)}:{text(inner)}" for key, inner in value.items())
    return json.dumps(value, ensure_ascii=False)


def review(number, name, new, old, more):
    """One line."""
    request = {
        "uid": f"{number:03}",
        "operation": "CREATE" if old is None else "UPDATE",
        **KIND,
        "name": name.replace(" ", "-"),
        "namespace": "team-a",
        "userInfo": {"username": "jo", "groups": ["system:authenticated"]},
        **more,
    }
    if new is not None:
        request["object"] = new
    if old is not None:
        request["oldObject"] = old
    return text({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


REVIEWS = [review(number, *case) for number, case in enumerate(CASES)]

REGISTRIES = {
    "team-a": "quay.io/team-a",
    "team-b": None,
    "team-c": "",
    "team-d": "quay.io/häuser",
    "team-e": "quay.io/e/",
}


def write(directory):
    """Writes the reviews and the clusters."""
    (directory / "reviews.jsonl").write_text("\n".join(REVIEWS) + "\n")
    objects = []
    for name, registry in REGISTRIES.items():
        annotations = {"other.example": "x"}
        if registry is not None:
            annotations["house.example/registry"] = registry
        metadata = {"name": name, "annotations": annotations}
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    documents = "\n---\n".join(json.dumps(one, ensure_ascii=False) for one in objects)
    (directory / "cluster.yaml").write_text(documents + "\n")
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "y"}}
    (directory / "empty.yaml").write_text(json.dumps(other) + "\n")
