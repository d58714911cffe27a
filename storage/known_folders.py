"""Folders that were reached without a symbolic link, kept open: the next file in one need not go the way again."""

import os
from collections import OrderedDict

FOLDERS_KNOWN_MAX = 256


class KnownFolders:
    """Open folders by path, the longest unused out first. For one thread: a descriptor may be closed at the next call.

    A path that by now leads to another folder (moved, made anew, a link put in the way) is not believed.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[int, int, int]] = OrderedDict()

    def find(self, path: str) -> int | None:
        """The folder's descriptor, if the path still leads to it."""
        known = self._known.get(path)
        if known is None:
            return None
        descriptor, device, inode = known
        try:
            status = os.stat(path)  # noqa: PTH116 - descriptors and paths of the os module throughout
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != (device, inode):
            del self._known[path]
            os.close(descriptor)
            return None
        self._known.move_to_end(path)
        return descriptor

    def keep(self, path: str, descriptor: int) -> None:
        """Takes the descriptor over."""
        status = os.fstat(descriptor)
        before = self._known.pop(path, None)
        if before is not None:
            os.close(before[0])
        self._known[path] = (descriptor, status.st_dev, status.st_ino)
        if len(self._known) > FOLDERS_KNOWN_MAX:
            _, (oldest, _, _) = self._known.popitem(last=False)
            os.close(oldest)

    def __del__(self) -> None:
        for descriptor, _, _ in self._known.values():
            os.close(descriptor)
