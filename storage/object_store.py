"""The port to object stores, and the cache of open stores."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol
from uuid import UUID

from cachetools import LRUCache

from ..domain.byte_pieces import Content
from ..domain.errors import BadRequest
from .bucket_store import open_bucket_store
from .credentials import StorageCredential
from .folder_cache import FolderCache
from .local_store import LocalStore
from .locations import StorageLocation
from .profiles import LocalProfile, StorageProfile
from .same_folder import shared_folders
from .store_errors import METADATA_BYTES_MAX, store_unavailable
from .system_credentials import SystemCredentials
from .system_identities import SystemIdentities

__all__ = ["METADATA_BYTES_MAX", "STORES_OPEN_MAX", "ObjectStore", "ObjectStores"]

STORES_OPEN_MAX = 1_000
"""Stores that one process keeps open; the least recently used one is dropped."""


class ObjectStore(Protocol):
    """The files of one warehouse.

    Every method raises BadRequest for a location outside the profile's base and allowed locations, and ServiceUnavailable if the store
    is unreachable, does not respond or refuses the warehouse's credential.
    """

    async def get(self, location: StorageLocation, *, bytes_max: int = METADATA_BYTES_MAX) -> bytes:
        """The whole file. Raises NotFound, and PayloadTooLarge over `bytes_max` before its bytes are read."""

    async def put_new(self, location: StorageLocation, data: Content) -> None:
        """Writes a file atomically, with its folders. Raises AlreadyExists if it exists."""

    async def make_table_folders(self, location: StorageLocation) -> None:
        """Makes the folders below a table's location that engines write to, if the store has folders. They may exist."""

    async def exists(self, location: StorageLocation, *, on_loop: bool = False) -> bool:
        """Whether the location is an existing file (not a folder).

        on_loop -- permits a local store to ask on the event loop's thread. Only for one file of a request: another thread would double the
        time of a cached load of a table.
        """

    async def check_readable(self) -> None:
        """Lists one entry below the base. Raises ServiceUnavailable if that fails."""

    def list_files(self, location: StorageLocation) -> AsyncGenerator[list[str], None]:
        """Pages of the files below a folder, at most 1,000 in each: their segments joined by slashes. Empty if nothing is there."""

    async def is_listed(self, location: StorageLocation) -> bool:
        """Whether a listing of the file's folder contains it among the first names."""

    async def delete(self, locations: Sequence[StorageLocation]) -> None:
        """Deletes files. Missing files are not an error."""


class ObjectStores:
    """Opens stores and caches them: a store keeps its connections open, so a warehouse has one store per process.

    fsync -- whether local files are synced to disk before put_new returns. system -- which stores may use the server's own identity;
    if any may, the client library of its cloud must be installed.
    """

    def __init__(self, stores_open_max: int = STORES_OPEN_MAX, *, fsync: bool = True, system: SystemCredentials | None = None) -> None:
        self._opened: LRUCache[tuple[StorageProfile, StorageCredential | None], ObjectStore] = LRUCache(stores_open_max)
        self._fsync = fsync
        self._system = system or SystemCredentials()
        self._identities = SystemIdentities.permitted(self._system)
        self._folder_cache = FolderCache()

    async def open(self, profile: StorageProfile, credential: StorageCredential | None, project_id: UUID | None = None) -> ObjectStore:
        """The store of `profile`. It uses `credential` only. Raises ServiceUnavailable if the settings do not permit it.

        project_id -- of its warehouse, for the limit on comparisons of folders.
        """
        key = (profile, credential)
        store = self._opened.get(key)
        if store is None and isinstance(profile, LocalProfile):
            await self._check_folders(profile, project_id)
            store = self._opened.get(key)
        if store is None:
            if (refusal := self._system.refusal(profile, credential)) is not None:
                raise store_unavailable(profile.base, refusal)
            self._opened[key] = store = open_store(
                profile, credential, fsync=self._fsync, identities=self._identities, folder_cache=self._folder_cache
            )
        return store

    def open_new(self, profile: StorageProfile, credential: StorageCredential | None) -> ObjectStore:
        """The store of a warehouse that does not exist yet; it is not cached. Raises BadRequest if it cannot be opened so."""
        if (refusal := self._system.refusal(profile, credential)) is not None:
            raise BadRequest(f"Invalid storage-credential: {refusal}")
        return open_store(profile, credential, fsync=self._fsync, identities=self._identities)

    def close(self) -> None:
        """Forgets the stores, and closes the open folders of local ones."""
        self._opened.clear()
        self._folder_cache.clear()

    async def _check_folders(self, profile: LocalProfile, project_id: UUID | None) -> None:
        """Raises ServiceUnavailable if the folder overlaps that of an open store: a link may be created after both warehouses."""
        compared: set[LocalProfile] = {profile}
        while others := [other for other, _ in self._opened if isinstance(other, LocalProfile) and other not in compared]:
            try:
                found = await shared_folders(profile, others, project_id)
            except TimeoutError:
                raise store_unavailable(
                    profile.base, "the file system did not respond in time while folders of warehouses were compared"
                ) from None
            if found is not None:
                _, mine, theirs = found
                raise store_unavailable(mine, f"its folder overlaps {theirs} of another warehouse through a symbolic link or a mount")
            # Others may have been opened meanwhile.
            compared.update(others)


def open_store(
    profile: StorageProfile,
    credential: StorageCredential | None,
    *,
    fsync: bool = True,
    identities: SystemIdentities | None = None,
    folder_cache: FolderCache | None = None,
) -> ObjectStore:
    """Opens a store that is not cached.

    identities -- the server's own, for a credential that uses one of them.
    folder_cache -- as in LocalStore.
    """
    if isinstance(profile, LocalProfile):
        if credential is not None:
            raise BadRequest("Invalid storage-credential: not allowed with a local profile")
        return LocalStore(profile, fsync=fsync, folder_cache=folder_cache)
    return open_bucket_store(profile, credential, identities or SystemIdentities())
