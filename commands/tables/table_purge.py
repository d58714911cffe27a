"""The purge of one table: deletes, page by page, files that its metadata and manifests name in the locations it claims."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from ...domain.errors import BadRequest, CatalogError, NotFound, PayloadTooLarge, ServiceUnavailable
from ...domain.table import TableState
from ...storage.locations import StorageLocation
from ...storage.manifest_protocol import MANIFEST, MANIFEST_LIST, Kind
from ...storage.manifest_reader import ManifestReader, UnreadableManifest, read_names
from ...storage.object_store import ObjectStore
from ..execution import fault_points

FILES_LEFT_NAMED_MAX = 100
"""Limit on the remaining files that the event names. The others are only counted."""
PURGE_STORE_SECONDS_MAX = 60.0
"""Limit on one request to the store: a page of deletes, or reading a file."""
DELETE_PAGE_FILES = 1_000


@dataclass(slots=True)
class PurgedFiles:
    """The result of a purge.

    left -- files that were not deleted, the first of `left_count`.
    missing -- number of manifests and lists that do not exist. The files they named are unknown, or an earlier attempt has deleted them.
    unreadable -- number of manifests and lists that could not be read; they are among those left.
    """

    deleted: int = 0
    left: list[str] = field(default_factory=list)
    left_count: int = 0
    missing: int = 0
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """The files that a table's document names, and the locations it claims. They are kept in memory during the purge.

    manifest_lists -- for each snapshot its manifests, if it lists them itself (as format version 1 may), and its manifest list.
    others -- statistics and metadata files.
    """

    manifest_lists: tuple[tuple[tuple[str | None, ...], str | None], ...]
    others: tuple[str, ...]
    location_keys: tuple[str, ...]

    @classmethod
    def of(cls, table: TableState) -> "NamedFiles":
        document = table.document.value
        statistics = (each["statistics-path"] for kind in ("statistics", "partition-statistics") for each in document[kind])
        old_metadata = (entry["metadata-file"] for entry in document["metadata-log"])
        return cls(
            tuple((tuple(each.get("manifests") or ()), each.get("manifest-list")) for each in document["snapshots"]),
            (*statistics, *old_metadata, table.metadata_location),
            table.location_keys,
        )


class TablePurge:
    """One attempt. A manifest is deleted after the files it names, and a list after its manifests, so that an interrupted purge can
    continue.

    fence -- awaited before each page of deletes; raises if this process must not delete any more.
    progress -- called after each page that was read or deleted.
    """

    def __init__(
        self,
        store: ObjectStore,
        storage_identity: str,
        named: NamedFiles,
        reader: ManifestReader,
        fence: Callable[[], Awaitable[None]],
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._storage_identity = storage_identity
        self._named = named
        self._fence = fence
        self._progress = progress
        self._reader = reader
        self._files = PurgedFiles()

    async def run(self) -> PurgedFiles:
        """Raises ServiceUnavailable if the store or Postgres is unreachable. Another attempt continues."""
        for manifests, manifest_list in self._named.manifest_lists:
            await self._purge_snapshot(manifests, manifest_list)
        await self._delete_own(self._named.others)
        return self._files

    async def _purge_snapshot(self, manifests: Iterable[str | None], name: str | None) -> None:
        await self._purge_manifests(manifests)
        if name is None:
            return
        read = True
        try:
            async for page in self._names_in(MANIFEST_LIST, name):
                await self._purge_manifests(page)
        except UnreadableManifest:
            read = False
        if read:
            await self._delete_own([name])

    async def _purge_manifests(self, names: Iterable[str | None]) -> None:
        read: list[str | None] = []
        for name in names:
            if name is None or self._parsed(name) is None:
                self._leave(name)
                continue
            try:
                async for page in self._names_in(MANIFEST, name):
                    # Files that a manifest outside the table's locations names are not listed in the event, because they may be another
                    # table's.
                    await self._delete_own(page, named=self._own(name) is not None)
                read.append(name)
            except UnreadableManifest:
                continue
        await self._delete_own(read)

    async def _names_in(self, kind: Kind, name: str) -> AsyncIterator[list[str | None]]:
        """Pages of the names in a list or manifest; none if it does not exist.

        One that cannot be read is left, and UnreadableManifest is raised.
        """
        location = self._parsed(name)
        try:
            if location is None:
                raise UnreadableManifest(name)
            async for page in read_names(self._reader, kind, self._store, location, seconds_max=PURGE_STORE_SECONDS_MAX):
                self._progress()
                yield page
        except NotFound:
            self._files.missing += 1
        except (BadRequest, PayloadTooLarge, UnreadableManifest):
            self._files.unreadable += 1
            self._leave(name)
            raise UnreadableManifest(name) from None

    async def _delete_own(self, names: Iterable[str | None], *, named: bool = True) -> None:
        """Deletes the files in the table's locations, and leaves the others."""
        own: list[StorageLocation] = []
        for name in names:
            location = self._own(name)
            if location is None:
                self._leave(name, named=named)
            else:
                own.append(location)
        for start in range(0, len(own), DELETE_PAGE_FILES):
            await self._delete(own[start : start + DELETE_PAGE_FILES])

    async def _delete(self, page: list[StorageLocation]) -> None:
        await self._fence()
        if fault_points.SWITCHED_ON:
            await fault_points.reach("purge.before_delete")
        try:
            async with asyncio.timeout(PURGE_STORE_SECONDS_MAX):
                await self._store.delete(page)
            self._files.deleted += len(page)
            self._progress()
            if fault_points.SWITCHED_ON:
                await fault_points.reach("purge.after_delete")
        except TimeoutError:
            raise ServiceUnavailable(f"The object store does not respond: {page[0].text}") from None
        except ServiceUnavailable:
            raise
        except CatalogError:
            # One of them cannot be deleted: it is a folder, or its path contains a symbolic link.
            if len(page) == 1:
                self._leave(page[0].text)
                return
            for location in page:
                await self._delete([location])

    def _parsed(self, name: str) -> StorageLocation | None:
        try:
            return StorageLocation.parse_structure(name, field="file")
        except BadRequest:
            return None

    def _own(self, name: str | None) -> StorageLocation | None:
        """The location of the file, if it is inside a location that the table claims."""
        location = self._parsed(name) if name is not None else None
        if location is None:
            return None
        key = location.claim_key(self._storage_identity)
        return location if any(key.startswith(claimed) and key != claimed for claimed in self._named.location_keys) else None

    def _leave(self, name: str | None, *, named: bool = True) -> None:
        self._files.left_count += 1
        if named and name is not None and len(self._files.left) < FILES_LEFT_NAMED_MAX and self._parsed(name) is not None:
            self._files.left.append(name)
