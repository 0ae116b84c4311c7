"""The declarations of a policy: targets and rules. `cluster` has those of reads.

The descriptor follows from these, see `describe`. Targets, reads and rules are compared by identity: declare each of them once.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from .cluster import ClusterRead, Setting
from .values import texts


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
"""The group of documents that opgate creates from files."""


@dataclass(frozen=True)
class NamePatterns:
    """Names by pattern: one of `include` fits, or `include` is empty, and none of `exclude` fits. `*` in a pattern stands for any
    characters, also for none."""

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "include", texts("include", self.include))
        object.__setattr__(self, "exclude", texts("exclude", self.exclude))


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
    namespaces: NamePatterns = NamePatterns()
    """Only in namespaces with these names. A Namespace is in itself; other cluster-scoped objects always match."""
    names: NamePatterns = NamePatterns()
    """Only objects with these names. An object whose name the API server has yet to generate always matches."""
    advisory: bool = False
    """Whether the API server may admit these requests while the webhook is unavailable."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Conditions in CEL by name, for the webhook configuration only. The policy must not rely on them."""
    namespace_selector: str = ""
    """Label selector (JSON) for namespaces."""
    enabled_by: Sequence[str] = ()
    """Settings (JSON pointers) of which one must be present and not `false`; otherwise the policy does not see these requests."""

    def __post_init__(self) -> None:
        for name in ("groups", "versions", "resources", "enabled_by"):
            object.__setattr__(self, name, texts(name, getattr(self, name)))

    def is_from_file(self) -> bool:
        """Whether the target matches documents that opgate creates from files."""
        return self.groups == (FILES,)


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule. Report violations of it with `Report.add`."""

    id: str
    """Unique in the policy: `IMG-1`."""
    docs: str
    """The documentation, Markdown. Its first line is the title: the requirement, in one sentence without a full stop. `opgate rules
    explain` prints the rest, which usually has the sections Why, Remediation, Accepted and Rejected."""
    name: str = field(default="", kw_only=True)
    """In kebab case, at most 50 characters, unique in the policy: `image-digest`; empty for none."""
    level: Level = field(kw_only=True)
    """The level of the rule if it is on and no level is configured."""
    on: Mapping[Target, Sequence[Operation]] = field(kw_only=True)
    """The requests to which the rule applies."""
    reads: Sequence[ClusterRead] = field(default=(), kw_only=True)
    """Cluster objects that it needs."""
    samples: bool = field(default=False, kw_only=True)
    """Whether it reads custom resources of any kind, with `sample`."""
    enabled_by: Sequence[str] | None = field(default=None, kw_only=True)
    """For a rule that is off by default: the settings (JSON pointers) that turn it on. If the list is empty, only a configured level
    does."""
    denies_with: Sequence[str] = field(default=(), kw_only=True)
    """Settings (JSON pointers) that make a rule deny that warns by default, if they are `true` or `deny`."""
    no_exemptions: bool = field(default=False, kw_only=True)
    """Whether the setting `exempt` does not apply to it."""
    may_skip: bool = field(default=False, kw_only=True)
    """Whether it can be skipped for another reason than a missing cluster."""
    sources: Sequence[str] = field(default=(), kw_only=True)
    """Where the requirement is documented; at most 16."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9.-]{1,40}", self.id):
            raise ValueError(f"rule {self.id!r}: an id has letters, digits, `-` and `.`, at most 40")
        if self.name and (len(self.name) > 50 or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name)):
            raise ValueError(f"rule {self.id}: a name has letters a to z, digits and `-`, at most 50: {self.name!r}")
        object.__setattr__(self, "docs", textwrap.dedent(self.docs).strip("\n"))
        object.__setattr__(self, "denies_with", texts("denies_with", self.denies_with))
        if self.enabled_by is not None:
            object.__setattr__(self, "enabled_by", texts("enabled_by", self.enabled_by))
        object.__setattr__(self, "sources", texts("sources", self.sources))
        if len(self.sources) > 16:
            raise ValueError(f"rule {self.id}: {len(self.sources)} sources, at most 16")
        object.__setattr__(self, "reads", tuple(self.reads))
        on = {target: tuple(operations) for target, operations in self.on.items()}
        object.__setattr__(self, "on", on)

    @property
    def title(self) -> str:
        """The requirement, in one sentence."""
        return self.docs.partition("\n")[0].strip()

    def sort_key(self) -> tuple[str, int, str]:
        """Orders rules: `CSV-99` comes before `CSV-100`."""
        prefix, hyphen, number = self.id.rpartition("-")
        return (prefix, len(number), number) if hyphen else (self.id, 0, "")

    def needs_cluster(self) -> bool:
        """Whether the rule needs cluster state."""
        return self.samples or bool(self.reads)

    def applies_to(self, target: Target, operation: Operation) -> bool:
        """Whether the rule applies to these requests."""
        return operation in self.on.get(target, ())
