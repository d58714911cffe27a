"""Compressed answers that are kept: right for every object, and not looked for among bytes."""

import dataclasses
import zlib

import pytest

from icecore.api import compression
from icecore.api.compression import GzipCache
from icecore.api.limits import DEFAULT_LIMITS

_GZIP_WINDOW_BITS = 31


@pytest.fixture
def compressions(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was compressed, in order."""
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
    """Bytes die and others take their place: what is kept must not be found by the identity of the dead."""
    cache = GzipCache(dataclasses.replace(DEFAULT_LIMITS, gzip_cache_bytes_max=40_000))
    for n in range(1_000):
        body = bytes([n % 256]) * 5_000
        assert body == zlib.decompress(await cache.compressed(body), _GZIP_WINDOW_BITS)
        del body
