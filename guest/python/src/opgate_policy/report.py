"""The report of one review: the violations, and the rules that could not be evaluated.

    add ─▶ level (configuration, settings, rule) ─▶ exempt? ─▶ at most 256, shared by the rules ─▶ verdict
    skip ──────────────────────────────────────────────────▶ skipped, warnings by `messages` ──────┘

A verdict has at most 256 violations. If there are more, it has some of every rule, and the last violation of a rule counts the omitted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from . import wit
from .cluster import Invalid, NoCluster, Unavailable
from .declare import DENY, WARN, Level, Rule
from .fix import Fix
from .review import Review

MAX_VIOLATIONS = 256
"""Maximum number of violations in a verdict."""

_MAX_MESSAGE_BYTES, _MAX_FIELD_BYTES = 4_096, 1_024
_LAST = 1 << 62
_LEVELS = {"deny": DENY, "warn": WARN}
_ANSWER = TypeVar("_ANSWER")


class _Found:
    """The violations of one rule at one level."""

    __slots__ = ("count", "first", "given", "level", "rule")

    def __init__(self, rule: Rule, given: Level | None, level: Level | None) -> None:
        self.rule, self.given, self.level = rule, given, level
        self.first: list[tuple[int, str, str, Fix | None]] = []
        """The first violations: position among all, field, message, fix."""
        self.count = 0
        """Number of all violations."""


class Report:
    """The violations so far."""

    def __init__(self, review: Review) -> None:
        self._review = review
        self._found: dict[tuple[int, Level | None], _Found] = {}
        self._skipped: dict[int, tuple[Rule, str, str, bool]] = {}
        self._annotations: dict[str, set[str]] = {}
        self._reason: str | None = None
        self._settings_of: Any = None
        self._count = 0

    def add(self, rule: Rule, field: str, message: str, *, level: Level | None = None, fix: Fix | None = None) -> None:
        """Adds a violation: the field as Kubernetes writes it (`spec.containers[0].image`), and one sentence for the person who sent the
        request. `level` is for a violation of another level than the rule's; a configured level wins. `fix` are the changes of the object
        after which it does not violate the rule."""
        found = self._of(rule, level)
        if found.level is None:
            return
        found.count += 1
        if len(found.first) < MAX_VIOLATIONS:
            self._count += 1
            found.first.append((self._count, field, message, fix))

    def add_count(self, rule: Rule, count: int, *, level: Level | None = None) -> None:
        """Counts violations of a rule without their texts, after those that were added."""
        if count > 0:
            self._of(rule, level).count += count

    def is_full(self, rule: Rule) -> bool:
        """Whether a verdict omits the texts of further violations of the rule; see `add_count`."""
        return sum(len(found.first) for found in self._found.values() if found.rule is rule) >= MAX_VIOLATIONS

    def _of(self, rule: Rule, given: Level | None) -> _Found:
        key = (id(rule), given)
        found = self._found.get(key)
        if found is None:
            applies = rule.no_exemptions or not self._review.is_exempt
            found = self._found[key] = _Found(rule, given, self._level(rule, given) if applies else None)
        return found

    def set_reason(self, reason: str) -> None:
        """The reason of a denial, `Forbidden` unless set."""
        self._reason = reason

    def annotate(self, key: str, word: str) -> None:
        """Adds a word to the API server's audit log. Words with the same key are in one annotation, in byte order."""
        self._annotations.setdefault(key, set()).add(word)

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings as plain values, read once."""
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
        if rule.enabled_by is None:
            return True
        values = (self._setting(pointer) for pointer in rule.enabled_by)
        return any(value is not None and value is not False for value in values)

    def denies(self, rule: Rule) -> bool:
        """Whether violations of a rule deny the request."""
        return self._level(rule, None) is DENY

    def denials(self, rule: Rule) -> int:
        """Number of violations of a rule so far that deny the request."""
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

    def skip(self, rule: Rule, field: str, reason: str, *, in_part: bool = False) -> None:
        """Records that a rule could not be evaluated, or only in part, with the reason: `the cluster's Namespaces are not available`. Only
        the first reason of a rule counts."""
        self._skipped.setdefault(id(rule), (rule, field, reason, in_part))

    def or_skip(self, rules: Sequence[Rule], needed: str, query: Callable[[], _ANSWER]) -> _ANSWER | None:
        """The result of `query`, which reads cluster state. If there is no answer, skips the rules that need it, and returns None. An
        invalid selector skips no rule.

            found = report.or_skip([IMG_3], "Namespaces", lambda: NAMESPACES.get("", review.namespace))
        """
        try:
            return query()
        except NoCluster:
            reason = f"the cluster's {needed} are not available"
        except Unavailable as error:
            reason = f"the cluster's {needed} are not available: {error}"
        except Invalid:
            return None
        for rule in rules:
            self.skip(rule, "", reason)
        return None

    def finish(self) -> wit.Verdict:
        """The verdict."""
        # A rule that is off is not skipped.
        skipped = sorted(
            (skipped for skipped in self._skipped.values() if self.is_on(skipped[0])),
            key=lambda skipped: skipped[0].sort_key(),
        )
        found = list(self._found.values())
        if skipped and self._setting("/messages/skippedRules") == "warn":
            for rule, field, reason_of_rule, in_part in skipped:
                # Without a cluster, a rule that the configuration sets to deny would deny every request.
                if self._configured(rule) == "deny":
                    continue
                warning = _Found(rule, WARN, WARN)
                how = "evaluated in part" if in_part else "not evaluated"
                warning.first.append((_LAST, field, f"{rule.id} was {how}: {reason_of_rule}", None))
                warning.count = 1
                found.append(warning)
        is_prefixed = bool(found) and self._setting("/messages/prefixRuleId") is True
        violations = []
        for rule, level, field, message, fix in _share_out(found):
            text = f"{rule.id}: {message}" if is_prefixed else message
            level_of_wit = wit.Level.DENY if level is DENY else wit.Level.WARN
            field, text = _cut(field, _MAX_FIELD_BYTES), _cut(text, _MAX_MESSAGE_BYTES)
            violations.append(wit.Violation(rule.id, level_of_wit, field, text, [], fix.record() if fix else None))
        annotations = [
            wit.AuditAnnotation(key, _cut(" ".join(sorted(words, key=_bytes)), _LAST))
            for key, words in self._annotations.items()
        ]
        skipped_rules = [
            wit.SkippedRule(rule.id, _cut(f"in part: {why}" if in_part else why, _LAST)) for rule, _, why, in_part in skipped
        ]
        reason = None if self._reason is None else _cut(self._reason, _LAST)
        return wit.Verdict(violations, reason, annotations, skipped_rules)


def _share_out(found: list[_Found]) -> list[tuple[Rule, Level, str, str, Fix | None]]:
    """The violations of each rule that fit in one verdict, in the order of their addition."""
    share = MAX_VIOLATIONS
    while share > 1 and sum(min(len(f.first), share) for f in found) > MAX_VIOLATIONS:
        share -= 1
    violations = []
    for of_rule in found:
        shown = of_rule.first[:share]
        more = of_rule.count - len(shown)
        if shown and more > 0:
            # The count comes first, because a long message is cut at its end.
            position, field, message, fix = shown[-1]
            shown[-1] = (position, field, f"{more} more violations of this rule are omitted; {message}", fix)
        level = of_rule.level or WARN
        violations.extend((position, of_rule.rule, level, *texts) for position, *texts in shown)
    violations.sort(key=lambda violation: violation[0])
    return [violation[1:] for violation in violations]


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")


def _cut(text: str, limit: int) -> str:
    """At most `limit` bytes, cut between characters."""
    encoded = _bytes(text)
    return encoded[:limit].decode(errors="ignore")
