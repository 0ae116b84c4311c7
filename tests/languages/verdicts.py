"""The same policy in all languages: the same description, the same rule pages, and the same verdicts, byte for byte.

    component of a language ─▶ inspect, pages, replay of reviews.py in each configuration ─▶ files ─▶ compared
                                                                                  with those of Rust
"""

import difflib
import json
import re
import shutil

import reviews
from step import Failed, run, shown

# Members that differ between components, and between runs.
OWN = {"digest", "size", "imports", "source", "limits", "microseconds", "cost", "compiled"}

# The verdicts of a policy are compared, not its speed: the default limit of 100 ms ends a slow language on a busy machine.
LIMITS = {"time": "10s"}

# Settings and levels, and the cluster state (a file, or none). Policies have no other input.
CONFIGURATIONS = {
    "defaults": ({}, "cluster.yaml"),
    "no-cluster": ({}, None),
    "no-namespaces": ({}, "empty.yaml"),
    "registries": ({"settings": {"registries": ["quay.io/house", "quay.io/häuser"]}}, "cluster.yaml"),
    "empty-list": ({"settings": {"registries": []}}, "cluster.yaml"),
    "levels": ({"rules": {"IMG-1": "warn", "IMG-2": "deny", "IMG-3": "off"}}, "cluster.yaml"),
    "all-off": ({"rules": {"IMG-1": "off", "IMG-3": "off"}}, "cluster.yaml"),
    "one-on": ({"rules": {"IMG-1": "off", "IMG-2": "warn", "IMG-3": "warn"}}, "cluster.yaml"),
    "no-ratcheting": ({"settings": {"ratcheting": False, "registries": ["docker.io"]}}, "cluster.yaml"),
    "exempt": (
        {"settings": {"exempt": {"users": ["admin", "jürgen"], "groups": ["admins"]}}},
        "cluster.yaml",
    ),
    "prefix": ({"settings": {"messages": {"prefixRuleId": True}, "registries": ["a"]}}, "cluster.yaml"),
    "warn-skipped": ({"settings": {"messages": {"skippedRules": "warn"}}}, None),
    "warn-skipped-deny": (
        {"settings": {"messages": {"skippedRules": "warn"}}, "rules": {"IMG-3": "deny"}},
        None,
    ),
    "warn-skipped-prefix": (
        {"settings": {"messages": {"skippedRules": "warn", "prefixRuleId": True}}},
        None,
    ),
    "audit": ({"mode": "audit", "settings": {"registries": ["quay.io/team-a"]}}, "cluster.yaml"),
}

# Invalid settings: some for the policy, others for the schema.
WRONG = {
    "slash": {"registries": ["quay.io/house", "quay.io/other/", "/"]},
    "no-list": {"registries": "quay.io/house"},
    "no-text": {"registries": [1]},
    "unknown": {"registry": ["quay.io"]},
    "unknown-value": {"messages": {"skippedRules": "deny"}},
}


def configuration(text, changes):
    """The configuration of the template with the component in the same directory, and with changes of its policy, which is
    the last entry in the file."""
    text, count = re.subn(r"(?m)^( *(?:- )?module:).*$", r"\1 policy.wasm", text)
    if count != 1:
        raise Failed("opgate.yaml: exactly one line has `module:`")
    lines = [f"    {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in changes.items()]
    return "\n".join([text.rstrip(), *lines, ""])


def bare(value):
    """Without members that differ between components."""
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items() if key not in OWN}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


def collect(opgate, component, text, directory, env):
    """Writes the outputs of a component to `directory/out`, one file for each command."""
    shutil.rmtree(directory, ignore_errors=True)
    out = directory / "out"
    out.mkdir(parents=True)
    shutil.copy(component, directory / "policy.wasm")
    reviews.write(directory)

    def ask(what, arguments, status=None):
        return run(what, [opgate, *arguments], directory, env, status=status)

    inspected = ask("inspect", ["policy", "inspect", "--output", "json", "policy.wasm"], 0)
    described = json.dumps(bare(json.loads(inspected.stdout)), indent=1, ensure_ascii=False)
    (out / "inspect.json").write_text(described + "\n")
    for name, (changes, cluster) in CONFIGURATIONS.items():
        (directory / "opgate.yaml").write_text(configuration(text, {**changes, "limits": LIMITS}))
        cluster_state = ["--cluster-state", cluster] if cluster else []
        arguments = ["replay", "--config", "opgate.yaml", "--output", "jsonl", *cluster_state, "reviews.jsonl"]
        done = ask(f"replay with {name}", arguments)
        if done.returncode not in (0, 1):
            raise Failed(f"replay with {name}: exit status {done.returncode}\n{shown(done.stderr)}")
        lines = re.sub(r'"microseconds":\d+', '"microseconds":0', done.stdout)
        # Each review needs a decision.
        if len(lines.splitlines()) != len(reviews.REVIEWS):
            raise Failed(f"replay with {name}: not one line for each review\n{shown(done.stderr)}")
        (out / f"replay-{name}.jsonl").write_text(f"{lines}exit status {done.returncode}\n")
    for name, settings in WRONG.items():
        (directory / "opgate.yaml").write_text(configuration(text, {"settings": settings}))
        done = ask(f"wrong settings: {name}", ["rules", "--config", "opgate.yaml"])
        if done.returncode == 0:
            raise Failed(f"wrong settings: {name}: they are accepted: {settings}")
        (out / f"wrong-{name}.txt").write_text(f"{done.stderr}exit status {done.returncode}\n")
    (directory / "opgate.yaml").write_text(configuration(text, {}))
    ask("pages of the rules", ["rules", "docs", "--config", "opgate.yaml", "out/pages"], 0)
    # Languages break the lines of paragraphs differently.
    for page in (out / "pages").iterdir():
        page.write_text(re.sub(r"(?<!\n)\n(?!\n)", " ", page.read_text()))
    return out


def compare(expected, actual):
    """Compares two directories of `collect`."""
    paths = sorted(p.relative_to(expected) for p in expected.rglob("*") if p.is_file())
    others = sorted(p.relative_to(actual) for p in actual.rglob("*") if p.is_file())
    if paths != others:
        raise Failed(f"verdicts: expected files {paths}, got {others}")
    wrong = []
    for path in paths:
        left, right = (directory.joinpath(path).read_text() for directory in (expected, actual))
        if left != right:
            names = ("expected, as in Rust", "actual")
            lines = difflib.unified_diff(left.splitlines(), right.splitlines(), *names, n=0, lineterm="")
            lines = [line if len(line) < 1_500 else line[:1_500] + "…" for line in lines][:12]
            wrong.append(f"{path} differs:\n" + "\n".join("    " + line for line in lines))
    if wrong:
        raise Failed(f"{len(wrong)} of {len(paths)} answers differ:\n" + "\n".join(wrong[:3]))
