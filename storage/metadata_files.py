"""Metadata files: their locations, and how they are written and read (Iceberg spec, "Table Metadata and Snapshots")."""

import asyncio
import zlib
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson
from isal import isal_zlib

from ..domain.byte_pieces import Content, joined
from ..domain.errors import AlreadyExists, BadRequest, CatalogError, IllegalArgument, PayloadTooLarge
from ..domain.json_in_pieces import loads_in_pieces
from ..domain.json_rules import count_values, violated_rule, wide_string_bytes
from .large_documents import DocumentReservation
from .locations import StorageLocation
from .object_store import ObjectStore
from .profiles import StorageProfile
from .store_errors import METADATA_BYTES_MAX, file_too_large, store_unavailable

WRITE_METADATA_PATH = "write.metadata.path"
COMPRESSION_CODEC = "write.metadata.compression-codec"
GZIP_LEVEL = 1
"""Metadata is written at every commit and rarely read, and the fastest level already saves most of the bytes."""

METADATA_VALUES_MAX = 1_000_000
"""Limit on the values of a metadata file, objects counted twice. A table of 35,000 snapshots has as many. Each takes 100 bytes or more."""

METADATA_WIDENED_BYTES_MAX = 16 * 1024 * 1024
"""Limit on the memory that the strings of a metadata file take in addition to its bytes: three times the bytes of a string with a
character beyond U+FFFF, and once the bytes of one with a character beyond U+00FF (Latin-1). This permits 5 MiB of strings with emoji, or
16 MiB of Chinese."""

_SUFFIXES = {"none": ".metadata.json", "gzip": ".gz.metadata.json"}
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BITS = 31
_DECOMPRESS_PIECE_BYTES = 1024 * 1024
# A document below both limits takes a few megabytes at most, so any number may be read at a time.
_SMALL_BYTES_MAX = 256 * 1024
_SMALL_VALUES_MAX = 10_000
# Files up to these sizes are processed on the event loop, in a millisecond or two; larger ones in a thread.
_READ_INLINE_BYTES_MAX = 64 * 1024
_COMPRESSED_INLINE_BYTES_MAX = 256 * 1024


class _TooManyValues(Exception):
    """The document has more values than permitted. Nothing was parsed."""


def metadata_file_location(
    profile: StorageProfile,
    table_location: str,
    properties: Mapping[str, str],
    file_number: int,
    file_id: UUID,
    *,
    default_codec: str = "none",
) -> StorageLocation:
    """`<location>/metadata/NNNNN-<file_id>.metadata.json`, or `.gz.metadata.json` if the property's codec is gzip.

    `write.metadata.path` sets another folder. It is checked again, because the document may be older than the warehouse's rules. Views
    pass their own `default_codec` (Java ViewProperties: gzip).
    """
    codec = properties.get(COMPRESSION_CODEC, default_codec).lower()
    if codec not in _SUFFIXES:
        raise IllegalArgument(f"Invalid codec name: {codec}")
    name = f"{file_number:05d}-{file_id}{_SUFFIXES[codec]}"
    path = properties.get(WRITE_METADATA_PATH)
    if path is None:
        return profile.parse_permitted(table_location, percent_allowed=True).child("metadata", name)
    return profile.parse_permitted(path, percent_allowed=True, field=WRITE_METADATA_PATH).child(name)


def is_metadata_file(location: StorageLocation) -> bool:
    """Whether the file has a name of a metadata file, with `.gz` before `.metadata.json`, after it or not at all."""
    return location.segments[-1].endswith((".metadata.json", ".metadata.json.gz"))


async def write_metadata(store: ObjectStore, location: StorageLocation, content: Content) -> None:
    """Writes the content of a document to a name with a new UUID, compressed if the name says gzip. Raises ServiceUnavailable if it fails.

    If the file exists already, it is this same write: the store stored it, its response was lost, and the store's client wrote again.
    Its content is compared, because an error would be stored under the request's Idempotency-Key.
    """
    if location.segments[-1].endswith(_SUFFIXES["gzip"]):
        if len(content) > _COMPRESSED_INLINE_BYTES_MAX:
            content = await asyncio.to_thread(_compressed, content)
        else:
            content = _compressed(content)
    try:
        await store.put_new(location, content)
    except AlreadyExists:
        if not await _is_written(store, location, content):
            raise store_unavailable(location, "it contains a file with the new name that has other content or cannot be read") from None


