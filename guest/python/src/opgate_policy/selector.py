"""Label selectors of Kubernetes. The Rust SDK does the same in guest/sdk/src/selector.rs, and both hold the cases in
guest/cases/helpers.json.

    Selector.of(value), Selector.of_map(labels), document.selector(pointer) ─▶ Selector ─▶ matches(labels)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .label_names import encoded, label_key_error, label_value_error

_MAX_LISTED_VALUES, _MAX_SHOWN_BYTES = 64, 1_024
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


class SelectorError(ValueError):
    """A selector that an API server rejects: the reason, in the words of Kubernetes."""


class Selector:
    """A label selector that Kubernetes accepts. Without requirements it matches all objects."""

    __slots__ = ("_requirements",)

    def __init__(self) -> None:
        self._requirements: list[tuple[str, str, frozenset[str]]] = []

    @staticmethod
    def of(value: Any) -> Selector | None:
        """The selector of a `metav1.LabelSelector` as plain values, None for None. Raises `SelectorError` if an API server rejects it."""
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong("the selector", "an object")
        selector = Selector()
        selector._add_labels(value.get("matchLabels"), "matchLabels")
        expressions = value.get("matchExpressions")
        if expressions is None:
            return selector
        if not isinstance(expressions, list):
            raise _wrong("matchExpressions", "a list")
        for index, expression in enumerate(expressions):
            selector._add_expression(expression, f"matchExpressions[{index}]")
        return selector

    @staticmethod
    def of_map(labels: Any) -> Selector | None:
        """The selector of a map of labels, as of a Service. None if the map is None or empty: it selects nothing."""
        selector = Selector()
        selector._add_labels(labels, "the selector")
        return None if selector.is_empty else selector

    def _add_labels(self, labels: Any, name: str) -> None:
        if labels is None:
            return
        if not isinstance(labels, dict):
            raise _wrong(name, "an object")
        for key in sorted(labels, key=encoded):
            self._add(key, "In", [_text(labels[key], f"a value of {name}")])

    def _add_expression(self, expression: Any, name: str) -> None:
        if expression is not None and not isinstance(expression, dict):
            raise _wrong(name, "an object")
        members = expression or {}
        key = _text(members.get("key"), f"{name}.key")
        operator = _text(members.get("operator"), f"{name}.operator")
        values = members.get("values")
        if values is not None and not isinstance(values, list):
            raise _wrong(f"{name}.values", "a list")
        texts = [_text(value, f"{name}.values[{index}]") for index, value in enumerate(values or [])]
        if operator not in _OPERATORS:
            raise SelectorError(f"{_quoted(operator)} is not a valid label selector operator")
        self._add(key, operator, texts)

    def _add(self, key: str, operator: str, values: list[str]) -> None:
        errors = []
        why = label_key_error(key)
        if why is not None:
            errors.append(f"key: Invalid value: {_quoted(key)}: {why}")
        if operator in ("In", "NotIn"):
            if not values:
                errors.append("values: Invalid value: []string(nil): for 'in', 'notin' operators, values set can't be empty")
        elif values:
            listed = ", ".join(map(_quoted, values[:_MAX_LISTED_VALUES]))
            errors.append(f"values: Invalid value: []string{{{listed}}}: values set must be empty for exists and does not exist")
        count = 0
        for index, value in enumerate(values):
            error = label_value_error(value) if count < _MAX_LISTED_VALUES else None
            if error is not None:
                errors.append(f"values[{index}][{_truncated(key)}]: Invalid value: {_quoted(value)}: {error}")
                count += 1
        if errors:
            raise SelectorError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        self._requirements.append((key, operator, frozenset(values)))

    @property
    def is_empty(self) -> bool:
        """Whether it has no requirements, and so matches all objects."""
        return not self._requirements

    def matches(self, labels: Mapping[str, Any] | None) -> bool:
        """Whether an object with these labels is selected. None is no labels."""
        return all(_holds(operator, values, _label(labels, key)) for key, operator, values in self._requirements)

    def __str__(self) -> str:
        """The notation of `kubectl -l`."""
        return ",".join(_shown(key, operator, values) for key, operator, values in self._requirements)


def _holds(operator: str, values: frozenset[str], label: str | None) -> bool:
    if operator == "In":
        return label is not None and label in values
    if operator == "NotIn":
        # As in Kubernetes, an object without the label satisfies `NotIn`.
        return label is None or label not in values
    return (label is not None) == (operator == "Exists")


def _label(labels: Any, key: str) -> str | None:
    if not isinstance(labels, Mapping) or key not in labels:
        return None
    value = labels[key]
    # As in Go, `null` is the empty text.
    if value is None:
        return ""
    return value if isinstance(value, str) else None


def _shown(key: str, operator: str, values: frozenset[str]) -> str:
    if operator in ("Exists", "DoesNotExist"):
        return key if operator == "Exists" else f"!{key}"
    return f"{key} {operator.lower()} ({','.join(sorted(values, key=encoded))})"


def _wrong(what: str, expected: str) -> SelectorError:
    return SelectorError(f"{what} is not {expected}")


def _text(value: Any, name: str) -> str:
    """A text. Go reads a missing one and `null` as empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(name, "a text")
    return value


def _truncated(text: str) -> str:
    """The part of a text that an error shows."""
    return encoded(text)[:_MAX_SHOWN_BYTES].decode(errors="ignore")


def _quoted(text: str) -> str:
    def escaped(character: str) -> str:
        is_control = character < " " or "\x7f" <= character <= "\x9f"
        return _ESCAPES.get(character) or (f"\\u{{{ord(character):x}}}" if is_control else character)

    return f'"{"".join(map(escaped, _truncated(text)))}"'
