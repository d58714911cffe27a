"""Which operation a request means: a table of the spec's operations, walked segment by segment on the encoded path."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from domain.errors import MethodNotAllowed, NotFound

# It takes a `Call` (api/call.py), which knows the operation it is of.
Handler = Callable[[Any], Awaitable[web.StreamResponse]]

_PREFIX = "{prefix}"
_PATH_SHOWN_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the spec.

    name -- its operationId. path -- as the spec spells it, placeholders included: so it is advertised by `getConfig`.
    commits -- an unforeseen failure must be told as CommitStateUnknown, because clients delete what they wrote on any other.
    advertised -- `getConfig` names it; not what is only proposed for the spec, and may change.
    reads -- it changes nothing, though its method is POST: its answers are bounded and in time like those of a GET.
    parameters -- the query parameters it has, others are refused; None: any, as the spec tolerates.
    """

    name: str
    method: str
    path: str
    handler: Handler
    commits: bool = False
    advertised: bool = True
    reads: bool = False
    parameters: frozenset[str] | None = None

    @property
    def mutates(self) -> bool:
        return not self.reads and self.method not in ("GET", "HEAD")


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
        return self.placeholder[1]


ROUTES: "web.AppKey[Routes]" = web.AppKey("routes")


class Routes:
    """The operations below a `/v1`, with and without `{prefix}`.

    Without a prefix the only warehouse is meant. A warehouse whose name is the first word of such a path (`namespaces`, `tables`, `views`,
    `transactions`, `events`) is therefore reached by its id, which is what `getConfig` answers.

    endpoints -- the operations in the form `getConfig` advertises them.
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        operations = tuple(operations)
        self.endpoints = [f"{operation.method} {operation.path}" for operation in operations if operation.advertised]
        self._root = _Node()
        for operation in operations:
            segments = operation.path.removeprefix("/v1/").split("/")
            self._add(segments, operation)
            if segments[0] == _PREFIX:
                self._add(segments[1:], operation)

    def _add(self, segments: list[str], operation: Operation) -> None:
        node = self._root
        for segment in segments:
            node = node.extended(segment)
        node.operations[operation.method] = operation

    def find(self, method: str, path: str) -> tuple[Operation, Mapping[str, str]]:
        """The operation and the encoded segments its placeholders stand for; `path` is what follows `/v1/`.

        Raises NotFound for an address of no operation, MethodNotAllowed where only the method is wrong.
        """
        node, values = self._root, {}
        for segment in path.split("/"):
            child = node.children.get(segment)
            if child is None:
                if node.placeholder is None or not segment:
                    raise NotFound(f"No such address: /v1/{path[:_PATH_SHOWN_LENGTH_MAX]}")
                name, child = node.placeholder
                values[name] = segment
            node = child
        operation = node.operations.get(method)
        if operation is None:
            if not node.operations:
                raise NotFound(f"No such address: /v1/{path[:_PATH_SHOWN_LENGTH_MAX]}")
            raise MethodNotAllowed(f"Method not allowed: {method}", sorted(node.operations))
        return operation, values
