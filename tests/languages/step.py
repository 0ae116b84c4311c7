"""Commands and checks. A failure reports the language, the step, the expected and the actual result."""

import contextlib
import logging
import os
import signal
import subprocess
import time

# Bytes of the output of a command that a failure shows: its end.
SHOWN = 6_000
# Seconds that one command may take. The longest compile a component, or install packages.
MAX_SECONDS = 600


class Failed(Exception):
    """A step that failed; the text is the reason."""


class Missing(Failed):
    """A part that is not there yet."""


def shown(text):
    """The end of a long text, indented."""
    cut = len(text) - SHOWN
    text = text if cut <= 0 else f"… {cut} characters before …\n{text[-SHOWN:]}"
    return "\n".join("    " + line for line in text.splitlines())


def run(what, command, directory, env, *, status=0):
    """Runs a command in a directory. Returns its stdout and stderr. `status` is the expected exit status, None for
    any."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{what}: not done within {MAX_SECONDS} s: {' '.join(command)}") from None
    except FileNotFoundError as error:
        raise Failed(f"{what}: {error}") from None
    duration = time.monotonic() - began
    if duration > 5:
        logging.info("   %s: %.0f s", what, duration)
    if status is not None and done.returncode != status:
        raise Failed(
            f"{what}: expected exit status {status}, got {done.returncode}\n"
            f"  command: {' '.join(map(str, command))}\n  in: {directory}\n"
            f"{shown(done.stdout)}\n{shown(done.stderr)}"
        )
    return done


@contextlib.contextmanager
def group():
    """Process groups that end with the block: a list, to which their ids are added."""
    groups = []
    try:
        yield groups
    finally:
        for number in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(number, signal.SIGKILL)
