"""Where the servers of the tests keep what they fetch, and the file locks that let several callers share it."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
TOOLS = ROOT / ".tools"
REQUIREMENTS = ROOT / "requirements"


class ToolMissingError(Exception):
    """A tool the tests need is not here and could not be fetched; the message says what to install."""


@contextlib.contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold this checkout's lock of that name: what it guards is made once, however many ask."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
