"""A review for rules: the request, the objects, the user who sent it, and the settings."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from .declare import UPDATE, Operation
from .document import Document
from .shape import Shape


class Request:
    """The request under review, without its objects. The first read of each part is a call of the host."""

    def __init__(self, operation: Operation, handle: Any) -> None:
        self.operation = operation
        self._handle = handle

    @cached_property
    def uid(self) -> str:
        """Identifies this call. It differs between retries of the same API request."""
        return self._handle.uid()

    @cached_property
    def kind(self) -> Any:
        """Group, version and kind of the object (`group`, `version`, `kind`)."""
        return self._handle.kind()

    @cached_property
    def resource(self) -> Any:
        """Group, version and plural of the resource (`group`, `version`, `resource`)."""
        return self._handle.resource()

    @cached_property
    def sub_resource(self) -> str:
        """`status`, `scale`, … or empty for the resource itself."""
        return self._handle.sub_resource()

    @cached_property
    def name(self) -> str:
        """Name of the object."""
        return self._handle.name()

    @cached_property
    def namespace(self) -> str:
        """Namespace of the object, empty for a cluster-scoped one."""
        return self._handle.namespace()

    @cached_property
    def user(self) -> Any:
        """The user who sent the request (`username`, `uid`, `groups`)."""
        return self._handle.user()

    @cached_property
    def is_dry_run(self) -> bool:
        """Whether the request is a dry run, which the API server does not persist."""
        return self._handle.dry_run()

    @cached_property
    def wants_fixes(self) -> bool:
        """Whether the host uses fixes: for files it does, for requests of an API server it does not."""
        return self._handle.wants_fixes()


class Review:
    """A request with its objects and the settings of the policy."""

    def __init__(
        self, request: Request, object: Document | None, old: Document | None, settings: Document
    ) -> None:
        self.request = request
        self.object = object
        """The object, None on DELETE."""
        self.old = old
        """The object before, None on CREATE and CONNECT."""
        self.settings = settings
        """The settings, an object."""

    @property
    def operation(self) -> Operation:
        """The operation of the request."""
        return self.request.operation

    @property
    def namespace(self) -> str:
        """Namespace of the object, empty for a cluster-scoped one."""
        return self.request.namespace

    @property
    def name(self) -> str:
        """Name of the object."""
        named = self.object.text("/metadata/name") if self.object else None
        return self.request.name if named is None else named

    @cached_property
    def is_exempt(self) -> bool:
        """Whether the settings exempt the user (`exempt.users`, `exempt.groups`). The report ignores violations by such users,
        except those of rules with `no_exemptions=True`. A policy that checks first saves the work."""
        if not self.settings.has("/exempt"):
            return False
        user = self.request.user
        if user.username in self.settings.texts("/exempt/users"):
            return True
        return any(group in user.groups for group in self.settings.texts("/exempt/groups"))

    @property
    def old_of_update(self) -> Document | None:
        """The object before an UPDATE."""
        return self.old if self.operation is UPDATE else None

    @cached_property
    def ratchet_base(self) -> Document | None:
        """The object before an UPDATE, if the report omits violations in unchanged fields: by the setting `ratcheting` (on unless set), or
        because the object is being deleted."""
        old = self.old_of_update
        if self.object is None or old is None:
            return None
        is_on = self.settings.boolean("/ratcheting") is not False
        return old if is_on or self.object.has("/metadata/deletionTimestamp") else None

    def touches(self, pointer: str, shape: Shape | None = None) -> bool:
        """Whether a rule must evaluate the value at the pointer of the object: always on CREATE, on UPDATE only if it changed. With a shape,
        values are compared as their Go types are."""
        old = self.ratchet_base
        if old is None or self.object is None:
            return True
        return not (shape.equal(self.object, old, pointer) if shape else self.object.equal(pointer, old, pointer))
