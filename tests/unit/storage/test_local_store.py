"""The stores of local folders: reads that are cancelled, and the descriptors that they keep open."""

import asyncio
import errno
import os
import threading
import time
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from icecore.domain.errors import BadRequest
from icecore.storage import folder_cache, local_store
from icecore.storage.folder_cache import FolderCache
from icecore.storage.local_store import INLINE_BYTES_MAX, LocalStore
from icecore.storage.object_store import ObjectStores
from icecore.storage.profiles import LocalProfile, parse_storage_profile


def local_profile(directory: Path) -> LocalProfile:
    profile = parse_storage_profile({"type": "local", "directory": str(directory)})
    assert isinstance(profile, LocalProfile)
    return profile


async def test_the_thread_of_a_cancelled_listing_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in folders without files, through which it could otherwise walk for minutes; there are few threads."""
    for number in range(200):
        (tmp_path / "t" / str(number)).mkdir(parents=True)
    scandir, scanned = os.scandir, list[str]()

    def slow(path: str) -> Any:
        scanned.append(path)
        time.sleep(0.02)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", slow)
    profile = local_profile(tmp_path)
    listing = LocalStore(profile).list_files(profile.base.child("t"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await anext(listing)
    await asyncio.sleep(0.1)
    count = len(scanned)
    await asyncio.sleep(0.3)
    assert 1 < count == len(scanned) < 200


async def test_slow_files_of_an_undrop_delay_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may chain links that make each `stat` slow, and there are few threads for large files."""
    profile = local_profile(tmp_path)
    store, base = LocalStore(profile), profile.base
    for name, size in (("small", 1), ("large", INLINE_BYTES_MAX + 1)):
        (tmp_path / name).write_bytes(b"x" * size)
    ask, may_ask = os.stat, threading.Event()

    def slow(path: str, *args: Any, **kwargs: Any) -> os.stat_result:
        if str(path).endswith("small"):
            assert may_ask.wait(5)
        return ask(path, *args, **kwargs)

    monkeypatch.setattr(os, "stat", slow)
    questions = [asyncio.create_task(store.exists(base.child("small"))) for _ in range(100)]
    await asyncio.sleep(0)
    assert INLINE_BYTES_MAX + 1 == len(await store.get(base.child("large")))
    may_ask.set()
    assert [True] * 100 == await asyncio.gather(*questions)


async def test_slow_folders_of_an_undrop_delay_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount may not respond while its folders are listed, and there are few threads for large files."""
    store, base = LocalStore(profile := local_profile(tmp_path)), profile.base
    (tmp_path / "t").mkdir()
    for file in (tmp_path / "t" / "small", tmp_path / "large"):
        file.write_bytes(b"x" * (INLINE_BYTES_MAX + 1))
    list_folder, may_list = os.scandir, threading.Event()

    def slow(path: str) -> Any:
        assert may_list.wait(5)
        return list_folder(path)

    async def listed() -> list[str]:
        return [file async for page in store.list_files(base.child("t")) for file in page]

    monkeypatch.setattr(os, "scandir", slow)
    listings = [asyncio.create_task(listed()) for _ in range(100)]
    await asyncio.sleep(0)
    assert INLINE_BYTES_MAX + 1 == len(await store.get(base.child("large")))
    may_list.set()
    assert [[f"{tmp_path}/t/small"[1:]]] * 100 == await asyncio.gather(*listings)


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
    profile = local_profile(tmp_path)
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


def open_folders(below: Path) -> int:
    """Open descriptors of this process."""
    files = [Path(f"/proc/self/fd/{descriptor}") for descriptor in os.listdir("/proc/self/fd")]  # noqa: PTH208 - names only
    return sum(file.is_dir() and file.resolve().is_relative_to(below.resolve()) for file in files)


async def test_open_folders_are_limited_for_all_stores_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may have a thousand local warehouses; without descriptors left, it could accept no connection."""
    monkeypatch.setattr(folder_cache, "FOLDERS_CACHED_MAX", 4)
    stores = ObjectStores(fsync=False)
    for warehouse in range(5):
        profile = local_profile(tmp_path / f"w{warehouse}")
        store = await stores.open(profile, None)
        for table in range(5):
            await store.put_new(profile.base.child(f"t{table}", "f"), b"x")
            assert b"x" == await store.get(profile.base.child(f"t{table}", "f"))
    assert 4 == open_folders(tmp_path)
    stores.close()
    assert 0 == open_folders(tmp_path)


async def test_a_store_does_not_use_a_folder_that_another_one_may_open(tmp_path: Path) -> None:
    """The base may be reached through a link; below it, links are refused."""
    (tmp_path / "real" / "t").mkdir(parents=True)
    (tmp_path / "real" / "t" / "f").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folders = FolderCache()
    above, through_link = local_profile(tmp_path), local_profile(tmp_path / "link")
    for _ in range(2):
        assert b"x" == await LocalStore(through_link, folder_cache=folders).get(through_link.base.child("t", "f"))
        with pytest.raises(BadRequest):
            await LocalStore(above, folder_cache=folders).get(above.base.child("link", "t", "f"))


@pytest.mark.parametrize("moved", ["t", "t/metadata"])
@pytest.mark.parametrize("base", ["real", "link"])
async def test_a_cached_folder_is_not_reached_through_a_link(tmp_path: Path, base: str, moved: str) -> None:
    """The folder or one above it was moved out of the base, and a link to it is in its place: it is still the same folder."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    profile = local_profile(tmp_path / base)
    store, folder = LocalStore(profile, fsync=False), profile.base.child("t", "metadata")
    await store.put_new(folder.child("f"), b"x")
    assert b"x" == await store.get(folder.child("f"))
    (tmp_path / "real" / moved).rename(tmp_path / "outside")
    (tmp_path / "real" / moved).symlink_to(tmp_path / "outside")
    for _ in range(2):
        with pytest.raises(BadRequest, match="symbolic link"):
            await store.put_new(folder.child("g"), b"y")
        with pytest.raises(BadRequest, match="symbolic link"):
            await store.get(folder.child("f"))
    assert [] == list((tmp_path / "outside").rglob("g"))


async def test_only_the_base_of_cached_folders_may_become_a_link(tmp_path: Path) -> None:
    """An administrator may move a base to another disk. The folders below it are found again."""
    profile = local_profile(tmp_path / "base")
    store = LocalStore(profile, fsync=False)
    for location in (profile.base.child("f"), profile.base.child("t", "f")):
        await store.put_new(location, b"x")
    (tmp_path / "base").rename(tmp_path / "moved")
    (tmp_path / "base").symlink_to(tmp_path / "moved")
    for location in (profile.base.child("g"), profile.base.child("t", "g")):
        await store.put_new(location, b"y")
        assert b"y" == await store.get(location)
    assert 2 == open_folders(tmp_path)
    store._folder_cache.clear()


def test_a_folder_that_cannot_be_cached_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system may report an error for an open folder. There is none here, so the call is replaced."""

    def stale(descriptor: int) -> os.stat_result:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    descriptor = os.open(tmp_path, os.O_RDONLY)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", stale)
        with pytest.raises(OSError, match=os.strerror(errno.ESTALE)):
            FolderCache().keep(0, str(tmp_path), descriptor, levels=0)
    assert 0 == open_folders(tmp_path)
