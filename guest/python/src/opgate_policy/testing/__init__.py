"""Native tests of a policy: plain dicts in, a verdict out. No host and no WebAssembly.

    from opgate_policy.testing import cases, judge

    def test_a_tag() -> None:
        verdict = judge(POLICY, {"apiVersion": "v1", "kind": "Pod", …})
        assert [violation.message for violation in verdict.violations] == ["… has no digest"]

    @pytest.mark.parametrize("case", cases("cases"), ids=str)
    def test_case(case) -> None:
        case.check(POLICY)

    judge ─▶ handle (documents), store (the cluster) ─▶ Policy.validate ─▶ verdict
    cases ─▶ cases/*.yaml ─▶ judge ─▶ compared with what a case says
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import log, wit
from ..document import Document
from ..policy import Policy
from .handle import Handle
from .request import RequestHandle, plural, routes_of
from .store import Cluster, during

__all__ = ["Cluster", "cases", "document", "judge", "log", "plural"]


def document(value: Any) -> Document:
    """A document over a plain value, for tests of single functions."""
    return Document(Handle(value))


def judge(
    policy: Policy,
    object: dict[str, Any] | None = None,
    *,
    old: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    cluster: Sequence[dict[str, Any]] | None = None,
    **request: Any,
) -> wit.Verdict:
    """The verdict about a CREATE of `object`, an UPDATE from `old` to `object`, or a DELETE of `old`.

    `cluster` are the objects of the cluster; without it there is no cluster to ask. `request` says what does not follow from the object:
    `operation`, `name`, `namespace`, `user`, `groups`, `resource`, `sub_resource`, `version`, `uid`, `dry_run`.
    """
    settings = settings or {}
    asked = RequestHandle(object, old, **request)
    routes = routes_of(policy, asked, document(settings))
    handles = [None if value is None else Handle(value) for value in (object, old)]
    with during(None if cluster is None else Cluster(policy, cluster, settings)):
        return policy.validate(asked.operation, routes, asked, *handles, Handle(settings))


def cases(folder: str) -> list[Any]:
    """The cases in a folder, `cases/*.yaml`. Needs PyYAML: `pip install opgate-policy[cases]`."""
    from .cases import read

    return read(folder)
