"""Fixes of violations: the changes of an object after which it does not violate a rule.

    report.add(APP_1, "metadata.labels", "set the label app", fix=Fix.safe("add the label").set("/metadata/labels/app", "shop"))

The host checks a fix, and ignores one that is not valid: a fix never changes the decision.
"""

from __future__ import annotations

import json
from typing import Any

from . import wit
from .values import checked


class Fix:
    """Changes of an object. Pointers are JSON pointers relative to the object of the review, and the changes apply one after another."""

    def __init__(self, title: str, safety: wit.FixSafety) -> None:
        self._title, self._safety = title, safety
        self._edits: list[wit.Edit] = []

    @classmethod
    def safe(cls, title: str) -> Fix:
        """A fix that needs no review: the object means the same, or there is only one way to satisfy the rule. The title says what it does,
        as an imperative."""
        return cls(title, wit.FixSafety.SAFE)

    @classmethod
    def needs_review(cls, title: str) -> Fix:
        """A fix that a person needs to review: it changes what the object does, or guesses a value."""
        return cls(title, wit.FixSafety.UNSAFE)

    def set(self, pointer: str, value: Any) -> Fix:
        """Replaces or adds a value. Objects on the way that are missing are created."""
        return self._with(wit.Edit_Set(wit.ValueEdit(checked(pointer), _json(value))))

    def insert(self, pointer: str, value: Any) -> Fix:
        """Inserts an element in a list: before the one at the pointer, or at the end with `/list/-`."""
        return self._with(wit.Edit_Insert(wit.ValueEdit(checked(pointer), _json(value))))

    def remove(self, pointer: str) -> Fix:
        """Removes a member or an element."""
        return self._with(wit.Edit_Remove(checked(pointer)))

    def rename_key(self, pointer: str, name: str) -> Fix:
        """Renames a member, in its place."""
        return self._with(wit.Edit_RenameKey(wit.RenameEdit(checked(pointer), name)))

    def move_file(self, pointer: str, path: str) -> Fix:
        """Moves a file of a bundle (`/spec/files/3`), or one of its documents, to another path in the directory."""
        return self._with(wit.Edit_MoveFile(wit.MoveEdit(checked(pointer), path)))

    def _with(self, edit: wit.Edit) -> Fix:
        self._edits.append(edit)
        return self

    def record(self) -> wit.Fix:
        """The record of the contract."""
        return wit.Fix(self._title, self._safety, self._edits)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
