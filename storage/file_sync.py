"""Syncs written files and their folders to disk, so that files that events name survive a power failure."""

import errno
import os
import resource
import threading
from asyncio import get_running_loop, shield
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec

P = ParamSpec("P")

SYNC_THREADS_MAX = 16
"""The kernel joins fsyncs that wait at the same time; more threads than this gained nothing."""
FOLDERS_SYNCED_MAX = 256
FOLDERS_SYNCED_SHARE = 1 / 16
"""Of the descriptors a process may open; most of them are for clients."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FileSync:
    """fsync of files in threads of its own, so that the event loop never waits for a disk and files wait side by side.

    A folder's own entry lies in the folder above it. The whole way up is synced when a folder is first written to, whoever made it;
    it is remembered by an open descriptor, whose inode no other folder can have meanwhile.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(SYNC_THREADS_MAX, thread_name_prefix="fsync")
        self._lock = threading.Lock()
        self._synced: OrderedDict[tuple[int, int], int] = OrderedDict()

    async def sync_aside(self, file: int, folder: int) -> None:
        """`sync` in a thread; a caller that is cancelled leaves it to its end, because it closes the descriptors."""
        await self.aside(self.sync, file, folder)

    async def aside(self, work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """The same for other work that ends in a `sync`."""
        await shield(get_running_loop().run_in_executor(self._threads, partial(work, *args, **kwargs)))

    def sync(self, file: int, folder: int) -> None:
        """Returns when the file and the way to it are on the disk; takes both descriptors over. Raises OSError if the disk fails."""
        try:
            os.fsync(file)
            self._sync_way(folder)
        finally:
            os.close(file)
            os.close(folder)

    def _sync_way(self, folder: int) -> None:
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
        """Takes the descriptors over; the longest unused are closed where there are too many."""
        with self._lock:
            for descriptor in folders:
                status = os.fstat(descriptor)
                before = self._synced.pop((status.st_dev, status.st_ino), None)
                self._synced[status.st_dev, status.st_ino] = descriptor
                if before is not None:
                    os.close(before)
            while len(self._synced) > _folders_synced_max():
                os.close(self._synced.popitem(last=False)[1])

    def __del__(self) -> None:
        for descriptor in self._synced.values():
            os.close(descriptor)


def _folders_synced_max() -> int:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return FOLDERS_SYNCED_MAX
    return min(FOLDERS_SYNCED_MAX, int(descriptors * FOLDERS_SYNCED_SHARE))


def _folder_above(folder: int) -> int | None:
    """The folder that holds this one; None above the root, and where this account may not read: there it has made nothing."""
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
        # Some file systems have no fsync of folders (Postgres passes over this too).
        if error.errno not in (errno.EINVAL, errno.EBADF):
            raise


def sync_folder(path: Path) -> None:
    """Returns when the folder, what was made or renamed in it, and the way to it are on the disk."""
    folder = os.open(path, _FOLDER)
    FileSync().sync(os.dup(folder), folder)
