"""Writes, tests and enforces the same policy in every language, from packages as they are published.

    for each language: pack its SDK ─▶ test the SDK ─▶ follow its tutorial ─▶ a new policy from the checkout
                       ─▶ the example from the packages ─▶ build ─▶ cases ─▶ verdicts as those of Rust ─▶ serve and deny ─▶ mistakes ─▶ examples

`.ci/languages` calls it. As many languages as there are processors are under way at a time, because most steps use
one: each line begins with its language. A failure reports the language, the step, the expected and the actual result.
"""

import argparse
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mistakes
import packages
import serve
import tutorial
import verdicts
from packages import TOP
from step import Failed, Missing, run, shown

NAME = "house-images"
# The small policy.
NEW = "house-rules"

# Names of locks.
PORTS, ENVIRONMENT = "ports", "environment"


class Language:
    """The differences between languages."""

    def __init__(
        self, name, pack, source, tests, install, builds, page=None, files="", marker=None, native=()
    ):
        self.name, self.pack, self.source, self.tests = name, pack, source, tests
        # The file that identifies examples in this language, and the commands of their tests. Tests of the workspace
        # cover those in Rust.
        self.marker, self.native = marker, list(native)
        # In the directory of a policy: commands before the first build, and of each build.
        self.install, self.builds = install, builds
        # Its tutorial, and the files in the directory at its beginning.
        self.page, self.files = page, files


SNAKE = NAME.replace("-", "_")
RUST = Language(
    "rust",
    packages.crates,
    "guest/sdk",
    # `cargo test --workspace` has tested the SDK.
    [],
    [],
    [
        ["cargo", "build", "--release", "--target", "wasm32-unknown-unknown"],
        ["opgate", "policy", "pack", f"target/wasm32-unknown-unknown/release/{SNAKE}.wasm"],
    ],
    "rust",
)
NPM_INSTALL = ["npm", "install", "--no-audit", "--no-fund"]
LANGUAGES = [
    RUST,
    Language(
        "typescript",
        packages.npm,
        "guest/javascript",
        [["npm", "test"]],
        [NPM_INSTALL],
        [["npm", "run", "build"]],
        "typescript",
        marker="package.json",
        native=[["npm", "test"]],
    ),
    Language("javascript", packages.npm, "guest/javascript", [], [NPM_INSTALL], [["npm", "run", "build"]]),
    Language(
        "python",
        packages.wheels,
        "guest/python",
        [
            ["python", "-m", "pip", "install", "--quiet", "opgate-policy[cases]==0.7.0", "pytest==8.3.4"],
            ["python", "-m", "pytest", "--quiet", "tests"],
        ],
        [["python", "-m", "pip", "install", "--quiet", "-r", "requirements.txt"]],
        [["python", "-m", "opgate_policy", "build"]],
        "python",
        marker="pyproject.toml",
        native=[["python", "-m", "pytest", "--quiet"]],
    ),
    Language(
        "c",
        packages.tarball,
        "guest/c",
        [["make", "check"]],
        [["bash", "-c", "tar xzf opgate-policy-c-*.tar.gz"]],
        [["make"]],
        "c",
        "c/opgate-policy-c-*.tar.gz",
        marker="Makefile",
    ),
]

# The source of the template, in the directory of the policy.
SOURCES = {
    "rust": "src/lib.rs",
    "typescript": "src/policy.ts",
    "javascript": "src/policy.js",
    "python": f"{SNAKE}.py",
    "c": "src/policy.c",
}


