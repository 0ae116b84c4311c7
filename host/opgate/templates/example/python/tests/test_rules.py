"""Runs the cases in `cases/`, natively: without a host, and in milliseconds."""

from pathlib import Path
from typing import Any

import pytest
from opgate_policy.testing import cases, evaluate

from {{snake}} import POLICY


@pytest.mark.parametrize("case", cases(str(Path(__file__).parents[1] / "cases")), ids=str)
def test_case(case: Any) -> None:
    case.check(POLICY)


def test_plain_dicts_are_accepted() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {"containers": [{"name": "shop", "image": "quay.io/house/shop:v1"}]},
    }
    verdict = evaluate(POLICY, pod, cluster=[])
    assert [violation.message for violation in verdict.violations] == ["quay.io/house/shop:v1 has no digest"]
