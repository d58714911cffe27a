"""An undrop looks for the files that engines need: data and delete files, manifests and their list; of tables and of whole namespaces."""

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog
from uuid_utils.compat import uuid7

from icecore.commands.tabulars import snapshot_files
from icecore.storage.manifest_reader import MANIFEST_BYTES_MAX
from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.rest_client import RestResponse
from tests.fixtures.snapshots import data_files, manifest, manifest_list, snapshot_updates
from tests.integration.test_namespace_trees import TreeClient
from tests.integration.test_purge_locations import unpacks_to_gigabytes
from tests.integration.test_soft_deletion import GONE, MISSING

UNREADABLE = (409, "FilesUnreadableException")
FILES = 25
FREEZE_SECONDS_MAX = 2.0


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[CatalogServer]:
    """Without jobs: nothing is purged."""
    with served_catalog(database, tmp_path / "demo", jobs=False, local_warehouse_roots=(tmp_path,)) as served:
        yield served


@pytest.fixture
def client(server: CatalogServer) -> Iterator[TreeClient]:
    """With the namespace `n` in a soft-deleting warehouse."""
    with closing(TreeClient(server.url)) as client:
        client.dsn = server.dsn
        assert 200 == client.create_namespace("n").status
        client.soft_delete()
        yield client


@dataclass
class Written:
    """The files of a table: its data files, the first of which are in the first manifest."""

    folder: Path
    data: list[Path]
    manifests: list[Path]
    manifest_list: Path
    other: list[Path] = field(default_factory=list)


def a_table(client: TreeClient, server: CatalogServer, name: str = "t", files: int = FILES, *, dropped: bool = True) -> Written:
    """A table of two snapshots. The current one has two manifests with `files` files, and one that it has taken out."""
    folder = server.warehouse_directory / name
    metadata = folder / "metadata"
    assert 200 == client.create_table(["n"], name, location=f"file://{folder}").status
    (old,) = data_files(folder / "old")
    before = manifest_list(metadata / "snap-1.avro", [manifest(metadata / "old.avro", [old])])
    assert 200 == client.commit(["n"], name, *snapshot_updates(before)).status
    own = data_files(folder / "data", files)
    half = len(own) // 2
    manifests = [
        manifest(metadata / "m0.avro", own[:half], 2, deleted=[old]),
        manifest(metadata / "m1.avro", own[half:], 2),
    ]
    current = manifest_list(metadata / "snap-2.avro", manifests, 2)
    assert 200 == client.commit(["n"], name, *snapshot_updates(current, 2)).status
    if dropped:
        assert 204 == client.drop(name).status
    paths = [Path(each.removeprefix("file://")) for each in own]
    gone = [metadata / "old.avro", metadata / "snap-1.avro", Path(old.removeprefix("file://"))]
    return Written(folder, paths, [metadata / "m0.avro", metadata / "m1.avro"], metadata / "snap-2.avro", gone)


def undropped(client: TreeClient, **more: bool) -> RestResponse:
    (found,) = client.deleted()
    return client.undrop(("table", found["id"]), **more)


def test_a_data_file_that_is_missing_is_named(client: TreeClient, server: CatalogServer) -> None:
    """As after a purge by an engine that has begun with the data files. Nothing is undropped, and the same request succeeds once it is
    back. What only an older snapshot needs is not looked for.
    """
    table = a_table(client, server)
    for file in table.other:
        file.unlink()
    content = table.data[-1].read_bytes()
    table.data[-1].unlink()
    head = client.head()
    refused = undropped(client)
    assert MISSING == refused.error
    assert str(table.data[-1]) in refused.message
    assert not any(str(file) in refused.message for file in (*table.data[:-1], *table.other))
    assert GONE == client.load_table(["n"], "t").error
    assert head == client.head()
    table.data[-1].write_bytes(content)
    assert 204 == undropped(client).status
    assert 200 == client.load_table(["n"], "t").status


def test_a_live_table_in_the_request_does_not_hide_missing_files(client: TreeClient, server: CatalogServer) -> None:
    """The files of the dropped table are looked for, as if it were the only target. Those of the live one are not."""
    live, lost = a_table(client, server, "u", dropped=False), a_table(client, server)
    live_id = client.load_table(["n"], "u").json["metadata"]["table-uuid"]
    for table in (live, lost):
        table.data[0].unlink()
    (found,) = client.deleted()
    refused = client.undrop(("table", live_id), ("table", found["id"]))
    assert MISSING == refused.error
    assert str(lost.data[0]) in refused.message
    assert str(live.data[0]) not in refused.message
    assert GONE == client.load_table(["n"], "t").error


