"""The descriptor and the verdicts of the SDK: the same as in Rust. `python -m pytest`, with the package on the path."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from opgate_policy import (
    CREATE,
    DELETE,
    DENY,
    UPDATE,
    WARN,
    ClusterRead,
    Fix,
    Index,
    IndexMatch,
    NoCluster,
    Policy,
    Rule,
    Target,
    Unavailable,
    log,
    wit,
)
from opgate_policy.build import BuildError, component_path, contract, docs, named, section
from opgate_policy.declared import UndeclaredRead
from opgate_policy.testing import Cluster, document, evaluate
from opgate_policy.testing.store import during
from opgate_policy.values import parsed

THING = Target(groups=["a.io"], versions=["v1"], resources=["things"], kind="Thing")
MAPS = ClusterRead(version="v1", resource="configmaps", fields=["/data/a"], indexes=[Index("b", "/data/b", ",")])


def rule(id: str, **more: object) -> Rule:
    return Rule(id, f"title of {id}\n\ntext", **{"level": DENY, "on": {THING: [CREATE, UPDATE]}, **more})  # type: ignore[arg-type]


def policy(*rules: Rule, **more: object) -> Policy:
    made = Policy(name="p", version="1.0.0", title="t", rules=rules, **more)  # type: ignore[arg-type]
    made.evaluate(THING)(lambda review, report: EVALUATE[-1](review, report))
    return made


EVALUATE: list = [lambda review, report: None]
OBJECT = {"apiVersion": "a.io/v1", "kind": "Thing", "metadata": {"name": "a"}}


def verdict(made: Policy, function: object, **more: object):  # type: ignore[no-untyped-def]
    EVALUATE.append(function)
    try:
        return evaluate(made, OBJECT, **more)  # type: ignore[arg-type]
    finally:
        EVALUATE.pop()


def test_rules_are_in_the_order_of_their_numbers() -> None:
    made = policy(rule("A-100"), rule("A-99"), rule("B"), rule("A-1"))
    assert [r.id for r in made.describe().rules] == ["A-1", "A-99", "A-100", "B"]


def test_operations_of_the_same_rules_are_one_match() -> None:
    made = policy(rule("A-1"), rule("A-2", on={THING: [CREATE, UPDATE, DELETE]}))
    found = [([o.name for o in m.operations], m.rules, m.route) for m in made.describe().matches]
    assert found == [(["CREATE", "UPDATE"], ["A-1", "A-2"], 0), (["DELETE"], ["A-2"], 0)]


def test_rules_have_names_and_sources() -> None:
    made = policy(rule("A-1", name="one-rule", sources=["here", "there"]))
    assert [(r.name, r.sources) for r in made.describe().rules] == [("one-rule", ["here", "there"])]
    for more in ({"name": "One rule"}, {"name": "a" * 51}, {"sources": ["a"] * 17}):
        with pytest.raises(ValueError):
            rule("A-1", **more)
    with pytest.raises(ValueError, match="two rules have the name a"):
        policy(rule("A-1", name="a"), rule("A-2", name="a"))


def test_common_settings_follow_from_the_rules() -> None:
    schema = json.loads(policy(rule("A-1", no_exemptions=True, reads=[MAPS]), settings={"x": {}}).describe().settings_schema)
    assert list(schema["properties"]) == ["ratcheting", "exempt", "messages", "rules", "x"]
    assert "no rule but A-1 applies" in schema["properties"]["exempt"]["description"]


def test_violations_share_the_limit_of_a_verdict() -> None:
    one, other = rule("A-1"), rule("A-2")

    def many(review: object, report) -> None:  # type: ignore[no-untyped-def]
        for index in range(1_000):
            report.add(one, f"f{index}", "x")
        report.add(other, "", "y")

    found = verdict(policy(one, other), many).violations
    assert len(found) == 256 and found[-1].rule == "A-2"
    assert found[-2].message == "745 more violations of this rule are omitted; x"


def test_a_violation_has_the_changes_of_its_fix() -> None:
    one = rule("A-1")
    fix = Fix.needs_review("change all").set("/metadata/labels/app", "a").insert("/list/-", [1]).remove("/old")
    fix.rename_key("/from", "to").move_file("/spec/files/0", "b.yaml")

    def look(_: object, report) -> None:  # type: ignore[no-untyped-def]
        report.add(one, "", "x", fix=fix)
        report.add(one, "", "y")

    first, second = verdict(policy(one), look).violations
    assert (first.fix.title, first.fix.safety.name, second.fix) == ("change all", "UNSAFE", None)
    assert [(type(edit).__name__, edit.value) for edit in first.fix.edits] == [
        ("Edit_Set", wit.ValueEdit("/metadata/labels/app", '"a"')),
        ("Edit_Insert", wit.ValueEdit("/list/-", "[1]")),
        ("Edit_Remove", "/old"),
        ("Edit_RenameKey", wit.RenameEdit("/from", "to")),
        ("Edit_MoveFile", wit.MoveEdit("/spec/files/0", "b.yaml")),
    ]
    with pytest.raises(ValueError, match="'spec' is not a JSON pointer"):
        Fix.safe("x").set("spec", 1)


@pytest.mark.parametrize(
    ("settings", "level", "expected"),
    [
        ({}, None, ["DENY"]),
        ({}, WARN, ["WARN"]),
        ({"rules": {"A-1": "warn"}}, None, ["WARN"]),
        ({"rules": {"A-1": "off"}}, None, []),
        ({"rules": {"A-1": "deny"}}, WARN, ["DENY"]),
        ({"strict": True}, WARN, ["DENY"]),
        ({"exempt": {"users": ["jo"]}}, None, []),
        ({"exempt": {"groups": ["g"]}}, None, []),
    ],
)
def test_levels(settings: dict, level: object, expected: list[str]) -> None:
    one = rule("A-1", denies_with=["/strict"])
    found = verdict(policy(one), lambda _, r: r.add(one, "", "x", level=level), settings=settings, user="jo", groups=["g"])
    assert [v.level.name for v in found.violations] == expected


def test_texts_are_cut_to_what_the_host_takes() -> None:
    one = rule("A-1")
    found = verdict(policy(one), lambda _, r: r.add(one, "é" * 600, "\ud800" + "é" * 3_000)).violations[0]
    assert len(found.field.encode()) == 1_024 and len(found.message.encode()) == 4_095


def test_a_pointer_without_a_slash_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="^'spec/a' is not a JSON pointer: write '/spec/a'$"):
        document({"spec": {"a": "b"}}).text("spec/a")


def test_values_are_read_as_an_api_server_does() -> None:
    assert parsed(b'["\\ud800", 1' + b"0" * 5_000 + b"]") == ["\ufffd", float("inf")]


def test_equality_is_that_of_kubernetes() -> None:
    for left, right, same in [
        ({"a": None, "b": [], "c": 1}, {"c": 1.0}, True),
        ({"a": {}}, {}, False),
        ({"a": ""}, {}, False),
        ([1, 2], [2, 1], False),
        (True, 1, False),
    ]:
        assert document(left).equal("", document(right), "") is same


def test_the_cluster_shows_what_is_declared() -> None:
    one = rule("A-1", reads=[MAPS])
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": n, "namespace": "n"}, "data": {"a": "1", "b": b}}
        for n, b in (("x", "p, q"), ("w", "q"))
    ]

    def ask(_: object, report) -> None:  # type: ignore[no-untyped-def]
        found = MAPS.get("n", "x")
        assert found.text("/data/a") == "1"
        with pytest.raises(UndeclaredRead, match="add \"/data/b\" to `fields`"):
            found.has("/data/b")
        assert MAPS.names(matches=[IndexMatch("b", ["q"])]) == [("n", "w"), ("n", "x")]
        assert [o.text("/metadata/name") for o in MAPS.each(matches=[IndexMatch("b", ["p"])])] == ["x"]
        report.add(one, "", "asked")

    assert len(verdict(policy(one), ask, cluster=objects).violations) == 1


def test_rules_without_an_answer_are_skipped() -> None:
    one = rule("A-1", reads=[MAPS])

    def asks(error: type[Exception]):  # type: ignore[no-untyped-def]
        def ask() -> None:
            raise error("why")

        return lambda _, r: r.or_skip([one], "ConfigMaps", ask)

    warns = {"messages": {"skippedRules": "warn"}}
    for error, reason in ((NoCluster, ""), (Unavailable, ": why")):
        found = verdict(policy(one), asks(error), settings=warns)
        assert [s.reason for s in found.skipped] == [f"the cluster's ConfigMaps are not available{reason}"]
        assert found.violations[0].message == f"A-1 was not evaluated: the cluster's ConfigMaps are not available{reason}"


def test_lines_of_the_log_are_kept() -> None:
    log.taken()
    log.warn("a warning")
    assert log.taken() == ["WARN a warning"]


def test_types_are_those_of_the_contract() -> None:
    wit = contract().read_text(encoding="utf-8")
    source = Path(contract.__code__.co_filename).with_name("wit.py").read_text(encoding="utf-8")
    assert "package opgate:policy@0.7.0;" in wit
    for name, body in re.findall(r"^    record ([a-z-]+) \{(.*?)^    \}", wit[: wit.index("interface request")], re.M | re.S):
        fields = re.findall(r"^ {8}%?([a-z-]+):", body, re.M)
        of = re.search(rf"class {name.title().replace('-', '')}:.*?\n((?:        [a-z_]+: .*\n)+)", source)
        assert of, name
        assert re.findall(r"^ {8}([a-z_]+):", of[1], re.M) == [field.replace("-", "_") for field in fields], name


def test_the_directory_names_policy_and_component(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="pyproject.toml"):
        named(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.opgate]\npolicy = "a:P"\n')
    (tmp_path / "opgate.yaml").write_text("policies:\n  - name: a\n  - module: 'dist/a.wasm' # here\n  - {module: x}\n")
    assert named(tmp_path) == "a:P" and component_path(tmp_path) == tmp_path / "dist/a.wasm"
    page = docs(policy(rule("A-1")))
    assert page == b"## A-1\ntext\n\n" and section(page).endswith(page)


PODS = ClusterRead(version="v1", resource="pods", fields=["/spec/containers/*/image"], keys=["/data"])

_OF = "of v1/pods, which its read does not declare: add"
_PARTS = "of v1/pods, of which its read declares only parts: add"
_BY = ", or read the parts by their pointers"
_ALL = "the policy read all of an object of v1/pods, of which its read declares only some fields: read these by their pointers"


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (lambda it: it.text("/spec/nodeName"), f"the policy read '/spec/nodeName' {_OF} \"/spec/nodeName\" to `fields`"),
        (lambda it: it.has("/spec/nodeName"), f"the policy read '/spec/nodeName' {_OF} \"/spec/nodeName\" to `fields`"),
        (lambda it: it.value()["spec"]["nodeName"], f"the policy read '/spec/nodeName' {_OF} \"/spec/nodeName\" to `fields`"),
        (
            lambda it: (it.value().get("spec") or {}).get("nodeName"),
            f"the policy read '/spec/nodeName' {_OF} \"/spec/nodeName\" to `fields`",
        ),
        (lambda it: "nodeName" in it.value("/spec"), f"the policy read '/spec/nodeName' {_OF} \"/spec/nodeName\" to `fields`"),
        (lambda it: it.at("/spec").text("/nodeName"), f"the policy read '/spec/nodeName' {_OF} \"/spec/nodeName\" to `fields`"),
        (
            lambda it: it.value("/spec/containers")[0]["name"],
            f"the policy read '/spec/containers/0/name' {_OF} \"/spec/containers/*/name\" to `fields`",
        ),
        (
            lambda it: it.rows("/spec/containers", "/image", "/name"),
            f"the policy read '/spec/containers/*/name' {_OF} \"/spec/containers/*/name\" to `fields`",
        ),
        (lambda it: it.texts("/spec/args"), f"the policy read '/spec/args' {_OF} \"/spec/args\" to `fields`"),
        (lambda it: it.text("/kind"), f"the policy read '/kind' {_OF} \"/kind\" to `fields`"),
        (lambda it: it.raw("/spec"), f"the policy read all of '/spec' {_PARTS} \"/spec\" to `fields`{_BY}"),
        (lambda it: list(it.value("/spec")), f"the policy read all of '/spec' {_PARTS} \"/spec\" to `fields`{_BY}"),
        (lambda it: dict(it.value("/spec")), f"the policy read all of '/spec' {_PARTS} \"/spec\" to `fields`{_BY}"),
        (lambda it: {**it.value("/spec")}, f"the policy read all of '/spec' {_PARTS} \"/spec\" to `fields`{_BY}"),
        (lambda it: json.dumps(it.value()), _ALL),
        (lambda it: it.raw(), _ALL),
        (
            lambda it: it.text("/data/k"),
            "the policy read the value of '/data/k' of v1/pods, of which its read declares only the name: add \"/data/k\" to `fields`",
        ),
    ],
)
def test_undeclared_read_names_the_declaration(look: Any, expected: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "a", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
        "data": {"k": "secret"},
    }
    with during(Cluster(policy(rule("A-1", reads=[PODS])), [pod], {})):
        found = PODS.get("a", "p")
        assert found.rows("/spec/containers", "/image") == [("i",)]
        assert [it["image"] for it in found.value("/spec")["containers"]] == ["i"]
        assert found.value("/data") == {"k": True}
        assert found.value()["metadata"]["labels"] == {"app": "x"}
        assert found.value("/metadata/deletionTimestamp") is None
        with pytest.raises(UndeclaredRead) as error:
            look(found)
    assert str(error.value) == expected
