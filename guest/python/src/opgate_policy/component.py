"""Connects the exports of a component and a `Policy`. Only a component imports this module.

    describe, validate-settings, validate ─▶ Policy
    an exception ─▶ its text and location in the log ─▶ a trap: the host reports a policy error
"""

from __future__ import annotations

import builtins
import gc
import time
from collections.abc import Callable
from typing import Any

import wit_world  # type: ignore[import-not-found]
from componentize_py_types import Err  # type: ignore[import-not-found]

from . import log, wit
from .document import Document
from .policy import Policy


def words(error: BaseException) -> str:
    """An exception in one line: `panicked at house_images.py:61: KeyError: 'spec'`, with the innermost location in a file of the policy."""
    own, location, trace = None, None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        location = f"{_short(file)}:{trace.tb_lineno}"
        if "opgate_policy/" not in file:
            own = location
        trace = trace.tb_next
    text = str(error)
    kind = type(error).__name__
    return f"panicked at {own or location or 'an unknown location'}: {kind}{f': {text}' if text else ''}"


def _short(file: str) -> str:
    """The path of a file without the directories of the machine or of the component."""
    parts = file.split("/")
    return "/".join(parts[parts.index("opgate_policy") :]) if "opgate_policy" in parts else parts[-1]


def _missing(what: str, name: str) -> Callable[..., Any]:
    def raises(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{name}: a policy has no {what}")

    return raises


def _printed(*values: Any, sep: str | None = " ", **_: Any) -> None:
    log.info((" " if sep is None else sep).join(map(str, values)))


def _without_wasi() -> None:
    """Replaces functions that need WASI: their calls would be traps without a message. `print` writes to the log."""
    builtins.print = _printed
    builtins.open = _missing("files", "open")
    for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep", "localtime", "gmtime"):
        setattr(time, name, _missing("clock", f"time.{name}"))


def world(policy: Policy) -> type:
    """The class that componentize-py exports. The function prepares everything that does not depend on a call, once."""
    descriptor = policy.describe()
    _without_wasi()

    def caught(function: Callable[[], Any]) -> Any:
        try:
            return function()
        except BaseException as error:
            log.error(words(error))
            raise SystemExit(1) from None

    class WitWorld(wit_world.WitWorld):  # type: ignore[misc]
        def describe(self) -> Any:
            return descriptor

        def validate_settings(self, settings: Any) -> None:
            errors = caught(lambda: policy.settings_errors(Document(settings)))
            if errors:
                raise Err([wit.SettingsError(pointer, message) for pointer, message in errors])

        def validate(
            self, operation: Any, routes: int, request: Any, object: Any, old_object: Any, settings: Any
        ) -> Any:
            return caught(lambda: policy.validate(operation.value, routes, request, object, old_object, settings))

    # A call lasts for milliseconds: no garbage collection, and existing objects keep their addresses.
    gc.collect()
    gc.freeze()
    gc.disable()
    return WitWorld
