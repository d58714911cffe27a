"""`write.metadata.delete-after-commit.enabled`: old metadata files are deleted, except those that a table still refers to (P12)."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.commands.execution import committer
from icecore.commands.execution.append_request import AppendRequest, AppendResult
from icecore.commands.execution.leader_job import LeaderJob
from icecore.commands.tables.close_removed_parts import ClosePartsJob
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.delete_old_metadata_files import OldMetadataFilesJob
from icecore.domain.commands import CommitTable
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.read_models.rows import PARTS_CLOSED_INLINE_MAX
from icecore.projections import old_metadata_files
from icecore.storage.locations import StorageLocation
from tests.fixtures.catalog import PROJECT_ID, context
from tests.fixtures.rest_client import RestClient, RestResponse, set_properties, table_path
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog
from tests.fixtures.waiting import wait_for

DELETE = {"write.metadata.delete-after-commit.enabled": "true"}
KEEP_ONE = {**DELETE, "write.metadata.previous-versions-max": "1"}
TABLE = TabularIdentifier(NamespaceIdentifier(("a",)), "t")


def local(location: str) -> Path:
    assert location.startswith("file:/")
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def named_files(client: RestClient, name: str = "t") -> list[str]:
    """The metadata files that the table refers to: the current one, and those of its log."""
    loaded = client.load_table(["a"], name).json
    return [loaded["metadata-location"], *(entry["metadata-file"] for entry in loaded["metadata"]["metadata-log"])]


def missing(client: RestClient, *names: str) -> list[str]:
    return [file for name in names for file in named_files(client, name) if not local(file).is_file()]


def files(warehouse: FreshWarehouse) -> set[Path]:
    return set(warehouse.directory.rglob("*.metadata.json"))


def only_named_files_stay(client: RestClient, warehouse: FreshWarehouse, *names: str) -> None:
    """Waits until only the table's files exist, so that every pending deletion is done. Then none of them may be missing."""
    named = {local(file) for name in names for file in named_files(client, name)}
    wait_for(lambda: files(warehouse) <= named)
    assert named == files(warehouse)


def committed(response: RestResponse) -> dict[str, Any]:
    assert 200 == response.status, response.body
    found: dict[str, Any] = response.json
    return found


def elsewhere(shared_catalog: SharedCatalog, warehouse: FreshWarehouse, *updates: dict[str, Any]) -> None:
    """A commit by another process."""

    async def commit() -> None:
        catalog = shared_catalog.parts
        found = await resolve_warehouse(catalog.backends, PROJECT_ID, warehouse.name)
        await commit_table(catalog.commands, context("updateTable"), found, CommitTable(TABLE, [], updates))

    shared_catalog.run(commit())


def written_file(client: RestClient, warehouse: FreshWarehouse, folder: str, logged: Sequence[str], **properties: str) -> str:
    """Writes a metadata file of a table at `folder` whose log has `logged`. Returns its location."""
    created = client.create_table(["a"], "made", location=f"{warehouse.base}/{folder}", properties={**KEEP_ONE, **properties}).json
    assert 204 == client.drop_table(["a"], "made").status
    document = created["metadata"]
    document["metadata-log"] = [{"timestamp-ms": document["last-updated-ms"] - 1, "metadata-file": file} for file in logged]
    location = f"{document['location']}/metadata/00007-{uuid4()}.metadata.json"
    local(created["metadata-location"]).unlink()
    a_file(location)
    local(location).write_text(json.dumps(document))
    return location


def register(client: RestClient, location: str, **more: Any) -> None:
    committed(client.call("POST", "/namespaces/a/register", {"name": "t", "metadata-location": location, **more}))


def pending(shared_catalog: SharedCatalog, warehouse: FreshWarehouse) -> set[str]:
    """The files to be deleted."""
    return {row[0] for row in shared_catalog.rows("select location from icecore.old_metadata_files where warehouse_id = %s", warehouse.id)}


