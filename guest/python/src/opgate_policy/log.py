"""Lines for the host's log. The host adds the name of the policy, and keeps 64 lines of 2,048 bytes of a call.

In native tests the lines are kept until `taken` returns them.
"""

from __future__ import annotations

from . import wit

if wit.IN_COMPONENT:
    from wit_world.imports.log import Severity, log  # type: ignore[import-not-found]

_LINES: list[str] = []
_SEVERITIES = ("DEBUG", "INFO", "WARN", "ERROR")


def _write(severity: int, message: str) -> None:
    if wit.IN_COMPONENT:
        log(Severity(severity), message.encode(errors="replace").decode())
    else:
        _LINES.append(f"{_SEVERITIES[severity]} {message}")


def debug(message: str) -> None:
    """A line for debugging."""
    _write(0, message)


def info(message: str) -> None:
    """A line for information."""
    _write(1, message)


def warn(message: str) -> None:
    """A warning for administrators."""
    _write(2, message)


def error(message: str) -> None:
    """An error. The last such line of a call that fails is the text of the policy error."""
    _write(3, message)


def taken() -> list[str]:
    """The lines since the last call, in native tests, each with its severity before it."""
    lines = _LINES.copy()
    _LINES.clear()
    return lines
