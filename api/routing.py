"""Finds the operation of a request: one table of operations, matched segment by segment on the encoded path."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from ..domain.errors import MethodNotAllowed, NotFound

# It takes an ApiRequest (api/api_request.py), which refers to its Operation.
OperationHandler = Callable[[Any], Awaitable[web.StreamResponse]]

CATALOG_BASE = "/catalog/v1"
"""The base path of the operations of the Iceberg REST specification, whose own paths begin with `/v1`."""
_CATALOG_ROOT = "/catalog"
_WAREHOUSE_ROOT = f"{_CATALOG_ROOT}/w/{{warehouse_or_project}}"
# In this form, the first placeholder is the project.
_PROJECT_ROOT = f"{_WAREHOUSE_ROOT}/{{warehouse_in_project}}"
_PREFIX = "/{prefix}"
_IN_PROJECT = ("/management/", "/history/")
_PATH_SHOWN_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the server.

    name -- its operationId. path -- the whole path, with placeholders for segments.
    commits -- an unexpected failure is reported as CommitStateUnknown, because clients delete the files they wrote on any other error.
    advertised -- `getConfig` lists it if it belongs to the spec. False for getToken, which gives no token, and for operations that are
        only proposed for the spec.
    safe -- it changes nothing (RFC 9110, 9.2.1): a GET, or a POST that only reads. Its time and the size of its response are limited.
    long_lived -- it waits for events or streams them, with timeouts of its own: `read_seconds_max` does not apply.
    serves_head_method -- HEAD is served like GET, without the body.
    public -- needs no authentication: it reveals nothing of what the catalog contains.
    body_ignored -- its body is not JSON, and is not read.
    probe -- the platform calls it every few seconds: it is not counted as a client's request.
    of_server -- it applies to the server or to all projects, not to one.
    project_in_body -- its body may name the project, so the handler finds it.
    parameters -- the permitted query parameters, others are refused; None: any, as the spec tolerates. repeatable -- those that may be
        repeated.
    sized_by -- the query parameters, with their defaults, on which the size of a GET's response depends; None: the size of the last
        response says nothing about the next, and memory is reserved while it is read.
    in_project -- the request's project is found before the handler is called.
    """

    name: str
    method: str
    path: str
    handler: OperationHandler
    commits: bool = False
    advertised: bool = True
    safe: bool = False
    long_lived: bool = False
    serves_head_method: bool = False
    public: bool = False
    body_ignored: bool = False
    probe: bool = False
    of_server: bool = False
    project_in_body: bool = False
    parameters: frozenset[str] | None = None
    repeatable: frozenset[str] = frozenset()
    sized_by: tuple[tuple[str, str], ...] | None = ()
    route: str = field(init=False)
    mutates: bool = field(init=False)
    in_project: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "route", f"{self.method} {self.path}")
        safe = self.safe or self.method in ("GET", "HEAD")
        object.__setattr__(self, "safe", safe)
        object.__setattr__(self, "mutates", not safe)
        # An operation of the catalog is in the project of its warehouse.
        apart = self.of_server or self.public or self.project_in_body
        object.__setattr__(self, "in_project", not apart and self.path.startswith(_IN_PROJECT))


@dataclass(slots=True)
class _Node:
    children: "dict[str, _Node]" = field(default_factory=dict)
    placeholder: "tuple[str, _Node] | None" = None
    operations: dict[str, Operation] = field(default_factory=dict)

    def extended(self, segment: str) -> "_Node":
        if not segment.startswith("{"):
            return self.children.setdefault(segment, _Node())
        if self.placeholder is None:
            self.placeholder = (segment[1:-1], _Node())
        name, node = self.placeholder
        if name != segment[1:-1]:
            raise ValueError(f"A path segment has two names, {name} and {segment[1:-1]}")
        return node


ROUTES: "web.AppKey[Routes]" = web.AppKey("routes")


class Routes:
    """The operations of a server by method and path. Those of Iceberg are also served below `/v1`, `/catalog/w/<warehouse>/v1` and
    `/catalog/w/<project>/<warehouse>/v1`, and without `{prefix}`.

    Without a prefix, a request refers to the warehouse of the base path `/catalog/w/{warehouse}`, or to the only one. ClickHouse, for
    example, drops tables without the prefix. A warehouse named like the first segment of such a path (`config`, `namespaces`, `tables`,
    `views`, `transactions`, `events`, `oauth`), or `v1` in a base path with a project, is therefore reached by its id, which is the
    prefix that `getConfig` returns.

    endpoints -- the operations in the form in which `getConfig` advertises them. read_only -- those that change something are left out.
    """

    def __init__(self, operations: Iterable[Operation], *, read_only: bool = False) -> None:
        """Raises ValueError if two operations have the same method and path."""
        self._root = _Node()
        self._segments_max = 0
        self.endpoints: list[str] = []
        for operation in operations:
            path = operation.path
            if path.startswith(f"{CATALOG_BASE}/"):
                path = path.removeprefix(_CATALOG_ROOT)
                if operation.advertised and not (read_only and operation.mutates):
                    self.endpoints.append(f"{operation.method} {path}")
                for served in {path, path.replace(_PREFIX, "", 1)}:
                    self._add(served, operation)
                    self._add(_CATALOG_ROOT + served, operation)
                    self._add(_WAREHOUSE_ROOT + served, operation)
                    self._add(_PROJECT_ROOT + served, operation)
            else:
                self._add(path, operation)

    def _add(self, path: str, operation: Operation) -> None:
        node, segments = self._root, path.split("/")
        self._segments_max = max(self._segments_max, len(segments))
        for segment in segments:
            node = node.extended(segment)
        for method in (operation.method, "HEAD") if operation.serves_head_method else (operation.method,):
            if node.operations.setdefault(method, operation) is not operation:
                raise ValueError(f"Two operations have the route {method} {path}")

    def find(self, method: str, path: str) -> tuple[Operation, Mapping[str, str]]:
        """The operation, and the encoded path segments by placeholder. `path` is percent-encoded and has no query.

        Raises NotFound if no operation has the path, MethodNotAllowed if only the method is wrong.
        """
        node, values = self._root, {}
        # The rest of a path that is longer than every operation's stays in one piece, which matches no node.
        for segment in path.split("/", self._segments_max):
            child = node.children.get(segment)
            if child is None:
                if node.placeholder is None or not segment:
                    raise _no_such_path(path)
                name, child = node.placeholder
                values[name] = segment
            node = child
        operation = node.operations.get(method)
        if operation is None:
            if not node.operations:
                raise _no_such_path(path)
            raise MethodNotAllowed(f"Method not allowed: {method}", sorted(node.operations))
        return operation, values


def _no_such_path(path: str) -> NotFound:
    return NotFound(f"Path does not exist: {path[:_PATH_SHOWN_LENGTH_MAX]}")
