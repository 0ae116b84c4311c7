"""Plain values: types of JSON values, JSON pointers, and JSON as an API server reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from typing import Any


class Kind(Enum):
    """The type of the value at a pointer. The values are those of the contract."""

    MISSING = 0
    NULL = 1
    BOOLEAN = 2
    NUMBER = 3
    TEXT = 4
    LIST = 5
    OBJECT = 6


def escape(name: str) -> str:
    """A name as a token of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def checked(pointer: str) -> str:
    """The pointer. A pointer without a slash at its beginning finds nothing, so it is a mistake of the policy."""
    if pointer and pointer[0] != "/":
        raise ValueError(f"'{pointer}' is not a JSON pointer: write '/{pointer}'")
    return pointer


def texts(member: str, values: Sequence[str]) -> tuple[str, ...]:
    """The list of texts of a declaration. Raises `TypeError` for any other value."""
    if isinstance(values, str):
        raise TypeError(f"{member} is a list of texts: write [{values!r}]")
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{member} is a list of texts, not of {type(value).__name__}")
    return tuple(values)


def _integer(digits: str) -> int | float:
    # An API server reads integers beyond 64 bits as floating point numbers. Python needs much time for long ones.
    return int(digits) if len(digits) < 20 else float(digits)


def _whole(value: Any) -> Any:
    """The value with U+FFFD for halves of surrogate pairs, as an API server reads them."""
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
