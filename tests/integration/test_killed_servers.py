"""kill -9 of `icecore serve` with its worker within a purge and within an undrop of many objects; another server continues.

The server hangs at fault points (commands/execution/fault_points.py), and the test kills all of its processes there.
"""

import functools
import http.client
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from uuid import UUID

import psycopg
import pytest
from uuid_utils.compat import uuid7

from tests.fixtures.catalog import SECRET_KEY, served_catalog
from tests.fixtures.rest_client import view_path
from tests.fixtures.snapshots import appended, data_files, manifest, manifest_list, snapshot_updates
from tests.fixtures.waiting import wait_for
from tests.integration.test_namespace_trees import TreeClient
from tests.integration.test_purge import files
from tests.integration.test_soft_deletion import checked
from tests.servers.icecore import START_SECONDS_MAX, clean_environment
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, responds, running

HANG_SECONDS = 600
FILES = 3_500
OBJECTS = 40

pytestmark = pytest.mark.timeout(600)


@dataclass
class Killable:
    """A server with its worker, in a process group of its own."""

    url: str
    group: int
    log: Path

    def at_fault(self) -> None:
        """Returns once it hangs at its fault point."""
        wait_for(lambda: "fault_point" in self.log.read_text())

    def kill(self) -> None:
        os.killpg(self.group, signal.SIGKILL)


@contextmanager
def serving(dsn: str, log: Path, point: str | None = None, fault: str = "") -> Iterator[Killable]:
    """`icecore serve` that hangs at a fault point. fault -- Python code that breaks it, as a negative control."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    given = clean_environment() | {"ICECORE_DATABASE_URL": dsn, "ICECORE_SECRET_KEY": SECRET_KEY}
    if point is not None:
        given["ICECORE_TEST_FAULT"] = f"{point}:hang={HANG_SECONDS}"
    if fault:
        folder = log.with_suffix("")
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(fault)
        given["PYTHONPATH"] = str(folder)
    command = [sys.executable, "-m", "icecore", "serve", "--port", str(port)]
    ready = functools.partial(responds, f"{url}/health")
    with running(command, log=log, ready=ready, seconds_max=START_SECONDS_MAX, environment=given, directory=ROOT) as process:
        yield Killable(url, process.pid, log)


def events(dsn: str, *topics: str) -> list[str]:
    """The topics of the log that are among these, in its order."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("select topic from icecore.events where topic = any(%s) order by notification_id", [[*topics]]).fetchall()
    return [topic for (topic,) in rows]


# Purge


@dataclass
class Purged:
    """own -- the files of the dropped table that its metadata reaches and that are in its location; other -- all others."""

    dsn: str
    base: Path
    folder: Path
    own: set[Path]
    other: set[Path]

    @property
    def left(self) -> set[Path]:
        return files(self.base)

    def check_ended(self) -> None:
        """Every own file is deleted, no other is touched, and no event is missing or doubled."""
        wait_for(lambda: "table.purged.v1" in events(self.dsn, "table.purged.v1"))
        assert self.other == self.left
        wanted = ["table.dropped.v1", "task.deletion-begun.v1", "table.purged.v1"]
        assert wanted == events(self.dsn, *wanted)
        checked(self.dsn)


