"""Plain values with the functions of the host's handles, for native tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .values import Kind

MISSING = object()


@dataclass
class Cell_Text:  # noqa: N801, as componentize-py names it
    """A text of a table, by its length."""

    value: int


@dataclass
class _Cell:
    value: Any = None


@dataclass
class _Table:
    cells: list[Any]
    texts: str


def _tokens(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def found(value: Any, pointer: str) -> Any:
    """The value at a pointer, or `MISSING`."""
    for token in _tokens(pointer):
        if isinstance(value, dict):
            value = value.get(token, MISSING)
        elif isinstance(value, list) and token.isascii() and token.isdigit() and str(int(token)) == token:
            value = value[int(token)] if int(token) < len(value) else MISSING
        else:
            return MISSING
    return value


def kind_of(value: Any) -> Kind:
    """The type of a value."""
    if value is MISSING:
        return Kind.MISSING
    if value is None:
        return Kind.NULL
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, int | float):
        return Kind.NUMBER
    if isinstance(value, str):
        return Kind.TEXT
    return Kind.LIST if isinstance(value, list) else Kind.OBJECT


def _is_nothing(value: Any) -> bool:
    return value is MISSING or value is None or value == []


def equal(left: Any, right: Any) -> bool:
    """Equality for Kubernetes whatever the Go type is."""
    kinds = (kind_of(left), kind_of(right))
    if kinds == (Kind.OBJECT, Kind.OBJECT):
        return all(equal(left.get(name, MISSING), right.get(name, MISSING)) for name in left.keys() | right.keys())
    if kinds == (Kind.LIST, Kind.LIST):
        return len(left) == len(right) and all(map(equal, left, right))
    if kinds[0] is kinds[1]:
        return bool(left == right)
    return _is_nothing(left) and _is_nothing(right)


class Plain:
    """A handle of a plain value."""

    def __init__(self, value: Any) -> None:
        # A value that is not JSON is a mistake of the test.
        json.dumps(value)
        self._value = value

    def _at(self, pointer: str) -> Any:
        return found(self._value, pointer)

    def kind(self, pointer: str) -> Kind:
        return kind_of(self._at(pointer))

    def text(self, pointer: str) -> str | None:
        value = self._at(pointer)
        return value if isinstance(value, str) else None

    def boolean(self, pointer: str) -> bool | None:
        value = self._at(pointer)
        return value if isinstance(value, bool) else None

    def integer(self, pointer: str) -> int | None:
        value = self._at(pointer)
        is_whole = kind_of(value) is Kind.NUMBER and value == value // 1 and -(1 << 63) <= value < 1 << 63
        return int(value) if is_whole else None

    def number(self, pointer: str) -> float | None:
        value = self._at(pointer)
        return float(value) if kind_of(value) is Kind.NUMBER else None

    def length(self, pointer: str) -> int | None:
        value = self._at(pointer)
        return len(value) if isinstance(value, list | dict) else None

    def keys(self, pointer: str) -> list[str]:
        value = self._at(pointer)
        return sorted(value, key=str.encode) if isinstance(value, dict) else []

    def table(self, pointer: str, columns: list[str]) -> _Table:
        value = self._at(pointer)
        rows = value if isinstance(value, list) else []
        values = [found(row, column) for row in rows for column in columns]
        cells: list[Any] = []
        for cell in values:
            if isinstance(cell, str):
                cells.append(Cell_Text(len(cell.encode())))
            else:
                cells.append(_Cell(cell if isinstance(cell, bool) else None))
        return _Table(cells, "".join(cell for cell in values if isinstance(cell, str)))

    def at(self, pointer: str) -> Plain | None:
        value = self._at(pointer)
        return None if value is MISSING else Plain(value)

    def raw(self, pointer: str) -> bytes | None:
        value = self._at(pointer)
        return None if value is MISSING else json.dumps(value, ensure_ascii=False).encode()

    def size(self, pointer: str) -> int | None:
        raw = self.raw(pointer)
        return None if raw is None else len(raw)

    def equal(self, pointer: str, other: Plain, other_pointer: str) -> bool:
        return equal(self._at(pointer), other._at(other_pointer))
