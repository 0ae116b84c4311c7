"""Kubernetes semantic equality of values whose Go type is known.

`equality.Semantic.DeepEqual` compares decoded Go values, not JSON. Members that the type does not have make no difference. A missing field
that is not a pointer has its zero value. An empty list is the same as none. The Rust SDK does the same in guest/sdk/src/shape.rs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from .document import Document
from .values import Kind, escape

_NOTHING = (Kind.MISSING, Kind.NULL)


class Shape:
    """The Go type behind a JSON value."""

    __slots__ = ("_fields", "_item", "_kind")

    SCALAR: ClassVar[Shape]
    """A text, a boolean or a number: missing is the same as the zero value."""

    def __init__(self, kind: str, fields: Mapping[str, Shape] | None = None, item: Shape | None = None) -> None:
        for shape in (*(fields or {}).values(), *([item] if kind == "list" else [])):
            if not isinstance(shape, Shape):
                raise TypeError("write Shape.SCALAR, Shape.struct({…}), Shape.pointer({…}) or Shape.list(…)")
        self._kind, self._item = kind, item
        self._fields = tuple((fields or {}).items())

    @staticmethod
    def struct(fields: Mapping[str, Shape]) -> Shape:
        """A struct by value, with the shapes of its fields by JSON name."""
        return Shape("struct", fields)

    @staticmethod
    def pointer(fields: Mapping[str, Shape]) -> Shape:
        """A pointer to a struct: missing is not the same as `{}`."""
        return Shape("pointer", fields)

    @staticmethod
    def list(item: Shape) -> Shape:
        """A list: missing is the same as `[]`, and the order matters."""
        return Shape("list", item=item)

    def equal(self, left: Document, right: Document, pointer: str) -> bool:
        """Whether the values at one pointer in two documents are semantically equal."""
        is_whole = self._kind == "scalar" or (left.is_whole(pointer) and right.is_whole(pointer))
        return (is_whole and left.equal(pointer, right, pointer)) or self._differs_in_spelling_only(left, right, pointer)

    def _differs_in_spelling_only(self, left: Document, right: Document, pointer: str) -> bool:
        if self._kind == "scalar":
            return _is_zero(left, pointer) and _is_zero(right, pointer)
        kinds = (left.kind(pointer), right.kind(pointer))
        if self._kind == "list":
            return self._are_lists_equal(left, right, pointer, kinds)
        allowed = (Kind.OBJECT,) if self._kind == "pointer" else (*_NOTHING, Kind.OBJECT)
        return all(kind in allowed for kind in kinds) and all(
            shape.equal(left, right, f"{pointer}/{escape(name)}") for name, shape in self._fields
        )

    def _are_lists_equal(self, left: Document, right: Document, pointer: str, kinds: tuple[Kind, Kind]) -> bool:
        if _is_empty(left, pointer) and _is_empty(right, pointer):
            return True
        if self._item is None or kinds != (Kind.LIST, Kind.LIST):
            return False
        length = left.length(pointer) or 0
        return right.length(pointer) == length and all(
            self._item.equal(left, right, f"{pointer}/{index}") for index in range(length)
        )


Shape.SCALAR = Shape("scalar")


def _is_empty(document: Document, pointer: str) -> bool:
    kind = document.kind(pointer)
    return kind in _NOTHING or (kind is Kind.LIST and document.length(pointer) == 0)


def _is_zero(document: Document, pointer: str) -> bool:
    kind = document.kind(pointer)
    if kind is Kind.BOOLEAN:
        return document.boolean(pointer) is False
    if kind is Kind.NUMBER:
        return document.number(pointer) == 0
    if kind is Kind.TEXT:
        return document.text(pointer) == ""
    return kind in _NOTHING
