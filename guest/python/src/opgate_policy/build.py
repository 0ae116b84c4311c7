"""Builds the component of a policy.

    pyproject.toml: [tool.opgate] policy = "house_images:POLICY" ─▶ import it ─┬─▶ `policy` or `cluster-policy` of the contract
                                                                               └─▶ documentation of the rules
    componentize-py, with the contract of this package ─▶ component + section `opgate-docs` ─▶ the file in opgate.yaml
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path

from .policy import Policy

SECTION = b"opgate-docs"


class BuildError(Exception):
    """An error in the directory, with its remediation."""


def main(arguments: list[str]) -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m opgate_policy", description="Build policies for opgate.")
    commands = parser.add_subparsers(dest="command", required=True)
    build_parser = commands.add_parser("build", help="build the component of the policy in a directory")
    build_parser.add_argument("directory", metavar="DIR", nargs="?", default=".", type=Path, help="directory with pyproject.toml [default: .]")
    build_parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="file of the component [default: `module` in opgate.yaml]")
    options = parser.parse_args(arguments)
    try:
        output = build(options.directory, options.output)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(output)
    return 0


def build(directory: Path, output: Path | None = None) -> Path:
    """Builds the policy in a directory, and returns the path of the component."""
    name = named(directory)
    policy = load(directory, name)
    output = output or component_path(directory)
    world = "cluster-policy" if policy.needs_cluster() else "policy"
    with tempfile.TemporaryDirectory(prefix="opgate-policy-") as work:
        made = Path(work, "component.wasm")
        componentize(directory, name, world, Path(work), made)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(made.read_bytes() + section(docs(policy)))
    return output


def named(directory: Path) -> str:
    """The `module:NAME` of the policy in pyproject.toml."""
    file = directory / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BuildError(f"{file}: {error}") from None
    name = project.get("tool", {}).get("opgate", {}).get("policy")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name):
        raise BuildError(f'{file}: does not locate the policy: add [tool.opgate] with policy = "house_images:POLICY"')
    return name


def sources(directory: Path) -> list[Path]:
    """The directories with modules: `src` if it exists, and the directory of the policy."""
    return [path for path in (directory / "src", directory) if path.is_dir()]


def load(directory: Path, name: str) -> Policy:
    """Imports the policy in a directory."""
    module, _, attribute = name.partition(":")
    paths = [str(path.resolve()) for path in sources(directory)]
    sys.path[:0] = paths
    try:
        policy = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise BuildError(f"{directory}: has no module {module}, which pyproject.toml names") from None
    finally:
        del sys.path[: len(paths)]
    if not isinstance(policy, Policy):
        raise BuildError(f"{directory}: {name} is no Policy")
    try:
        policy.describe()
    except ValueError as error:
        raise BuildError(str(error)) from None
    return policy


def component_path(directory: Path) -> Path:
    """The path of the component in opgate.yaml."""
    file = directory / "opgate.yaml"
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise BuildError(f"{file}: {error.strerror}: name the file of the component with --output") from None
    found = re.findall(r"^[ \t-]*module:[ \t]*[\"']?([^\"'#\n]+?)[\"']?[ \t]*(?:#.*)?$", text, re.MULTILINE)
    files = [path for path in found if "://" not in path]
    if len(files) != 1:
        raise BuildError(f"{file}: has {len(files)} files as `module`: name the file of the component with --output")
    return directory / files[0]


def contract() -> Path:
    """The contract: in the package, or above it in the repository."""
    here = Path(__file__).resolve()
    for path in (here.parent / "policy.wit", here.parents[4] / "wit/policy.wit"):
        if path.is_file():
            return path
    raise BuildError("the package has no policy.wit: install opgate-policy again")


APP = """\
from opgate_policy.component import world
from {module} import {attribute}

WitWorld = world({attribute})
"""


def componentize(directory: Path, name: str, world: str, work: Path, output: Path) -> None:
    """Runs componentize-py. Traps replace all of WASI, which policies do not have."""
    module, _, attribute = name.partition(":")
    app = work / "app"
    app.mkdir()
    (app / "opgate_app.py").write_text(APP.format(module=module, attribute=attribute), encoding="utf-8")
    package = Path(__file__).resolve().parents[1]
    paths = [app, *(path.resolve() for path in sources(directory)), package]
    site = Path(sysconfig.get_paths()["purelib"])
    if site != package:
        paths.append(site)
    # The package has no `__main__`, and its script may not be on the path.
    run = "import sys; from componentize_py import script; sys.argv[0] = 'componentize-py'; sys.exit(script())"
    command = [sys.executable, "-c", run, "-q", "-d", str(contract()), "-w", world]
    command += ["componentize", "--stub-wasi", *(f"-p{path}" for path in paths), "-o", str(output), "opgate_app"]
    # componentize-py would search the virtual environment for packages, and find some of another Python.
    environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0 or not output.is_file():
        output_text = (ran.stderr or ran.stdout).strip() or f"it ended with status {ran.returncode}"
        raise BuildError(f"componentize-py could not build a component:\n{output_text}")


def docs(policy: Policy) -> bytes:
    """The documentation of all rules, Markdown."""
    pages = (f"## {rule.id}\n{rule.docs.partition(chr(10))[2].strip(chr(10))}\n\n" for rule in policy.rules)
    return "".join(pages).encode()


def section(data: bytes) -> bytes:
    """A custom section of WebAssembly."""

    def leb(number: int) -> bytes:
        low, rest = number & 0x7F, number >> 7
        return bytes([low | 0x80]) + leb(rest) if rest else bytes([low])

    content = leb(len(SECTION)) + SECTION + data
    return b"\0" + leb(len(content)) + content
