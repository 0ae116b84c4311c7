"""Runs the cases in `cases/`, natively: without a host, and in milliseconds."""

from pathlib import Path
from typing import Any

import pytest
from opgate_policy.testing import cases

from labels import POLICY, fits


@pytest.mark.parametrize("case", cases(str(Path(__file__).parents[1] / "cases")), ids=str)
def test_case(case: Any) -> None:
    case.check(POLICY)


@pytest.mark.parametrize(
    ("value", "pattern", "expected"),
    [
        ("", "*", True),
        ("a", "a", True),
        ("a", "b", False),
        ("team-a", "team-*", True),
        ("team-", "team-*", True),
        ("my-team-a", "team-*", False),
        ("a@house.example", "*@house.example", True),
        ("aXbXc", "a*b*c", True),
        ("ab", "a*b*b", False),
        ("aa", "a*aa", False),
        ("abcb", "a*bc*b", True),
        ("x" * 100_000, "*a" * 100, False),
        ("a" * 100_000, "*a" * 100, True),
        ("a.b", "a?b", False),
    ],
)
def test_patterns(value: str, pattern: str, expected: bool) -> None:
    assert fits(value, pattern) is expected
