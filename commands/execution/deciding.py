"""Decides a command on the event loop, or in a thread if the request or the table is large."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import orjson

from ...access.request_context import RequestContext
from ...domain.namespace import NamespaceState
from ...domain.table import TableState
from ...domain.view import ViewState

REQUEST_INLINE_BYTES_MAX = 16 * 1024
"""Of a request's body, or of a stored proposal. A commit that an engine sends has a few kilobytes; from here on deciding may take ten
milliseconds and more."""

PARTS_INLINE_MAX = 2_000
"""Of a table's document: snapshots, log entries, schemas, …"""

P = ParamSpec("P")
R = TypeVar("R")


def is_large_request(context: RequestContext) -> bool:
    """Whether reading and deciding what was sent takes long."""
    return context.body_bytes > REQUEST_INLINE_BYTES_MAX


def is_large_state(state: object) -> bool:
    """Whether any decision on the state takes long."""
    return isinstance(state, TableState) and sum(map(len, state.document.parts.values())) > PARTS_INLINE_MAX


def document_bytes(state: object) -> int:
    """Of a table's parts as JSON, as far as they were read or written, a view's metadata or a namespace's properties; else 0."""
    match state:
        case TableState():
            return sum(part.known_bytes for parts in state.document.parts.values() for part in parts)
        case ViewState():
            return len(orjson.dumps(state.metadata))
        case NamespaceState():
            return len(orjson.dumps(state.properties))
    return 0


async def decided(large: bool, decide: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What `decide` returns; in a thread where it is `large`, so that other requests are answered meanwhile."""
    return await asyncio.to_thread(decide, *args, **kwargs) if large else decide(*args, **kwargs)
