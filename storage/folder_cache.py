"""A cache of open descriptors of folders that were reached without a symbolic link."""

import os
from contextlib import suppress
from typing import NamedTuple

from cachetools import LRUCache

from .descriptor_limit import descriptor_limit

FOLDERS_CACHED_MAX = 256
FOLDERS_CACHED_SHARE = 1 / 16
"""Share of the descriptors that a process may open; most are for clients."""

_Key = tuple[int, str]
"""The number of a store, and a path: a store may follow a link to its base that another one must not follow."""


class _Folder(NamedTuple):
    descriptor: int
    device: int
    inode: int


class FolderCache(LRUCache[_Key, _Folder]):
    """The open folders of the local stores that share it. For use by one thread, because any later call may close a descriptor.

    An entry is removed if its path now refers to another folder (it was moved, recreated or replaced by a link).
    """

    def __init__(self) -> None:
        super().__init__(descriptor_limit(FOLDERS_CACHED_MAX, FOLDERS_CACHED_SHARE))

    def find(self, store: int, path: str) -> int | None:
        """The descriptor of a store's folder, if the path still refers to it."""
        known = self.get((store, path))
        if known is None:
            return None
        try:
            status = os.stat(path)  # noqa: PTH116 - descriptors and paths of the os module throughout
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != known[1:]:
            del self[store, path]
            return None
        return known.descriptor

    def keep(self, store: int, path: str, descriptor: int) -> None:
        """Adds a descriptor, which the cache then owns."""
        try:
            status = os.fstat(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        if (store, path) in self:
            del self[store, path]
        self[store, path] = _Folder(descriptor, status.st_dev, status.st_ino)

    def __delitem__(self, key: _Key) -> None:
        descriptor = self[key].descriptor
        super().__delitem__(key)
        # The cache is optional: a file system that reports an error here must not fail a request.
        with suppress(OSError):
            os.close(descriptor)

    def clear(self) -> None:
        """Closes all of them."""
        for key in [*self]:
            del self[key]

    def __del__(self) -> None:
        self.clear()
