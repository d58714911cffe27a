"""Looks for the files of the current snapshots of tables that are to be undropped: manifests, and the data and delete files they name.

A table of a few files costs one request for each. For a larger one, the folders of the table are listed, 1,000 files per request, and only
what a listing does not contain is asked for. Time, requests, files and memory are limited; what is beyond a limit is not looked for.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from ...domain.errors import BadRequest, NotFound, PayloadTooLarge, ServiceUnavailable
from ...storage.locations import StorageLocation
from ...storage.manifest_protocol import MANIFEST, MANIFEST_LIST, Kind
from ...storage.manifest_reader import ManifestReader, ManifestReaders, UnreadableManifest, read_names
from ...storage.object_store import ObjectStore
from ...storage.store_errors import StoreUnavailable
from ..execution.gather import gather_errors

SNAPSHOT_FILES_SECONDS_MAX = 30.0
REQUESTS_MAX = 10_000
FILES_MAX = 100_000
STORE_SECONDS_MAX = 10.0
"""Limit on one request to the store."""
LISTED_FILES_MAX = 50_000
"""Limit on the listed files of one table, which are in memory while it is checked."""
MISSING_FILES_MAX = 1_000
"""No more are looked for once so many are missing."""
NAMED_MAX = 10
TABLES_CONCURRENT_MAX = 2
FILES_CONCURRENT_MAX = 10
_NAMES_PER_TURN = 50
"""Names of thousands of characters take half a millisecond each, and a page has a thousand. Other requests run in between."""
_T = TypeVar("_T")

_FILES_UNLISTED_MAX = 10
"""Up to so many files, no folder is listed: they are asked for at once, in the time of one page of a listing, which costs more."""


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """The current snapshot of a table.

    manifests -- those that it lists itself, as format version 1 may. folders -- those that writers of the table use.
    """

    manifest_list: str | None
    manifests: tuple[str, ...]
    folders: tuple[str, ...]


@dataclass(slots=True)
class FoundFiles:
    """The result. `missing` and `unreadable` have the first NAMED_MAX names.

    checked -- number of data and delete files that were looked for. complete -- False: a limit was reached, or a file is outside the
    warehouse.
    """

    missing: list[str] = field(default_factory=list)
    missing_count: int = 0
    unreadable: list[str] = field(default_factory=list)
    unreadable_count: int = 0
    checked: int = 0
    complete: bool = True

    def add_missing(self, names: Iterable[str]) -> None:
        for name in names:
            self.missing_count += 1
            if len(self.missing) < NAMED_MAX:
                self.missing.append(name)

    def add_unreadable(self, name: str) -> None:
        self.unreadable_count += 1
        if len(self.unreadable) < NAMED_MAX:
            self.unreadable.append(name)


class _LimitReached(Exception):
    """The share of the table is used."""


@dataclass(slots=True)
class _Share:
    """What may still be spent: on all tables, or on one of them."""

    requests: int
    files: int

    def take(self, tables: int) -> "_Share":
        """The share of the first of so many tables."""
        share = _Share(self.requests // tables, self.files // tables)
        self.requests -= share.requests
        self.files -= share.files
        return share

    def put_back(self, share: "_Share") -> None:
        self.requests += share.requests
        self.files += share.files

    def request(self) -> None:
        if self.requests == 0:
            raise _LimitReached
        self.requests -= 1


async def find_snapshot_files(store: ObjectStore, tables: Sequence[SnapshotFiles]) -> FoundFiles:
    """Reads the manifests and looks for their files. Each table has an equal share of the limits, and what earlier ones leave of theirs.

    Raises ServiceUnavailable if the store does not respond, and if a process that reads manifests fails.
    """
    found, left, waiting = FoundFiles(), _Share(REQUESTS_MAX, FILES_MAX), deque(tables)
    readers = ManifestReaders()

    async def check_tables() -> None:
        while waiting and found.missing_count < MISSING_FILES_MAX:
            share = left.take(len(waiting))
            table = waiting.popleft()
            async with readers.one() as reader:
                await _TableFiles(store, reader, table, share, found).check()
            left.put_back(share)

    workers = [asyncio.create_task(check_tables()) for _ in range(min(TABLES_CONCURRENT_MAX, len(tables)))]
    try:
        async with asyncio.timeout(SNAPSHOT_FILES_SECONDS_MAX):
            await asyncio.gather(*workers)
    except TimeoutError:
        found.complete = False
    finally:
        for worker in workers:
            # A second cancellation would end it before its process.
            if not worker.cancelling():
                worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await readers.close()
    return found


async def missing_among(store: ObjectStore, files: Sequence[StorageLocation]) -> list[StorageLocation]:
    """Those that do not exist. A file that the warehouse does not reach, as a registered table may have, counts as existing."""
    missing: list[StorageLocation] = []

    async def look(file: StorageLocation) -> None:
        try:
            exists = await store.exists(file)
        except BadRequest:
            return
        if not exists:
            missing.append(file)

    for start in range(0, len(files), FILES_CONCURRENT_MAX):
        for error in await gather_errors([look(file) for file in files[start : start + FILES_CONCURRENT_MAX]]):
            if error is not None:
                raise error
    return missing


class _TableFiles:
    """The files of one table."""

    def __init__(self, store: ObjectStore, reader: ManifestReader, table: SnapshotFiles, share: _Share, found: FoundFiles) -> None:
        self._store = store
        self._reader = reader
        self._table = table
        self._share = share
        self._found = found
        self._unlisted: list[StorageLocation] = []
        """Files that are not looked for yet, while there are few."""
        self._listed: set[int] | None = None
        """Hashes of the files in the table's folders, which need less memory than their names. None: not listed yet."""

    async def check(self) -> None:
        with self._noted_limit():
            await self._check_manifests()
        with self._noted_limit():
            await self._look_for(self._unlisted)

    @contextmanager
    def _noted_limit(self) -> Iterator[None]:
        try:
            yield
        except _LimitReached:
            self._found.complete = False

    async def _check_manifests(self) -> None:
        for name in self._table.manifests:
            await self._check_manifest(name)
        if self._table.manifest_list is not None:
            async for page in self._names_in(MANIFEST_LIST, self._table.manifest_list):
                for manifest in page:
                    await self._check_manifest(manifest)

    async def _check_manifest(self, name: str | None) -> None:
        if name is None:
            self._found.complete = False
            return
        async for page in self._names_in(MANIFEST, name):
            await self._check_files(page)
        self._check_missing()

    async def _names_in(self, kind: Kind, name: str) -> AsyncIterator[list[str | None]]:
        """Pages of the names in a list or manifest; none if it is missing or unreadable, or if the warehouse does not reach it."""
        try:
            location = StorageLocation.parse_structure(name, field="file")
            self._share.request()
            async for page in read_names(self._reader, kind, self._store, location, seconds_max=STORE_SECONDS_MAX):
                yield page
        except BadRequest:
            self._found.complete = False
        except NotFound:
            self._found.add_missing([name])
        except (PayloadTooLarge, UnreadableManifest):
            self._found.add_unreadable(name)

    async def _check_files(self, page: list[str | None]) -> None:
        files = []
        for number, name in enumerate(page[: self._share.files], 1):
            if number % _NAMES_PER_TURN == 0:
                await asyncio.sleep(0)
            try:
                files.append(StorageLocation.parse_structure(name or "", field="file"))
            except BadRequest:
                self._found.complete = False
        self._share.files -= min(len(page), self._share.files)
        self._found.checked += len(files)
        if self._listed is None:
            self._unlisted += files
            if len(self._unlisted) <= _FILES_UNLISTED_MAX:
                files = []
            else:
                await self._list_folders()
                files = [*self._unlisted]
                self._unlisted.clear()
        if self._listed is not None:
            await self._look_for([file for file in files if hash((file.authority, "/".join(file.segments))) not in self._listed])
        if self._share.files == 0:
            raise _LimitReached

    async def _list_folders(self) -> None:
        """Lists the table's folders, with at most half of its requests."""
        listed: set[int] = set()
        self._listed = listed
        pages_max = min(LISTED_FILES_MAX // 1_000, self._share.requests // 2)
        for name in self._table.folders:
            try:
                folder = StorageLocation.parse_structure(name, field="location")
                async with aclosing(self._store.list_files(folder)) as pages:
                    while pages_max > 0 and (page := await _within_time(anext(pages, None), name)) is not None:
                        pages_max -= 1
                        self._share.request()
                        listed.update(hash((folder.authority, path)) for path in page)
            except (BadRequest, StoreUnavailable):
                # Outside the warehouse, or the credential may not list: each file is asked for.
                continue

    async def _look_for(self, files: list[StorageLocation]) -> None:
        for start in range(0, len(files), FILES_CONCURRENT_MAX):
            together = files[start : start + FILES_CONCURRENT_MAX]
            for _ in together:
                self._share.request()
            missing = await _within_time(missing_among(self._store, together), together[0].text)
            self._found.add_missing(file.text for file in missing)
            self._check_missing()

    def _check_missing(self) -> None:
        if self._found.missing_count >= MISSING_FILES_MAX:
            raise _LimitReached


async def _within_time(request: Awaitable[_T], name: str) -> _T:
    """The response of the store. Raises ServiceUnavailable after STORE_SECONDS_MAX."""
    try:
        async with asyncio.timeout(STORE_SECONDS_MAX):
            return await request
    except TimeoutError:
        raise ServiceUnavailable(f"The object store does not respond: {name}") from None
