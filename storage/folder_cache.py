"""A cache of open descriptors of folders that were reached without a symbolic link."""

import os
import stat
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
    """An entry. parents -- the paths of the folders between the root and this one. is_root -- only a root may be a link."""

    descriptor: int
    device: int
    inode: int
    parents: tuple[str, ...]
    is_root: bool


class FolderCache(LRUCache[_Key, _Folder]):
    """The open folders of the local stores that share it. For use by one thread, because any later call may close a descriptor.

    An entry is removed if its path now refers to another folder (it was moved or recreated), or leads through a link below the root, even
    if that is to the same folder.
    """

    def __init__(self) -> None:
        super().__init__(descriptor_limit(FOLDERS_CACHED_MAX, FOLDERS_CACHED_SHARE))

    def find(self, store: int, path: str) -> int | None:
        """The descriptor of a store's folder, if the path still refers to it."""
        known = self.get((store, path))
        if known is None:
            return None
        if not _is_reached(path, known):
            del self[store, path]
            return None
        return known.descriptor

    def keep(self, store: int, path: str, descriptor: int, *, levels: int) -> None:
        """Adds a descriptor, which the cache then owns. levels -- how many folders `path` is below the store's root."""
        try:
            status = os.fstat(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        if (store, path) in self:
            del self[store, path]
        parents = tuple(path.rsplit("/", count)[0] for count in range(levels - 1, 0, -1))
        self[store, path] = _Folder(descriptor, status.st_dev, status.st_ino, parents, is_root=not levels)

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


def _is_reached(path: str, folder: _Folder) -> bool:
    """Whether `path` refers to the folder without a link below the root. Each level is looked at, since `stat` follows links above it."""
    try:
        for parent in folder.parents:
            if stat.S_ISLNK(os.lstat(parent).st_mode):
                return False
        status = os.stat(path, follow_symlinks=folder.is_root)  # noqa: PTH116 - descriptors and paths of the os module throughout
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (folder.device, folder.inode)
