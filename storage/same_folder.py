"""Folders that are one although their paths differ: by a symbolic link, or mounted in two places."""

import asyncio
import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from storage.locations import StorageLocation
from storage.storage_profile import LocalProfile

COMPARING_SECONDS_MAX = 5.0
"""For all folders together. A mount whose server is away answers nothing."""
COMPARED_AT_ONCE_MAX = 8
"""Comparisons of one process, those that wait for such a mount included."""

_ROOM_LOOK_SECONDS = 0.01

_T = TypeVar("_T")
_COMPARING = threading.Semaphore(COMPARED_AT_ONCE_MAX)


async def shared_folders(
    profile: LocalProfile, others: Sequence[LocalProfile]
) -> tuple[LocalProfile, StorageLocation, StorageLocation] | None:
    """Another profile, and a folder of each such that one is or holds the other, which their paths do not tell; None if there are none.

    Paths that tell it are no matter here: what lies there is claimed by its path, whichever warehouse it belongs to. Raises TimeoutError
    where the file system does not answer in COMPARING_SECONDS_MAX, to this comparison or to those it waits behind.
    """
    return await _in_thread(lambda: _shared(profile, others)) if others else None


def _shared(profile: LocalProfile, others: Sequence[LocalProfile]) -> tuple[LocalProfile, StorageLocation, StorageLocation] | None:
    are: dict[object, list[StorageLocation]] = defaultdict(list)
    lie_in: dict[object, list[StorageLocation]] = defaultdict(list)
    for mine in profile.roots:
        way = _way(mine)
        are[way[0]].append(mine)
        for folder in way:
            lie_in[folder].append(mine)
    for other in others:
        for theirs in other.roots:
            way = _way(theirs)
            for mine in (*lie_in.get(way[0], ()), *(mine for folder in way for mine in are.get(folder, ()))):
                if not mine.overlaps(theirs):
                    return other, mine, theirs
    return None


def _way(location: StorageLocation) -> list[object]:
    """What the folder is, and each above it: its inode, or the path of one that is not there yet."""
    real = Path(os.path.realpath("/" + "/".join(location.segments)))
    return [_identity(folder) for folder in (real, *real.parents)]


def _identity(folder: Path) -> object:
    try:
        status = folder.stat()
    except OSError:
        return str(folder)
    return status.st_dev, status.st_ino


async def _in_thread(compare: Callable[[], _T]) -> _T:
    """Not in a thread of the pool, which would be lost to everybody else while a file system does not answer."""
    async with asyncio.timeout(COMPARING_SECONDS_MAX):
        while not _COMPARING.acquire(blocking=False):  # noqa: ASYNC110 - threads release it
            await asyncio.sleep(_ROOM_LOOK_SECONDS)
        return await _compared(compare)


async def _compared(compare: Callable[[], _T]) -> _T:
    loop = asyncio.get_running_loop()
    compared: asyncio.Future[_T] = loop.create_future()

    def give(set_outcome: Callable[[], None]) -> None:
        if not compared.done():
            set_outcome()

    def run() -> None:
        try:
            found = compare()
            outcome = partial(compared.set_result, found)
        except Exception as error:
            outcome = partial(compared.set_exception, error)
        finally:
            _COMPARING.release()
        # A loop that was closed meanwhile waits for nothing.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(give, outcome)

    threading.Thread(target=run, name="compare-folders", daemon=True).start()
    return await compared
