"""Runs the cases of rules: the requests that each rule accepts and rejects, `cases/<RULE>.yaml`.

    cases/IMG-1.yaml ─┐
                      ├─▶ Case ─▶ evaluate ─▶ violations, skipped rules, audit annotations and reason, compared with the case
    cases/objects.yaml┘

The format is that of `opgate policy test`, which runs the same files through the component.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..declare import DENY
from ..policy import Policy
from .edits import apply_fixes
from .evaluate import evaluate, is_evaluated

_REQUEST = {"subResource": "sub_resource"}
# Members for the expected outcome: a case with `fixes` does not inherit these.
_OUTCOME = (
    "field", "level", "message", "messagePrefix", "violations", "otherViolations", "skipped", "auditAnnotations", "reason", "fixed",
)
# Members of which a case with `fixes` replaces entries of the same name.
_MERGED = ("with", "withOld", "files", "patch", "directory", "catalog", "request")


@dataclass
class Case:
    """A case of a rule."""

    rule: str
    name: str
    expects: str
    """`accept`, `reject` or `skip`."""
    entry: dict[str, Any]
    objects: dict[str, Any]
    ignores_others: bool = False

    def __str__(self) -> str:
        return f"{self.rule}: {self.name}"

    def verdict(self, policy: Policy) -> Any:
        """The verdict of the policy."""
        request = self._request()
        cluster = self.entry.get("cluster")
        return evaluate(policy, cluster=None if cluster in (None, "none") else [self._named(value) for value in cluster], **request)

    def _request(self) -> dict[str, Any]:
        """The request and the settings, as arguments of `evaluate`."""
        entry = self.entry
        new = old = None
        if "create" in entry:
            new = self._named(entry["create"])
        elif "update" in entry:
            old, new = map(self._named, entry["update"])
        elif "delete" in entry:
            old = self._named(entry["delete"])
        else:
            raise AssertionError(f"{self}: there is no request: write create, update or delete")
        for pointer, value in entry.get("with", {}).items():
            _change(old if new is None else new, pointer, value)
        for pointer, value in entry.get("withOld", {}).items():
            _change(old, pointer, value)
        return {
            "object": new,
            "old": old,
            "settings": copy.deepcopy(entry.get("settings") or {}),
            **{_REQUEST.get(key, key): value for key, value in entry.get("request", {}).items()},
        }

    def check(self, policy: Policy) -> None:
        """Raises an `AssertionError` unless the verdict is that of the case."""
        self._check_evaluated(policy)
        verdict = self.verdict(policy)
        levels = {rule.id: "deny" if rule.level is DENY else "warn" for rule in policy.rules}
        found = sorted((v.rule, v.message, v.field, v.level.name.lower()) for v in verdict.violations if self._counts(v.rule))
        expected = sorted(
            (
                e.get("rule", self.rule),
                e.get("message", e.get("messagePrefix", "")),
                e.get("field"),
                e.get("level", levels.get(e.get("rule", self.rule))),
                "message" not in e,
            )
            for e in self._expected()
        )
        same = len(found) == len(expected) and all(
            f[0] == e[0]
            and (f[1] == e[1] or (e[4] and f[1].startswith(e[1])))
            and (e[2] is None or f[2] == e[2])
            and f[3] == e[3]
            for f, e in zip(found, expected, strict=True)
        )
        assert same, f"{self}:\n  expected {[e[:4] for e in expected]}\n  found    {found}"
        skipped = set(self.entry.get("skipped", [])) | ({self.rule} if self.expects == "skip" else set())
        actual = {s.rule for s in verdict.skipped if self._counts(s.rule) or s.rule in skipped}
        assert actual == skipped, f"{self}: skipped {verdict.skipped}, not {skipped}"
        assert verdict.reason == self.entry.get("reason"), f"{self}: the reason is {verdict.reason!r}"
        annotations = {annotation.key: annotation.value for annotation in verdict.audit_annotations}
        assert annotations == self.entry.get("auditAnnotations", annotations), f"{self}: the audit annotations are {annotations}"
        self._check_fixed([v.fix for v in verdict.violations if v.rule == self.rule and v.fix is not None], self._request()["object"])

    def _check_evaluated(self, policy: Policy) -> None:
        """The rule evaluates an accepted case, which would pass otherwise whatever the rule does, unless the case has `matches: false`."""
        if self.expects != "accept":
            return
        rule = next((rule for rule in policy.rules if rule.id == self.rule), None)
        assert rule is not None, f"{self}: the policy has no rule {self.rule}"
        matches, found = self.entry.get("matches", True), is_evaluated(policy, rule, **self._request())
        vacuous = f"vacuous: {self.rule} does not evaluate the request; change the request, or write `matches: false`"
        why = vacuous if matches else f"it has `matches: false`, and {self.rule} evaluates the request"
        assert found is matches, f"{self}: {why}"

    def _check_fixed(self, fixes: list[Any], new: Any) -> None:
        """Every fix of the rule fits the object. `fixed` is the object after them: changes as in `with`, an object, or its name."""
        fixed = self.entry.get("fixed")
        assert fixes or fixed is None, f"{self}: fixed: no violation of the rule has a fix"
        if not fixes or new is None:
            return
        found = copy.deepcopy(new)
        apply_fixes(found, fixes)
        if fixed is None:
            return
        expected = copy.deepcopy(new)
        if isinstance(fixed, dict) and fixed and all(name.startswith("/") for name in fixed):
            for pointer, value in fixed.items():
                _change(expected, pointer, value)
        else:
            expected = self._named(fixed)
        assert found == expected, f"{self}: fixed:\n  expected {expected}\n  found    {found}"

    def _counts(self, rule: str) -> bool:
        """Whether violations of a rule count: `otherRules: ignored` ignores those of rules that the case does not name."""
        return not self.ignores_others or rule == self.rule or any(e.get("rule") == rule for e in self._expected())

    def _expected(self) -> list[dict[str, Any]]:
        entry = self.entry
        one = [entry] if "message" in entry or "messagePrefix" in entry else []
        return one + entry.get("violations", []) + entry.get("otherViolations", [])

    def _named(self, value: Any) -> Any:
        if isinstance(value, str):
            assert value in self.objects, f"{self}: objects.yaml has no {value}"
            value = self.objects[value]
        return copy.deepcopy(value)


def _change(value: Any, pointer: str, new: Any) -> None:
    """Sets a value at a pointer; None removes."""
    *parents, last = (token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])
    for token in parents:
        value = value[int(token)] if isinstance(value, list) else value.setdefault(token, {})
    if isinstance(value, list):
        index = int(last)
        value[index : index + 1] = [] if new is None else [copy.deepcopy(new)]
    elif new is None:
        value.pop(last, None)
    else:
        value[last] = copy.deepcopy(new)


def _inherited(entry: dict[str, Any], rejected: list[dict[str, Any]], file: Path) -> dict[str, Any]:
    """A case with the subject of the rejected one that it fixes."""
    fixed = next((other for other in rejected if other["name"] == entry["fixes"]), None)
    assert fixed is not None, f"{file}: {entry['name']}: there is no rejected case {entry['fixes']}"
    subject = {name: value for name, value in fixed.items() if name not in _OUTCOME}
    return subject | {name: subject.get(name, {}) | value if name in _MERGED else value for name, value in entry.items()}


def read(directory: str) -> list[Case]:
    """All cases of a directory, in the order of their files."""
    path = Path(directory)
    shared = path / "objects.yaml"
    objects = yaml.safe_load(shared.read_text(encoding="utf-8")) if shared.is_file() else {}
    found = []
    for file in sorted(path.glob("*.yaml")):
        if file == shared:
            continue
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        common = {key: content[key] for key in ("settings", "cluster") if key in content}
        ignores_others = content.get("otherRules") == "ignored"
        for expects in ("accept", "reject", "skip"):
            for written in content.get(expects) or []:
                entry = _inherited(written, content.get("reject") or [], file) if "fixes" in written else written
                found.append(Case(content["rule"], entry["name"], expects, common | entry, objects, ignores_others))
    assert found, f"{directory}: no cases"
    return found
