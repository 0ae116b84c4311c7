"""The same policy in all languages: the same description, the same pages of rules, and the same verdicts, byte for
byte.

    component of a language ─▶ inspect, pages, replay of reviews.py in each configuration ─▶ files ─▶ compared
                                                                                  with those of Rust
"""

import difflib
import json
import re
import shutil

import reviews
from step import Failed, run, shown

# What differs from component to component, and from run to run.
OWN = {"digest", "size", "imports", "source", "limits", "microseconds", "cost", "compiled"}

# Settings and levels, the objects of the cluster (a file, or none), and nothing else that policies see.
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
    "warn-missing": ({"settings": {"context": {"missing": "warn"}}}, None),
    "warn-missing-deny": (
        {"settings": {"context": {"missing": "warn"}}, "rules": {"IMG-3": "deny"}},
        None,
    ),
    "warn-missing-prefix": (
        {"settings": {"context": {"missing": "warn"}, "messages": {"prefixRuleId": True}}},
        None,
    ),
    "audit": ({"mode": "audit", "settings": {"registries": ["quay.io/team-a"]}}, "cluster.yaml"),
}

# Settings that are refused: by the policy itself, and by the schema.
WRONG = {
    "slash": {"registries": ["quay.io/house", "quay.io/other/", "/"]},
    "no-list": {"registries": "quay.io/house"},
    "no-text": {"registries": [1]},
    "unknown": {"registry": ["quay.io"]},
    "unknown-context": {"context": {"missing": "deny"}},
}


def configuration(text, changes):
    """The configuration of the template with the component beside it, and with changes of its policy, which is the
    last thing in the file."""
    text, count = re.subn(r"(?m)^( *(?:- )?module:).*$", r"\1 policy.wasm", text)
    if count != 1:
        raise Failed("opgate.yaml: one line says `module:`")
    lines = [f"    {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in changes.items()]
    return "\n".join([text.rstrip(), *lines, ""])


def bare(value):
    """Without what every component has of its own."""
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items() if key not in OWN}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


def collect(opgate, component, text, folder, env):
    """Writes what a component says and decides to `folder/out`, one file for each question."""
    shutil.rmtree(folder, ignore_errors=True)
    out = folder / "out"
    out.mkdir(parents=True)
    shutil.copy(component, folder / "policy.wasm")
    reviews.write(folder)

    def ask(what, arguments, status=None):
        return run(what, [opgate, *arguments], folder, env, status=status)

    inspected = ask("inspect", ["policy", "inspect", "--output", "json", "policy.wasm"], 0)
    described = json.dumps(bare(json.loads(inspected.stdout)), indent=1, ensure_ascii=False)
    (out / "inspect.json").write_text(described + "\n")
    for name, (changes, cluster) in CONFIGURATIONS.items():
        (folder / "opgate.yaml").write_text(configuration(text, changes))
        context = ["--cluster-state", cluster] if cluster else []
        arguments = ["replay", "--config", "opgate.yaml", "--output", "jsonl", *context, "reviews.jsonl"]
        done = ask(f"replay with {name}", arguments)
        if done.returncode not in (0, 1):
            raise Failed(f"replay with {name}: exit status {done.returncode}\n{shown(done.stderr)}")
        lines = re.sub(r'"microseconds":\d+', '"microseconds":0', done.stdout)
        # Only the verdicts count, and that each review was decided.
        if len(lines.splitlines()) != len(reviews.REVIEWS):
            raise Failed(f"replay with {name}: not one line for each review\n{shown(done.stderr)}")
        (out / f"replay-{name}.jsonl").write_text(f"{lines}exit status {done.returncode}\n")
    for name, settings in WRONG.items():
        (folder / "opgate.yaml").write_text(configuration(text, {"settings": settings}))
        done = ask(f"wrong settings: {name}", ["rules", "--config", "opgate.yaml"])
        if done.returncode == 0:
            raise Failed(f"wrong settings: {name}: they are accepted: {settings}")
        (out / f"wrong-{name}.txt").write_text(f"{done.stderr}exit status {done.returncode}\n")
    (folder / "opgate.yaml").write_text(configuration(text, {}))
    ask("pages of the rules", ["rules", "pages", "--config", "opgate.yaml", "out/pages"], 0)
    # Languages break the lines of paragraphs at other places.
    for page in (out / "pages").iterdir():
        page.write_text(re.sub(r"(?<!\n)\n(?!\n)", " ", page.read_text()))
    return out


def compare(expected, actual):
    """Two folders of `collect`."""
    paths = sorted(p.relative_to(expected) for p in expected.rglob("*") if p.is_file())
    others = sorted(p.relative_to(actual) for p in actual.rglob("*") if p.is_file())
    if paths != others:
        raise Failed(f"verdicts: expected files {paths}, got {others}")
    wrong = []
    for path in paths:
        left, right = (folder.joinpath(path).read_text() for folder in (expected, actual))
        if left != right:
            names = ("expected, as in Rust", "actual")
            lines = difflib.unified_diff(left.splitlines(), right.splitlines(), *names, n=0, lineterm="")
            lines = [line if len(line) < 1_500 else line[:1_500] + "…" for line in lines][:12]
            wrong.append(f"{path} differs:\n" + "\n".join("    " + line for line in lines))
    if wrong:
        raise Failed(f"{len(wrong)} of {len(paths)} answers differ:\n" + "\n".join(wrong[:3]))
