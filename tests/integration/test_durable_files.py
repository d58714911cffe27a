"""Local metadata files and their folders are synced to disk before the event that names them."""

import asyncio
import contextlib
import errno
import os
import resource
import shutil
import stat
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from icecore.commands.execution.committer import Committer
from icecore.storage import file_sync
from icecore.storage.file_sync import FileSync, sync_folder
from tests.fixtures.catalog import served_catalog
from tests.fixtures.rest_client import RestClient, set_properties
from tests.fixtures.shared_server import FreshWarehouse

APPEND = "append"


class Recorder:
    """Records syncs with their threads, and appends. The syncs are executed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[int | str] = []
        self.threads: set[str] = set()
        self.failure: OSError | None = None
        self.meet: threading.Barrier | None = None
        fsync, submit_batch = os.fsync, Committer.submit_batch

        def recorded_fsync(descriptor: int) -> None:
            status = os.fstat(descriptor)
            if self.meet is not None and stat.S_ISREG(status.st_mode):
                self.meet.wait(timeout=20)
            if self.failure is not None:
                raise self.failure
            fsync(descriptor)
            self.seen.append(status.st_ino)
            self.threads.add(threading.current_thread().name)

        async def recorded_submit(committer: Committer, append_requests: Sequence[Any]) -> Any:
            self.seen.append(APPEND)
            return await submit_batch(committer, append_requests)

        monkeypatch.setattr(os, "fsync", recorded_fsync)
        monkeypatch.setattr(Committer, "submit_batch", recorded_submit)

    def before_the_append(self) -> list[int | str]:
        return self.seen[: self.seen.index(APPEND)]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, client: RestClient) -> Recorder:
    del client  # Earlier calls are not recorded.
    return Recorder(monkeypatch)


def _file_of(response: Any) -> str:
    return str(urlsplit(response["metadata-location"]).path)


def _inodes(*paths: str | Path) -> list[int | str]:
    return [Path(path).stat().st_ino for path in paths]


def test_file_and_folders_are_on_the_disk_before_the_event(client: RestClient, recorder: Recorder, warehouse: FreshWarehouse) -> None:
    """For a new table all folders up to that of the warehouse, its namespace's included; for a commit the file and its folder."""
    created = client.create_table(["a"], "t")
    assert 200 == created.status
    file = _file_of(created.json)
    assert warehouse.directory == Path(file).parents[3]
    assert _inodes(file, *Path(file).parents[:4]) == recorder.before_the_append()
    recorder.seen.clear()
    committed = client.commit(["a"], "t", set_properties(x="y"))
    assert 200 == committed.status
    file = _file_of(committed.json)
    assert _inodes(file, Path(file).parent) == recorder.before_the_append()


def test_a_large_file_is_synced_too(client: RestClient, recorder: Recorder) -> None:
    """It is written by another thread than a small one."""
    assert 200 == client.create_table(["a"], "t").status
    recorder.seen.clear()
    committed = client.commit(["a"], "t", set_properties({f"p{number}": "x" * 100_000 for number in range(4)}))
    assert 200 == committed.status
    file = _file_of(committed.json)
    assert _inodes(file, Path(file).parent) == recorder.before_the_append()


def test_files_of_a_batch_wait_for_the_disk_side_by_side(client: RestClient, recorder: Recorder) -> None:
    """Four concurrent creates: every fsync waits until all four have begun, and none runs on the event loop."""
    recorder.meet = threading.Barrier(4)
    calls = [
        ("POST", "/namespaces/a/tables", {"name": f"t{number}", "schema": {"type": "struct", "fields": []}}, None) for number in range(4)
    ]
    assert [200] * 4 == [response.status for response in client.together(calls)]
    assert recorder.threads
    assert all(name.startswith("fsync") for name in recorder.threads)


def test_a_disk_that_fails_refuses_the_commit(client: RestClient, recorder: Recorder, warehouse: FreshWarehouse) -> None:
    """503, nothing in the log, no file left. The next commit succeeds."""
    assert 200 == client.create_table(["a"], "t").status
    recorder.failure = OSError(errno.EIO, os.strerror(errno.EIO))
    assert (503, "ServiceUnavailableException") == client.commit(["a"], "t", set_properties(x="y")).error
    assert 1 == len(list(warehouse.directory.rglob("*.json")))
    recorder.failure = None
    assert 200 == client.commit(["a"], "t", set_properties(x="y")).status


