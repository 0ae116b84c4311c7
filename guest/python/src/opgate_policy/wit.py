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
        Edit,
        Edit_Insert,
        Edit_MoveFile,
        Edit_Remove,
        Edit_RenameKey,
        Edit_Set,
        Fix,
        FixSafety,
        GroupVersionKind,
        GroupVersionResource,
        Index,
        Level,
        MatchCondition,
        MatchRule,
        MoveEdit,
        NamePatterns,
        Operation,
        RenameEdit,
        Rule,
        Setting,
        SettingsError,
        SkippedRule,
        UserInfo,
        ValueEdit,
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

    class FixSafety(Enum):  # type: ignore[no-redef]
        SAFE = 0
        UNSAFE = 1

    @dataclass
    class ValueEdit:  # type: ignore[no-redef]
        pointer: str
        value: str

    @dataclass
    class RenameEdit:  # type: ignore[no-redef]
        pointer: str
        name: str

    @dataclass
    class MoveEdit:  # type: ignore[no-redef]
        pointer: str
        path: str

    @dataclass
    class Edit_Set:  # type: ignore[no-redef]  # noqa: N801
        value: ValueEdit

    @dataclass
    class Edit_Insert:  # type: ignore[no-redef]  # noqa: N801
        value: ValueEdit

    @dataclass
    class Edit_Remove:  # type: ignore[no-redef]  # noqa: N801
        value: str

    @dataclass
    class Edit_RenameKey:  # type: ignore[no-redef]  # noqa: N801
        value: RenameEdit

    @dataclass
    class Edit_MoveFile:  # type: ignore[no-redef]  # noqa: N801
        value: MoveEdit

    Edit = Edit_Set | Edit_Insert | Edit_Remove | Edit_RenameKey | Edit_MoveFile  # type: ignore[misc]

    @dataclass
    class Fix:  # type: ignore[no-redef]
        title: str
        safety: FixSafety
        edits: list[Edit]

    @dataclass
    class Violation:  # type: ignore[no-redef]
        rule: str
        level: Level
        field: str
        message: str
        logical_location: list[str]
        fix: Fix | None

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
