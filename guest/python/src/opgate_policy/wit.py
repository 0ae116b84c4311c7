"""The types of the contract, `policy.wit`.

In a component, componentize-py generates them. Elsewhere this module defines them with the same members, so that native code and tests need
no component.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

try:
    from wit_world.imports.types import (  # type: ignore[import-not-found]
        AuditAnnotation,
        ClusterRead,
        DefaultLevel,
        Descriptor,
        GroupVersionKind,
        GroupVersionResource,
        Index,
        Level,
        MatchCondition,
        MatchRule,
        NamePatterns,
        Operation,
        Rule,
        Setting,
        SettingsError,
        SkippedRule,
        UserInfo,
        Verdict,
        Violation,
    )

    IN_COMPONENT = True
except ImportError:
    IN_COMPONENT = False

if not IN_COMPONENT:

    class Operation(Enum):  # type: ignore[no-redef]
        CREATE = 0
        UPDATE = 1
        DELETE = 2
        CONNECT = 3

    class Level(Enum):  # type: ignore[no-redef]
        WARN = 0
        DENY = 1

    class DefaultLevel(Enum):  # type: ignore[no-redef]
        OFF = 0
        WARN = 1
        DENY = 2

    @dataclass
    class GroupVersionKind:  # type: ignore[no-redef]
        group: str
        version: str
        kind: str

    @dataclass
    class GroupVersionResource:  # type: ignore[no-redef]
        group: str
        version: str
        resource: str

    @dataclass
    class UserInfo:  # type: ignore[no-redef]
        username: str
        uid: str
        groups: list[str]

    @dataclass
    class Violation:  # type: ignore[no-redef]
        rule: str
        level: Level
        field: str
        message: str
        logical_location: list[str]

    @dataclass
    class SkippedRule:  # type: ignore[no-redef]
        rule: str
        reason: str

    @dataclass
    class AuditAnnotation:  # type: ignore[no-redef]
        key: str
        value: str

    @dataclass
    class Verdict:  # type: ignore[no-redef]
        violations: list[Violation]
        reason: str | None
        audit_annotations: list[AuditAnnotation]
        skipped: list[SkippedRule]

    @dataclass
    class Rule:  # type: ignore[no-redef]
        id: str
        name: str
        title: str
        default_level: DefaultLevel
        enabled_by: list[str]
        kinds: list[str]
        operations: list[Operation]
        sources: list[str]

    @dataclass
    class Setting:  # type: ignore[no-redef]
        pointer: str
        default: str

    @dataclass
    class MatchCondition:  # type: ignore[no-redef]
        name: str
        expression: str

    @dataclass
    class NamePatterns:  # type: ignore[no-redef]
        include: list[str]
        exclude: list[str]

    @dataclass
    class MatchRule:  # type: ignore[no-redef]
        groups: list[str]
        versions: list[str]
        resources: list[str]
        operations: list[Operation]
        namespace: Setting | None
        namespaces: NamePatterns
        names: NamePatterns
        rules: list[str]
        advisory: bool
        route: int
        match_conditions: list[MatchCondition]
        namespace_selector: str
        enabled_by: list[str]

    @dataclass
    class Index:  # type: ignore[no-redef]
        name: str
        field: str
        separator: str

    @dataclass
    class ClusterRead:  # type: ignore[no-redef]
        resource: GroupVersionResource
        fields: list[str]
        keys: list[str]
        label_selector: str
        namespace: Setting | None
        indexes: list[Index]
        rules: list[str]
        enabled_by: list[str]

    @dataclass
    class Descriptor:  # type: ignore[no-redef]
        name: str
        version: str
        title: str
        rules: list[Rule]
        matches: list[MatchRule]
        reads: list[ClusterRead]
        sampling_rules: list[str]
        settings_schema: str

    @dataclass
    class SettingsError:  # type: ignore[no-redef]
        pointer: str
        message: str
