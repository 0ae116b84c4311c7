"""Native tests of a policy: plain dicts in, a verdict out. No host and no WebAssembly.

    from opgate_policy.testing import cases, evaluate

    def test_a_tag() -> None:
        verdict = evaluate(POLICY, {"apiVersion": "v1", "kind": "Pod", …})
        assert [violation.message for violation in verdict.violations] == ["… has no digest"]

    @pytest.mark.parametrize("case", cases("cases"), ids=str)
    def test_case(case) -> None:
        case.check(POLICY)

    evaluate ─▶ plain (documents), store (the cluster) ─▶ Policy.validate ─▶ verdict
    cases ─▶ cases/*.yaml ─▶ evaluate ─▶ compared with the case
"""

from __future__ import annotations

from typing import Any

from .. import log
from .evaluate import document, evaluate
from .request import TestRequest, plural
from .store import Cluster

__all__ = ["Cluster", "TestRequest", "cases", "document", "evaluate", "log", "plural"]


def cases(directory: str) -> list[Any]:
    """The cases in a directory, `cases/*.yaml`. Needs PyYAML: `pip install opgate-policy[cases]`."""
    from .cases import read

    return read(directory)
