"""The folders in which the test servers keep downloads, and file locks for sharing them."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
TOOLS = ROOT / ".tools"
REQUIREMENTS = ROOT / "requirements"


class ToolMissingError(Exception):
    """A tool for the tests is missing and could not be fetched; the message says what to install."""


@contextlib.contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Holds this checkout's lock of that name, so that concurrent processes create something only once."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
