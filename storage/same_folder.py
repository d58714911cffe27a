"""Folders that are one although their paths differ: by a symbolic link, or mounted in two places."""

import os
from pathlib import Path

from storage.locations import StorageLocation
from storage.storage_profile import LocalProfile


def shared_folders(one: LocalProfile, other: LocalProfile) -> tuple[StorageLocation, StorageLocation] | None:
    """A folder of each such that one is or holds the other, which their paths do not tell; None if there are none.

    Paths that tell it are no matter here: what lies there is claimed by its path, whichever warehouse it belongs to.
    """
    for mine in one.roots:
        for theirs in other.roots:
            if not mine.overlaps(theirs) and _overlap(_way(mine), _way(theirs)):
                return mine, theirs
    return None


def _overlap(one: list[object], other: list[object]) -> bool:
    return one[0] in other or other[0] in one


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
