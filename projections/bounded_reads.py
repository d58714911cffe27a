"""Reads documents up to a size. For a larger document only the size is returned, so that memory can be reserved first."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

BYTES_UNBOUNDED = 2**62
_DECODED_INLINE_BYTES_MAX = 256 * 1024
"""Takes a few milliseconds."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LargeDocument:
    """A document that is larger than the limit, and was not read."""

    size: int


async def decoded(decode: Callable[[Sequence[Any]], list[_T]], rows: Sequence[Any], size: int) -> list[_T]:
    """`decode(rows)`, in a thread if the documents have many bytes (`size`), so that the event loop runs between them."""
    return await asyncio.to_thread(decode, rows) if size > _DECODED_INLINE_BYTES_MAX else decode(rows)
