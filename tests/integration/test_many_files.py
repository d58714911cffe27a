"""Many small files written concurrently, as by a transaction that creates a thousand tables, do not block the event loop."""

import asyncio
import threading
from pathlib import Path
from typing import Any

from icecore.storage.local_store import PUTS_INLINE_MAX, LocalStore
from icecore.storage.locations import StorageLocation
from icecore.storage.profiles import parse_storage_profile
from icecore.storage.storage_profile import LocalProfile

FILES = 10 * PUTS_INLINE_MAX


class Watched(LocalStore):
    """Records the writing threads."""

    def __init__(self, profile: LocalProfile) -> None:
        super().__init__(profile)
        self.threads: list[int] = []

    def _write(self, location: StorageLocation, data: Any, *, on_loop: bool) -> tuple[int, int]:
        self.threads.append(threading.get_ident())
        return super()._write(location, data, on_loop=on_loop)


async def test_few_of_many_small_files_are_written_on_the_event_loop(tmp_path: Path) -> None:
    """As many as make a queue's commits durable fastest. All are written, and a single one later is written there again."""
    profile = parse_storage_profile({"type": "local", "directory": str(tmp_path)})
    assert isinstance(profile, LocalProfile)
    store = Watched(profile)
    locations = [profile.base.child(f"t{number}", "metadata", "a.json") for number in range(FILES)]
    await asyncio.gather(*(store.put_new(location, b"{}") for location in locations))
    assert FILES == len(store.threads)
    assert PUTS_INLINE_MAX == store.threads.count(threading.get_ident())
    assert [b"{}"] * FILES == [await store.get(location) for location in locations]
    await store.put_new(profile.base.child("one", "a.json"), b"{}")
    assert threading.get_ident() == store.threads[-1]
