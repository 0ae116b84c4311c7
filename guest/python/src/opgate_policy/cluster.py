"""Questions about other objects of the cluster. A policy declares what it reads as a `ClusterRead`, and asks it.

    ClusterRead.get, each, names, any ─┐
    sample ────────────────────────────┴─▶ host ─┬─ in a component: the imports of the contract
                                                 └─ in native tests: the objects that the test gives (`testing`)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import wit
from .declare import ClusterRead
from .declared import part_of
from .document import Document

_NAME = 4 << 10
_DOCUMENTS, _NAMES, _SAMPLED = 256, 16_384, 500


class ReadError(Exception):
    """Why there is no answer. `Report.answer` knows what to do about it."""


class Absent(ReadError):
    """There is no cluster to ask, or the rules that need the resource are off. Skip the rule."""


class Unavailable(ReadError):
    """There is a cluster, and these objects are not read, or cannot be read now: the reason, one clause. Skip the rule."""


class Invalid(ReadError):
    """The question is invalid: the error in a selector, in the words of Kubernetes."""


@dataclass(frozen=True)
class Match:
    """A condition on an index of the `ClusterRead`."""

    index: str
    """Name of the index."""
    values: Sequence[str] = ()
    """One of these values; at most 65,536."""
    absent: bool = False
    """Whether objects without a value match, too."""


@dataclass(frozen=True)
class Sample:
    """Some objects of a kind, whole."""

    objects: list[Document]
    """In the order in which the API server lists them."""
    complete: bool
    """Whether these are all objects of the kind."""


@dataclass
class _Query:
    """The query of the contract, for native tests."""

    namespace: str | None
    labels: str | None
    matches: list[Any]
    after: Any
    limit: int


@dataclass
class _ObjectName:
    namespace: str
    name: str


def _host() -> Any:
    if wit.IN_COMPONENT:
        # Missing in a policy that reads nothing.
        from wit_world.imports import cluster  # type: ignore[import-not-found]

        return cluster
    from .testing import store

    return store


def _ask(resource: str, name: str, *arguments: Any) -> Any:
    """Asks the host. An error of it becomes a `ReadError`."""
    try:
        return getattr(_host(), name)(*arguments)
    except Exception as error:
        why = getattr(error, "value", None)
        of = {"Absent": Absent, "Invalid": Invalid, "NotGranted": Unavailable, "Unavailable": Unavailable}
        case = type(why).__name__.removeprefix("ReadError_")
        if case == "Denied":
            raise RuntimeError(f"{resource}: {why.value}") from None
        if case not in of:
            raise
        raise of[case](why.value) from None


def _resource(read: ClusterRead) -> Any:
    return wit.GroupVersionResource(read.group, read.version, read.resource)


def _query(
    after: tuple[str, str] | None,
    limit: int,
    namespace: str | None = None,
    labels: str | bytes | dict[str, Any] | None = None,
    matches: Sequence[Match] = (),
) -> Any:
    if isinstance(labels, bytes):
        labels = labels.decode()
    elif isinstance(labels, dict):
        labels = json.dumps(labels)
    if namespace is not None and len(namespace.encode(errors="replace")) > _NAME:
        namespace = ""  # No object has such a name, and the host takes no longer ones.
    host = _host() if wit.IN_COMPONENT else None
    match_of = host.IndexMatch if host else Match
    name_of = host.ObjectName if host else _ObjectName
    query_of = host.Query if host else _Query
    return query_of(
        namespace,
        labels,
        [match_of(match.index, list(match.values), match.absent) for match in matches],
        None if after is None else name_of(*after),
        limit,
    )


def get(read: ClusterRead, namespace: str, name: str) -> Document | None:
    """See `ClusterRead.get`."""
    if max(len(text.encode(errors="replace")) for text in (namespace, name)) > _NAME:
        namespace = name = ""
    found = _ask(read.resource, "get", _resource(read), namespace, name)
    return None if found is None else Document(found, part_of(read))


def each(read: ClusterRead, **query: Any) -> Iterator[Document]:
    """See `ClusterRead.each`."""
    after = None
    while True:
        page = [Document(found, part_of(read)) for found in _ask(read.resource, "list", _resource(read), _query(after, _DOCUMENTS, **query))]
        if len(page) >= _DOCUMENTS:
            last = page[-1]
            after = (last.text("/metadata/namespace") or "", last.text("/metadata/name") or "")
        else:
            after = None
        # Each object is a handle, and a call may have 1,000: those that were visited are released.
        page.reverse()
        while page:
            yield page.pop()
        if after is None:
            return


def names(read: ClusterRead, **query: Any) -> list[tuple[str, str]]:
    """See `ClusterRead.names`."""
    found: list[tuple[str, str]] = []
    while True:
        after = found[-1] if found else None
        page = _ask(read.resource, "names", _resource(read), _query(after, _NAMES, **query))
        found.extend((name.namespace, name.name) for name in page)
        if len(page) < _NAMES:
            return found


def is_any(read: ClusterRead, **query: Any) -> bool:
    """See `ClusterRead.any`."""
    return bool(_ask(read.resource, "names", _resource(read), _query(None, 1, **query)))


def sample(group: str, version: str, resource: str, limit: int = _SAMPLED) -> Sample:
    """The first objects of a resource, whole, at most 500. For rules with `samples=True`.

    The first question ends the call, and the host calls the policy again with the answer: ask early, and only if the verdict depends on
    it. Raises `Absent` or `Unavailable`: skip the rule, with the text of the error as the reason.
    """
    if any(len(text.encode(errors="replace")) > _NAME for text in (group, version, resource)):
        return Sample([], True)
    try:
        of = wit.GroupVersionResource(group, version, resource)
        found = _ask(resource, "sample", of, min(max(limit, 1), _SAMPLED))
    except Absent:
        raise Absent("the cluster's custom resources are not available") from None
    except Invalid as error:
        raise Unavailable(str(error)) from None
    return Sample([Document(handle) for handle in found.objects], found.complete)
