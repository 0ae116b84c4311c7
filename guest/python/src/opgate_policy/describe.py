"""From the declarations of a policy to its descriptor in the contract.

    rules, sorted by id ─┬─▶ rules
      on, of each ───────┼─▶ matches: for each route, the operations and the rules that apply to them
      reads, of each ────┼─▶ reads, each with the rules that need it
      samples, of each ──┴─▶ sampling rules
    settings, and those that all policies have in common ─▶ schema

The result is the same, byte for byte, as that of the SDK for Rust.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from . import wit
from .cluster import ClusterRead, Setting
from .declare import DENY, Operation, Rule, Target


class Policy(Protocol):
    """The members of a `policy.Policy` that this module reads."""

    name: str
    version: str
    title: str
    rules: Sequence[Rule]
    routes: Sequence[tuple[Target, Any]]
    settings: Mapping[str, Any]


def describe(policy: Policy) -> wit.Descriptor:
    """The descriptor of a policy."""
    rules = policy.rules
    return wit.Descriptor(
        name=policy.name,
        version=policy.version,
        title=policy.title,
        rules=[_rule(rule) for rule in rules],
        matches=matches(policy),
        reads=[_read(read, [rule.id for rule in rules if read in rule.reads]) for read in reads(rules)],
        sampling_rules=[rule.id for rule in rules if rule.samples],
        settings_schema=_schema(policy),
    )


def reads(rules: Sequence[Rule]) -> list[ClusterRead]:
    """The reads of the rules, each once."""
    return list(dict.fromkeys(read for rule in rules for read in rule.reads))


def matches(policy: Policy) -> list[wit.MatchRule]:
    """The requests that each route gets. Operations to which the same rules apply are one entry."""
    found: list[wit.MatchRule] = []
    for number, (target, _) in enumerate(policy.routes):
        of_route: dict[tuple[str, ...], wit.MatchRule] = {}
        for operation in Operation:
            ids = tuple(rule.id for rule in policy.rules if rule.applies_to(target, operation))
            if not ids:
                continue
            if ids in of_route:
                of_route[ids].operations.append(wit.Operation(operation.value))
            else:
                of_route[ids] = _match(target, operation, list(ids), number)
        found.extend(of_route.values())
    return found


def _rule(rule: Rule) -> wit.Rule:
    if rule.enabled_by is not None:
        level = wit.DefaultLevel.OFF
    else:
        level = wit.DefaultLevel.DENY if rule.level is DENY else wit.DefaultLevel.WARN
    return wit.Rule(
        id=rule.id,
        name=rule.name,
        title=rule.title,
        default_level=level,
        enabled_by=list(rule.denies_with if rule.enabled_by is None else rule.enabled_by),
        kinds=list(dict.fromkeys(target.kind for target in rule.on)),
        operations=[wit.Operation(o.value) for o in Operation if any(o in on for on in rule.on.values())],
        sources=list(rule.sources),
    )


def _setting(setting: Setting | None) -> wit.Setting | None:
    return None if setting is None else wit.Setting(pointer=setting.pointer, default=setting.default)


def _match(target: Target, operation: Operation, rules: list[str], route: int) -> wit.MatchRule:
    def names(of: Any) -> wit.NamePatterns:
        return wit.NamePatterns(include=list(of.include), exclude=list(of.exclude))

    return wit.MatchRule(
        groups=list(target.groups),
        versions=list(target.versions),
        resources=list(target.resources),
        operations=[wit.Operation(operation.value)],
        namespace=_setting(target.namespace),
        namespaces=names(target.namespaces),
        names=names(target.names),
        rules=rules,
        advisory=target.advisory,
        route=route,
        match_conditions=[wit.MatchCondition(name=n, expression=e) for n, e in target.conditions.items()],
        namespace_selector=target.namespace_selector,
        enabled_by=list(target.enabled_by),
    )


def _read(read: ClusterRead, rules: list[str]) -> wit.ClusterRead:
    return wit.ClusterRead(
        resource=wit.GroupVersionResource(group=read.group, version=read.version, resource=read.resource),
        fields=list(read.fields),
        keys=list(read.keys),
        label_selector=read.label_selector,
        namespace=_setting(read.namespace),
        indexes=[wit.Index(name=i.name, field=i.field, separator=i.separator) for i in read.indexes],
        rules=rules,
        enabled_by=list(read.enabled_by),
    )


def _schema(policy: Policy) -> str:
    """JSON Schema of the settings: those of the policy, and the common ones that its rules need."""
    text = {"type": "array", "items": {"type": "string"}, "default": []}
    common: dict[str, Any] = {}
    if not all(target.is_from_file() for target, _ in policy.routes):
        common["ratcheting"] = {
            "description": "Omit violations in fields that an UPDATE does not change.",
            "type": "boolean",
            "default": True,
        }
        exceptions = " and ".join(rule.id for rule in policy.rules if rule.no_exemptions)
        common["exempt"] = {
            "description": f"Identities to which no rule{f' but {exceptions}' if exceptions else ''} applies.",
            "type": "object",
            "additionalProperties": False,
            "properties": {"users": text, "groups": text},
        }
    prefix = {"description": "Put the rule's id before its message.", "type": "boolean", "default": False}
    needs = None
    if any(rule.needs_cluster() for rule in policy.rules):
        needs = "cluster objects that are not available"
    elif any(rule.may_skip for rule in policy.rules):
        needs = "files that are not available"
    messages: dict[str, object] = {"prefixRuleId": prefix}
    if needs:
        messages["skippedRules"] = {
            "description": f"Whether to warn of a rule that is skipped because it needs {needs}.",
            "enum": ["omit", "warn"],
            "default": "omit",
        }
    common["messages"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": messages,
    }
    common["rules"] = {
        "description": "Levels that the configuration gives to rules; written by the host.",
        "type": "object",
        "readOnly": True,
    }
    twice = common.keys() & policy.settings.keys()
    if twice:
        raise ValueError(f"policy {policy.name}: the setting {min(twice)!r} is one of those that all policies have")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Settings of the policy {policy.name}",
        "type": "object",
        "additionalProperties": False,
        "properties": common | dict(policy.settings),
    }
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
