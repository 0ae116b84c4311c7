"""Documents: JSON that the host keeps and the policy queries.

    Document ─▶ handle ─┬─ in a component: the host's
                        └─ in native tests: `plain`, over plain dicts

`value` returns a part as plain dicts, lists, texts and numbers, parsed at the time of the call. The other functions take a JSON pointer and
are one call of the host each, whatever the size of the document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import wit
from .declared import Access, Part
from .selector import Selector
from .values import Kind, checked, parsed

if not wit.IN_COMPONENT:
    from .plain import Plain


_KINDS = tuple(Kind)


class Document:
    """A JSON document, or a part of one. Pointers are relative to it; `""` is the document itself.

    A pointer to a missing value is not an error: the answer is None, False, an empty list or `Kind.MISSING`. For a cluster object, a read
    of a field that the `ClusterRead` does not declare raises `UndeclaredRead`.
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
        """The value as a document. The host copies nothing."""
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
        """For each element of a list the texts and booleans at the columns, pointers relative to the element; None for any other value.
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

    def selector(self, pointer: str) -> Selector | None:
        """The label selector at a pointer, such as `/spec/selector`. None if there is none, or `null`. An empty selector matches all
        objects. Raises `SelectorError` if an API server rejects it."""
        return Selector.of(self.value(pointer))

    def map_selector(self, pointer: str) -> Selector | None:
        """The selector of a map of labels, such as `/spec/selector` of a Service. None if it is missing or empty: it selects nothing."""
        return Selector.of_map(self.value(pointer))

    def matches(self, pointer: str, selector: Selector) -> bool:
        """Whether the labels at a pointer, such as `/metadata/labels`, match a selector."""
        return selector.matches(self.value(pointer))

    def is_whole(self, pointer: str) -> bool:
        """Whether all of the value at a pointer is there: of a cluster object, only the declared fields are."""
        return self.part is None or not self.part.lacks(checked(pointer), Access.WHOLE)

    def raw(self, pointer: str = "") -> bytes | None:
        """The JSON text as it was received."""
        return self.handle.raw(self._checked(pointer, Access.WHOLE))

    def size(self, pointer: str = "") -> int | None:
        """The number of bytes that `raw` would return, without a copy."""
        return self.handle.size(self._checked(pointer, Access.KIND))

    def equal(self, pointer: str, other: Document, other_pointer: str) -> bool:
        """Whether two values are equal for Kubernetes whatever their Go type: the order of members and the notation of numbers do not
        matter; `null` and an empty list are the same as a missing value."""
        return self.handle.equal(
            self._checked(pointer, Access.WHOLE), other.handle, other._checked(other_pointer, Access.WHOLE)
        )

    @staticmethod
    def parse(text: str) -> Document:
        """A document from JSON text, for example that of an annotation. Raises `ValueError` with line and column."""
        return Document(_parse(text))


def _parse(text: str) -> Any:
    if wit.IN_COMPONENT:
        from componentize_py_types import Err  # type: ignore[import-not-found]
        from wit_world.imports.document import Document as Handle  # type: ignore[import-not-found]

        try:
            return Handle.parse(text)
        except Err as error:
            raise ValueError(error.value) from None
    return Plain(parsed(text.encode()))