@contextmanager
def job_held(shared_catalog: SharedCatalog, job: type[LeaderJob] = OldMetadataFilesJob) -> Iterator[None]:
    """The job does nothing meanwhile, because this test holds its lock."""
    with psycopg.connect(shared_catalog.server.dsn, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(%s)", [job.LEADER_LOCK])
        yield


def a_file(location: str) -> str:
    local(location).parent.mkdir(parents=True, exist_ok=True)
    local(location).write_text("{}")
    return location


def test_copies_of_a_keyed_commit_leave_the_current_file(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Of several copies in flight one takes effect. The others were decided after it, and the files they would have deleted stay."""
    client.create_table(["a"], "t", properties=KEEP_ONE)
    for number in range(8):
        body = {"requirements": [], "updates": [set_properties(k=str(number))]}
        responses = client.together([("POST", table_path(["a"], "t"), body, key) for key in [uuid4()] * 4])
        assert {200} == {response.status for response in responses}
        assert 1 == len({response.body for response in responses})
    only_named_files_stay(client, warehouse, "t")


def test_copies_of_a_keyed_transaction_leave_the_current_files(client: RestClient, warehouse: FreshWarehouse) -> None:
    """The same for several tables at once."""
    for name in ("t", "u"):
        client.create_table(["a"], name, properties=KEEP_ONE)
    for number in range(8):
        changes = [
            {"identifier": {"namespace": ["a"], "name": name}, "requirements": [], "updates": [set_properties(k=str(number))]}
            for name in ("t", "u")
        ]
        calls: list[Any] = [("POST", "/transactions/commit", {"table-changes": changes}, key) for key in [uuid4()] * 4]
        assert {204} == {response.status for response in client.together(calls)}
    only_named_files_stay(client, warehouse, "t", "u")


@pytest.mark.parametrize("together", [False, True], ids=["commit", "transaction"])
def test_a_decision_that_was_replaced_deletes_nothing(
    client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog, together: bool
) -> None:
    """Decided on an old state, then again without a change: the files of the first decision stay."""
    client.create_table(["a"], "t", properties=KEEP_ONE)
    committed(client.commit(["a"], "t", set_properties(seen="1")))
    moved = {"action": "set-location", "location": f"{warehouse.base}/moved"}
    elsewhere(shared_catalog, warehouse, set_properties({"write.metadata.previous-versions-max": "10"}), moved)
    if together:
        change = {"identifier": {"namespace": ["a"], "name": "t"}, "requirements": [], "updates": [moved]}
        assert 204 == client.call("POST", "/transactions/commit", {"table-changes": [change]}).status
    else:
        committed(client.commit(["a"], "t", moved))
    # Files of the next commit are deleted after those of the previous one.
    committed(client.commit(["a"], "t", set_properties({"write.metadata.previous-versions-max": "2"})))
    only_named_files_stay(client, warehouse, "t")


async def _lost_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loses the response to the next append after Postgres has committed it."""
    send, left = committer._send, [1]

    async def response_lost(connection: Any, append_requests: list[AppendRequest], figures: Any) -> list[AppendResult]:
        results = await send(connection, append_requests, figures)
        if left:
            left.pop()
            await connection.close()
            raise psycopg.OperationalError("the response is lost")
        return results

    monkeypatch.setattr(committer, "_send", response_lost)


def test_a_commit_found_to_be_appended_deletes_its_old_files(
    client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is repeated and found in the log."""
    client.create_table(["a"], "t", properties=KEEP_ONE)
    for number in range(3):
        shared_catalog.run(_lost_once(monkeypatch))
        committed(client.commit(["a"], "t", set_properties(k=str(number))))
    only_named_files_stay(client, warehouse, "t")


def test_old_metadata_files_go_where_the_table_asks_for_it(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Files in the log stay. Removed ones are deleted, also at the table's former location."""
    client.create_table(["a"], "t", properties={**DELETE, "write.metadata.previous-versions-max": "3"})
    client.create_table(["a"], "other")
    for number in range(8):
        updates = [set_properties(k=str(number))]
        if number == 4:
            updates.append({"action": "set-location", "location": f"{warehouse.base}/moved"})
        committed(client.commit(["a"], "t", *updates))
        assert [] == missing(client, "t", "other")
    assert 4 == len(named_files(client))
    only_named_files_stay(client, warehouse, "t", "other")


def test_old_metadata_files_of_many_entries_go_before_the_entries_are_closed(
    client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog
) -> None:
    """One commit removes so many that a tombstone closes their entries, whose rows are still open."""
    logged = [a_file(f"{warehouse.base}/here/metadata/{number:05}-old.metadata.json") for number in range(PARTS_CLOSED_INLINE_MAX + 1)]
    register(client, written_file(client, warehouse, "here", logged))
    with job_held(shared_catalog, ClosePartsJob):
        committed(client.commit(["a"], "t", set_properties(k="1")))
        wait_for(lambda: not pending(shared_catalog, warehouse))
        only_named_files_stay(client, warehouse, "t")


def test_old_metadata_files_stay_unless_a_property_asks(client: RestClient, warehouse: FreshWarehouse) -> None:
    """The log is shortened to previous-versions-max, and the files stay."""
    client.create_table(["a"], "t", properties={"write.metadata.previous-versions-max": "2"})
    for number in range(5):
        committed(client.commit(["a"], "t", set_properties(k=str(number))))
    assert 3 == len(named_files(client))
    assert 6 == len(files(warehouse))


def test_files_outside_the_tables_folders_stay(client: RestClient, warehouse: FreshWarehouse) -> None:
    """A registered document's log may name any file of the warehouse. Files outside the table's folders, compared by segments, stay."""
    other = client.create_table(["a"], "other", location=f"{warehouse.base}/other").json["metadata-location"]
    places = ("here-too/metadata/1.metadata.json", "her/1.metadata.json", "1.metadata.json")
    beside = [a_file(f"{warehouse.base}/{place}") for place in places]
    own = a_file(f"{warehouse.base}/here/metadata/1.metadata.json")
    # Another spelling of the same location.
    respelled = a_file(f"file:{warehouse.directory}/here/metadata/2.metadata.json")
    data = a_file(f"{warehouse.base}/here/data/1.parquet")
    register(client, written_file(client, warehouse, "here", [other, *beside, own, respelled, data]))
    committed(client.commit(["a"], "t", set_properties(k="1")))
    wait_for(lambda: not local(own).exists() and not local(respelled).exists())
    assert [] == [file for file in (other, *beside, data) if not local(file).exists()]
    assert [] == missing(client, "t", "other")


def test_files_under_the_tables_metadata_path_go_too(client: RestClient, warehouse: FreshWarehouse) -> None:
    """As in Java, which does not check the folder. Files outside that path stay."""
    path = {"write.metadata.path": f"{warehouse.base}/files"}
    beside = a_file(f"{warehouse.base}/files-too/1.metadata.json")
    register(client, written_file(client, warehouse, "here", [beside], **path))
    for number in range(4):
        committed(client.commit(["a"], "t", set_properties(k=str(number))))
    assert named_files(client)[0].startswith(f"{warehouse.base}/files/")
    wait_for(lambda: {local(file) for file in named_files(client)} | {local(beside)} == files(warehouse))


def test_a_file_that_the_table_names_again_stays(client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog) -> None:
    """A registration over the table may make an old file current before it is deleted. Files of a dropped table stay."""
    created = client.create_table(["a"], "t").json
    old, table_id = created["metadata-location"], UUID(created["metadata"]["location"].rpartition("/")[2])
    newer = committed(client.commit(["a"], "t", set_properties(k="1")))["metadata-location"]

    def delete(*names: str) -> None:
        """Records them for the job, and waits until it is done."""
        for name in names:
            row = (StorageLocation.parse(name).claim_key("local"), table_id, warehouse.id, name)
            shared_catalog.rows("insert into icecore.old_metadata_files values (%s, %s, %s, %s) returning key", *row)
        wait_for(lambda: not pending(shared_catalog, warehouse))

    register(client, old, overwrite=True)
    delete(old, newer)
    assert (True, False) == (local(old).exists(), local(newer).exists())
    committed(client.commit(["a"], "t", set_properties(k="2")))
    delete(old.replace("file:///", "file:/"))
    assert local(old).exists(), "the metadata log names it, in another spelling"
    assert 204 == client.drop_table(["a"], "t").status
    delete(old)
    assert local(old).exists()


def test_a_file_that_is_to_be_deleted_is_not_registered(client: RestClient, warehouse: FreshWarehouse) -> None:
    """A rollback right after the commit that removed the file from the log, with concurrent commits: a table never loses its current
    file.
    """
    old = client.create_table(["a"], "t").json["metadata-location"]
    folder = old.rpartition("/")[0]
    logged = [*(a_file(f"{folder}/{number:05d}-old.metadata.json") for number in range(200)), old]
    document = json.loads(local(old).read_text())
    document["metadata-log"] = [{"timestamp-ms": document["last-updated-ms"] - 1, "metadata-file": file} for file in logged]
    document["properties"] = KEEP_ONE
    newer = f"{folder}/00007-newer.metadata.json"
    local(newer).write_text(json.dumps(document))
    register(client, newer, overwrite=True)
    committed(client.commit(["a"], "t", set_properties(k="1")))
    refused = client.call("POST", "/namespaces/a/register", {"name": "t", "metadata-location": old, "overwrite": True})
    assert (404, "NotFoundException") == refused.error
    only_named_files_stay(client, warehouse, "t")


@pytest.mark.parametrize("name", ["t", "u"])
def test_a_file_is_not_registered_until_its_deletion_is_over(
    client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog, name: str
) -> None:
    """Neither over its table, nor as another table after its own is unregistered."""
    old = client.create_table(["a"], "t", properties=KEEP_ONE).json["metadata-location"]
    with job_held(shared_catalog):
        for number in range(2):
            committed(client.commit(["a"], "t", set_properties(k=str(number))))
        assert {old} == pending(shared_catalog, warehouse)
        if name == "u":
            assert 200 == client.call("POST", f"{table_path(['a'], 't')}/unregister").status
        body = {"name": name, "metadata-location": old, "overwrite": name == "t"}
        refused = client.call("POST", "/namespaces/a/register", body)
        assert (404, "NotFoundException") == refused.error
        assert "is about to be deleted" in refused.message
        assert local(old).exists()
    wait_for(lambda: not pending(shared_catalog, warehouse))
    # Files of a dropped table are not deleted, so the file can be registered.
    assert (name == "u") == local(old).exists()
    assert (200 if name == "u" else 404) == client.call("POST", "/namespaces/a/register", body).status


def test_the_append_refuses_a_file_that_is_to_be_deleted(
    client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the first check found nothing: the command is decided again, and refused."""
    seen = old_metadata_files.is_pending
    looks: list[bool] = []

    async def late(connection: Any, key: str) -> bool:
        looks.append(await seen(connection, key))
        return looks[-1] and len(looks) > 1

    monkeypatch.setattr(old_metadata_files, "is_pending", late)
    old = client.create_table(["a"], "t", properties=KEEP_ONE).json["metadata-location"]
    with job_held(shared_catalog):
        for number in range(2):
            committed(client.commit(["a"], "t", set_properties(k=str(number))))
        refused = client.call("POST", "/namespaces/a/register", {"name": "t", "metadata-location": old, "overwrite": True})
    assert ((404, "NotFoundException"), [True, True]) == (refused.error, looks)


def test_another_process_deletes_leftover_files(client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog) -> None:
    """The process that committed has stopped."""
    client.create_table(["a"], "t", properties=KEEP_ONE)
    for number in range(3):
        elsewhere(shared_catalog, warehouse, set_properties(k=str(number)))
    only_named_files_stay(client, warehouse, "t")