@pytest.fixture
def purged(database: str, tmp_path: Path) -> Purged:
    """A table is dropped with a purge, and no job runs. Its manifest also names a file of its neighbour; an orphan is in its location."""
    base = tmp_path / "demo"
    with served_catalog(database, base, jobs=False) as server, closing(TreeClient(server.url)) as client:
        assert 200 == client.create_namespace("n").status
        for name in ("t", "t-beside"):
            assert 200 == client.create_table(["n"], name, location=f"file://{base}/{name}").status
        beside = data_files(base / "t-beside" / "data", 3)
        assert 200 == client.commit(["n"], "t-beside", *appended(base / "t-beside", beside)).status
        metadata = base / "t" / "metadata"
        own = data_files(base / "t" / "data", FILES)
        written = [
            manifest(metadata / "m0.avro", [*beside[:1], *own[: FILES // 2]]),
            manifest(metadata / "m1.avro", own[FILES // 2 :]),
        ]
        current = manifest_list(metadata / "snap-1.avro", written)
        assert 200 == client.commit(["n"], "t", *snapshot_updates(current)).status
        (base / "t" / "data" / "orphan.parquet").write_bytes(b"PAR1")
        assert 204 == client.drop_table(["n"], "t", "?purgeRequested=true").status
    reached = files(base / "t") - {base / "t" / "data" / "orphan.parquet"}
    return Purged(database, base, base / "t", reached, files(base) - reached)


def test_a_purge_whose_servers_are_killed_deletes_what_it_should_and_nothing_else(purged: Purged, tmp_path: Path) -> None:
    """Before its first event, before the first page, after one, within one, after all, and after the last event is committed."""
    for number, point in enumerate(
        ("commit.before_append", "purge.before_delete", "purge.after_delete", None, "purge.before_event", "commit.after_append")
    ):
        before = purged.left
        with serving(purged.dsn, tmp_path / f"{number}.log", point) as server:
            if point is None:
                wait_for(functools.partial(has_lost_files, purged, before))
            else:
                server.at_fault()
            server.kill()
        left = purged.left
        assert purged.other <= left, point
        if point in ("commit.before_append", "purge.before_delete"):
            assert before == left
        elif point == "commit.after_append":
            # The event is in the log, although no process knows.
            assert ["table.purged.v1"] == events(purged.dsn, "table.purged.v1")
        else:
            assert left < before, point
            assert (left == purged.other) == (point == "purge.before_event"), point
            assert [] == events(purged.dsn, "table.purged.v1")
    with serving(purged.dsn, tmp_path / "last.log"):
        purged.check_ended()


def has_lost_files(purged: Purged, before: set[Path]) -> bool:
    return len(purged.left) < len(before) - 50


MANIFEST_FIRST = """
from icecore.commands.tables.table_purge import TablePurge
names_in = TablePurge._names_in

async def deletes_first(self, kind, name):
    async for page in names_in(self, kind, name):
        if kind == "manifest":
            await self._store.delete([self._parsed(name)])
        yield page

TablePurge._names_in = deletes_first
"""


def test_a_purge_that_deletes_manifests_first_is_noticed(purged: Purged, tmp_path: Path) -> None:
    """The negative control: after the kill, nothing names the rest of the data files any more."""
    with serving(purged.dsn, tmp_path / "broken.log", "purge.after_delete", MANIFEST_FIRST) as server:
        server.at_fault()
        server.kill()
    with serving(purged.dsn, tmp_path / "last.log"):
        wait_for(lambda: "table.purged.v1" in events(purged.dsn, "table.purged.v1"))
        with pytest.raises(AssertionError):
            purged.check_ended()
    assert purged.left - purged.other


# Undrop


@dataclass
class Undropped:
    """Dropped tables and views: one by one, or with their namespace."""

    dsn: str
    tree: bool
    namespace_id: str
    targets: list[tuple[str, str]]
    key: UUID

    def request(self, client: TreeClient) -> int:
        return (client.undrop_tree(self.namespace_id, key=self.key) if self.tree else client.undrop(*self.targets, key=self.key)).status

    def send(self, url: str) -> threading.Thread:
        """Sends the request and does not wait for its response."""

        def ask() -> None:
            with suppress(OSError, http.client.HTTPException, URLError), closing(TreeClient(url)) as client:
                self.request(client)

        thread = threading.Thread(target=ask)
        thread.start()
        return thread

    def undropped(self) -> int:
        """How many of the tables and views are undropped. Each is at most once."""
        with psycopg.connect(self.dsn) as connection:
            counts = connection.execute(
                "select count(*) from icecore.events where topic in ('table.undropped.v1', 'view.undropped.v1') group by originator_id"
            ).fetchall()
        assert {(1,)} >= set(counts)
        return len(counts)


@pytest.fixture(params=["one by one", "tree"])
def undropped(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Undropped:
    base, tree = tmp_path / "demo", request.param == "tree"
    with served_catalog(database, base, jobs=False) as server, closing(TreeClient(server.url)) as client:
        client.dsn = server.dsn
        client.soft_delete()
        assert 200 == client.create_namespace("n").status
        for number in range(OBJECTS // 2):
            folder = base / f"t{number}"
            assert 200 == client.create_table(["n"], folder.name, location=f"file://{folder}").status
            assert 200 == client.commit(["n"], folder.name, *appended(folder, data_files(folder / "data", 2))).status
            assert 200 == client.create_view(["n"], f"v{number}").status
            if not tree:
                assert 204 == client.drop(folder.name).status
                assert 204 == client.call("DELETE", view_path(["n"], f"v{number}")).status
        namespace_id = client.ids()["n"]
        if tree:
            assert 204 == client.drop_tree().status
        targets = [(each["typ"], each["id"]) for each in client.deleted("?pageSize=100")]
    return Undropped(database, tree, namespace_id, targets, uuid7())


def reads_manifests(group: int) -> bool:
    """Whether a process that was started by one of the group reads manifests."""
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            if b"icecore.storage.manifest_process" in (process / "cmdline").read_bytes():
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if os.getpgid(parent) == group:
                    return True
    return False


def test_an_undrop_whose_server_is_killed_is_all_or_nothing(undropped: Undropped, tmp_path: Path) -> None:
    """While it looks for files, before the append, and after Postgres has committed it. Another server repeats it or its response."""
    for number, (point, happened) in enumerate(((None, False), ("commit.before_append", False), ("commit.after_append", True))):
        with serving(undropped.dsn, tmp_path / f"{number}.log", point) as server:
            request = undropped.send(server.url)
            if point is None:
                wait_for(functools.partial(reads_manifests, server.group))
            else:
                server.at_fault()
            server.kill()
            request.join()
        assert (OBJECTS if happened else 0) == undropped.undropped(), point
    with serving(undropped.dsn, tmp_path / "last.log") as server, closing(TreeClient(server.url)) as client:
        assert 204 == undropped.request(client)
        assert OBJECTS == undropped.undropped()
        assert OBJECTS // 2 == len(client.table_names("n")) == len(client.view_names("n"))
    checked(undropped.dsn)


ONE_BY_ONE = """
from icecore.api.management import deleted_tabulars
from icecore.domain.commands import UndropTabulars
undrop = deleted_tabulars.execute_undrop_tabulars

async def one_by_one(executor, context, warehouse, command):
    for target in command.targets:
        response = await undrop(executor, context, warehouse, UndropTabulars([target], command.force))
    return response

deleted_tabulars.execute_undrop_tabulars = one_by_one
"""


@pytest.mark.parametrize("undropped", ["one by one"], indirect=True)
def test_an_undrop_of_one_object_after_the_other_is_noticed(undropped: Undropped, tmp_path: Path) -> None:
    """The negative control."""
    with serving(undropped.dsn, tmp_path / "broken.log", "commit.after_append", ONE_BY_ONE) as server:
        request = undropped.send(server.url)
        server.at_fault()
        server.kill()
        request.join()
    assert 0 < undropped.undropped() < OBJECTS
