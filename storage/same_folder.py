"""Finds folders that are the same although their paths differ: by a symbolic link, or mounted in two places."""

import asyncio
import os
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from .locations import StorageLocation
from .separate_thread import ThreadNotStartedError, in_separate_thread
from .storage_profile import LocalProfile

COMPARING_SECONDS_MAX = 5.0
"""For all folders together. A mount whose server is unreachable does not respond."""
COMPARISONS_CONCURRENT_MAX = 8
"""Comparisons of one process, including those that wait for such a mount."""
COMPARISONS_OF_A_PROJECT_MAX = 4
"""Comparisons of one project, so that its mounts delay no other project."""

_ROOM_LOOK_SECONDS = 0.01
_CACHED_FOLDERS_MAX = 4_096
"""Limit on what one comparison remembers: clients choose the paths."""
_CACHED_LEVELS_MAX = 16
"""Levels of a path up to which its parents are resolved one by one, by recursion."""

_T = TypeVar("_T")
_Path = tuple[str, ...]


class _Places:
    """The comparisons in progress, by project. Their threads leave them, also after the request has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[UUID | None] = Counter()

    def take(self, project_id: UUID | None) -> bool:
        """Whether there is a place. Without a project only the limit on all counts."""
        with self._lock:
            of_project = 0 if project_id is None else self._taken[project_id]
            if self._taken.total() >= COMPARISONS_CONCURRENT_MAX or of_project >= COMPARISONS_OF_A_PROJECT_MAX:
                return False
            self._taken[project_id] += 1
            return True

    def leave(self, project_id: UUID | None) -> None:
        with self._lock:
            self._taken[project_id] -= 1
            # Without the projects that have none.
            self._taken = +self._taken


_PLACES = _Places()


async def shared_folders(
    profile: LocalProfile, others: Sequence[LocalProfile], project_id: UUID | None = None
) -> tuple[LocalProfile, StorageLocation, StorageLocation] | None:
    """Another profile, and folders of both that overlap although their paths do not; None if there are none.

    Overlaps that are visible from the paths are permitted, because files there are claimed by their paths. Mounts in a folder are part of
    it. Links in it are not, because no store follows them. Raises TimeoutError if the file system does not respond in COMPARING_SECONDS_MAX
    to this comparison or to those before it.

    project_id -- whose places the comparison takes.
    """
    return await in_thread(lambda: _shared(profile, others), project_id) if others else None


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder of a profile: its path as spelled, its path after resolving links, and its path on its device."""

    root: StorageLocation
    spelled: _Path
    real: _Path
    on_device: _Path

    def identities(self, inode_of: Callable[[_Path], object]) -> Iterator[tuple[object, bool]]:
        """The identities of the folder and of each parent, which need not exist yet; and whether it is the folder itself."""
        for length in range(len(self.real), -1, -1):
            yield inode_of(self.real[:length]), length == len(self.real)
        for length in range(len(self.on_device), 0, -1):
            yield self.on_device[:length], length == len(self.on_device)

    def is_visible_in_paths(self, other: "_Folder") -> bool:
        """Whether the overlap is visible from the paths as spelled."""
        spelled = _difference(self.spelled, other.spelled)
        resolved = (_difference(self.real, other.real), _difference(self.on_device, other.on_device))
        return spelled is not None and all(each in (None, spelled) for each in resolved)


def _shared(profile: LocalProfile, others: Sequence[LocalProfile]) -> tuple[LocalProfile, StorageLocation, StorageLocation] | None:
    mounts, inode_of = _Mounts(), lru_cache(_CACHED_FOLDERS_MAX)(_inode_of)
    are: dict[object, list[_Folder]] = defaultdict(list)
    containing: dict[object, list[_Folder]] = defaultdict(list)
    for mine in mounts.folders(profile):
        for identity, is_itself in mine.identities(inode_of):
            containing[identity].append(mine)
            if is_itself:
                are[identity].append(mine)
    for other in others:
        for theirs in mounts.folders(other):
            for identity, is_itself in theirs.identities(inode_of):
                for mine in (containing if is_itself else are).get(identity, ()):
                    if not mine.is_visible_in_paths(theirs):
                        return other, mine.root, theirs.root
    return None


