"""A policy: its rules, the functions that evaluate requests, and its settings.

    Policy(rules, settings)  ─▶ descriptor
    @policy.evaluate(TARGET) ─▶ route: the function that evaluates the requests of a target
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import wit
from .declare import Operation, Rule, Target
from .describe import describe, reads
from .document import Document
from .report import Report
from .review import Request, Review

Evaluate = Callable[[Review, Report], None]
Check = Callable[[Document], Iterable[tuple[str, str]]]

_OPERATIONS = tuple(Operation)


class Policy:
    """A policy. `evaluate` adds the functions that evaluate requests, at most 64."""

    def __init__(
        self,
        *,
        name: str,
        version: str,
        title: str,
        rules: Sequence[Rule],
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`settings` are the JSON schemas of the policy's settings, by name. The SDK adds those that all policies have in common."""
        self.name = name
        self.version = version
        self.title = title
        self.rules = sorted(rules, key=Rule.sort_key)
        self.settings = dict(settings or {})
        self.routes: list[tuple[Target, Evaluate]] = []
        self._check: Check | None = None
        ids = [rule.id for rule in rules]
        for one in ids:
            if ids.count(one) > 1:
                raise ValueError(f"policy {name}: two rules have the id {one}")
        names = [rule.name for rule in rules if rule.name]
        for one in names:
            if names.count(one) > 1:
                raise ValueError(f"policy {name}: two rules have the name {one}")

    def evaluate(self, target: Target) -> Callable[[Evaluate], Evaluate]:
        """Registers the function that evaluates the requests of a target. It gets the review and the report, and adds violations."""

        def added(function: Evaluate) -> Evaluate:
            if len(self.routes) == 64:
                raise ValueError(f"policy {self.name}: more than 64 routes")
            self.routes.append((target, function))
            return function

        return added

    def check_settings(self, function: Check) -> Check:
        """Registers the function for checks beyond the schema, called when the policy is loaded. It gets the settings as a document, and
        returns or yields errors: JSON pointers with messages."""
        self._check = function
        return function

    def describe(self) -> wit.Descriptor:
        """Its description for the host."""
        missing = {t.kind for rule in self.rules for t in rule.on} - {t.kind for t, _ in self.routes}
        if missing:
            raise ValueError(f"policy {self.name}: no function evaluates {min(missing)}: write @policy.evaluate(…) before a function")
        return describe(self)

    def needs_cluster(self) -> bool:
        """Whether it reads cluster state: then it targets `cluster-policy` of the contract."""
        return bool(reads(self.rules)) or any(rule.samples for rule in self.rules)

    def settings_errors(self, settings: Document) -> list[tuple[str, str]]:
        """Errors in the settings beyond the schema."""
        return list(self._check(settings) or ()) if self._check else []

    def validate(
        self, operation: int, routes: int, request: Any, object: Any | None, old: Any | None, settings: Any
    ) -> wit.Verdict:
        """Evaluates a request, with handles of the host. Bit n of `routes` selects the function of route n."""
        wanted = _OPERATIONS[operation]
        review = Review(
            Request(wanted, request),
            None if object is None or wanted is Operation.DELETE else Document(object),
            None if old is None else Document(old),
            Document(settings),
        )
        report = Report(review)
        for number, (_, function) in enumerate(self.routes):
            if routes >> number & 1:
                function(review, report)
        return report.finish()
