"""The declared fields of cluster objects.

The host keeps no other fields, so an undeclared field would look like a missing one. Such a read raises, whatever the object holds. The
host rejects it as well; here the error has its location in the source of the policy.

    Part (Declaration, base) ─┬─ check(pointer, access) ─▶ UndeclaredRead: the field to declare
                              └─ value(handle, pointer) ─▶ plain values, `Partial` for objects kept in part
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

ALWAYS = (
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/labels",
    "/metadata/deletionTimestamp",
)
_MAX_POINTER = 256
_MAX_KNOWN = 1_000


class Declaration(Protocol):
    """The members of a `ClusterRead` that this module reads."""

    group: str
    version: str
    resource: str
    fields: Sequence[str]
    keys: Sequence[str]


class UndeclaredRead(Exception):
    """A read of a field that the `ClusterRead` does not declare."""


class Access(Enum):
    """How a policy reads a value."""

    KIND = "kind"
    """Its kind, the size of its kept part, or a handle for further reads."""
    BOOLEAN = "boolean"
    SCALAR = "scalar"
    """A text or a number."""
    MEMBERS = "members"
    """The names or the number of its members or elements."""
    WHOLE = "whole"
    CELL = "cell"
    """A cell of a table: its text or its boolean."""


class _Position(Enum):
    UNRELATED, ABOVE, EACH, SAME, CHILD, BELOW = range(6)


def _tokens(pointer: str) -> list[str]:
    return pointer.split("/")[1:]


def _position(wanted: list[str], found: list[str]) -> _Position:
    """The position of a pointer relative to a pattern."""
    for token, other in zip(wanted, found, strict=False):
        if token not in ("*", other):
            return _Position.UNRELATED
    if len(wanted) > len(found):
        return _Position.EACH if wanted[len(found)] == "*" else _Position.ABOVE
    if len(wanted) == len(found):
        return _Position.SAME
    return _Position.CHILD if len(wanted) + 1 == len(found) else _Position.BELOW


class _Declared:
    """The patterns of a declaration, with a cache of answers: policies read the elements of a list by the same pointers."""

    def __init__(self, fields: tuple[str, ...], keys: tuple[str, ...]) -> None:
        self.fields = [_tokens(field) for field in (*ALWAYS, *fields)]
        self.keys = [_tokens(field) for field in keys]
        self._known: dict[tuple[Access, str], str | None] = {}

    def lacking(self, pointer: str, access: Access) -> str | None:
        """The kept part of a value if a read needs more: `nothing`, `parts` or `name`. None if the declaration covers the read."""
        question = (access, pointer)
        if question in self._known:
            return self._known[question]
        answer = self._lacking(pointer, access)
        if len(self._known) < _MAX_KNOWN:
            self._known[question] = answer
        return answer

    def _lacking(self, pointer: str, access: Access) -> str | None:
        if access is Access.CELL:
            scalar = self._lacking(pointer, Access.BOOLEAN)
            return scalar and (self._lacking(pointer, Access.MEMBERS) and scalar)
        found = _tokens(pointer)
        above = (_Position.ABOVE, _Position.EACH)
        positions = [_position(wanted, found) for wanted in self.fields]
        if any(position in (_Position.SAME, _Position.CHILD, _Position.BELOW) for position in positions):
            return None
        of_names = [_position(wanted, found) for wanted in self.keys]
        if _Position.SAME in of_names and access in (Access.KIND, Access.MEMBERS, Access.WHOLE):
            return None
        if _Position.CHILD in of_names and access in (Access.KIND, Access.BOOLEAN, Access.WHOLE):
            return None
        positions += of_names
        is_in_part, has_all_members = any(position in above for position in positions), _Position.EACH in positions
        if is_in_part and access is Access.KIND:
            return None
        if has_all_members and access is Access.MEMBERS:
            return None
        if has_all_members and access is Access.WHOLE and self._lacking(f"{pointer}/*", access) is None:
            return None
        if is_in_part:
            return "nothing" if access in (Access.BOOLEAN, Access.SCALAR) else "parts"
        return "name" if _Position.CHILD in of_names else "nothing"


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_POINTER else f"{text[:_MAX_POINTER]}…"


class Part:
    """A stored object, which has only the declared fields, or a part of it."""

    __slots__ = ("base", "declared", "read")

    def __init__(self, read: Declaration, declared: _Declared | None = None, base: str = "") -> None:
        self.read, self.base = read, base
        self.declared = declared or _Declared(tuple(read.fields), tuple(read.keys))

    def below(self, pointer: str) -> Part | None:
        """The declared fields of the value at a pointer; None if all of it is declared."""
        base = self.base + pointer
        return None if self.declared.lacking(base, Access.SCALAR) is None else Part(self.read, self.declared, base)

    def lacks(self, pointer: str, access: Access) -> bool:
        """Whether a read of the value at a pointer needs undeclared fields."""
        return self.declared.lacking(self.base + pointer, access) is not None

    def check(self, pointer: str, access: Access) -> None:
        """Raises if a read of the value at a pointer needs undeclared fields."""
        kept = self.declared.lacking(self.base + pointer, access)
        if kept is not None:
            raise UndeclaredRead(self._words(self.base + pointer, kept))

    def _words(self, pointer: str, kept: str) -> str:
        of = "/".join(filter(None, (self.read.group, self.read.version, self.read.resource)))
        shown = _shortened(pointer)
        wanted = json.dumps(_shortened(re.sub(r"/[0-9]+(?=/|$)", "/*", pointer)), ensure_ascii=False)
        add = f"add {wanted} to `fields`"
        if kept == "nothing":
            return f"the policy read '{shown}' of {of}, which its read does not declare: {add}"
        if kept == "name":
            return f"the policy read the value of '{shown}' of {of}, of which its read declares only the name: {add}"
        if not pointer:
            return f"the policy read all of an object of {of}, of which its read declares only some fields: read these by their pointers"
        return f"the policy read all of '{shown}' of {of}, of which its read declares only parts: {add}, or read the parts by their pointers"

    def value(self, handle: Any, pointer: str, parsed: Callable[[bytes], Any]) -> Any:
        """The value as plain values; an object that is kept in part as `Partial`."""
        if not self.lacks(pointer, Access.WHOLE):
            raw = handle.raw(pointer)
            return None if raw is None else parsed(raw)
        self.check(pointer, Access.KIND)
        kind = handle.kind(pointer).value
        if kind == 5:
            self.check(pointer, Access.MEMBERS)
            return [self.value(handle, f"{pointer}/{index}", parsed) for index in range(handle.length(pointer) or 0)]
        return Partial(self, handle, pointer, parsed) if kind == 6 else None


_parts: dict[int, tuple[Declaration, Part]] = {}


def part_of(read: Declaration) -> Part:
    """Whole objects of this declaration."""
    known = _parts.get(id(read))
    if known is None or known[0] is not read:
        known = _parts[id(read)] = (read, Part(read))
    return known[1]


_NO_NAME = object()


class Partial(dict):  # type: ignore[type-arg]
    """An object that is kept in part: it reads a member at its first use, and raises if the member is not declared."""

    def __init__(self, part: Part, handle: Any, pointer: str, parsed: Callable[[bytes], Any]) -> None:
        # Not empty: code in C that lists the members of a dict does not call `items` for an empty one.
        super().__init__({_NO_NAME: None})
        self._of = (part, handle, pointer, parsed)

    def _pointer(self, name: str) -> str:
        return f"{self._of[2]}/{name.replace('~', '~0').replace('/', '~1')}"

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        part, handle, _, _ = self._of
        pointer = self._pointer(name)
        part.check(pointer, Access.KIND)
        return bool(handle.kind(pointer).value)

    def __missing__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        part, handle, _, parsed = self._of
        value = part.value(handle, self._pointer(name), parsed)
        super().__setitem__(name, value)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict."""
        return self[name] if name in self else default

    def _all(self) -> dict[str, Any]:
        """All members, if all of them are kept."""
        part, handle, pointer, _ = self._of
        part.check(pointer, Access.MEMBERS)
        return {name: self[name] for name in handle.keys(pointer)}

    def __iter__(self) -> Any:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __bool__(self) -> bool:
        # True, so that `value.get("spec") or {}` is this object.
        return True

    def __eq__(self, other: object) -> bool:
        return self._all() == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<the declared parts of {self._of[2] or 'an object'!r}>"

    def keys(self) -> Any:
        """As of a dict."""
        return self._all().keys()

    def values(self) -> Any:
        """As of a dict."""
        return self._all().values()

    def items(self) -> Any:
        """As of a dict."""
        return self._all().items()

    def copy(self) -> dict[Any, Any]:
        """As of a dict."""
        return self._all()

    def __or__(self, other: Any) -> Any:
        return self._all() | other

    def __ror__(self, other: Any) -> Any:
        return other | self._all()
