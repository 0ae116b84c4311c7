"""Specs of pods, wherever an object has them, and the containers in these. The Rust SDK does the same in guest/sdk/src/pods.rs.

    ClusterServiceVersion ─▶ in_csv ───▶ one PodSpec for each deployment ─┐
    Pod, workload ─────────▶ in_object ▶ one PodSpec ─────────────────────┴─▶ containers(document) ─▶ Container
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .document import Document

_DEPLOYMENTS = "/spec/install/spec/deployments"
_TEMPLATE = "/spec/template/spec"
_LISTS = ("containers", "initContainers", "ephemeralContainers")
_POINTERS = {
    "Pod": "/spec",
    **dict.fromkeys(("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController", "Job"), _TEMPLATE),
    "CronJob": "/spec/jobTemplate/spec/template/spec",
    "PodTemplate": "/template/spec",
}


@dataclass(frozen=True)
class Container:
    """A container, init container or ephemeral container."""

    spec: PodSpec
    """The spec that it is in."""
    list: str
    """`containers`, `initContainers` or `ephemeralContainers`."""
    index: int
    """Its index in the list."""
    row: tuple[str | bool | None, ...]
    """The values at the requested columns."""

    @property
    def pointer(self) -> str:
        """Its path as a JSON pointer."""
        return f"{self.spec.pointer}/{self.list}/{self.index}"

    @property
    def field(self) -> str:
        """Its path as Kubernetes writes it."""
        return f"{self.spec.field}.{self.list}[{self.index}]"

    @property
    def is_regular(self) -> bool:
        """Whether it is among `containers`."""
        return self.list == "containers"


@dataclass(frozen=True)
class PodSpec:
    """The spec of a Pod, or of the pods that a template creates."""

    name: str
    """Name of the object, or of the deployment of a ClusterServiceVersion."""
    pointer: str
    """Its path as a JSON pointer."""
    field: str
    """Its path as Kubernetes writes it."""

    def containers(self, document: Document, *columns: str) -> Iterator[Container]:
        """The containers of all three lists with the texts and booleans at the columns (default: `/name`), pointers relative to a
        container. One call of the host for each list. `document` is the one from which the spec is."""
        for name in _LISTS:
            for index, row in enumerate(document.rows(f"{self.pointer}/{name}", *(columns or ("/name",)))):
                yield Container(self, name, index, row)


def in_object(document: Document, kind: str) -> PodSpec | None:
    """The spec of a Pod, or of the template of a Deployment, DaemonSet, StatefulSet, ReplicaSet, ReplicationController, Job, CronJob or
    PodTemplate. None for other kinds."""
    pointer = _POINTERS.get(kind)
    if pointer is None:
        return None
    return PodSpec(document.text("/metadata/name") or "", pointer, pointer[1:].replace("/", "."))


def in_csv(document: Document) -> list[PodSpec]:
    """The templates of the deployments of a ClusterServiceVersion."""
    names = document.rows(_DEPLOYMENTS, "/name")
    field = "spec.install.spec.deployments"
    return [
        PodSpec(name if isinstance(name, str) else "", f"{_DEPLOYMENTS}/{index}{_TEMPLATE}", f"{field}[{index}].spec.template.spec")
        for index, (name,) in enumerate(names)
    ]
