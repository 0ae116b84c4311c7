"""The cluster of the host: in a component the imports of the contract, in native tests the objects of the test (`testing.store`)."""

from __future__ import annotations

from typing import Any

from . import wit


class NativeError(Exception):
    """An error of native cluster state, with the members of the errors in a component."""

    def __init__(self, reason: Any) -> None:
        super().__init__(reason)
        self.value = reason


class ReadError_NoCluster:  # noqa: N801, as componentize-py names it
    """There is no cluster state to query."""

    def __init__(self, reason: str) -> None:
        self.value = reason


class _NoCluster:
    """The functions of the contract without cluster state."""

    def __getattr__(self, name: str) -> Any:
        raise NativeError(ReadError_NoCluster("there is no cluster"))


native: Any = _NoCluster()
"""Cluster state of native tests, set by `testing.store.during`."""


def no_cluster() -> Any:
    """Native cluster state in which every query has no answer."""
    return _NoCluster()


def cluster() -> Any:
    """The functions `get`, `list`, `names` and `sample` of the contract."""
    if wit.IN_COMPONENT:
        # A policy without reads does not have this module.
        from wit_world.imports import cluster as imported  # type: ignore[import-not-found]

        return imported
    return native
