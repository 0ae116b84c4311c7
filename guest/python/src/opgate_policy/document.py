"""Documents: JSON that the host keeps and the policy asks about.

    Document ─▶ handle ─┬─ in a component: the host's
                        └─ in native tests: `testing.handle`, over plain dicts

`value` gives a part as plain dicts, lists, texts and numbers, parsed where it is asked for. The other functions take a JSON pointer and
are one call of the host each, whatever the size of the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any

from .declared import Access, Part


class Kind(Enum):
    """The type of the value at a pointer. The values are those of the contract."""

    MISSING = 0
    NULL = 1
    BOOLEAN = 2
    NUMBER = 3
    TEXT = 4
    LIST = 5
    OBJECT = 6


_KINDS = tuple(Kind)


def escape(name: str) -> str:
    """A name as a token of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def checked(pointer: str) -> str:
    """The pointer. One without a slash at its beginning leads nowhere, so it is a mistake of the policy."""
    if pointer and pointer[0] != "/":
        raise ValueError(f"'{pointer}' is not a JSON pointer: write '/{pointer}'")
    return pointer


def _integer(digits: str) -> int | float:
    # An API server reads integers beyond 64 bits as floating point numbers. Python would take long for long ones.
    return int(digits) if len(digits) < 20 else float(digits)


def _whole(value: Any) -> Any:
    """The value, with U+FFFD in the place of halves of surrogate pairs, as an API server reads them."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(name): _whole(item) for name, item in value.items()}
    return value


def parsed(text: bytes) -> Any:
    """JSON as plain values, read as an API server does."""
    value = json.loads(text, parse_int=_integer)
    return _whole(value) if b"\\ud" in text or b"\\uD" in text else value


class Document:
    """A JSON document, or a part of one. Pointers are relative to it; `""` is the document itself.

    A pointer to nothing is no error: the answer is None, False, an empty list or `Kind.MISSING`. Of an object of the cluster, a read of
    what the `ClusterRead` does not declare raises `UndeclaredRead`.
    """

    __slots__ = ("handle", "part")

    def __init__(self, handle: Any, part: Part | None = None) -> None:
        self.handle, self.part = handle, part

    def _checked(self, pointer: str, access: Access) -> str:
        checked(pointer)
        if self.part is not None:
            self.part.check(pointer, access)
        return pointer

    def value(self, pointer: str = "") -> Any:
        """The value as plain dicts, lists, texts, numbers and booleans; None if there is none, or `null`."""
        if self.part is not None:
            return self.part.value(self.handle, checked(pointer), parsed)
        raw = self.handle.raw(checked(pointer))
        return None if raw is None else parsed(raw)

    def kind(self, pointer: str = "") -> Kind:
        """The type of the value."""
        return _KINDS[self.handle.kind(self._checked(pointer, Access.KIND)).value]

    def has(self, pointer: str) -> bool:
        """Whether there is a value other than `null`."""
        return self.handle.kind(self._checked(pointer, Access.KIND)).value > 1

    def text(self, pointer: str = "") -> str | None:
        """The text, if there is one."""
        return self.handle.text(self._checked(pointer, Access.SCALAR))

    def boolean(self, pointer: str = "") -> bool | None:
        """The boolean, if there is one."""
        return self.handle.boolean(self._checked(pointer, Access.BOOLEAN))

    def integer(self, pointer: str = "") -> int | None:
        """The number, if it is an integer of 64 bits."""
        return self.handle.integer(self._checked(pointer, Access.SCALAR))

    def number(self, pointer: str = "") -> float | None:
        """The number, if there is one."""
        return self.handle.number(self._checked(pointer, Access.SCALAR))

    def length(self, pointer: str = "") -> int | None:
        """The number of elements of a list or members of an object."""
        return self.handle.length(self._checked(pointer, Access.MEMBERS))

    def keys(self, pointer: str = "") -> list[str]:
        """Names of an object's members, in byte order."""
        return self.handle.keys(self._checked(pointer, Access.MEMBERS))

    def at(self, pointer: str) -> Document | None:
        """The value as a document of its own. The host copies nothing."""
        found = self.handle.at(self._checked(pointer, Access.KIND))
        return None if found is None else Document(found, self.part and self.part.below(pointer))

    def items(self, pointer: str = "") -> Iterator[Document]:
        """The elements of a list as documents. Two calls of the host for each; `rows` makes one for all."""
        if self.kind(pointer) is Kind.LIST:
            for index in range(self.length(pointer) or 0):
                item = self.at(f"{pointer}/{index}")
                if item is not None:
                    yield item

    def texts(self, pointer: str = "") -> list[str]:
        """The texts in a list, without elements of other kinds."""
        return [text for (text,) in self.rows(pointer, "") if isinstance(text, str)]

    def rows(self, pointer: str, *columns: str) -> list[tuple[str | bool | None, ...]]:
        """For each element of a list the texts and booleans at the columns, pointers relative to the element; None for anything else.
        One call of the host for all."""
        if not columns:
            return []
        if self.part is not None:
            for column in columns:
                if checked(column):
                    self.part.check(f"{checked(pointer)}/*{column}", Access.CELL)
                else:
                    self.part.check(checked(pointer), Access.MEMBERS)
        table = self.handle.table(checked(pointer), [checked(column) for column in columns])
        texts, at = table.texts.encode(), 0
        cells: list[str | bool | None] = []
        for cell in table.cells:
            found = getattr(cell, "value", None)
            if found is None or isinstance(found, bool):
                cells.append(found)
            elif type(cell).__name__ == "Cell_Text":
                cells.append(texts[at : at + found].decode())
                at += found
            else:
                cells.append(None)
        width = len(columns)
        return [tuple(cells[start : start + width]) for start in range(0, len(cells), width)]

    def raw(self, pointer: str = "") -> bytes | None:
        """The JSON text as it was received."""
        return self.handle.raw(self._checked(pointer, Access.WHOLE))

    def size(self, pointer: str = "") -> int | None:
        """The number of bytes that `raw` would give, without a copy."""
        return self.handle.size(self._checked(pointer, Access.KIND))

    def equal(self, pointer: str, other: Document, other_pointer: str) -> bool:
        """Whether two values are equal for Kubernetes whatever their Go type: the order of members and the notation of numbers do not
        matter; `null` and an empty list are the same as nothing."""
        return self.handle.equal(
            self._checked(pointer, Access.WHOLE), other.handle, other._checked(other_pointer, Access.WHOLE)
        )

    @staticmethod
    def parse(text: str) -> Document:
        """A document from JSON text, for example that of an annotation. Raises `ValueError` with line and column."""
        return Document(_parse(text))


def _parse(text: str) -> Any:
    from . import wit

    if wit.IN_COMPONENT:
        from componentize_py_types import Err  # type: ignore[import-not-found]
        from wit_world.imports.document import Document as Handle  # type: ignore[import-not-found]

        try:
            return Handle.parse(text)
        except Err as error:
            raise ValueError(error.value) from None
    from .testing.handle import Handle as Native

    return Native(parsed(text.encode()))
