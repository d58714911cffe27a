"""Metadata files on local disks are on the disk, with the way to them, before the event that names them."""

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

from commands.committer import Committer
from storage.file_sync import FileSync
from tests.fixtures.catalog import served_catalog
from tests.fixtures.rest_client import RestClient, set_properties
from tests.fixtures.shared_server import FreshWarehouse

APPEND = "append"


class Recorder:
    """What was synced and by which thread, and when commands were appended; the syncs are done all the same."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[int | str] = []
        self.threads: set[str] = set()
        self.failure: OSError | None = None
        self.meet: threading.Barrier | None = None
        fsync, submit_chain = os.fsync, Committer.submit_chain

        def recorded_fsync(descriptor: int) -> None:
            status = os.fstat(descriptor)
            if self.meet is not None and stat.S_ISREG(status.st_mode):
                self.meet.wait(timeout=20)
            if self.failure is not None:
                raise self.failure
            fsync(descriptor)
            self.seen.append(status.st_ino)
            self.threads.add(threading.current_thread().name)

        async def recorded_submit(committer: Committer, submissions: Sequence[Any]) -> Any:
            self.seen.append(APPEND)
            return await submit_chain(committer, submissions)

        monkeypatch.setattr(os, "fsync", recorded_fsync)
        monkeypatch.setattr(Committer, "submit_chain", recorded_submit)

    def before_the_append(self) -> list[int | str]:
        return self.seen[: self.seen.index(APPEND)]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, client: RestClient) -> Recorder:
    del client  # what was before is not recorded
    return Recorder(monkeypatch)


def _file_of(answer: Any) -> str:
    return str(urlsplit(answer["metadata-location"]).path)


def _inodes(*paths: str | Path) -> list[int | str]:
    return [Path(path).stat().st_ino for path in paths]


def test_file_and_folders_are_on_the_disk_before_the_event(client: RestClient, recorder: Recorder, warehouse: FreshWarehouse) -> None:
    """Of a new table every folder up to the warehouse and beyond; of a commit the file and its folder."""
    created = client.create_table(["a"], "t")
    assert 200 == created.status
    file = _file_of(created.json)
    assert warehouse.directory == Path(file).parents[2]
    assert _inodes(file, *Path(file).parents[:4]) == recorder.before_the_append()[:5]
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
    """Four creations at once: every fsync waits until all four have begun, and none of them on the event loop."""
    recorder.meet = threading.Barrier(4)
    calls = [
        ("POST", "/namespaces/a/tables", {"name": f"t{number}", "schema": {"type": "struct", "fields": []}}, None) for number in range(4)
    ]
    assert [200] * 4 == [answer.status for answer in client.together(calls)]
    assert recorder.threads
    assert all(name.startswith("fsync") for name in recorder.threads)


def test_a_disk_that_fails_refuses_the_commit(client: RestClient, recorder: Recorder, warehouse: FreshWarehouse) -> None:
    """503, nothing in the log, no file left; the next commit goes on."""
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
    """A folder is known by its inode, which a remembered one keeps from being used again; descriptors do not pile up."""
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
    opened = len(list(Path("/proc/self/fd").iterdir()))
    seen = put("2")
    assert _inodes(folder / "2", folder) == seen
    assert opened == len(list(Path("/proc/self/fd").iterdir()))
    shutil.rmtree(folder)
    seen = put("3")
    assert _inodes(folder / "3", folder, folder.parent) == seen


def test_folders_leave_descriptors_for_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a process may open 1,024 files, as most shells permit, those of clients are 768: folders get a sixteenth."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 1_024))
    sync = FileSync()
    opened = len(list(Path("/proc/self/fd").iterdir()))
    for n in range(100):
        folder = tmp_path / str(n)
        folder.mkdir()
        sync.sync(os.open(folder / "file", os.O_CREAT | os.O_WRONLY), os.open(folder, os.O_RDONLY))
    assert 64 == len(list(Path("/proc/self/fd").iterdir())) - opened