class Run:
    """One run: its directory, the binary, and the environment of all commands."""

    def __init__(self, work, opgate):
        self.work, self.packed = work, set()
        # What several languages use: packages, the policy of Rust with its verdicts, and the ports in tutorials.
        shared = [*(language.name for language in LANGUAGES), *(language.pack for language in LANGUAGES)]
        self.locks = {of: threading.RLock() for of in [*shared, PORTS, ENVIRONMENT]}
        (work / "bin").mkdir()
        (work / "bin" / "opgate").symlink_to(opgate)
        self.opgate = str(work / "bin" / "opgate")
        kept = {
            key: value
            for key, value in os.environ.items()
            # No variables of the build that runs this, and of no cluster.
            if not key.startswith(("CARGO_TARGET", "CARGO_BUILD", "CARGO_MANIFEST", "OPGATE", "KUBE", "VIRTUAL_ENV"))
        }
        self.env = {
            **kept,
            "PATH": f"{work / 'bin'}:{kept['PATH']}",
            "OPGATE_CACHE_DIR": str(work / "cache"),
            "CARGO_TERM_COLOR": "never",
            "NO_COLOR": "1",
            "CI": "true",
        }
        # The toolchain of this repository, also in directories outside of it.
        channel = re.search(r'channel = "(.*)"', (TOP / "rust-toolchain.toml").read_text())
        self.env["RUSTUP_TOOLCHAIN"] = channel[1]

    def pack(self, language):
        """Packs the SDK, once."""
        with self.locks[language.pack]:
            if language.pack not in self.packed:
                found = language.pack(self.work, self.env)
                with self.locks[ENVIRONMENT]:
                    # A new dictionary: other languages start commands with the old one.
                    self.env = {**self.env, **found}
                self.packed.add(language.pack)

    def with_python(self, directory):
        """The environment with an own `python`, as after `. .venv/bin/activate`."""
        run("venv", [sys.executable, "-m", "venv", str(directory)], self.work, self.env)
        return {**self.env, "PATH": f"{directory / 'bin'}:{self.env['PATH']}", "VIRTUAL_ENV": str(directory)}

    def environment(self, language, what):
        """The environment of commands of a language."""
        return self.with_python(self.work / f"venv-{what}") if language.name == "python" else self.env

    def sdk_tests(self, language):
        """The SDK's own tests."""
        env = self.environment(language, "sdk") if language.tests else self.env
        for command in language.tests:
            run(" ".join(command), command, TOP / language.source, env)

    def tutorial(self, language):
        """The pages, as a reader follows them."""
        pages = [packages.needs(f"docs/policies/{language.page}.md")]
        if language is RUST:
            pages.append(packages.needs("docs/write-a-policy.md"))
        for page in pages:
            directory = self.work / f"tutorial-{page.stem}"
            directory.mkdir()
            self.bring(language, directory)
            with self.locks[PORTS]:
                tutorial.follow(page, directory, self.env)

    def bring(self, language, directory):
        """Copies the files that users download."""
        for path in self.work.glob(language.files) if language.files else []:
            shutil.copy(path, directory)

    def new(self, language):
        """A new policy, from this checkout: the commands that `opgate policy new` prints, and nothing else."""
        directory = self.work / "new" / language.name
        directory.mkdir(parents=True)
        made = run(
            "opgate policy new", [self.opgate, "policy", "new", NEW, "--lang", language.name], directory, self.env
        )
        printed = made.stdout.partition("Next:\n")[2].partition("\n\n")[0]
        # Two columns: a command, and its purpose.
        commands = [re.split(r" {2,}", line.strip())[0] for line in printed.splitlines()]
        if len(commands) < 4 or not commands[-1].startswith("opgate check "):
            raise Failed(f"opgate policy new prints no commands:\n{made.stdout}")
        script = "\n".join(["set -eo pipefail", *commands[:-1], f"{commands[-1]} || test $? = 1"])
        done = run("the printed commands", ["bash", "-c", script], directory, self.env)
        for part in ("2 passed", "the label team is missing"):
            if part not in done.stdout:
                raise Failed(f"new: expected {part!r}\n{shown(done.stdout)}\n{shown(done.stderr)}")

    def template(self, language):
        """The example: built, and its cases. Returns its directory and its component."""
        with self.locks[language.name]:
            return self.built_template(language)

    def built_template(self, language):
        """See `template`."""
        directory = self.work / language.name / NAME
        if directory.exists():
            return directory, self.component(directory)
        packages.needs(f"host/opgate/templates/example/{language.name}")
        directory.parent.mkdir(exist_ok=True)
        new = [self.opgate, "policy", "new", NAME, "--lang", language.name, "--example", "--sdk", "packages"]
        run("opgate policy new", new, directory.parent, self.env)
        self.bring(language, directory)
        env = self.environment(language, "template")
        for command in language.install + language.builds:
            run(" ".join(command), command, directory, env)
        run("opgate policy test", [self.opgate, "policy", "test", "."], directory, env)
        return directory, self.component(directory)

    def component(self, directory):
        """The file that `module` names."""
        module = re.search(r"(?m)^ *(?:- )?module: *(\S+)", (directory / "opgate.yaml").read_text())
        component = directory / module[1] if module else directory
        if not component.is_file():
            raise Failed(f"template: the build makes no {component}, as opgate.yaml says")
        return component

    def said(self, language):
        """What the policy of a language says and decides."""
        out = self.work / "verdicts" / language.name / "out"
        with self.locks[language.name]:
            if out.exists():
                return out
            directory, component = self.template(language)
            text = (directory / "opgate.yaml").read_text()
            return verdicts.collect(self.opgate, component, text, out.parent, self.env)

    def verdicts(self, language):
        """The same as in Rust."""
        self.pack(RUST)
        verdicts.compare(self.said(RUST), self.said(language))

    def serve(self, language):
        """Enforced."""
        directory, _ = self.template(language)
        serve.enforced(self.opgate, directory, "opgate.yaml", self.env)

    def mistakes(self, language):
        """Errors in the source that no compiler sees."""
        directory, _ = self.template(language)
        env = self.environment(language, "template")
        mistakes.check_mistakes(self.opgate, directory, directory / SOURCES[language.name], language.builds, env)

    def examples(self, language):
        """The policies of the gallery in this language, from its packages: own tests, and cases of the component."""
        for source in sorted((TOP / "examples").iterdir()):
            if not (source / language.marker).is_file():
                continue
            directory = self.work / "examples" / source.name
            shutil.copytree(source, directory, ignore=shutil.ignore_patterns("node_modules", "dist", ".venv"))
            self.bring(language, directory)
            env = self.environment(language, source.name)
            if language.name == "c":
                env = {**env, "OPGATE_SDK": next(directory.glob("opgate-policy-c-*.tar.gz")).name.removesuffix(".tar.gz")}
            for command in language.install + language.native + language.builds:
                run(f"{source.name}: {' '.join(command)}", command, directory, env)
            test = [self.opgate, "policy", "test", "--no-build", "."]
            run(f"{source.name}: opgate policy test", test, directory, env)

    def language(self, language):
        """All steps of one language."""
        packages.needs(language.source)
        steps = ["pack", "sdk_tests", "new", "template", "verdicts", "serve", "mistakes"]
        if language.marker:
            steps.append("examples")
        if language.page:
            steps.insert(2, "tutorial")
        for name in steps:
            began = time.monotonic()
            try:
                getattr(self, name)(language)
            except Failed as failed:
                raise type(failed)(f"{name.replace('_', ' ')}: {failed}") from None
            logging.info("ok %s (%.0f s)", name.replace("_", " "), time.monotonic() - began)

    def outcome(self, language):
        """Runs all steps of a language. Returns "passed", "failed" or "skipped"."""
        threading.current_thread().name = language.name
        try:
            self.language(language)
        except Missing as missing:
            logging.info("MISSING %s", missing)
            return "skipped"
        except Failed as why:
            logging.info("FAILED %s", why)
            return "failed"
        return "passed"


def main():
    """Gives the exit status."""
    names = [language.name for language in LANGUAGES]
    parser = argparse.ArgumentParser(prog=".ci/languages", description=__doc__.splitlines()[0])
    parser.add_argument("language", nargs="*", choices=[*names, []], help="those to try, by default all")
    parser.add_argument("--allow-missing", action="store_true", help="parts that are not there fail nothing")
    parser.add_argument("--opgate", type=Path, required=True, help="the binary")
    arguments = parser.parse_args()
    # Outside of the repository, so that its directories belong to no workspace.
    work = Path(tempfile.mkdtemp(prefix="opgate-languages-")).resolve()
    this = Run(work, arguments.opgate.resolve())
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(threadName)s: %(message)s")
    chosen = [language for language in LANGUAGES if not arguments.language or language.name in arguments.language]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(this.outcome, chosen))
    passed, failed, skipped = (outcomes.count(outcome) for outcome in ("passed", "failed", "skipped"))
    if not arguments.allow_missing:
        failed, skipped = failed + skipped, 0
    if failed:
        print(f"what was made is in {work}", flush=True)
    else:
        shutil.rmtree(work)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
