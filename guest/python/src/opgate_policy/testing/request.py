"""Requests of native tests: the parts that follow from the object, and the routes that match."""

from __future__ import annotations

from typing import Any

from .. import wit
from ..declare import NamePatterns, Operation
from ..describe import matches
from ..document import Document
from ..policy import Policy


def plural(kind: str) -> str:
    """`networkpolicies` for `NetworkPolicy`."""
    kind = kind.lower()
    if kind.endswith("y"):
        return kind[:-1] + "ies"
    return kind + ("es" if kind.endswith("s") else "s")


class TestRequest:
    """A request with the functions of the host's handle."""

    # Not a test of pytest.
    __test__ = False

    def __init__(
        self,
        object: dict[str, Any] | None,
        old: dict[str, Any] | None,
        *,
        operation: Operation | None = None,
        name: str | None = None,
        namespace: str | None = None,
        user: str = "",
        groups: list[str] | None = None,
        resource: str | None = None,
        sub_resource: str = "",
        version: str | None = None,
        uid: str = "1",
        dry_run: bool = False,
    ) -> None:
        subject = object or old or {}
        metadata = subject.get("metadata") or {}
        if operation is None:
            operation = Operation.CREATE if old is None else Operation.UPDATE if object else Operation.DELETE
        group, slash, of_version = str(subject.get("apiVersion", "")).partition("/")
        if not slash:
            group, of_version = "", group
        kind = str(subject.get("kind", ""))
        self.operation = operation.value
        self._kind = wit.GroupVersionKind(group, of_version, kind)
        self._resource = wit.GroupVersionResource(group, version or of_version, resource or plural(kind))
        self._sub_resource = sub_resource
        self._name = name if name is not None else str(metadata.get("name") or "")
        self._namespace = namespace if namespace is not None else str(metadata.get("namespace") or "")
        self._user = wit.UserInfo(user, "", list(groups or []))
        self._uid, self._dry_run = uid, dry_run

    def uid(self) -> str:
        return self._uid

    def kind(self) -> wit.GroupVersionKind:
        return self._kind

    def resource(self) -> wit.GroupVersionResource:
        return self._resource

    def sub_resource(self) -> str:
        return self._sub_resource

    def name(self) -> str:
        return self._name

    def namespace(self) -> str:
        return self._namespace

    def user(self) -> wit.UserInfo:
        return self._user

    def dry_run(self) -> bool:
        return self._dry_run

    def wants_fixes(self) -> bool:
        return True


def _fits(pattern: str, name: str) -> bool:
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    if not name.startswith(first):
        return False
    name = name[len(first) :]
    *middle, last = rest
    for part in middle:
        before, found, name = name.partition(part) if part else ("", "-", name)
        if not found:
            return False
    return name.endswith(last)


def _named(names: NamePatterns, name: str) -> bool:
    is_in = not names.include or any(_fits(pattern, name) for pattern in names.include)
    return is_in and not any(_fits(pattern, name) for pattern in names.exclude)


def matches_of(policy: Policy, request: TestRequest, settings: Document) -> list[wit.MatchRule]:
    """The match rules that a request fits, as in the host. Labels of namespaces are unknown here, so every namespace selector matches."""
    resource = request.resource()
    name = "/".join(filter(None, (resource.resource, request.sub_resource())))
    whole = f"{resource.resource}/*"
    space = request.name() if resource.resource == "namespaces" and not resource.group else request.namespace()
    found = []
    for match in matches(policy):
        setting = match.namespace
        wanted = None if setting is None else settings.text(setting.pointer)
        fits = (
            (not match.enabled_by or any(settings.has(p) and settings.boolean(p) is not False for p in match.enabled_by))
            and any(operation.value == request.operation for operation in match.operations)
            and any(group in ("*", resource.group) for group in match.groups)
            and any(version in ("*", resource.version) for version in match.versions)
            and any(wanted_name in ("*", "*/*", name, whole) for wanted_name in match.resources)
            and (setting is None or (setting.default if wanted is None else wanted) == request.namespace())
            and (not space or _named(match.namespaces, space))
            and (not request.name() or _named(match.names, request.name()))
        )
        if fits:
            found.append(match)
    return found
