"""Gzip for answers: fast, off the event loop where it takes long, and kept for table answers that many ask for."""

import asyncio
import zlib
from collections import OrderedDict

from api.limits import ApiLimits

_LEVEL = 1
_GZIP_WINDOW_BITS = 31


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Whether the header names gzip (or x-gzip, or `*`) with a weight above 0."""
    if not accept_encoding:
        return False
    for part in accept_encoding.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() in ("gzip", "x-gzip", "*"):
            return not weight.replace(" ", "").startswith("q=0") or any(digit in weight for digit in "123456789")
    return False


def gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return compressor.compress(body) + compressor.flush()


class GzipCache:
    """Compressed forms by the plain bytes themselves, least recently used out first.

    The read side answers a table from its process cache with the same `bytes` object each time, whose hash Python keeps: a hit costs a
    dictionary look-up. The bytes are the key, so a stale answer cannot be served.
    """

    def __init__(self, limits: ApiLimits) -> None:
        self._limits = limits
        self._compressed: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes_held = 0

    async def compressed(self, body: bytes) -> bytes:
        kept = self._compressed.get(body)
        if kept is not None:
            self._compressed.move_to_end(body)
            return kept
        result = await compress(body, self._limits)
        self._keep(body, result)
        return result

    def _keep(self, body: bytes, result: bytes) -> None:
        size = len(body) + len(result)
        if body in self._compressed or size > self._limits.gzip_cache_bytes_max // 4:
            return
        self._compressed[body] = result
        self._bytes_held += size
        while self._bytes_held > self._limits.gzip_cache_bytes_max:
            plain, compressed = self._compressed.popitem(last=False)
            self._bytes_held -= len(plain) + len(compressed)


async def compress(body: bytes, limits: ApiLimits) -> bytes:
    """`body` compressed; in a thread when it is long, where zlib lets the event loop go on."""
    if len(body) <= limits.gzip_inline_bytes_max:
        return gzip(body)
    return await asyncio.to_thread(gzip, body)
