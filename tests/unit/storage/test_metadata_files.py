"""Metadata files: their names, and files that are missing, invalid or expand too much."""

import gzip
import tracemalloc
from uuid import UUID

import orjson
import pytest

from icecore.domain.errors import BadRequest, CatalogError, IllegalArgument, NotFound, PayloadTooLarge
from icecore.storage.large_documents import DocumentReservation, LargeDocuments
from icecore.storage.locations import StorageLocation
from icecore.storage.metadata_files import metadata_file_location, read_metadata, write_metadata
from icecore.storage.object_store import METADATA_BYTES_MAX
from icecore.storage.profiles import parse_storage_profile
from icecore.storage.store_errors import file_too_large

PROFILE = parse_storage_profile({"type": "local", "directory": "/data/wh"})
FILE_ID = UUID("0198c0de-0000-4000-8000-000000000001")
TABLE = "file:/data/wh/t"
GZIP = {"write.metadata.compression-codec": "gzip"}


@pytest.mark.parametrize(
    ("properties", "file_number", "expected"),
    [
        ({}, 0, f"{TABLE}/metadata/00000-{FILE_ID}.metadata.json"),
        ({}, 42, f"{TABLE}/metadata/00042-{FILE_ID}.metadata.json"),
        ({}, 123_456, f"{TABLE}/metadata/123456-{FILE_ID}.metadata.json"),
        (GZIP, 1, f"{TABLE}/metadata/00001-{FILE_ID}.gz.metadata.json"),
        ({"write.metadata.compression-codec": "GZIP"}, 1, f"{TABLE}/metadata/00001-{FILE_ID}.gz.metadata.json"),
        ({"write.metadata.compression-codec": "none"}, 1, f"{TABLE}/metadata/00001-{FILE_ID}.metadata.json"),
        ({"write.metadata.path": "file:/data/wh/m/"}, 1, f"file:/data/wh/m/00001-{FILE_ID}.metadata.json"),
    ],
)
def test_the_name_of_a_metadata_file(properties: dict[str, str], file_number: int, expected: str) -> None:
    """As in Java, with the spelling of the table's location."""
    assert expected == metadata_file_location(PROFILE, TABLE, properties, file_number, FILE_ID).text


def test_views_are_packed_unless_they_say_otherwise() -> None:
    """Java's default for views is gzip, for tables none."""
    assert metadata_file_location(PROFILE, TABLE, {}, 0, FILE_ID, default_codec="gzip").text.endswith(".gz.metadata.json")
    plain = {"write.metadata.compression-codec": "none"}
    assert not metadata_file_location(PROFILE, TABLE, plain, 0, FILE_ID, default_codec="gzip").text.endswith(".gz.metadata.json")


def test_an_unknown_codec_is_refused_in_javas_words() -> None:
    """TableMetadataParser.Codec.fromName."""
    with pytest.raises(IllegalArgument, match=r"^Invalid codec name: zstd$"):
        metadata_file_location(PROFILE, TABLE, {"write.metadata.compression-codec": "zstd"}, 0, FILE_ID)


def test_the_path_property_passes_the_door() -> None:
    """CVE-2026-42812: the server writes where the property says, so it must be a location of the warehouse."""
    with pytest.raises(BadRequest, match=r"^Invalid write\.metadata\.path: must be below"):
        metadata_file_location(PROFILE, TABLE, {"write.metadata.path": "file:/data/victim"}, 0, FILE_ID)


class _Bytes:
    """A store with one file."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def get(self, location: StorageLocation, *, bytes_max: int) -> bytes:
        if len(self._data) > bytes_max:
            raise file_too_large(location, bytes_max)
        return self._data


def _reader() -> DocumentReservation:
    """Without other documents."""
    return DocumentReservation(LargeDocuments())


async def _read(data: bytes) -> object:
    return await read_metadata(_Bytes(data), StorageLocation.parse(f"{TABLE}/f"), _reader())  # type: ignore[arg-type]  # reads only


def _gzip(data: bytes) -> bytes:
    """Without a time, because the tests' ids contain the bytes."""
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"PAR1", "not JSON"),
        (b"{", "not JSON"),
        (b'{"a": NaN}', "not JSON"),
        (b'{"a": "\xff"}', "not JSON"),
        (b'{"a": "\\ud800"}', "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"[" * 2_000_000, "more than 1000000 values"),
        (_gzip(b'{"a":[' + b"{}," * 400_000), "more than 1000000 values"),
        (('{"a":"' + "x" * 6_000_000 + '\U0001f600"}').encode(), "with characters beyond Latin-1"),
        (b'{"a":"' + b"x" * 6_000_000 + b'\\ud83d\\ude00"}', "with characters beyond Latin-1"),
        (('{"a":"\\"' + "x" * 17_000_000 + '\u4e2d"}').encode(), "with characters beyond Latin-1"),
        # Distributed over many decompressed pieces, of which none contains too many.
        (_gzip(b'{"a":[' + b'{"b":"0123456789"},' * 400_000), "more than 1000000 values"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"\x1f\x8b", "truncated"),
        (b"\x1f\x8bnot valid gzip", "not valid gzip"),
        (_gzip(b"{}")[:-3], "truncated"),
        (_gzip(b"{}") + b"more", "followed by other data"),
        (_gzip(b"{}") + _gzip(b"{}"), "followed by other data"),
        (_gzip(b"not json"), "not JSON"),
        (_gzip(_gzip(b"{}")), "not JSON"),
        (_gzip(b"x" * 1000)[:-8] + b"\0" * 8, "not valid gzip"),
    ],
)
async def test_garbage_is_a_bad_request(data: bytes, reason: str) -> None:
    """400 with the reason, whatever a registered file contains."""
    with pytest.raises(BadRequest, match=reason):
        await _read(data)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
async def test_the_name_does_not_decide_how_a_file_is_read(pack: type[bytes]) -> None:
    """The first bytes decide, because other writers use any names."""
    assert {"a": [1, "é"]} == await _read(pack(orjson.dumps({"a": [1, "é"]})))


async def test_a_bomb_is_given_up_early() -> None:
    """A small file that expands to four times the limit takes no more memory than the limit. It is a 413."""
    bomb = gzip.compress(b"\0" * (4 * METADATA_BYTES_MAX), 6)
    assert len(bomb) < METADATA_BYTES_MAX // 64
    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLarge):
            await _read(bomb)
        assert tracemalloc.get_traced_memory()[1] < 2 * METADATA_BYTES_MAX
    finally:
        tracemalloc.stop()


async def test_the_largest_document_allowed_is_read() -> None:
    """The limit is inclusive."""
    filler = METADATA_BYTES_MAX - len(b'{"a":""}')
    assert filler == len((await _read(gzip.compress(b'{"a":"' + b"x" * filler + b'"}', 1)))["a"])  # type: ignore[index]
    with pytest.raises(PayloadTooLarge):
        await _read(gzip.compress(b'{"a":"' + b"x" * (filler + 1) + b'"}', 1))


async def test_equal_documents_give_equal_files(local_store: object) -> None:
    """A compressed file contains no time."""
    store, base = local_store.store, local_store.profile.base  # type: ignore[attr-defined]  # the fixture's class
    first, second = base.child("a.gz.metadata.json"), base.child("b.gz.metadata.json")
    for location in (first, second):
        await write_metadata(store, location, b'{"a":1}')
    assert await store.get(first) == await store.get(second)
    with pytest.raises(NotFound) as refusal:
        await read_metadata(store, base.child("c"), _reader())
    assert isinstance(refusal.value, CatalogError)
