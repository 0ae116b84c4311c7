"""The fixes of a case's violations, applied to its object: as the host does in common/edit, for native tests. Files of bundles are not
moved: `opgate policy test` runs cases with files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from .. import wit
from ..plain import MISSING

_INDEX = re.compile(r"0|[1-9][0-9]*")


def apply_fixes(value: Any, fixes: Sequence[wit.Fix]) -> None:
    """Applies the fixes that can be applied together, in their order. Raises `AssertionError` if one does not fit the object."""
    applied: list[wit.Fix] = []
    for fix in fixes:
        if any(_conflict(earlier, fix) for earlier in applied):
            continue
        applied.append(fix)
        for edit in fix.edits:
            why = _apply(value, edit)
            assert why is None, f'the fix "{fix.title}" cannot be applied: {why}'


def _tokens(edit: Any) -> list[str]:
    pointer = edit.value if isinstance(edit.value, str) else edit.value.pointer
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _kind(edit: Any) -> str:
    return type(edit).__name__.removeprefix("Edit_")


def _conflict(left: wit.Fix, right: wit.Fix) -> bool:
    return any(_edits_conflict(one, other) for one in left.edits for other in right.edits)


def _edits_conflict(one: Any, other: Any) -> bool:
    left, right = _tokens(one), _tokens(other)
    common = min(len(left), len(right))
    return left[:common] == right[:common] or _shifts(one, left, right) or _shifts(other, right, left)


def _shifts(edit: Any, own: list[str], other: list[str]) -> bool:
    """Whether an edit changes what another pointer leads to."""
    if not own:
        return True
    *around, last = own
    if other[: len(around)] != around:
        return False
    kind = _kind(edit)
    if kind == "Insert":
        return last != "-"
    if kind == "Remove":
        return bool(_INDEX.fullmatch(last))
    return kind == "RenameKey" and other[len(around) : len(around) + 1] == [edit.value.name]


def _child(value: Any, token: str) -> Any:
    if isinstance(value, dict):
        return value.get(token, MISSING)
    if isinstance(value, list) and _INDEX.fullmatch(token) and int(token) < len(value):
        return value[int(token)]
    return MISSING


def _apply(value: Any, edit: Any) -> str | None:
    """Applies an edit. Returns the reason if it does not fit."""
    kind, tokens = _kind(edit), _tokens(edit)
    if not tokens or kind == "MoveFile":
        return "native tests do not apply it"
    *before, last = tokens
    around = value
    for token in before:
        if kind == "Set" and isinstance(around, dict) and around.get(token) is None:
            around[token] = {}
        around = _child(around, token)
    if kind == "Insert":
        at = len(around) if last == "-" and isinstance(around, list) else int(last) if _INDEX.fullmatch(last) else -1
        if not isinstance(around, list) or not 0 <= at <= len(around):
            return "the value around it is not a list of that length"
        around.insert(at, json.loads(edit.value.value))
    elif kind == "Set":
        if not isinstance(around, dict) and _child(around, last) is MISSING:
            return "there is nothing around it"
        around[last if isinstance(around, dict) else int(last)] = json.loads(edit.value.value)
    elif _child(around, last) is MISSING:
        return "there is nothing at its pointer"
    elif kind == "Remove":
        del around[last if isinstance(around, dict) else int(last)]
    else:
        if last != edit.value.name and edit.value.name in around:
            return f'there is already a member "{edit.value.name}"'
        around[edit.value.name] = around.pop(last)
    return None
