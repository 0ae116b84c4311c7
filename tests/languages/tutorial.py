"""Follows a tutorial as a reader would: writes its files, runs its commands, compares what they print.

    docs/policies/LANGUAGE.md ─▶ blocks with a comment before them ─▶ one directory, in order

The comments: `<!-- run -->` commands, `<!-- run: 10 -->` commands that are repeated for up to 10 seconds until their
exit status is the expected one, `<!-- status: 1 -->` before commands that fail so, `<!-- file: PATH -->` content of a
file, `<!-- output -->` lines that the last commands have printed, in this order (`…` stands for anything). A block
without a comment is only read. Directory and environment are kept from block to block, and background processes end
with the tutorial. A failure shows the logs in the directory.
"""

import os
import re
import socket
import subprocess
import time
from pathlib import Path

from step import MAX_SECONDS, Failed, group, shown

COMMENT = re.compile(r"<!--\s*(run|output|file|status)\s*(?::\s*(.*?))?\s*-->$")
INDENT = "    "
# Seconds that a killed server may keep its port.
MAX_END_SECONDS = 10


class Block:
    """One block of a tutorial, with its comment."""

    def __init__(self, kind, argument, status, place):
        self.kind, self.argument, self.status, self.place = kind, argument, status, place
        self.lines = []

    @property
    def text(self):
        """Its lines, without the indentation."""
        lines = [line[len(INDENT) :] for line in self.lines]
        while lines and not lines[-1]:
            lines.pop()
        return "\n".join(lines) + "\n"


def blocks(text, name):
    """The blocks that have a comment."""
    found, block, status = [], None, 0
    for number, line in enumerate(text.splitlines(), 1):
        comment = COMMENT.match(line.strip())
        if comment and comment[1] == "status":
            status = int(comment[2])
        elif comment:
            block = Block(comment[1], comment[2], status, f"{name}:{number}")
            found.append(block)
            status = 0
        elif block and line.startswith(INDENT):
            block.lines.append(line)
        elif block and not line.strip():
            if block.lines:
                block.lines.append("")
        elif block:
            if not block.lines:
                raise Failed(f"{block.place}: no indented block follows the comment")
            block = None
    return found


def compare(block, printed):
    """Every line of the block is in what was printed, in this order."""
    rest = iter(printed.splitlines())
    for line in block.text.splitlines():
        if line.strip() in ("", "…"):
            continue
        pattern = ".*".join(re.escape(part) for part in line.strip().split("…"))
        if not any(re.fullmatch(pattern, other.strip()) for other in rest):
            raise Failed(
                f"{block.place}: the tutorial shows a line that was not printed, or not in this order:\n"
                f"    {line}\n  printed:\n{shown(printed)}"
            )


def wait_until_free(text, name):
    """The ports in a page must be free: otherwise the tutorial reaches another server. That of a tutorial before is
    killed, and may take a moment to end."""
    until = time.monotonic() + MAX_END_SECONDS
    for port in sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", text))):
        while (error := bind_error(int(port))) is not None:
            if time.monotonic() > until:
                raise Failed(f"{name}: it serves on port {port}, which is not free: {error}")
            time.sleep(0.1)


def bind_error(port):
    """The reason why a server cannot listen on a port of the loopback address; None if it can."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError as error:
            return error
    return None


def execute(script, directory, env, log, groups):
    """Runs commands. Returns their exit status and what they printed; their process group is added to `groups`."""
    with open(log, "w+") as out:
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        groups.append(process.pid)
        try:
            code = process.wait(MAX_SECONDS)
        except subprocess.TimeoutExpired:
            code = f"nothing within {MAX_SECONDS} s"
    return code, log.read_text(errors="replace")


def logs(directory):
    """The ends of the logs in a directory, for a failure."""
    found = sorted(directory.glob("*.log"))
    return "".join(f"\n  {log.name}:\n{shown(log.read_text(errors='replace'))}" for log in found)


def follow(page, directory, env):
    """Follows one page in a directory."""
    name = page.name
    wait_until_free(page.read_text(), name)
    state, log = directory.parent / f"{directory.name}.env", directory.parent / f"{directory.name}.out"
    # The state after a block: its directory and its exported variables.
    after = f"trap 'code=$?; {{ declare -px; printf \"cd %q\\n\" \"$PWD\"; }} > {state}; exit $code' EXIT\n"
    here, printed, ran = directory, "", 0
    with group() as groups:
        for block in blocks(page.read_text(), name):
            if block.kind == "file":
                path = here / block.argument
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text)
            elif block.kind == "output":
                compare(block, printed)
            else:
                before = f". {state}\n" if state.exists() else ""
                script = f"{before}{after}set -eo pipefail\n{block.text}"
                until = time.monotonic() + int(block.argument or 0)
                while True:
                    code, printed = execute(script, here, env, log, groups)
                    if code == block.status or time.monotonic() > until:
                        break
                    time.sleep(0.1)
                ran += 1
                if code != block.status:
                    raise Failed(
                        f"{block.place}: expected exit status {block.status}, got {code}\n"
                        f"{shown(block.text)}\n  printed:\n{shown(printed)}{logs(here)}"
                    )
                moved = re.search(r"^cd (.*)$", state.read_text().splitlines()[-1])
                quoted = subprocess.run(
                    ["bash", "-c", f"printf %s {moved[1]}"], capture_output=True, text=True, check=True
                )
                here = Path(quoted.stdout)
    if not ran and page.parent.name == "policies":
        raise Failed(f"{name}: no block has the comment <!-- run -->")
