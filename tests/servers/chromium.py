"""Debian's Chromium, headless: a browser that treats web pages as users' browsers do."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers import debian
from tests.servers.paths import ToolMissingError

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> Path:
    """The program, installed if it is missing. Raises ToolMissingError."""
    if shutil.which("chromium") is None:
        debian.install("chromium", wanted="Chromium")
    found = shutil.which("chromium")
    if found is None:
        raise ToolMissingError("Chromium is missing, although apt-get installed it")
    return Path(found)


@contextmanager
def browsing(url: str, profile: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """A browser that shows `url` while the block runs, with a new profile in `profile`."""
    command = [chromium(), *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", *flags, url]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)
