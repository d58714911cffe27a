"""Open handles of folders that were reached without a symbolic link."""

import os
from typing import NamedTuple

from cachetools import LRUCache

FOLDERS_KNOWN_MAX = 256


class _Folder(NamedTuple):
    descriptor: int
    device: int
    inode: int


class FolderCache(LRUCache[str, _Folder]):
    """Open folders by path. For one thread: a descriptor may be closed at the next call.

    A path that by now leads to another folder (moved, made anew, a link put in the way) is not believed.
    """

    def __init__(self) -> None:
        super().__init__(FOLDERS_KNOWN_MAX)

    def find(self, path: str) -> int | None:
        """The folder's descriptor, if the path still leads to it."""
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
        """Takes the descriptor over."""
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
