"""The store of a local folder: reads that are cancelled."""

import asyncio
import os
import threading
from io import FileIO
from pathlib import Path

import pytest

from icecore.storage import local_store
from icecore.storage.local_store import INLINE_BYTES_MAX, LocalStore
from icecore.storage.profiles import LocalProfile, parse_storage_profile


async def test_the_thread_of_a_cancelled_read_keeps_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its descriptor would otherwise be that of a file or connection that is opened next, of which the thread would read."""
    read, may_read, files = local_store._read, threading.Event(), list[FileIO]()
    contents = asyncio.Queue[bytes]()
    loop = asyncio.get_running_loop()

    def slow(file: FileIO, size_bytes: int) -> bytes:
        files.append(file)
        assert may_read.wait(10)
        content = read(file, size_bytes)
        loop.call_soon_threadsafe(contents.put_nowait, content)
        return content

    monkeypatch.setattr(local_store, "_read", slow)
    profile = parse_storage_profile({"type": "local", "directory": str(tmp_path)})
    assert isinstance(profile, LocalProfile)
    data = b"x" * (INLINE_BYTES_MAX + 1)
    (tmp_path / "f").write_bytes(data)
    reading = asyncio.create_task(LocalStore(profile).get(profile.base.child("f")))
    async with asyncio.timeout(10):
        while not files:
            await asyncio.sleep(0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert len(data) == os.fstat(files[0].fileno()).st_size
        may_read.set()
        assert data == await contents.get()
    assert files[0].closed