def test_the_setting_leaves_it_to_the_kernel(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ICECORE_LOCAL_FILES_FSYNC=false: nothing is synced."""
    with served_catalog(database, tmp_path / "warehouse", local_files_fsync=False) as server:
        recorder = Recorder(monkeypatch)
        client = RestClient(server.url)
        assert 200 == client.create_namespace("a").status
        assert 200 == client.create_table(["a"], "t").status
        client.close()
        assert {APPEND} == set(recorder.seen)


def test_a_folder_made_anew_is_synced_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is identified by its inode, which cannot be reused while its descriptor is open. The number of descriptors is limited."""
    sync = FileSync()

    def put(name: str) -> list[int | str]:
        recorder = Recorder(monkeypatch)
        folder = tmp_path / "a" / "b"
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / name, os.O_CREAT | os.O_WRONLY)
        sync.sync(file, os.open(folder, os.O_RDONLY))
        monkeypatch.undo()
        return recorder.seen

    folder = tmp_path / "a" / "b"
    seen = put("1")
    assert _inodes(folder / "1", folder, *folder.parents) == seen
    opened = descriptors(tmp_path)
    seen = put("2")
    assert _inodes(folder / "2", folder) == seen
    assert opened == descriptors(tmp_path)
    shutil.rmtree(folder)
    seen = put("3")
    assert _inodes(folder / "3", folder, folder.parent) == seen


def test_folders_leave_descriptors_for_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a process may open 1,024 files, as usual, clients have 768 of them, and folders a sixteenth."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 1_024))
    sync = FileSync()
    opened = descriptors(tmp_path)
    for n in range(100):
        folder = tmp_path / str(n)
        folder.mkdir()
        sync.sync(os.open(folder / "file", os.O_CREAT | os.O_WRONLY), os.open(folder, os.O_RDONLY))
    assert 64 == descriptors(tmp_path) - opened


def open_in(folder: Path) -> tuple[int, int]:
    """Opens a new file in the folder, and the folder itself."""
    folder.mkdir(exist_ok=True)
    return os.open(folder / "file", os.O_CREAT | os.O_WRONLY), os.open(folder, os.O_RDONLY)


def descriptors(folder: Path) -> int:
    """Open descriptors of the folder, its parents and its contents; other threads open others."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        # The listing's own descriptor is closed again.
        with contextlib.suppress(FileNotFoundError):
            found.append(each.readlink())
    return sum(each.is_relative_to(folder) or folder.is_relative_to(each) for each in found)


def test_of_too_many_folders_the_longest_unused_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parents of recent files are kept. Without a limit on descriptors there is a limit on folders."""
    way_up = len((tmp_path, *tmp_path.parents))
    monkeypatch.setattr(file_sync, "FOLDERS_SYNCED_MAX", way_up + 3)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    sync, opened = FileSync(), descriptors(tmp_path)
    for name in "abcd":
        sync.sync(*open_in(tmp_path / name))
    assert way_up + 3 == descriptors(tmp_path) - opened
    recorder = Recorder(monkeypatch)
    sync.sync(*open_in(tmp_path / "d"))
    sync.sync(*open_in(tmp_path / "a"))
    assert _inodes(*(tmp_path / name for name in ("d/file", "d", "a/file", "a", "."))) == recorder.seen
    del sync
    assert opened == descriptors(tmp_path)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EBADF, errno.EIO])
def test_a_file_system_may_have_no_fsync_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Any other error refuses the file, and leaves no open descriptor."""
    fsync, sync, opened = os.fsync, FileSync(), descriptors(tmp_path)

    def fsync_of_files(descriptor: int) -> None:
        # Only syncing the parent folder fails.
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync_of_files)
    if code == errno.EIO:
        with pytest.raises(OSError, match=os.strerror(code)):
            sync.sync(*open_in(tmp_path / "a"))
        assert opened == descriptors(tmp_path)
        with pytest.raises(OSError, match=os.strerror(code)):
            sync_folder(tmp_path / "a")
    else:
        sync.sync(*open_in(tmp_path / "a"))
        sync_folder(tmp_path)


def test_a_folder_that_may_not_be_read_ends_the_way_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This account cannot have created anything in it."""
    opened = os.open

    def open_below(path: str | Path, flags: int, *, dir_fd: int | None = None) -> int:
        if path == ".." and os.path.samestat(os.fstat(dir_fd or 0), tmp_path.stat()):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(path, flags, dir_fd=dir_fd)

    file, folder = open_in(tmp_path / "a")
    recorder = Recorder(monkeypatch)
    monkeypatch.setattr(os, "open", open_below)
    FileSync().sync(file, folder)
    assert _inodes(tmp_path / "a" / "file", tmp_path / "a", tmp_path) == recorder.seen


async def test_a_sync_whose_caller_is_cancelled_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before it has begun, because only it closes its descriptors."""
    fsync, go_on = os.fsync, threading.Event()

    def slow_fsync(descriptor: int) -> None:
        assert go_on.wait(20)
        fsync(descriptor)

    monkeypatch.setattr(file_sync, "SYNC_THREADS_MAX", 1)
    monkeypatch.setattr(os, "fsync", slow_fsync)
    sync, opened = FileSync(), descriptors(tmp_path)
    callers = [asyncio.create_task(sync.sync_in_thread(*open_in(tmp_path / name))) for name in "ab"]
    await asyncio.sleep(0.05)
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    go_on.set()
    await asyncio.get_running_loop().run_in_executor(sync._threads, lambda: None)
    # Only two folders and their parents are cached, and nothing else is open.
    assert len("ab") + len((tmp_path, *tmp_path.parents)) == descriptors(tmp_path) - opened
