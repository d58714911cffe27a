"""Compresses responses with gzip, in a thread if that takes long, and caches compressed responses for tables."""

import asyncio

from cachetools import LRUCache
from isal import isal_zlib

from ..domain.byte_pieces import Content, small_joined
from .limits import ApiLimits

_LEVEL = 1
_GZIP_WINDOW_BITS = 31
# For smaller pieces, the call itself takes longer than compressing their bytes.
_PIECE_BYTES = 64 * 1024


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Whether the header names gzip (or x-gzip), or else `*`, with a weight above 0 (RFC 9110, 12.5.3)."""
    if not accept_encoding:
        return False
    other = False
    for part in accept_encoding.lower().split(","):
        coding, _, weight = part.partition(";")
        permitted = not weight.replace(" ", "").startswith("q=0") or any(digit in weight for digit in "123456789")
        if coding.strip() in ("gzip", "x-gzip"):
            return permitted
        if coding.strip() == "*":
            other = permitted
    return other


def gzip(body: Content) -> bytes:
    compressor = isal_zlib.compressobj(_LEVEL, wbits=_GZIP_WINDOW_BITS)
    return b"".join([*map(compressor.compress, small_joined(body, _PIECE_BYTES)), compressor.flush()])


class GzipCache:
    """An LRU cache of compressed bodies, by the identity of the plain body.

    The read cache returns the same object for every load of a table. Comparing equal bytes in different objects would take longer than
    the rest of a response. The plain bytes are kept too, so that no other object can get the same identity.
    """

    def __init__(self, limits: ApiLimits) -> None:
        self._limits = limits
        self._forms: LRUCache[int, tuple[Content, bytes]] = LRUCache(
            limits.gzip_cache_bytes_max, getsizeof=lambda forms: len(forms[0]) + len(forms[1])
        )

    async def compressed(self, body: Content) -> bytes:
        forms = self._forms.get(id(body))
        if forms is not None:
            return forms[1]
        result = await compress(body, self._limits)
        if len(body) + len(result) <= self._limits.gzip_cache_bytes_max // 4:
            self._forms[id(body)] = (body, result)
        return result


async def compress(body: Content, limits: ApiLimits) -> bytes:
    """Compresses `body`; in a thread if it is long, since the compressor releases the GIL."""
    if len(body) <= limits.gzip_inline_bytes_max:
        return gzip(body)
    return await asyncio.to_thread(gzip, body)
