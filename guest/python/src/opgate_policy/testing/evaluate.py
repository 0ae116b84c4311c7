"""Evaluates requests natively, with plain dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import wit
from ..declare import Operation, Rule
from ..document import Document
from ..plain import Plain
from ..policy import Policy
from ..report import Report
from ..review import Request, Review
from .request import TestRequest, matches_of
from .store import Cluster, during


def document(value: Any) -> Document:
    """A document over a plain value, for tests of single functions."""
    return Document(Plain(value))


def evaluate(
    policy: Policy,
    object: dict[str, Any] | None = None,
    *,
    old: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    cluster: Sequence[dict[str, Any]] | None = None,
    **request: Any,
) -> wit.Verdict:
    """The verdict for a CREATE of `object`, an UPDATE from `old` to `object`, or a DELETE of `old`.

    `cluster` has the cluster objects; without it there is no cluster state to query. `request` sets values that do not follow from the
    object: `operation`, `name`, `namespace`, `user`, `groups`, `resource`, `sub_resource`, `version`, `uid`, `dry_run`.
    """
    settings = settings or {}
    test_request = TestRequest(object, old, **request)
    routes = 0
    for match in matches_of(policy, test_request, document(settings)):
        routes |= 1 << match.route
    handles = [None if value is None else Plain(value) for value in (object, old)]
    with during(None if cluster is None else Cluster(policy, cluster, settings)):
        return policy.validate(test_request.operation, routes, test_request, *handles, Plain(settings))


def is_evaluated(
    policy: Policy,
    rule: Rule,
    object: dict[str, Any] | None = None,
    *,
    old: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    **request: Any,
) -> bool:
    """Whether a rule evaluates a request: a route for the rule matches it, and the rule is on. The arguments are those of `evaluate`."""
    test_request = TestRequest(object, old, **request)
    of_settings = document(settings or {})
    is_matched = any(rule.id in match.rules for match in matches_of(policy, test_request, of_settings))
    review = Review(Request(Operation(test_request.operation), test_request), None, None, of_settings)
    return is_matched and Report(review).is_on(rule)
