"""Runs the cases in `cases/`, natively: without a host, and in milliseconds."""

from pathlib import Path
from typing import Any

import pytest
from opgate_policy.testing import cases

from {{snake}} import POLICY


@pytest.mark.parametrize("case", cases(str(Path(__file__).parents[1] / "cases")), ids=str)
def test_case(case: Any) -> None:
    case.check(POLICY)
