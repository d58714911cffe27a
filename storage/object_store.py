"""The port to object stores, and the cache of those opened."""

from collections.abc import Sequence
from typing import Protocol

from cachetools import LRUCache

from ..domain.byte_pieces import Content
from ..domain.errors import BadRequest
from .bucket_store import open_bucket_store
from .credentials import StorageCredential
from .local_store import LocalStore
from .locations import StorageLocation
from .profiles import LocalProfile, StorageProfile
from .same_folder import shared_folders
from .store_errors import METADATA_BYTES_MAX, store_away

__all__ = ["METADATA_BYTES_MAX", "STORES_OPEN_MAX", "ObjectStore", "ObjectStores"]

STORES_OPEN_MAX = 1_000
"""Stores kept open by one process; the one unused the longest is let go."""


class ObjectStore(Protocol):
    """One warehouse's files. Every location must lie in its profile's base or allowed locations: others are a BadRequest.

    A store that is away, hangs or refuses the warehouse's credential is ServiceUnavailable.
    """

    async def get(self, location: StorageLocation, *, bytes_max: int = METADATA_BYTES_MAX) -> bytes:
        """The whole file. NotFound if missing; PayloadTooLarge over `bytes_max`, before its bytes are read."""

    async def put_new(self, location: StorageLocation, data: Content) -> None:
        """Write a file that nobody sees half; AlreadyExists if there is one. Folders appear as needed."""

    async def exists(self, location: StorageLocation) -> bool:
        """Whether there is a file (not a folder)."""

    async def check_readable(self) -> None:
        """Lists one entry below the base; ServiceUnavailable where that cannot be done."""

    async def is_listed(self, location: StorageLocation) -> bool:
        """Whether a listing of the folder that holds the file has it among its first names."""

    async def delete(self, locations: Sequence[StorageLocation]) -> None:
        """Remove files; those already gone are no error."""


class ObjectStores:
    """Opens stores and keeps them: a store holds its connections, so one warehouse has one store per process.

    fsync -- local files are on the disk once they are put.
    """

    def __init__(self, stores_open_max: int = STORES_OPEN_MAX, *, fsync: bool = True) -> None:
        self._opened: LRUCache[tuple[StorageProfile, StorageCredential | None], ObjectStore] = LRUCache(stores_open_max)
        self._fsync = fsync

    async def open(self, profile: StorageProfile, credential: StorageCredential | None) -> ObjectStore:
        """The store of `profile`, read and written with `credential` alone: nothing is taken from the machine around."""
        key = (profile, credential)
        store = self._opened.get(key)
        if store is None and isinstance(profile, LocalProfile):
            await self._check_folders(profile)
            store = self._opened.get(key)
        if store is None:
            self._opened[key] = store = open_store(profile, credential, fsync=self._fsync)
        return store

    async def _check_folders(self, profile: LocalProfile) -> None:
        """A link may be made after both warehouses: whose store is opened second is refused, until somebody takes it away."""
        compared: set[LocalProfile] = {profile}
        while others := [other for other, _ in self._opened if isinstance(other, LocalProfile) and other not in compared]:
            try:
                found = await shared_folders(profile, others)
            except TimeoutError:
                raise store_away(profile.base, "the file system did not answer in time while folders of warehouses were compared") from None
            if found is not None:
                _, mine, theirs = found
                raise store_away(mine, f"its folder overlaps {theirs} of another warehouse through a symbolic link or a mount")
            # Others may have been opened meanwhile.
            compared.update(others)


def open_store(profile: StorageProfile, credential: StorageCredential | None, *, fsync: bool = True) -> ObjectStore:
    """A store of its own, not kept."""
    if isinstance(profile, LocalProfile):
        if credential is not None:
            raise BadRequest("Invalid storage-credential: not allowed with a local profile")
        return LocalStore(profile, fsync=fsync)
    return open_bucket_store(profile, credential)
