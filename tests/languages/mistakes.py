"""Mistakes in the source of a policy that a language's compiler does not see: a pointer without its first slash,
and a read of a field that the declaration leaves out. Each is an error of the policy, and never an absent value.

    source of the template ─▶ one mistake ─▶ build ─▶ opgate check ─▶ exit status 3, and the place and the repair
"""

import re

from step import Failed, run, shown

POINTER = "/metadata/annotations/house.example~1registry"

# What is written in the place of what, and what the error tells to write.
MISTAKES = {
    "slash": (re.escape(POINTER), POINTER[1:], [f"write '{POINTER}'"]),
    "undeclared": (r"(fields\b.*)/metadata/annotations", r"\1/metadata/labels", [POINTER, "to `fields`"]),
}

# The object of the cluster that the policy reads.
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: team-a, annotations: {house.example/registry: quay.io/house}}
"""


def check_mistakes(opgate, folder, source, builds, env):
    """Makes each mistake in `source`, a file of `folder`, and reads what the check says."""
    right = source.read_text()
    (folder / "namespace.yaml").write_text(NAMESPACE)
    for name, (pattern, wrong, expected) in MISTAKES.items():
        text, count = re.subn(pattern, wrong, right)
        if count != 1:
            raise Failed(f"{name}: {pattern} is {count} times in {source}")
        source.write_text(text)
        for command in builds:
            run(f"{name}: {' '.join(command)}", command, folder, env)
        check = [opgate, "check", "--config", "opgate.yaml", "--cluster-state", "namespace.yaml", "pod.yaml"]
        done = run(f"{name}: opgate check", check, folder, env, status=3)
        # C has no lines in a release build.
        place = [] if source.suffix == ".c" else [f"{source.name}:"]
        for part in expected + place:
            if part not in done.stdout + done.stderr:
                raise Failed(f"{name}: expected {part!r}\n{shown(done.stdout)}\n{shown(done.stderr)}")
    source.write_text(right)