class _Mounts:
    """The mount points of the system; empty if the system does not list them (Linux does)."""

    def __init__(self) -> None:
        self._sources: dict[_Path, _Path] = {}
        self._below: dict[_Path, list[_Path]] = defaultdict(list)
        with suppress(OSError):
            # "36 35 98:0 /folder /mounted/at rw,noatime master:1 - ext3 /dev/root rw" (proc_pid_mountinfo(5)); the last one lies on top.
            for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
                _, _, device, folder, point, *_ = line.split(b" ")
                self._sources[_segments(_unescaped(point))] = (os.fsdecode(device), *_segments(_unescaped(folder)))
        # Most folders of a comparison have the same parents.
        self._real = lru_cache(_CACHED_FOLDERS_MAX)(self._resolve)
        for path in self._sources:
            for length in range(len(path)):
                self._below[path[:length]].append(path)

    def folders(self, profile: LocalProfile) -> Iterator[_Folder]:
        """The roots of a profile, and folders that are mounted in them."""
        for root in profile.roots:
            real = self._real(root.segments)
            yield _Folder(root, root.segments, real, self._on_device(real))
            for path in self._below.get(real, ()):
                yield _Folder(root, (*root.segments, *path[len(real) :]), path, self._on_device(path))

    def _resolve(self, path: _Path) -> _Path:
        """The path after resolving links."""
        if not path:
            return ()
        if len(path) > _CACHED_LEVELS_MAX:
            return _segments(os.path.realpath("/" + "/".join(path)))
        real = (*self._real(path[:-1]), path[-1])
        spelled = "/" + "/".join(real)
        is_link = os.path.islink(spelled)  # noqa: PTH114 -- twice as fast, and called for every folder of the server
        return _segments(os.path.realpath(spelled)) if is_link else real

    def _on_device(self, real: _Path) -> _Path:
        for length in range(len(real), -1, -1):
            if (source := self._sources.get(real[:length])) is not None:
                return (*source, *real[length:])
        return ("", *real)


def _segments(path: str) -> _Path:
    return tuple(segment for segment in path.split("/") if segment)


def _unescaped(path: bytes) -> str:
    """White space and backslashes are octal escapes in this file."""
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), path))


def _difference(one: _Path, other: _Path) -> tuple[_Path, _Path] | None:
    """The rest of each path after the other, if one begins with the other."""
    shorter = min(len(one), len(other))
    return (one[shorter:], other[shorter:]) if one[:shorter] == other[:shorter] else None


def _inode_of(folder: _Path) -> object:
    """The folder's inode; its path if it does not exist yet."""
    path = "/" + "/".join(folder)
    try:
        status = os.stat(path)  # noqa: PTH116 -- twice as fast, and called for every folder of the server
    except OSError:
        return path
    return status.st_dev, status.st_ino


async def in_thread(compare: Callable[[], _T], project_id: UUID | None) -> _T:
    """Runs `compare` in a thread. Raises TimeoutError if the file system does not respond in COMPARING_SECONDS_MAX.

    Not in a thread of the pool, which other work could not use meanwhile.
    """
    async with asyncio.timeout(COMPARING_SECONDS_MAX):
        while not _PLACES.take(project_id):  # noqa: ASYNC110 - threads release it
            await asyncio.sleep(_ROOM_LOOK_SECONDS)
        try:
            return await in_separate_thread(partial(_compared, compare, project_id), "compare-folders")
        except ThreadNotStartedError:
            _PLACES.leave(project_id)
            raise


def _compared(compare: Callable[[], _T], project_id: UUID | None) -> _T:
    try:
        return compare()
    finally:
        _PLACES.leave(project_id)
