"""Syncs written files and their folders to disk, so that files that events refer to survive a power failure."""

import errno
import os
import threading
from asyncio import get_running_loop, shield
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec

from .descriptor_limit import descriptor_limit

P = ParamSpec("P")

SYNC_THREADS_MAX = 16
"""The kernel merges concurrent fsyncs; more threads did not make it faster."""
FOLDERS_SYNCED_MAX = 256
FOLDERS_SYNCED_SHARE = 1 / 16
"""Share of the descriptors that a process may open; most are for clients."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FileSync:
    """Calls fsync in threads of its own, so that the event loop never waits for a disk, and files are synced concurrently.

    A folder's own entry is in its parent folder. When a folder is first written to, all its parents are synced, even if they existed
    before. Synced folders are remembered by open descriptors, so that no other folder can get the same inode meanwhile.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(SYNC_THREADS_MAX, thread_name_prefix="fsync")
        self._lock = threading.Lock()
        self._synced: OrderedDict[tuple[int, int], int] = OrderedDict()

    async def sync_in_thread(self, file: int, folder: int) -> None:
        """`sync` in a thread. It completes even if the caller is cancelled, because it closes the descriptors."""
        await self.in_thread(self.sync, file, folder)

    async def in_thread(self, work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """As `sync_in_thread`, for other work that ends in a `sync`."""
        await shield(get_running_loop().run_in_executor(self._threads, partial(work, *args, **kwargs)))

    def sync(self, file: int, folder: int) -> None:
        """Syncs the file and its parent folders to disk, and closes both descriptors. Raises OSError if the disk fails."""
        try:
            os.fsync(file)
            self._sync_with_parents(folder)
        finally:
            os.close(file)
            os.close(folder)

    def _sync_with_parents(self, folder: int) -> None:
        _sync_folder(folder)
        walked = [os.dup(folder)]
        try:
            while not self._is_synced(walked[-1]):
                above = _folder_above(walked[-1])
                if above is None:
                    break
                walked.append(above)
                _sync_folder(above)
        except BaseException:
            for descriptor in walked:
                os.close(descriptor)
            raise
        self._keep(walked)

    def _is_synced(self, folder: int) -> bool:
        status = os.fstat(folder)
        with self._lock:
            return (status.st_dev, status.st_ino) in self._synced

    def _keep(self, folders: list[int]) -> None:
        """Adds descriptors, which it then owns. If there are too many, it closes the least recently used."""
        with self._lock:
            for descriptor in folders:
                status = os.fstat(descriptor)
                before = self._synced.pop((status.st_dev, status.st_ino), None)
                self._synced[status.st_dev, status.st_ino] = descriptor
                if before is not None:
                    os.close(before)
            while len(self._synced) > descriptor_limit(FOLDERS_SYNCED_MAX, FOLDERS_SYNCED_SHARE):
                os.close(self._synced.popitem(last=False)[1])

    def __del__(self) -> None:
        for descriptor in self._synced.values():
            os.close(descriptor)


def _folder_above(folder: int) -> int | None:
    """The parent folder; None for the root, and for a parent that this user may not read, in which it cannot have created anything."""
    try:
        above = os.open("..", _FOLDER, dir_fd=folder)
    except PermissionError:
        return None
    if os.path.sameopenfile(above, folder):
        os.close(above)
        return None
    return above


def _sync_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        # Some file systems do not support fsync of folders (Postgres ignores these errors too).
        if error.errno not in (errno.EINVAL, errno.EBADF):
            raise


def sync_folder(path: Path) -> None:
    """Syncs the folder, the entries created or renamed in it, and its parent folders to disk."""
    folder = os.open(path, _FOLDER)
    try:
        FileSync()._sync_with_parents(folder)
    finally:
        os.close(folder)
