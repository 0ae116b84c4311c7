"""Cluster state. A policy declares its reads as `ClusterRead`, and queries them.

    ClusterRead.get, each, names, any ─┐
    sample ────────────────────────────┴─▶ host ─┬─ in a component: the imports of the contract
                                                 └─ in native tests: the objects of the test (`testing`)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import host, wit
from .declared import part_of
from .document import Document
from .values import texts

_MAX_NAME_BYTES = 4 << 10
_MAX_DOCUMENTS, _MAX_NAMES, _MAX_SAMPLE_OBJECTS = 256, 16_384, 500


class ReadError(Exception):
    """The reason why a query has no answer. `Report.or_skip` handles it."""


class NoCluster(ReadError):
    """There is no cluster state to query, or the rules that need the resource are off. Skip the rule."""


class Unavailable(ReadError):
    """There is a cluster, and the server does not read these objects, or cannot read them now: the reason, one clause. Skip the rule."""


class Invalid(ReadError):
    """The query is invalid: the error in a selector, in the words of Kubernetes."""


@dataclass(frozen=True)
class Setting:
    """A text that the settings may name, for example the name of a namespace."""

    pointer: str
    """JSON pointer into the settings."""
    default: str
    """Used if the settings have no text there."""


@dataclass(frozen=True)
class Index:
    """A value by which a policy finds cluster objects."""

    name: str
    """Its name in queries."""
    field: str
    """JSON pointer of a text, with `*` for every element of a list or member of an object."""
    separator: str = ""
    """If it is not empty, each text is a list with this separator."""


@dataclass(frozen=True)
class IndexMatch:
    """A condition on an index of the `ClusterRead`."""

    index: str
    """Name of the index."""
    values: Sequence[str] = ()
    """One of these values; at most 65,536."""
    include_missing: bool = False
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
    label_selector: str | None
    matches: list[Any]
    after: Any
    limit: int


@dataclass
class _ObjectName:
    namespace: str
    name: str


def _ask(resource: str, name: str, *arguments: Any) -> Any:
    """Calls the host. An error of it becomes a `ReadError`."""
    try:
        return getattr(host.cluster(), name)(*arguments)
    except Exception as error:
        reason = getattr(error, "value", None)
        of = {"NoCluster": NoCluster, "Invalid": Invalid, "NotGranted": Unavailable, "Unavailable": Unavailable}
        case = type(reason).__name__.removeprefix("ReadError_")
        if case == "NotDeclared":
            raise RuntimeError(f"{resource}: {reason.value}") from None
        if case not in of:
            raise
        raise of[case](reason.value) from None


def _is_too_long(*names: str) -> bool:
    """Whether the host does not accept a name. No object has a longer one."""
    return max(len(name.encode(errors="replace")) for name in names) > _MAX_NAME_BYTES


def _query(
    after: tuple[str, str] | None,
    limit: int,
    namespace: str | None = None,
    label_selector: str | bytes | dict[str, Any] | None = None,
    matches: Sequence[IndexMatch] = (),
) -> Any:
    if isinstance(label_selector, bytes):
        label_selector = label_selector.decode()
    elif isinstance(label_selector, dict):
        label_selector = json.dumps(label_selector)
    if namespace is not None and _is_too_long(namespace):
        namespace = ""
    of = host.cluster() if wit.IN_COMPONENT else None
    match_of = of.IndexMatch if of else IndexMatch
    name_of = of.ObjectName if of else _ObjectName
    query_of = of.Query if of else _Query
    return query_of(
        namespace,
        label_selector,
        [match_of(match.index, list(match.values), match.include_missing) for match in matches],
        None if after is None else name_of(*after),
        limit,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterRead:
    """Cluster objects that a policy reads."""

    group: str = ""
    """API group, the core group is empty."""
    version: str
    """API version."""
    resource: str
    """Plural, lower case."""
    fields: Sequence[str] = ()
    """JSON pointers of the fields that the policy reads, with `*` for every element of a list or member of an object. Name, namespace,
    uid, labels, resourceVersion and deletionTimestamp are always available."""
    keys: Sequence[str] = ()
    """JSON pointers of objects of which the host keeps only the names of the members."""
    label_selector: str = ""
    """Label selector as JSON: the host does not read other objects."""
    namespace: Setting | None = None
    """Only in this namespace."""
    indexes: Sequence[Index] = ()
    """Values by which a policy finds objects."""
    enabled_by: Sequence[str] = ()
    """Settings (JSON pointers) for objects that the server reads only if one of them is present and not `false`."""

    def __post_init__(self) -> None:
        for name in ("fields", "keys", "enabled_by"):
            object.__setattr__(self, name, texts(name, getattr(self, name)))
        object.__setattr__(self, "indexes", tuple(self.indexes))

    def _of_wit(self) -> Any:
        return wit.GroupVersionResource(self.group, self.version, self.resource)

    def get(self, namespace: str, name: str) -> Document | None:
        """One object, or None. The namespace is `""` for cluster-scoped objects. Raises `ReadError`."""
        if _is_too_long(namespace, name):
            namespace = name = ""
        found = _ask(self.resource, "get", self._of_wit(), namespace, name)
        return None if found is None else Document(found, part_of(self))

    def each(self, **query: Any) -> Iterator[Document]:
        """The objects that match, in byte order of namespace and name, page by page. Raises `ReadError`.

        `namespace`, `label_selector` (as JSON or a dict) and `matches` (a list of `IndexMatch`) are optional; all must hold.
        """
        after = None
        while True:
            found = _ask(self.resource, "list", self._of_wit(), _query(after, _MAX_DOCUMENTS, **query))
            page = [Document(handle, part_of(self)) for handle in found]
            if len(page) >= _MAX_DOCUMENTS:
                last = page[-1]
                after = (last.text("/metadata/namespace") or "", last.text("/metadata/name") or "")
            else:
                after = None
            # Each object is a handle, and a call may have 1,000: release the visited ones.
            page.reverse()
            while page:
                yield page.pop()
            if after is None:
                return

    def names(self, **query: Any) -> list[tuple[str, str]]:
        """Namespaces and names of the objects that match `query` (see `each`), a list of pairs. Raises `ReadError`."""
        found: list[tuple[str, str]] = []
        while True:
            after = found[-1] if found else None
            page = _ask(self.resource, "names", self._of_wit(), _query(after, _MAX_NAMES, **query))
            found.extend((name.namespace, name.name) for name in page)
            if len(page) < _MAX_NAMES:
                return found

    def any(self, **query: Any) -> bool:
        """Whether any object matches `query` (see `each`). Raises `ReadError`."""
        return bool(_ask(self.resource, "names", self._of_wit(), _query(None, 1, **query)))


def sample(group: str, version: str, resource: str, limit: int = _MAX_SAMPLE_OBJECTS) -> Sample:
    """The first objects of a resource, whole, at most 500. For rules with `samples=True`.

    The first call of it ends the call of the policy, and the host calls the policy again with the objects: sample early, and only if the
    verdict depends on it. Raises `NoCluster` or `Unavailable`: skip the rule, with the text of the error as the reason.
    """
    if _is_too_long(group, version, resource):
        return Sample([], True)
    try:
        of = wit.GroupVersionResource(group, version, resource)
        found = _ask(resource, "sample", of, min(max(limit, 1), _MAX_SAMPLE_OBJECTS))
    except NoCluster:
        raise NoCluster("the cluster's custom resources are not available") from None
    except Invalid as error:
        raise Unavailable(str(error)) from None
    return Sample([Document(handle) for handle in found.objects], found.complete)
