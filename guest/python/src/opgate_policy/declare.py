"""What a policy declares: the requests that it looks at, its rules, and what it reads of the cluster.

The descriptor follows from these, see `describe`. Targets, reads and rules are compared by identity: declare each of them once.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


class Operation(Enum):
    """What the API request does. The values are those of the contract."""

    CREATE = 0
    UPDATE = 1
    DELETE = 2
    CONNECT = 3


class Level(Enum):
    """What a violation does: deny the request, or allow it with a warning."""

    WARN = 0
    DENY = 1


CREATE, UPDATE, DELETE, CONNECT = Operation
WARN, DENY = Level

FILES = "opgate.dev"
"""The group of documents that are made from files."""


def _texts(what: str, texts: Sequence[str]) -> tuple[str, ...]:
    if isinstance(texts, str):
        raise TypeError(f"{what} is a list of texts: write [{texts!r}]")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{what} is a list of texts, not of {type(text).__name__}")
    return tuple(texts)


@dataclass(frozen=True)
class Setting:
    """A text that the settings may name, for example the name of a namespace."""

    pointer: str
    """JSON pointer into the settings."""
    default: str
    """Used if the settings have no text there."""


@dataclass(frozen=True)
class Names:
    """Names by pattern: one of `include` fits, or `include` is empty, and none of `exclude` fits. `*` in a pattern stands for any
    characters, also for none."""

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "include", _texts("include", self.include))
        object.__setattr__(self, "exclude", _texts("exclude", self.exclude))


@dataclass(frozen=True, eq=False, kw_only=True)
class Target:
    """Objects of one kind, as requests name them. Every list must match; `*` matches all."""

    groups: Sequence[str] = ("",)
    """API groups, the core group is empty."""
    versions: Sequence[str]
    """API versions."""
    resources: Sequence[str]
    """Plural, lower case; `pods/status` for a sub-resource."""
    kind: str
    """For people: `Pod`."""
    namespace: Setting | None = None
    """Only in this namespace."""
    namespaces: Names = Names()
    """Only in namespaces with these names. A Namespace is in itself; other cluster-scoped objects match whatever it says."""
    names: Names = Names()
    """Only objects with these names. An object whose name the API server has yet to generate matches whatever it says."""
    advisory: bool = False
    """Whether the API server may admit these requests while the webhook is unavailable."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Conditions in CEL by name, for the webhook configuration only. The policy must not rely on them."""
    namespace_labels: str = ""
    """Label selector (JSON) of the namespaces in which these requests matter."""
    enabled_by: Sequence[str] = ()
    """Settings (JSON pointers) of which one must be present and not `false`; otherwise the policy does not see these requests."""

    def __post_init__(self) -> None:
        for name in ("groups", "versions", "resources", "enabled_by"):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))

    def is_of_a_file(self) -> bool:
        """Whether the target is about documents that are made from files."""
        return self.groups == (FILES,)


