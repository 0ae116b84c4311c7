"""The report of one review: the findings, and the rules that could not be evaluated.

    add ─▶ level (configuration, settings, rule) ─▶ exempt? ─▶ at most 256, shared by the rules ─▶ verdict
    skip ────────────────────────────────────────────────────▶ skipped, warnings where asked for ──┘

A verdict has room for 256 findings. If there are more, it shows some for every rule, and the last finding of a rule says how many are
left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from . import wit
from .cluster import Absent, Invalid, Unavailable
from .declare import DENY, WARN, Level, Rule
from .review import Review

ROOM = 256
"""Findings that a verdict has room for."""

_MESSAGE, _FIELD = 4_096, 1_024
_LAST = 1 << 62
_LEVELS = {"deny": DENY, "warn": WARN}
_ANSWER = TypeVar("_ANSWER")


class _Found:
    """The findings of one rule at one level."""

    __slots__ = ("count", "first", "given", "level", "rule")

    def __init__(self, rule: Rule, given: Level | None, level: Level | None) -> None:
        self.rule, self.given, self.level = rule, given, level
        self.first: list[tuple[int, str, str]] = []
        """The first findings: place among all, field, message."""
        self.count = 0
        """Number of all findings."""


class Report:
    """The findings so far."""

    def __init__(self, review: Review) -> None:
        self._review = review
        self._found: dict[tuple[int, Level | None], _Found] = {}
        self._skipped: dict[int, tuple[Rule, str, str, bool]] = {}
        self._notes: dict[str, set[str]] = {}
        self._reason: str | None = None
        self._settings_of: Any = None
        self._count = 0

    def add(self, rule: Rule, field: str, message: str, *, level: Level | None = None) -> None:
        """Adds a finding: the field as Kubernetes writes it (`spec.containers[0].image`), and one sentence for the person who sent the
        request. `level` is for a finding of another level than the rule's; a configured level wins."""
        found = self._of(rule, level)
        if found.level is None:
            return
        found.count += 1
        if len(found.first) < ROOM:
            self._count += 1
            found.first.append((self._count, field, message))

    def add_more(self, rule: Rule, more: int, *, level: Level | None = None) -> None:
        """Counts findings of a rule that are not written out, after those that were added."""
        if more > 0:
            self._of(rule, level).count += more

    def is_full(self, rule: Rule) -> bool:
        """Whether texts of further findings of the rule are not shown; see `add_more`."""
        return sum(len(found.first) for found in self._found.values() if found.rule is rule) >= ROOM

    def _of(self, rule: Rule, given: Level | None) -> _Found:
        key = (id(rule), given)
        found = self._found.get(key)
        if found is None:
            applies = not rule.exempts or not self._review.is_exempt
            found = self._found[key] = _Found(rule, given, self._level(rule, given) if applies else None)
        return found

    def set_reason(self, reason: str) -> None:
        """The reason of a denial, `Forbidden` unless set."""
        self._reason = reason

    def note(self, key: str, word: str) -> None:
        """Adds a word to the API server's audit log. Words with the same key are in one annotation, in byte order."""
        self._notes.setdefault(key, set()).add(word)

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings as plain values: asked once."""
        if self._settings_of is None:
            value = self._review.settings.value()
            self._settings_of = value if isinstance(value, dict) else {}
        return self._settings_of

    def _setting(self, pointer: str) -> Any:
        value: Any = self._settings
        for token in pointer.split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict):
                value = value.get(token)
            elif isinstance(value, list) and token.isdecimal() and token.isascii() and str(int(token[:9])) == token:
                value = value[int(token)] if int(token) < len(value) else None
            else:
                return None
        return value

    def _configured(self, rule: Rule) -> str | None:
        """The level that the configuration sets for a rule."""
        rules = self._settings.get("rules")
        level = rules.get(rule.id) if isinstance(rules, dict) else None
        return level if isinstance(level, str) else None

    def is_configured(self, rule: Rule) -> bool:
        """Whether the configuration sets a level for the rule that is not `off`."""
        return self._configured(rule) not in (None, "off")

    def is_on(self, rule: Rule) -> bool:
        """Whether a rule is on: by its configured level, or else by default or by one of its settings. A rule that is off reads nothing
        from the cluster."""
        configured = self._configured(rule)
        return self._is_on_by_settings(rule) if configured is None else configured != "off"

    def _is_on_by_settings(self, rule: Rule) -> bool:
        if rule.off_until is None:
            return True
        values = (self._setting(pointer) for pointer in rule.off_until)
        return any(value is not None and value is not False for value in values)

    def denies(self, rule: Rule) -> bool:
        """Whether findings of a rule deny the request."""
        return self._level(rule, None) is DENY

    def denials(self, rule: Rule) -> int:
        """Number of findings of a rule so far that deny the request."""
        return sum(found.count for found in self._found.values() if found.rule is rule and found.level is DENY)

    def _level(self, rule: Rule, given: Level | None) -> Level | None:
        configured = self._configured(rule)
        if configured is not None:
            return None if configured == "off" else _LEVELS.get(configured, WARN)
        if not self._is_on_by_settings(rule):
            return None
        level = given or rule.level
        if level is WARN:
            values = [self._setting(pointer) for pointer in rule.denies_with]
            if any(value is True or value == "deny" for value in values):
                return DENY
        return level

    def skip(self, rule: Rule, field: str, why: str, *, in_part: bool = False) -> None:
        """Records that a rule could not be evaluated, or only in part, and why: `the cluster's Namespaces are not available`. Only the
        first reason for a rule counts."""
        self._skipped.setdefault(id(rule), (rule, field, why, in_part))

    def answer(self, rules: Sequence[Rule], needed: str, ask: Callable[[], _ANSWER]) -> _ANSWER | None:
        """The answer of the cluster, if there is one; otherwise None, and the rules that need it are skipped. An invalid selector does
        not concern them.

            found = report.or_skip([IMG_3], "Namespaces", lambda: NAMESPACES.get("", review.namespace))
        """
        try:
            return ask()
        except Absent:
            why = f"the cluster's {needed} are not available"
        except Unavailable as error:
            why = f"the cluster's {needed} are not available: {error}"
        except Invalid:
            return None
        for rule in rules:
            self.skip(rule, "", why)
        return None

    def finish(self) -> wit.Verdict:
        """The verdict."""
        # A rule that is off is not skipped.
        skipped = sorted(
            (missing for missing in self._skipped.values() if self.is_on(missing[0])),
            key=lambda missing: missing[0].place(),
        )
        found = list(self._found.values())
        if skipped and self._setting("/messages/skippedRules") == "warn":
            for rule, field, why, in_part in skipped:
                # Without a cluster, a rule that the configuration sets to deny would deny every request.
                if self._configured(rule) == "deny":
                    continue
                warning = _Found(rule, WARN, WARN)
                how = "evaluated in part" if in_part else "not evaluated"
                warning.first.append((_LAST, field, f"{rule.id} was {how}: {why}"))
                warning.count = 1
                found.append(warning)
        is_prefixed = bool(found) and self._setting("/messages/prefixRuleId") is True
        violations = []
        for rule, level, field, message in _share_out(found):
            text = f"{rule.id}: {message}" if is_prefixed else message
            level_of_wit = wit.Level.DENY if level is DENY else wit.Level.WARN
            violations.append(wit.Violation(rule.id, level_of_wit, _cut(field, _FIELD), _cut(text, _MESSAGE), []))
        notes = [
            wit.AuditAnnotation(key, _cut(" ".join(sorted(words, key=_bytes)), _LAST))
            for key, words in self._notes.items()
        ]
        reasons = [
            wit.Skipped(rule.id, _cut(f"in part: {why}" if in_part else why, _LAST)) for rule, _, why, in_part in skipped
        ]
        reason = None if self._reason is None else _cut(self._reason, _LAST)
        return wit.Verdict(violations, reason, notes, reasons)


def _share_out(found: list[_Found]) -> list[tuple[Rule, Level, str, str]]:
    """As many findings of each rule as fit into a verdict together, in the order of their addition."""
    share = ROOM
    while share > 1 and sum(min(len(f.first), share) for f in found) > ROOM:
        share -= 1
    violations = []
    for of_rule in found:
        shown = of_rule.first[:share]
        more = of_rule.count - len(shown)
        if shown and more > 0:
            # A message that is too long is cut, and this is the important part.
            place, field, message = shown[-1]
            shown[-1] = (place, field, f"{more} more findings of this rule are left out; {message}")
        level = of_rule.level or WARN
        violations.extend((place, of_rule.rule, level, field, message) for place, field, message in shown)
    violations.sort(key=lambda violation: violation[0])
    return [violation[1:] for violation in violations]


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")


def _cut(text: str, limit: int) -> str:
    """At most so many bytes, and nothing that is no text."""
    encoded = _bytes(text)
    return encoded[:limit].decode(errors="ignore")
