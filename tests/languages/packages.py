"""The SDKs as they are published, and how the package managers of the languages find them before they are.

    cargo publish --dry-run ─▶ .crate ─▶ [patch.crates-io] in the configuration above all directories
    npm pack                ─▶ .tgz   ─▶ a registry for the scope @opgate, on loopback
    python -m build         ─▶ wheel  ─▶ PIP_FIND_LINKS
    make dist               ─▶ .tar.gz ─▶ in the directory of the policy, as after a download

Everything else comes from crates.io, npm and PyPI, in the versions that templates and tutorials name.
"""

import base64
import hashlib
import http.server
import json
import shutil
import sys
import tarfile
import threading
import urllib.parse
from pathlib import Path

from step import Failed, Missing, run

TOP = Path(__file__).resolve().parents[2]

# Builds packages of Python.
BUILD = "build==1.3.0"


def needs(path):
    """A part of the project that must be there."""
    if not (TOP / path).exists():
        raise Missing(f"{path} is not there")
    return TOP / path


def only(directory, pattern):
    """The one file that fits."""
    found = sorted(directory.glob(pattern))
    if len(found) != 1:
        raise Failed(f"expected one {pattern} in {directory}, got {[path.name for path in found]}")
    return found[0]


def crates(work, env):
    """Packs and builds all published crates, and configures cargo to use them below this directory."""
    asked = run("cargo metadata", ["cargo", "metadata", "--no-deps", "--format-version", "1"], TOP, env)
    packages = json.loads(asked.stdout)["packages"]
    names = sorted(package["name"] for package in packages if package["publish"] is None)
    flags = [flag for name in names for flag in ("-p", name)]
    target = TOP / "target" / "languages"
    # cargo keeps what a dry run before has unpacked, by name and version, and would build that.
    home = Path(env.get("CARGO_HOME", Path.home() / ".cargo"))
    for package in packages:
        if package["publish"] is None:
            for kept in home.glob(f"registry/*/*/{package['name']}-{package['version']}*"):
                shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    command = ["cargo", "publish", "--dry-run", "--allow-dirty", "--locked", "--target-dir", str(target)]
    run("cargo publish --dry-run", [*command, *flags], TOP, env)
    directory = work / "crates"
    # No common build directory: cargo tells packages of the same name and version in two directories apart by nothing
    # else, and would take the policy of the template for that of the tutorial.
    lines = ["[patch.crates-io]"]
    version = next(package["version"] for package in packages if package["name"] == "opgate-sdk")
    for name in names:
        with tarfile.open(only(target / "package" / "tmp-crate", f"{name}-{version}.crate")) as crate:
            crate.extractall(directory, filter="data")
        lines.append(f"{name} = {{ path = {json.dumps(str(directory / f'{name}-{version}'))} }}")
    configuration = work / ".cargo" / "config.toml"
    configuration.parent.mkdir(exist_ok=True)
    configuration.write_text("\n".join(lines) + "\n")
    return {}


class Registry(http.server.BaseHTTPRequestHandler):
    """What `npm install` asks of a registry."""

    def do_GET(self):
        path = urllib.parse.unquote(self.path)
        content = self.server.files.get(path)
        self.send_response(200 if content else 404)
        self.send_header("Content-Type", "application/json" if content and content[:1] == b"{" else "application/octet-stream")
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_):
        pass


def npm(work, env):
    """Packs the SDK for JavaScript, and serves it."""
    source = needs("guest/javascript/package.json").parent
    directory = work / "npm"
    directory.mkdir(exist_ok=True)
    if (source / "package-lock.json").exists():
        run("npm ci", ["npm", "ci", "--no-audit", "--no-fund"], source, env)
    run("npm pack", ["npm", "pack", "--pack-destination", str(directory)], source, env)
    tarball = only(directory, "*.tgz")
    content = tarball.read_bytes()
    with tarfile.open(tarball) as packed:
        manifest = json.load(packed.extractfile("package/package.json"))
    name, version = manifest["name"], manifest["version"]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    address = f"http://127.0.0.1:{server.server_port}"
    at = f"/{name}/-/{tarball.name}"
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    dist = {"tarball": address + at, "integrity": f"sha512-{digest}"}
    described = {
        "name": name,
        "dist-tags": {"latest": version},
        "versions": {version: {**manifest, "dist": dist}},
    }
    server.files = {f"/{name}": json.dumps(described).encode(), at: content}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    own = run("npm config", ["npm", "config", "get", "userconfig"], work, env).stdout.strip()
    known = Path(own).read_text() if Path(own).is_file() else ""
    (work / "npmrc").write_text(f"{known}\n@opgate:registry={address}/\n")
    return {"NPM_CONFIG_USERCONFIG": str(work / "npmrc")}


def wheels(work, env):
    """Packs the SDK for Python, as source and as wheel."""
    source = needs("guest/python/pyproject.toml").parent
    tools, directory = work / "python-tools", work / "wheels"
    run("venv", [sys.executable, "-m", "venv", str(tools)], work, env)
    python = str(tools / "bin" / "python")
    run(f"pip install {BUILD}", [python, "-m", "pip", "install", "--quiet", BUILD], work, env)
    run("python -m build", [python, "-m", "build", "--outdir", str(directory), str(source)], work, env)
    only(directory, "*.tar.gz"), only(directory, "*.whl")
    known = env.get("PIP_FIND_LINKS", "")
    return {"PIP_FIND_LINKS": f"{directory} {known}".strip(), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def tarball(work, env):
    """Packs the SDK for C."""
    source = needs("guest/c/Makefile").parent
    run("make dist", ["make", "dist"], source, env)
    packed = only(source, "**/opgate-policy-c-*.tar.gz")
    directory = work / "c"
    directory.mkdir(exist_ok=True)
    shutil.move(packed, directory / packed.name)
    return {}