async def _is_written(store: ObjectStore, location: StorageLocation, content: Content) -> bool:
    try:
        written = await store.get(location, bytes_max=len(content))
    except CatalogError:
        return False
    return written == joined(content)


def _compressed(content: Content) -> bytes:
    # The gzip header contains no time, so that equal documents result in equal files.
    return isal_zlib.compress(joined(content), GZIP_LEVEL, _GZIP_WINDOW_BITS)


async def read_metadata(store: ObjectStore, location: StorageLocation, reservation: DocumentReservation) -> dict[str, Any]:
    """The document in the file at `location`, compressed or not, whatever its name says.

    reservation -- the request's. A large document is read when no other request works on one. Afterwards the reservation keeps the
        bytes that correspond to its size or to its number of values, whichever is larger.
    Raises NotFound; PayloadTooLarge over METADATA_BYTES_MAX, compressed or not; BadRequest if it is not one JSON object or has more
    than METADATA_VALUES_MAX values (both limits grow with the setting for large documents); TooManyRequests if it waited too long for
    other requests' large documents.
    """
    try:
        data = await store.get(location, bytes_max=_SMALL_BYTES_MAX)
        return (await _parse_in_thread_if_large(location, data, _SMALL_BYTES_MAX, _SMALL_VALUES_MAX))[0]
    except (PayloadTooLarge, _TooManyValues):
        await reservation.reserve_all()
    bytes_max = max(METADATA_BYTES_MAX, reservation.bytes_max)
    values_max = METADATA_VALUES_MAX * bytes_max // METADATA_BYTES_MAX
    data = await store.get(location, bytes_max=bytes_max)
    try:
        document, size = await _parse_in_thread_if_large(location, data, bytes_max, values_max)
    except _TooManyValues:
        raise _unreadable(location, f"it contains more than {values_max} values") from None
    reservation.shrink(size)
    return document


async def _parse_in_thread_if_large(location: StorageLocation, data: bytes, bytes_max: int, values_max: int) -> tuple[dict[str, Any], int]:
    """The document, and its size in bytes, or the size that corresponds to its number of values if that is larger."""
    if len(data) > _READ_INLINE_BYTES_MAX:
        return await asyncio.to_thread(_parse, location, data, bytes_max, values_max)
    return _parse(location, data, bytes_max, values_max)


def _parse(location: StorageLocation, data: bytes, bytes_max: int, values_max: int) -> tuple[dict[str, Any], int]:
    if data.startswith(_GZIP_MAGIC):
        data = _decompress(location, data, bytes_max, values_max)
    elif count_values(data) > values_max:
        raise _TooManyValues
    widened = wide_string_bytes(data)
    if widened > METADATA_WIDENED_BYTES_MAX:
        raise _unreadable(
            location, f"its strings with characters beyond Latin-1 need more than {METADATA_WIDENED_BYTES_MAX} additional bytes of memory"
        )
    try:
        document = loads_in_pieces(data, ("snapshots",))
    except orjson.JSONDecodeError:
        raise _unreadable(location, "it is not JSON") from None
    if not isinstance(document, dict):
        raise _unreadable(location, "it is not a JSON object")
    rule = violated_rule(data, document)
    if rule is not None:
        raise _unreadable(location, f"it {'is ' if rule.startswith('nested') else ''}{rule}")
    return document, max(len(data) + widened, count_values(data) * METADATA_BYTES_MAX // METADATA_VALUES_MAX)


def _decompress(location: StorageLocation, data: bytes, bytes_max: int, values_max: int) -> bytes:
    pieces: list[bytes] = []
    size = values = 0
    decompressor = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        # Piece by piece, so that a small file that would expand to gigabytes is refused early.
        while data and not decompressor.eof:
            pieces.append(decompressor.decompress(data, _DECOMPRESS_PIECE_BYTES))
            size += len(pieces[-1])
            values += count_values(pieces[-1])
            if size > bytes_max:
                raise file_too_large(location, bytes_max)
            if values > values_max:
                raise _TooManyValues
            data = decompressor.unconsumed_tail
    except zlib.error:
        raise _unreadable(location, "it is not valid gzip") from None
    if not decompressor.eof or decompressor.unused_data:
        raise _unreadable(location, "its gzip data is truncated or followed by other data")
    return b"".join(pieces)


def _unreadable(location: StorageLocation, reason: str) -> BadRequest:
    return BadRequest(f"Cannot read the metadata file, {reason}: {location.text}")
