"""The process that reads Avro manifests: `python -m icecore.storage.manifest_process`, started by storage/manifest_reader.py.

Manifests come from clients and may contain anything: a few kilobytes that expand to gigabytes, or a wrong number of records. The worst they
can do is to end this process: its memory and its time are limited, and it reports files that it cannot read within these limits.

A request is a line of JSON, `{"open": KIND, "bytes": N}` and N bytes of a file, `{"next": KIND}`, or `{"forget": true}` after the last file
of a table. A response is its length (4 bytes, big endian) and JSON: `{"names": [...]}`, a page of the names of files in it, an empty page
after the last; or `{"error": TYPE}`. A name that is too long is null. A name that was returned once is left out later, as far back as
NAMES_REMEMBERED_MAX; names of a page that ended in an error were not returned. The response to `forget` is `{"as-new": BOOLEAN}`: whether
the process has all of its memory for the next table.
"""

import contextlib
import gc
import resource
import signal
import struct
import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, BinaryIO

import orjson
from pyiceberg.avro.file import AvroFile
from pyiceberg.io import InputFile, InputStream
from pyiceberg.types import NestedField

from .manifest_protocol import MANIFEST, MANIFEST_LIST, RESPONSE_LENGTH

MEMORY_BYTES_MAX = 512 * 1024 * 1024
"""Limit on address space for one table, in addition to what the process has at the table's start."""
GROWN_BYTES_MAX = 64 * 1024 * 1024
"""Limit on address space that remains after tables: with more, the process is not used again."""
CPU_SECONDS_MAX = 20
"""Processor time for one page of names."""
NAMES_REMEMBERED_MAX = 1_000_000
NAMES_PER_PAGE = 1_000
NAME_CHARACTERS_MAX = 4_096

_DELETED = 2
# Ids of columns in the Iceberg spec ("Manifests", "Manifest Lists").
_STATUS, _DATA_FILE, _FILE_PATH, _MANIFEST_PATH = 0, 2, 100, 500


class _File(InputFile):
    """A file in memory."""

    def __init__(self, data: bytes) -> None:
        super().__init__("")
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return BytesIO(self._data)


def _page(names: Iterator[str], seen: set[int]) -> dict[int, str | None]:
    """The next names that are not in `seen`, by their hashes."""
    page: dict[int, str | None] = {}
    for name in names:
        remembered = hash(name)
        if remembered not in seen:
            page[remembered] = name if len(name) <= NAME_CHARACTERS_MAX else None
            if len(page) == NAMES_PER_PAGE:
                break
    return page


def _remember(page: dict[int, str | None], seen: set[int]) -> None:
    """Remembers names once they are returned; those that were not returned may come again in another file."""
    if len(seen) + len(page) > NAMES_REMEMBERED_MAX:
        seen.clear()
    seen.update(page)


def _manifests(data: bytes) -> Iterator[str]:
    with AvroFile[Any](_File(data)) as records:
        path = _column(records.schema.fields, _MANIFEST_PATH)
        for record in records:
            yield record[path]


def _files(data: bytes) -> Iterator[str]:
    """The files of the snapshot, without entries that are marked as deleted (Java: ManifestFiles.readPaths)."""
    with AvroFile[Any](_File(data)) as records:
        columns = records.schema.fields
        status, data_file = _column(columns, _STATUS), _column(columns, _DATA_FILE)
        path = _column(columns[data_file].field_type.fields, _FILE_PATH)  # type: ignore[attr-defined]
        for record in records:
            if record[status] != _DELETED:
                yield record[data_file][path]


def _column(columns: Sequence[NestedField], field_id: int) -> int:
    return [column.field_id for column in columns].index(field_id)


def _limit_memory() -> int:
    """Limits address space to MEMORY_BYTES_MAX more than is in use. Returns what is in use."""
    with open("/proc/self/statm") as file:  # noqa: PTH123 - a moment
        begun = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (begun + MEMORY_BYTES_MAX, resource.RLIM_INFINITY))
    return begun


def _limit_time() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + CPU_SECONDS_MAX, resource.RLIM_INFINITY))


def _out_of_time(*_: object) -> None:
    raise TimeoutError


def _send(responses: BinaryIO, response: bytes) -> None:
    responses.write(struct.pack(RESPONSE_LENGTH, len(response)) + response)
    responses.flush()


def main() -> None:
    begun = None
    # Only Linux supports this and limits address space; on other systems, only the file's size is limited.
    with contextlib.suppress(OSError, ValueError):
        begun = _limit_memory()
    signal.signal(signal.SIGXCPU, _out_of_time)
    opened: dict[str, Iterator[str]] = {}
    seen: dict[str, set[int]] = {kind: set() for kind in (MANIFEST_LIST, MANIFEST)}
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    while line := requests.readline():
        request = orjson.loads(line)
        if "forget" in request:
            opened.clear()
            for names in seen.values():
                names.clear()
            gc.collect()
            _send(responses, orjson.dumps({"as-new": begun is not None and _limit_memory() - begun <= GROWN_BYTES_MAX}))
            continue
        kind = request.get("next")
        if kind is None:
            kind = request["open"]
            data = requests.read(request["bytes"])
            opened[kind] = _manifests(data) if kind == MANIFEST_LIST else _files(data)
        page: dict[int, str | None] = {}
        try:
            _limit_time()
            page = _page(opened[kind], seen[kind])
            response = orjson.dumps({"names": [*page.values()]})
        except Exception as error:
            opened[kind], page = iter(()), {}
            response = orjson.dumps({"error": type(error).__name__})
        _send(responses, response)
        _remember(page, seen[kind])


if __name__ == "__main__":
    main()
