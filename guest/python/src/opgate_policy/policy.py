"""A policy: its rules, the functions that judge requests, and its settings.

    Policy(rules, settings) ─▶ descriptor
    @policy.judge(TARGET)   ─▶ route: which function judges which kind
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

Judge = Callable[[Review, Report], None]
Check = Callable[[Document], Iterable[tuple[str, str]]]

_OPERATIONS = tuple(Operation)


class Policy:
    """A policy. `judge` adds the functions that evaluate requests, at most 64."""

    def __init__(
        self,
        *,
        name: str,
        version: str,
        title: str,
        rules: Sequence[Rule],
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`settings` are the JSON schemas of the policy's own settings, by name. Those that all policies have in common are added."""
        self.name = name
        self.version = version
        self.title = title
        self.rules = sorted(rules, key=Rule.place)
        self.settings = dict(settings or {})
        self.routes: list[tuple[Target, Judge]] = []
        self._check: Check | None = None
        ids = [rule.id for rule in rules]
        for one in ids:
            if ids.count(one) > 1:
                raise ValueError(f"policy {name}: two rules have the id {one}")

    def judge(self, target: Target) -> Callable[[Judge], Judge]:
        """Makes a function the one that judges requests for a kind. It gets the review and the report, and adds findings."""

        def added(function: Judge) -> Judge:
            if len(self.routes) == 64:
                raise ValueError(f"policy {self.name}: more than 64 routes")
            self.routes.append((target, function))
            return function

        return added

    def check_settings(self, function: Check) -> Check:
        """Makes a function the one that checks what the schema cannot say, when the policy is loaded. It gets the settings as a document,
        and gives or yields what is wrong: JSON pointers with messages."""
        self._check = function
        return function

    def describe(self) -> wit.Descriptor:
        """Its description for the host."""
        unjudged = {t.kind for rule in self.rules for t in rule.on} - {t.kind for t, _ in self.routes}
        if unjudged:
            raise ValueError(f"policy {self.name}: nothing judges {min(unjudged)}: write @policy.judge(…) before a function")
        return describe(self)

    def needs_cluster(self) -> bool:
        """Whether it asks about the cluster: then it targets the world `cluster-policy`."""
        return bool(reads(self.rules)) or any(rule.samples for rule in self.rules)

    def wrong_settings(self, settings: Document) -> list[tuple[str, str]]:
        """What is wrong with the settings, beyond the schema."""
        return list(self._check(settings) or ()) if self._check else []

    def validate(
        self, operation: int, routes: int, request: Any, object: Any | None, old: Any | None, settings: Any
    ) -> wit.Verdict:
        """Evaluates a request, with handles as the host gives them. Bit n of `routes` selects the function of route n."""
        wanted = _OPERATIONS[operation]
        review = Review(
            Request(wanted, request),
            None if object is None or wanted is Operation.DELETE else Document(object),
            None if old is None else Document(old),
            Document(settings),
        )
        report = Report(review)
        for number, (_, judge) in enumerate(self.routes):
            if routes >> number & 1:
                judge(review, report)
        return report.finish()
