"""Runs the cases of rules: what each rule accepts and rejects, `cases/<RULE>.yaml`.

    cases/IMG-1.yaml ─┐
                      ├─▶ Case ─▶ judge ─▶ findings, skipped rules, notes and reason, compared with what the case says
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

_REQUEST = {"subResource": "sub_resource"}


@dataclass
class Case:
    """A case of a rule."""

    rule: str
    name: str
    expects: str
    """`accept`, `reject` or `skip`."""
    entry: dict[str, Any]
    objects: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.rule}: {self.name}"

    def verdict(self, policy: Policy) -> Any:
        """What the policy answers."""
        from . import judge

        entry = self.entry
        new = old = None
        if "create" in entry:
            new = self._named(entry["create"])
        elif "update" in entry:
            old, new = map(self._named, entry["update"])
        elif "delete" in entry:
            old = self._named(entry["delete"])
        else:
            raise AssertionError(f"{self}: there is nothing to judge: write create, update or delete")
        for pointer, value in entry.get("with", {}).items():
            _change(old if new is None else new, pointer, value)
        for pointer, value in entry.get("with-old", {}).items():
            _change(old, pointer, value)
        cluster = entry.get("cluster")
        return judge(
            policy,
            new,
            old=old,
            settings=copy.deepcopy(entry.get("settings") or {}),
            cluster=None if cluster in (None, "none") else [self._named(value) for value in cluster],
            **{_REQUEST.get(key, key): value for key, value in entry.get("request", {}).items()},
        )

    def check(self, policy: Policy) -> None:
        """Fails with an `AssertionError` if the policy answers anything else than the case says."""
        verdict = self.verdict(policy)
        levels = {rule.id: "deny" if rule.level is DENY else "warn" for rule in policy.rules}
        found = sorted((v.rule, v.message, v.field, v.level.name.lower()) for v in verdict.violations)
        expected = sorted(
            (
                e.get("rule", self.rule),
                e.get("message", e.get("starts", "")),
                e.get("at"),
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
        assert {s.rule for s in verdict.skipped} == skipped, f"{self}: skipped {verdict.skipped}, not {skipped}"
        assert verdict.reason == self.entry.get("reason"), f"{self}: the reason is {verdict.reason!r}"
        notes = {note.key: note.value for note in verdict.audit_annotations}
        assert notes == self.entry.get("notes", notes), f"{self}: the notes are {notes}"

    def _expected(self) -> list[dict[str, Any]]:
        entry = self.entry
        one = [entry] if "message" in entry or "starts" in entry else []
        return one + entry.get("findings", []) + entry.get("also", [])

    def _named(self, value: Any) -> Any:
        if isinstance(value, str):
            assert value in self.objects, f"{self}: objects.yaml has no {value}"
            value = self.objects[value]
        return copy.deepcopy(value)


def _change(value: Any, pointer: str, new: Any) -> None:
    """Puts a value at a pointer; None removes."""
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


def read(folder: str) -> list[Case]:
    """All cases of a folder, in the order of their files."""
    path = Path(folder)
    shared = path / "objects.yaml"
    objects = yaml.safe_load(shared.read_text(encoding="utf-8")) if shared.is_file() else {}
    found = []
    for file in sorted(path.glob("*.yaml")):
        if file == shared:
            continue
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        common = {key: content[key] for key in ("settings", "cluster") if key in content}
        for expects in ("accept", "reject", "skip"):
            for entry in content.get(expects) or []:
                found.append(Case(content["rule"], entry["name"], expects, common | entry, objects))
    assert found, f"{folder}: no cases"
    return found
