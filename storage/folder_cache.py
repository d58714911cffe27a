"""A cache of open descriptors of folders that were reached without a symbolic link."""

import os
from typing import NamedTuple

from cachetools import LRUCache

FOLDERS_CACHED_MAX = 256


class _Folder(NamedTuple):
    descriptor: int
    device: int
    inode: int


class FolderCache(LRUCache[str, _Folder]):
    """Open folders by path. For use by one thread, because any later call may close a descriptor.

    An entry is removed if its path now refers to another folder (it was moved, recreated or replaced by a link).
    """

    def __init__(self) -> None:
        super().__init__(FOLDERS_CACHED_MAX)

    def find(self, path: str) -> int | None:
        """The folder's descriptor, if the path still refers to it."""
        known = self.get(path)
        if known is None:
            return None
        try:
            status = os.stat(path)  # noqa: PTH116 - descriptors and paths of the os module throughout
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != known[1:]:
            del self[path]
            return None
        return known.descriptor

    def keep(self, path: str, descriptor: int) -> None:
        """Adds a descriptor, which the cache then owns."""
        status = os.fstat(descriptor)
        if path in self:
            del self[path]
        self[path] = _Folder(descriptor, status.st_dev, status.st_ino)

    def __delitem__(self, path: str) -> None:
        descriptor = self[path].descriptor
        super().__delitem__(path)
        os.close(descriptor)

    def __del__(self) -> None:
        for path in [*self]:
            del self[path]
