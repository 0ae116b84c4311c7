"""Mistakes in the source of a policy that a language's compiler does not find: a pointer without its first slash, and
a read of an undeclared field. Each is a policy error, and never a missing value.

    source of the template ─▶ one mistake ─▶ build ─▶ opgate check ─▶ exit status 3, with location and remediation
"""

import re

from step import Failed, run, shown

POINTER = "/metadata/annotations/house.example~1registry"

# The right text, the mistake that replaces it, and the parts of the error.
MISTAKES = {
    "slash": (re.escape(POINTER), POINTER[1:], [f"write '{POINTER}'"]),
    "undeclared": (r"(fields\b.*)/metadata/annotations", r"\1/metadata/labels", [POINTER, "to `fields`"]),
}

# The cluster object that the policy reads.
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: team-a, annotations: {house.example/registry: quay.io/house}}
"""


def check_mistakes(opgate, directory, source, builds, env):
    """Makes each mistake in `source`, a file of `directory`, and compares the error of the check."""
    right = source.read_text()
    (directory / "namespace.yaml").write_text(NAMESPACE)
    for name, (pattern, wrong, expected) in MISTAKES.items():
        text, count = re.subn(pattern, wrong, right)
        if count != 1:
            raise Failed(f"{name}: {pattern} is {count} times in {source}")
        source.write_text(text)
        for command in builds:
            run(f"{name}: {' '.join(command)}", command, directory, env)
        check = [opgate, "check", "--config", "opgate.yaml", "--cluster-state", "namespace.yaml", "pod.yaml"]
        done = run(f"{name}: opgate check", check, directory, env, status=3)
        # C has no lines in a release build.
        location = [] if source.suffix == ".c" else [f"{source.name}:"]
        for part in expected + location:
            if part not in done.stdout + done.stderr:
                raise Failed(f"{name}: expected {part!r}\n{shown(done.stdout)}\n{shown(done.stderr)}")
    source.write_text(right)
