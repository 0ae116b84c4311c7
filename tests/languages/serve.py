"""Enforces a policy: a server with its own certificates denies a request over TLS, and allows another one."""

import http.client
import json
import re
import ssl
import subprocess
import time

from step import Failed, group, run, shown

# Seconds until a server serves. It compiles the component, on a loaded machine.
STARTS = 120


def pod(image):
    """A review of a Pod with this image."""
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "shop",
        "namespace": "team-a",
        "userInfo": {"username": "jo"},
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "shop", "namespace": "team-a"},
            "spec": {"containers": [{"name": "shop", "image": image}]},
        },
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def enforced(opgate, directory, configuration, env):
    """Serves the configuration and sends two reviews."""
    run("certificates", [opgate, "certs", "issue", "--out", "tls", "--name", "localhost"], directory, env)
    log = directory / "serve.log"
    serve = ["--tls-dir", "tls", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]
    with open(log, "w") as out, group() as groups:
        server = subprocess.Popen(
            [opgate, "serve", "--config", configuration, *serve],
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        groups.append(server.pid)
        port, until = None, time.monotonic() + STARTS
        while port is None:
            said = re.search(r" serving address=127\.0\.0\.1:(\d+)", log.read_text(errors="replace"))
            if said:
                port = int(said[1])
            elif server.poll() is not None or time.monotonic() > until:
                raise Failed(f"serve: it does not serve:\n{shown(log.read_text(errors='replace'))}")
            else:
                time.sleep(0.05)
        trusted = ssl.create_default_context(cafile=directory / "tls" / "ca.crt")
        for image, allowed, message in [
            ("quay.io/house/shop:v1", False, "quay.io/house/shop:v1 has no digest"),
            ("quay.io/house/shop@sha256:00", True, None),
        ]:
            asked = http.client.HTTPSConnection("localhost", port, context=trusted, timeout=60)
            head = {"Content-Type": "application/json"}
            asked.request("POST", "/validate?timeout=30s", json.dumps(pod(image)), head)
            answer = json.loads(asked.getresponse().read())["response"]
            asked.close()
            got = (answer["allowed"], answer.get("status", {}).get("message"))
            if got != (allowed, message):
                raise Failed(
                    f"serve: {image}: expected {(allowed, message)}, got {got}\n"
                    f"{shown(log.read_text(errors='replace'))}"
                )