@pytest.mark.parametrize("files", [3, FILES, 2_345])
def test_many_files_that_are_missing_are_counted(client: TreeClient, server: CatalogServer, files: int) -> None:
    """The first ten are named. Whether the folders are listed or each file is asked for makes no difference."""
    table = a_table(client, server, files=files)
    for file in table.data:
        file.unlink()
    refused = undropped(client)
    assert MISSING == refused.error
    named = [file for file in table.data if str(file) in refused.message]
    assert min(files, 10) == len(named)
    at_least = "at least " if files > snapshot_files.MISSING_FILES_MAX else ""
    count = min(files, snapshot_files.MISSING_FILES_MAX)
    assert (f" and {at_least}{count - 10} more;" in refused.message) == (files > 10), refused.message
    assert 204 == undropped(client, force=True).status


def test_many_metadata_files_that_are_missing_are_counted(client: TreeClient) -> None:
    """The first ten are named: a request may have a hundred tables, with locations of thousands of characters."""
    files = []
    for number in range(12):
        files.append(client.create_table(["n"], f"t{number}").json["metadata-location"])
        assert 204 == client.drop(f"t{number}").status
        Path(files[-1].removeprefix("file://")).unlink()
    refused = client.undrop_all()
    assert MISSING == refused.error
    assert sorted(files)[:10] == [file for file in sorted(files) if file in refused.message]
    assert " and 2 more;" in refused.message


@pytest.mark.parametrize("which", ["manifest", "list"])
def test_a_manifest_that_is_missing_is_named(client: TreeClient, server: CatalogServer, which: str) -> None:
    table = a_table(client, server)
    file = table.manifests[1] if which == "manifest" else table.manifest_list
    file.unlink()
    refused = undropped(client)
    assert MISSING == refused.error
    assert str(file) in refused.message
    assert not any(str(each) in refused.message for each in table.data)
    assert 204 == undropped(client, force=True).status


@pytest.mark.parametrize("files", [1, FILES, 2_345])
def test_a_table_whose_files_are_there_is_undropped(client: TreeClient, server: CatalogServer, files: int) -> None:
    """The negative control: the check refuses nothing else. Files elsewhere in the warehouse, which the table's folders do not contain,
    count too.
    """
    table = a_table(client, server, files=files)
    assert 204 == undropped(client).status
    elsewhere = data_files(server.warehouse_directory / "elsewhere", files)
    table.folder.joinpath("metadata/m3.avro").unlink(missing_ok=True)
    written = manifest(table.folder / "metadata" / "m3.avro", elsewhere, 3)
    current = manifest_list(table.folder / "metadata" / "snap-3.avro", [written], 3)
    assert 200 == client.commit(["n"], "t", *snapshot_updates(current, 3)).status
    assert 204 == client.drop().status
    assert 204 == undropped(client).status


def test_a_file_outside_the_warehouse_counts_as_existing(client: TreeClient, server: CatalogServer, tmp_path: Path) -> None:
    """A registered table may name them, and the server cannot look for them."""
    folder = server.warehouse_directory / "t"
    outside = [f"file://{tmp_path}/outside/{number}.parquet" for number in range(FILES)]
    listed = manifest_list(folder / "metadata" / "l.avro", [manifest(folder / "metadata" / "m.avro", [*outside, "x", "s3://b/c"])])
    assert 200 == client.create_table(["n"], "t", location=f"file://{folder}").status
    assert 200 == client.commit(["n"], "t", *snapshot_updates(listed)).status
    assert 204 == client.drop().status
    with structlog.testing.capture_logs() as logged:
        assert 204 == undropped(client).status
    assert 1 == [each["event"] for each in logged].count("undrop_checked_in_part")


def test_a_tree_needs_the_files_of_all_its_tables(client: TreeClient, server: CatalogServer) -> None:
    """All or none, with the missing files of each."""
    tables = [a_table(client, server, name, dropped=False) for name in ("t", "u", "v")]
    root_id = client.ids()["n"]
    assert 204 == client.drop_tree().status
    lost = {tables[0].data[0], tables[2].data[-1]}
    contents = {file: file.read_bytes() for file in lost}
    for file in lost:
        file.unlink()
    refused = client.undrop_tree(root_id)
    assert MISSING == refused.error
    assert lost == {file for table in tables for file in table.data if str(file) in refused.message}
    assert 404 == client.load_table(["n"], "u").status
    for file, content in contents.items():
        file.write_bytes(content)
    assert 204 == client.undrop_tree(root_id).status
    assert 204 == client.drop_tree().status
    tables[1].data[0].unlink()
    assert MISSING == client.undrop_tree(root_id).error
    assert 204 == client.undrop_tree(root_id, force=True).status


