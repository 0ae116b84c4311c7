"""The helpers for selectors, shapes and pods hold the cases in guest/cases/helpers.json, as those of the other SDKs do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from opgate_policy import (
    CREATE,
    DENY,
    UPDATE,
    ClusterRead,
    Document,
    Fix,
    Policy,
    Report,
    Review,
    Rule,
    Selector,
    SelectorError,
    Shape,
    Target,
    pods,
)
from opgate_policy.testing import cases as cases_of
from opgate_policy.testing import document, evaluate
from opgate_policy.testing.edits import apply_fixes

TABLE = json.loads(Path(__file__).parents[2].joinpath("cases/helpers.json").read_text(encoding="utf-8"))


def cases(name: str) -> list[Any]:
    found = TABLE[name]
    assert len(found) > 5
    return [pytest.param(case, id=case["case"]) for case in found]


def outcome(of: Document, read: Any) -> dict[str, Any]:
    """The outcome of a case, in the words of the table."""
    try:
        selector = read()
    except SelectorError as error:
        return {"error": str(error)}
    return {"none": True} if selector is None else {"matches": of.matches("/labels", selector)}


def expected(case: dict[str, Any]) -> dict[str, Any]:
    return {name: case[name] for name in ("none", "matches", "error") if name in case}


@pytest.mark.parametrize("case", cases("selectors"))
def test_selectors_select_and_fail_as_in_kubernetes(case: dict[str, Any]) -> None:
    of = document(case)
    assert outcome(of, lambda: of.selector("/selector")) == expected(case)


@pytest.mark.parametrize("case", cases("mapSelectors"))
def test_maps_select_and_fail_as_in_kubernetes(case: dict[str, Any]) -> None:
    of = document(case)
    assert outcome(of, lambda: of.map_selector("/selector")) == expected(case)


def test_a_selector_has_the_notation_of_kubectl() -> None:
    expressions = [("c", "NotIn", ["z", "d"]), ("e", "Exists", []), ("f", "DoesNotExist", [])]
    members = [{"key": key, "operator": operator, "values": values} for key, operator, values in expressions]
    assert str(Selector.of({"matchLabels": {"a": "b"}, "matchExpressions": members})) == "a in (b),c notin (d,z),e,!f"


def shape(given: Any) -> Shape:
    """The shape of a case: `scalar`, or an object with one member."""
    if given == "scalar":
        return Shape.SCALAR
    [(name, inner)] = given.items()
    return Shape.list(shape(inner)) if name == "list" else getattr(Shape, name)({field: shape(of) for field, of in inner.items()})


@pytest.mark.parametrize("case", cases("shapes"))
def test_shapes_compare_as_go_compares_decoded_values(case: dict[str, Any]) -> None:
    left, right = (document({"value": case[side]} if side in case else {}) for side in ("left", "right"))
    assert shape(case["shape"]).equal(left, right, "/value") is case["equal"]
    assert shape(case["shape"]).equal(right, left, "/value") is case["equal"]


def test_a_shape_has_shapes() -> None:
    with pytest.raises(TypeError, match="write Shape.SCALAR"):
        Shape.struct({"a": "text"})  # type: ignore[dict-item]


@pytest.mark.parametrize("case", cases("pods"))
def test_pods_and_their_templates_have_their_containers(case: dict[str, Any]) -> None:
    of = document(case["object"])
    found = pods.in_csv(of) if case["kind"] == "ClusterServiceVersion" else filter(None, [pods.in_object(of, case["kind"])])
    specs = []
    for spec in found:
        containers = [
            {"list": it.list, "index": it.index, "pointer": it.pointer, "field": it.field, "image": it.row[0]}
            for it in spec.containers(of, "/image")
        ]
        specs.append({"name": spec.name, "pointer": spec.pointer, "field": spec.field, "containers": containers})
    assert specs == case["specs"]


BUDGET = Target(groups=["policy"], versions=["v1"], resources=["poddisruptionbudgets"], kind="PodDisruptionBudget")
LISTS = ("containers", "initContainers", "ephemeralContainers")
PODS = ClusterRead(version="v1", resource="pods", fields=[f"/spec/{name}/*/image" for name in LISTS])
SELECTOR = Shape.pointer({"matchLabels": Shape.struct({"app": Shape.SCALAR})})
T_1 = Rule("T-1", "title\n\ntext", level=DENY, on={BUDGET: [CREATE, UPDATE]}, reads=[PODS])
POLICY = Policy(name="t", version="1.0.0", title="t", rules=[T_1])


@POLICY.evaluate(BUDGET)
def look(review: Review, report: Report) -> None:
    if review.object is None or not review.touches("/spec/selector", SELECTOR):
        return
    selector = review.object.selector("/spec/selector")
    assert selector is not None
    for pod in report.or_skip([T_1], "Pods", lambda: list(PODS.each())) or []:
        spec = pods.in_object(pod, "Pod")
        if spec and pod.matches("/metadata/labels", selector):
            for container in spec.containers(pod, "/image"):
                report.add(T_1, "spec.selector", str(container.row[0]))


def test_an_update_touches_what_differs_for_the_go_type() -> None:
    def pod(name: str, app: str, image: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "a", "labels": {"app": app}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c", "image": image}]}}

    def budget(selector: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"selector": selector}}

    cluster = [pod("x", "shop", "i"), pod("y", "cart", "j")]
    shop = {"matchLabels": {"app": "shop"}}
    for new, old, images in [
        (shop, None, ["i"]),
        ({**shop, "matchExpressions": []}, shop, []),
        (shop, {}, ["i"]),
    ]:
        found = evaluate(POLICY, budget(new), old=None if old is None else budget(old), cluster=cluster)
        assert [violation.message for violation in found.violations] == images


def test_a_case_inherits_the_subject_that_it_fixes(tmp_path: Path) -> None:
    pod = "{apiVersion: a.io/v1, kind: Thing, metadata: {name: a}}"
    (tmp_path / "T-1.yaml").write_text(
        f"rule: T-1\nreject:\n- {{name: no label, create: {pod}, with: {{/a: 1}}, message: m, fixed: {{/b: 2}}}}\n"
        "accept:\n- {name: a label, fixes: no label, with: {/b: 2}}\n"
    )
    [accepted, rejected] = cases_of(str(tmp_path))
    assert accepted.entry["with"] == {"/a": 1, "/b": 2} and "message" not in accepted.entry
    assert rejected.entry["with"] == {"/a": 1}


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("create: {apiVersion: v1, kind: Pod}", None),
        ("create: {apiVersion: v1, kind: Service}, matches: false", None),
        ("create: {apiVersion: v1, kind: Service}", "vacuous: T-1 does not evaluate the request"),
        ("delete: {apiVersion: v1, kind: Pod}", "vacuous"),
        ('create: {apiVersion: v1, kind: Pod}, settings: {rules: {T-1: "off"}}', "vacuous"),
        ("create: {apiVersion: v1, kind: Pod}, matches: false", "it has `matches: false`, and T-1 evaluates the request"),
    ],
)
def test_accepted_cases_are_evaluated_unless_they_say_otherwise(tmp_path: Path, case: str, why: str | None) -> None:
    (tmp_path / "T-1.yaml").write_text(f"rule: T-1\naccept:\n- {{name: a, {case}}}\n")
    target = Target(versions=["v1"], resources=["pods"], kind="Pod")
    policy = Policy(name="t", version="1.0.0", title="t", rules=[Rule("T-1", "t", level=DENY, on={target: [CREATE]})])
    policy.evaluate(target)(lambda review, report: None)
    [found] = cases_of(str(tmp_path))
    if why is None:
        found.check(policy)
    else:
        with pytest.raises(AssertionError, match=re.escape(why)):
            found.check(policy)


FIXED: list[tuple[Any, list[Fix], Any]] = [
    ({"a": {"x": 1, "y": 2}}, [Fix.safe("f").set("/b/c~1d", 1).rename_key("/a/x", "z").remove("/a/y")], {"a": {"z": 1}, "b": {"c/d": 1}}),
    ({"l": [1], "m": []}, [Fix.safe("f").insert("/l/-", 2), Fix.safe("f").insert("/l/0", 0), Fix.safe("f").insert("/m/-", 1)], {"l": [1, 2], "m": [1]}),
    ({"l": [1, 2, 3]}, [Fix.safe("f").remove("/l/0"), Fix.safe("f").remove("/l/1"), Fix.safe("f").set("/m", 1)], {"l": [2, 3], "m": 1}),
    ({"a": None}, [Fix.safe("f").set("/a/b/c", True)], {"a": {"b": {"c": True}}}),
    ({"a": 1}, [Fix.safe("f").set("/a", 2), Fix.safe("f").set("/a", 3)], {"a": 2}),
    ({"a": 1}, [Fix.safe("f").rename_key("/a", "b"), Fix.safe("f").set("/b", 3)], {"b": 1}),
]


@pytest.mark.parametrize(("value", "fixes", "expected"), FIXED)
def test_fixes_are_applied_together_unless_they_conflict(value: Any, fixes: list[Fix], expected: Any) -> None:
    apply_fixes(value, [fix.record() for fix in fixes])
    assert value == expected


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ({"a": 1}, Fix.safe("f").set("/a/b", 1)),
        ({"a": 1}, Fix.safe("f").remove("/b")),
        ({"l": []}, Fix.safe("f").insert("/l/1", 1)),
        ({"a": 1, "b": 2}, Fix.safe("f").rename_key("/a", "b")),
        ({"l": []}, Fix.safe("f").set("/l/0", 1)),
    ],
)
def test_a_fix_that_does_not_fit_fails_the_case(value: Any, fix: Fix) -> None:
    with pytest.raises(AssertionError, match='the fix "f" cannot be applied'):
        apply_fixes(value, [fix.record()])