@dataclass(frozen=True)
class Index:
    """A value by which a policy finds objects of the cluster."""

    name: str
    """Its name in queries."""
    field: str
    """JSON pointer of a text, with `*` for every element of a list or member of an object."""
    separator: str = ""
    """If it is not empty, each text is a list with this separator."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterRead:
    """Objects of the cluster that a policy reads. `cluster` has the questions: `get`, `each`, `names`, `any`."""

    group: str = ""
    """API group, the core group is empty."""
    version: str
    """API version."""
    resource: str
    """Plural, lower case."""
    fields: Sequence[str] = ()
    """JSON pointers of what the policy needs, with `*` for every element of a list or member of an object. Name, namespace, uid,
    labels, resourceVersion and deletionTimestamp are always there."""
    keys: Sequence[str] = ()
    """JSON pointers of objects of which the host keeps only the names of the members."""
    labels: str = ""
    """Label selector as JSON: other objects are not read."""
    namespace: Setting | None = None
    """Only in this namespace."""
    indexes: Sequence[Index] = ()
    """Values by which a policy finds objects."""
    enabled_by: Sequence[str] = ()
    """Settings (JSON pointers) for objects that are read only if asked to."""

    def __post_init__(self) -> None:
        for name in ("fields", "keys", "enabled_by"):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        object.__setattr__(self, "indexes", tuple(self.indexes))

    # The questions are in `cluster`, which knows documents.
    def get(self, namespace: str, name: str):  # type: ignore[no-untyped-def]
        """One object, or None. The namespace is `""` for cluster-scoped ones. Raises `ReadError`."""
        from .cluster import get

        return get(self, namespace, name)

    def each(self, **query):  # type: ignore[no-untyped-def]
        """The objects that match, in byte order of namespace and name, one page after the other. Raises `ReadError`.

        `namespace`, `labels` (a label selector as JSON or a dict) and `matches` (a list of `Match`) may be given; all must hold.
        """
        from .cluster import each

        return each(self, **query)

    def names(self, **query):  # type: ignore[no-untyped-def]
        """Namespaces and names of the objects that match `query` (see `each`), a list of pairs. Raises `ReadError`."""
        from .cluster import names

        return names(self, **query)

    def any(self, **query) -> bool:  # type: ignore[no-untyped-def]
        """Whether anything matches `query` (see `each`). Raises `ReadError`."""
        from .cluster import is_any

        return is_any(self, **query)


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule. Report findings of it with `Report.add`."""

    id: str
    """Unique in the policy: `IMG-1`."""
    docs: str
    """The documentation, Markdown. Its first line is the title: what must hold, in one sentence without a full stop. `opgate rules
    explain` prints the rest, which usually has the sections Why, Remediation, Accepted and Rejected."""
    level: Level = field(kw_only=True)
    """The level of the rule if it is on and no level is configured."""
    on: Mapping[Target, Sequence[Operation]] = field(kw_only=True)
    """The requests that the rule looks at."""
    reads: Sequence[ClusterRead] = field(default=(), kw_only=True)
    """Objects of the cluster that it needs."""
    samples: bool = field(default=False, kw_only=True)
    """Whether it looks at custom resources of any kind, with `sample`."""
    off_until: Sequence[str] | None = field(default=None, kw_only=True)
    """For a rule that is off by default: the settings (JSON pointers) that turn it on. If the list is empty, only a configured level
    does."""
    denies_with: Sequence[str] = field(default=(), kw_only=True)
    """Settings (JSON pointers) that make a rule deny that warns by default, if they are `true` or `deny`."""
    exempts: bool = field(default=True, kw_only=True)
    """Whether the setting `exempt` applies to it."""
    may_skip: bool = field(default=False, kw_only=True)
    """Whether it can be skipped for another reason than a missing cluster."""
    source: str = field(default="", kw_only=True)
    """Where the rule is documented."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9.-]{1,40}", self.id):
            raise ValueError(f"rule {self.id!r}: an id has letters, digits, `-` and `.`, at most 40")
        object.__setattr__(self, "docs", textwrap.dedent(self.docs).strip("\n"))
        object.__setattr__(self, "denies_with", _texts("denies_with", self.denies_with))
        if self.off_until is not None:
            object.__setattr__(self, "off_until", _texts("off_until", self.off_until))
        object.__setattr__(self, "reads", tuple(self.reads))
        on = {target: tuple(operations) for target, operations in self.on.items()}
        object.__setattr__(self, "on", on)

    @property
    def title(self) -> str:
        """What must hold, in one sentence."""
        return self.docs.partition("\n")[0].strip()

    def place(self) -> tuple[str, int, str]:
        """Where the rule stands among others: `CSV-99` comes before `CSV-100`."""
        prefix, hyphen, number = self.id.rpartition("-")
        return (prefix, len(number), number) if hyphen else (self.id, 0, "")

    def needs_cluster(self) -> bool:
        """Whether the rule needs objects of the cluster."""
        return self.samples or bool(self.reads)

    def looks_at(self, target: Target, operation: Operation) -> bool:
        """Whether the rule looks at these requests."""
        return operation in self.on.get(target, ())