def test_the_manifests_that_a_snapshot_names_itself_are_read(client: TreeClient, server: CatalogServer) -> None:
    """As those of format version 1 may. Their data files are needed too."""
    folder = server.warehouse_directory / "t"
    assert 200 == client.create_table(["n"], "t", location=f"file://{folder}", properties={"format-version": "1"}).status
    data = data_files(folder / "data", 3)
    updates = snapshot_updates("")
    del updates[0]["snapshot"]["manifest-list"], updates[0]["snapshot"]["sequence-number"]
    updates[0]["snapshot"]["manifests"] = [manifest(folder / "metadata" / "m.avro", data).manifest_path]
    assert 200 == client.commit(["n"], "t", *updates).status
    assert 204 == client.drop().status
    for lost in (Path(data[1].removeprefix("file://")), folder / "metadata" / "m.avro"):
        content = lost.read_bytes()
        lost.unlink()
        refused = undropped(client)
        assert MISSING == refused.error
        assert str(lost) in refused.message
        lost.write_bytes(content)
    assert 204 == undropped(client).status


def test_encrypted_manifests_are_not_read(client: TreeClient, server: CatalogServer) -> None:
    """Only the engine has the key. The manifest list must exist; the log record says that no more was looked for."""
    folder = server.warehouse_directory / "t"
    assert 200 == client.create_table(["n"], "t", location=f"file://{folder}", properties={"format-version": "3"}).status
    listed = folder / "metadata" / "l.avro"
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_bytes(b"encrypted")
    key = {"key-id": "k", "encrypted-key-metadata": "AAAA"}
    updates = snapshot_updates(f"file://{listed}")
    updates[0]["snapshot"] |= {"key-id": "k", "first-row-id": 0, "added-rows": 1}
    assert 200 == client.commit(["n"], "t", {"action": "add-encryption-key", "encryption-key": key}, *updates).status
    assert 204 == client.drop().status
    with structlog.testing.capture_logs() as logged:
        assert 204 == undropped(client).status
    assert 1 == [each["event"] for each in logged].count("undrop_checked_in_part")
    assert 204 == client.drop().status
    listed.unlink()
    assert MISSING == undropped(client).error


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "not Avro": lambda _: b"PAR1 and no Avro",
    "empty": lambda _: b"",
    "cut": lambda data: data[:-20],
    "unpacks to gigabytes": lambda _: unpacks_to_gigabytes(),
    "huge": lambda data: data + bytes(MANIFEST_BYTES_MAX),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", ["manifest", "list"])
def test_a_damaged_manifest_is_refused_by_its_name(client: TreeClient, server: CatalogServer, which: str, damage: str) -> None:
    """With 409, while the server answers others; not after it was replaced, and not by force."""
    table = a_table(client, server)
    file = table.manifests[1] if which == "manifest" else table.manifest_list
    content = file.read_bytes()
    file.write_bytes(DAMAGES[damage](content))
    with answers_meanwhile(server) as slowest:
        refused = undropped(client)
    assert UNREADABLE == refused.error, refused.message
    assert str(file) in refused.message
    assert slowest[0] < FREEZE_SECONDS_MAX
    assert GONE == client.load_table(["n"], "t").error
    file.write_bytes(content)
    assert 204 == undropped(client).status
    assert 204 == client.drop().status
    file.write_bytes(DAMAGES[damage](content))
    assert 204 == undropped(client, force=True).status


class answers_meanwhile:  # noqa: N801 - used as a function
    """Measures the slowest response of the server to others in the block, in seconds."""

    def __init__(self, server: CatalogServer) -> None:
        self._url = f"{server.url}/health"
        self._ended = threading.Event()
        self._slowest = [0.0]
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            urllib.request.urlopen(self._url, timeout=30).close()
            self._slowest[0] = max(self._slowest[0], time.monotonic() - began)
            self._ended.wait(0.02)

    def __enter__(self) -> list[float]:
        self._thread.start()
        return self._slowest

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        assert self._slowest[0] > 0


def test_the_repetition_of_a_refused_undrop_looks_again(client: TreeClient, server: CatalogServer) -> None:
    """The refusal is not stored under its Idempotency-Key: the files may be back."""
    table = a_table(client, server)
    contents = [file.read_bytes() for file in (table.data[0], table.manifests[1])]
    (found,) = client.deleted()
    for file, error in ((table.data[0], MISSING), (table.manifests[1], UNREADABLE)):
        key = uuid7()
        file.write_bytes(b"x")
        if error == MISSING:
            file.unlink()
        assert error == client.undrop(("table", found["id"]), key=key).error
        file.write_bytes(contents.pop(0))
        assert 204 == client.undrop(("table", found["id"]), key=key).status
        assert 204 == client.drop().status
