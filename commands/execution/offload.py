"""Runs work on the event loop, or in a thread if it is large."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import orjson

from ...access.request_context import RequestContext
from ...domain.namespace import NamespaceState
from ...domain.table import TableState
from ...domain.view import ViewState

REQUEST_INLINE_BYTES_MAX = 16 * 1024
"""Size of a request's body or a stored proposal. An engine's commit has a few kilobytes; above this limit, deciding may take ten
milliseconds or more."""

PARTS_INLINE_MAX = 2_000
"""Number of parts of a table's document: snapshots, log entries, schemas, …"""

P = ParamSpec("P")
R = TypeVar("R")


def is_large_request(context: RequestContext) -> bool:
    """Whether parsing and deciding the request takes long."""
    return context.body_bytes > REQUEST_INLINE_BYTES_MAX


def is_large_state(state: object) -> bool:
    """Whether any decision on the state takes long."""
    return isinstance(state, TableState) and sum(map(len, state.document.parts.values())) > PARTS_INLINE_MAX


def known_document_size(state: object) -> int:
    """JSON size of a table's parts (those that were read or written), a view's metadata or a namespace's properties; else 0."""
    match state:
        case TableState():
            return sum(part.known_size for parts in state.document.parts.values() for part in parts)
        case ViewState():
            return len(orjson.dumps(state.metadata))
        case NamespaceState():
            return len(orjson.dumps(state.properties))
    return 0


async def in_thread_if(large: bool, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls `function`, in a thread if `large`, so that the event loop is not blocked."""
    return await asyncio.to_thread(function, *args, **kwargs) if large else function(*args, **kwargs)
