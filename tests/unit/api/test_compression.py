"""The cache of compressed responses: correct for every object, and found by identity."""

import dataclasses
import threading
import zlib

import pytest

from icecore.api import compression
from icecore.api.compression import GzipCache, accepts_gzip, compress
from icecore.api.limits import DEFAULT_LIMITS

_GZIP_WINDOW_BITS = 31


@pytest.fixture
def compressions(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies that were compressed, in order."""
    made: list[bytes] = []
    gzip = compression.gzip
    monkeypatch.setattr(compression, "gzip", lambda body: (made.append(body), gzip(body))[1])
    return made


async def test_the_same_object_is_compressed_once(compressions: list[bytes]) -> None:
    """However often it is answered."""
    cache, body = GzipCache(DEFAULT_LIMITS), b"x" * 10_000
    first = await cache.compressed(body)
    assert body == zlib.decompress(first, _GZIP_WINDOW_BITS)
    assert first is await cache.compressed(body)
    assert [body] == compressions


async def test_an_object_at_the_address_of_another_gets_its_own_form() -> None:
    """A freed object's identity may be reused, so the cache must keep the plain bytes alive."""
    cache = GzipCache(dataclasses.replace(DEFAULT_LIMITS, gzip_cache_bytes_max=40_000))
    for n in range(1_000):
        body = bytes([n % 256]) * 5_000
        assert body == zlib.decompress(await cache.compressed(body), _GZIP_WINDOW_BITS)
        del body


async def test_what_is_kept_is_bounded_with_the_plain_bytes(compressions: list[bytes]) -> None:
    """The plain bytes count too. The least recently used entry is removed, and a large body is not cached."""
    cache = GzipCache(dataclasses.replace(DEFAULT_LIMITS, gzip_cache_bytes_max=40_000))
    bodies = [bytes([n]) * 9_500 for n in range(5)]
    for n in (0, 1, 2, 3, 0, 4, 0, 1):
        await cache.compressed(bodies[n])
    assert [0, 1, 2, 3, 4, 1] == [bodies.index(body) for body in compressions]
    large = b"x" * 10_001
    for _ in range(2):
        await cache.compressed(large)
    assert [large, large] == compressions[6:]


async def test_a_long_body_does_not_keep_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other requests continue meanwhile. For a short body a thread would cost more than it saves."""
    threads: list[int] = []
    gzip = compression.gzip
    monkeypatch.setattr(compression, "gzip", lambda body: (threads.append(threading.get_ident()), gzip(body))[1])
    for more in (0, 1):
        await compress(b"x" * (DEFAULT_LIMITS.gzip_inline_bytes_max + more), DEFAULT_LIMITS)
    assert [True, False] == [thread == threading.get_ident() for thread in threads]


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, False), ("", False), ("br", False), ("gzip", True), ("x-gzip", True), ("GZIP;q=0.5", True), ("gzip;q=0", False),
        ("gzip; q=0.000", False), ("gzip;q=0.001", True), ("*", True), ("*;q=0", False), ("br, *", True),
        # An explicit gzip decides, wherever `*` is.
        ("*, gzip;q=0", False), ("gzip;q=0, *", False), ("*;q=0, gzip", True), ("gzip, *;q=0", True),
    ],
)  # fmt: skip
def test_what_a_client_accepts(header: str | None, accepted: bool) -> None:
    assert accepted == accepts_gzip(header)
