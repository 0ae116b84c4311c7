"""Cluster state of native tests: answers queries from the objects of a test, as the host does.

A policy sees only the declared fields, so that a test fails if a declaration lacks one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import host
from ..cluster import ClusterRead
from ..host import NativeError
from ..plain import MISSING, Plain, found
from ..policy import Policy
from .request import plural

_ALWAYS = (
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/labels",
    "/metadata/resourceVersion",
    "/metadata/deletionTimestamp",
)


class _Reason:
    def __init__(self, reason: str) -> None:
        self.value = reason


class ReadError_NotDeclared(_Reason):  # noqa: N801, as componentize-py names it
    """The resource, or the index, is not declared."""


class ReadError_Invalid(_Reason):  # noqa: N801
    """A selector is invalid."""


class _Name:
    def __init__(self, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace, name


class _SampleResult:
    def __init__(self, objects: list[Plain], complete: bool) -> None:
        self.objects, self.complete = objects, complete


def _key(value: dict[str, Any]) -> tuple[bytes, bytes]:
    metadata = value.get("metadata") or {}
    return str(metadata.get("namespace") or "").encode(), str(metadata.get("name") or "").encode()


def _group_of(value: dict[str, Any]) -> str:
    return str(value.get("apiVersion", "")).rpartition("/")[0]


def _keep(value: Any, tokens: list[str], of: Any, names_only: bool = False) -> Any:
    """`of` with the value at the tokens of `value`."""
    if not tokens:
        return dict.fromkeys(value, True) if names_only and isinstance(value, dict) else value
    first, rest = tokens[0].replace("~1", "/").replace("~0", "~"), tokens[1:]
    if isinstance(value, dict):
        of = of if isinstance(of, dict) else {}
        for name in value if tokens[0] == "*" else [first] if first in value else []:
            of[name] = _keep(value[name], rest, of.get(name), names_only)
        return of
    if isinstance(value, list) and tokens[0] == "*":
        of = of if isinstance(of, list) else [None] * len(value)
        return [_keep(item, rest, kept, names_only) for item, kept in zip(value, of, strict=True)]
    return of


def _texts(value: Any, tokens: list[str]) -> list[str]:
    """The texts at the tokens of an index."""
    if not tokens:
        return [value] if isinstance(value, str) else []
    first, rest = tokens[0], tokens[1:]
    if first == "*":
        below = value if isinstance(value, list) else value.values() if isinstance(value, dict) else []
        return [text for item in below for text in _texts(item, rest)]
    if first == "#" and not rest:
        return [*value] if isinstance(value, dict) else []
    if "{" in first and not rest:
        import re

        if not isinstance(value, dict):
            return []
        text = first.replace("~1", "/").replace("~0", "~")
        part = lambda m: value.get(m[1]) if isinstance(value.get(m[1]), str) else ""  # noqa: E731
        return [re.sub(r"\{([^}]*)\}", part, text)]
    below = found(value, "/" + first)
    return [] if below is MISSING else _texts(below, rest)


def _selects(selector: Any, labels: dict[str, str]) -> bool:
    """Whether a label selector selects labels."""
    if any(labels.get(name) != value for name, value in (selector.get("matchLabels") or {}).items()):
        return False
    for expression in selector.get("matchExpressions") or []:
        name, values = expression["key"], expression.get("values") or []
        holds = {
            "In": lambda: labels.get(name) in values,  # noqa: B023
            "NotIn": lambda: labels.get(name) not in values,  # noqa: B023
            "Exists": lambda: name in labels,  # noqa: B023
            "DoesNotExist": lambda: name not in labels,  # noqa: B023
        }.get(expression.get("operator"))
        if holds is None:
            raise NativeError(ReadError_Invalid(f"{expression.get('operator')!r} is not a valid label selector operator"))
        if not holds():
            return False
    return True


def _labels(value: dict[str, Any]) -> dict[str, str]:
    return (value.get("metadata") or {}).get("labels") or {}


class Cluster:
    """Cluster state for a policy, with the functions of the contract."""

    def __init__(self, policy: Policy, objects: Sequence[dict[str, Any]], settings: dict[str, Any]) -> None:
        self.policy, self.settings = policy, settings
        self.objects = sorted((self._whole(value) for value in objects), key=_key)

    @staticmethod
    def _whole(value: dict[str, Any]) -> dict[str, Any]:
        if "gitVersion" in value and "kind" not in value:
            return {
                "apiVersion": "opgate.dev/v1alpha1",
                "kind": "ServerVersion",
                "metadata": {"name": "kubernetes"},
                **value,
            }
        return json.loads(json.dumps(value))

    def of(self, resource: Any) -> tuple[ClusterRead, Sequence[dict[str, Any]]]:
        """The declaration of a resource, and the kept parts of its objects."""
        wanted = (resource.group, resource.version, resource.resource)
        for read in (read for rule in self.policy.rules for read in rule.reads):
            if (read.group, read.version, read.resource) == wanted:
                return read, [self._projected(value, read) for value in self.objects if self._is_read(value, read)]
        raise NativeError(ReadError_NotDeclared("not declared"))

    def _is_read(self, value: dict[str, Any], read: ClusterRead) -> bool:
        if plural(str(value.get("kind", ""))) != read.resource or _group_of(value) != read.group:
            return False
        if read.namespace is not None:
            named = found(self.settings, read.namespace.pointer)
            if _key(value)[0].decode() != (named if isinstance(named, str) else read.namespace.default):
                return False
        return not read.label_selector or _selects(json.loads(read.label_selector), _labels(value))

    @staticmethod
    def _projected(value: dict[str, Any], read: ClusterRead) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for pointer in (*_ALWAYS, *read.fields):
            kept = _keep(value, pointer.split("/")[1:], kept)
        for pointer in read.keys:
            kept = _keep(value, pointer.split("/")[1:], kept, names_only=True)
        indexes = {i.name: (i, _texts(value, i.field.split("/")[1:])) for i in read.indexes}
        values: dict[str, set[str]] = {}
        for name, (index, texts) in indexes.items():
            split = [part for text in texts for part in (text.split(index.separator) if index.separator else [text])]
            values[name] = {part.strip() for part in split if part.strip()} if index.separator else set(split)
        return {"object": kept, "indexes": values}

    def _select(self, resource: Any, query: Any) -> Sequence[dict[str, Any]]:
        _, objects = self.of(resource)
        after = None if query.after is None else (query.after.namespace.encode(), query.after.name.encode())
        selected = []
        for entry in objects:
            value = entry["object"]
            holds = (
                (query.namespace is None or _key(value)[0].decode() == query.namespace)
                and (query.label_selector is None or _selects(json.loads(query.label_selector), _labels(value)))
                and (after is None or _key(value) > after)
            )
            for match in query.matches:
                if match.index not in entry["indexes"]:
                    raise NativeError(ReadError_NotDeclared(f"there is no index {match.index!r}"))
                has = entry["indexes"][match.index]
                holds = holds and (bool(has & set(match.values)) or (match.include_missing and not has))
            if holds:
                selected.append(value)
        return selected[: query.limit]

    def get(self, resource: Any, namespace: str, name: str) -> Plain | None:
        """As in the contract."""
        _, objects = self.of(resource)
        for entry in objects:
            if _key(entry["object"]) == (namespace.encode(), name.encode()):
                return Plain(entry["object"])
        return None

    def list(self, resource: Any, query: Any) -> Sequence[Plain]:
        """As in the contract."""
        return [Plain(value) for value in self._select(resource, query)]

    def names(self, resource: Any, query: Any) -> Sequence[_Name]:
        """As in the contract."""
        return [_Name(key[0].decode(), key[1].decode()) for key in map(_key, self._select(resource, query))]

    def sample(self, resource: Any, limit: int) -> _SampleResult:
        """As in the contract."""
        if not any(rule.samples for rule in self.policy.rules):
            raise NativeError(ReadError_NotDeclared("no rule declares samples"))
        of_kind = [
            value
            for value in self.objects
            if plural(str(value.get("kind", ""))) == resource.resource and _group_of(value) == resource.group
        ]
        return _SampleResult([Plain(value) for value in of_kind[:limit]], len(of_kind) <= limit)


@contextmanager
def during(cluster: Cluster | None) -> Iterator[None]:
    """Answers queries from the cluster while the block runs."""
    before, host.native = host.native, host.no_cluster() if cluster is None else cluster
    try:
        yield
    finally:
        host.native = before
