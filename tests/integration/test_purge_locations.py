"""A purge deletes the files that the table refers to in locations that it claims, and nothing else. The event lists what is left."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.fixtures.rest_client import RestClient, RestResponse, identifier, set_properties, staged_create_updates, table_path
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog
from tests.fixtures.snapshots import appended, data_files, manifest, manifest_list, snapshot_updates
from tests.fixtures.waiting import wait_for
from tests.integration.test_purge import files
from tests.integration.test_register import register

PATH_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
SECONDS_MAX = 60.0


@pytest.fixture
def purged(shared_catalog: SharedCatalog, client: RestClient, warehouse: FreshWarehouse) -> Callable[[str], dict[str, Any]]:
    """Drops a table with its files, waits for the purge, and returns its event."""
    said = "select convert_from(state, 'UTF8') from icecore.events where topic = %s and warehouse_id = %s order by notification_id"

    def drop(name: str) -> dict[str, Any]:
        before = len(shared_catalog.rows(said, "table.purged.v1", warehouse.id))
        assert 204 == client.drop_table(["a"], name, "?purgeRequested=true").status
        wait_for(lambda: before < len(shared_catalog.rows(said, "table.purged.v1", warehouse.id)), SECONDS_MAX)
        event: dict[str, Any] = orjson.loads(shared_catalog.rows(said, "table.purged.v1", warehouse.id)[-1][0])
        return event

    return drop


def with_snapshot(client: RestClient, warehouse: FreshWarehouse, name: str, place: str, names: list[str] | None = None) -> Path:
    """Creates a table whose snapshot has the files `names`, or two new data files. Returns its folder."""
    assert 200 == client.create_table(["a"], name, location=f"{warehouse.base}/{place}").status
    folder = warehouse.directory / place
    assert 200 == client.commit(["a"], name, *appended(folder, data_files(folder / "data", 2) if names is None else names)).status
    return folder


@pytest.mark.parametrize("kept_by", ["drop", "unregister", "gc"])
def test_files_that_were_kept_are_not_a_later_tables(
    client: RestClient, warehouse: FreshWarehouse, purged: Callable[[str], dict[str, Any]], kept_by: str
) -> None:
    """Files of a table that was dropped without a purge, unregistered, or keeps its files. Its location is free, and the next table's purge
    ignores them.
    """
    folder = with_snapshot(client, warehouse, "t", "here")
    match kept_by:
        case "drop":
            assert 204 == client.drop_table(["a"], "t").status
        case "unregister":
            assert 200 == client.call("POST", f"{table_path(['a'], 't')}/unregister").status
        case _:
            assert 200 == client.commit(["a"], "t", set_properties({"gc.enabled": "false"})).status
            assert 204 == client.drop_table(["a"], "t", "?purgeRequested=true").status
    kept = files(folder)
    assert 200 == client.create_table(["a"], "u", location=f"{warehouse.base}/here").status
    assert {"files-deleted": 1} == purged("u")
    assert kept == files(folder)


def test_the_drop_of_a_table_that_keeps_its_files_says_so(
    client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog
) -> None:
    """gc.enabled is false in any case, as in Java. No job is pending."""
    with_snapshot(client, warehouse, "t", "here")
    assert 200 == client.commit(["a"], "t", set_properties({"gc.enabled": "FALSE"})).status
    assert 204 == client.drop_table(["a"], "t", "?purgeRequested=true").status
    said = "select convert_from(state, 'UTF8') from icecore.events where warehouse_id = %s order by notification_id desc limit 1"
    assert [('{"purge-requested":true,"gc-enabled":false}',)] == shared_catalog.rows(said, warehouse.id)


def test_what_lies_elsewhere_is_listed_and_left(
    client: RestClient, warehouse: FreshWarehouse, purged: Callable[[str], dict[str, Any]]
) -> None:
    """Another table's file, one outside the warehouse, and an invalid location. The list is limited, the count is not."""
    neighbour = with_snapshot(client, warehouse, "neighbour", "neighbour")
    before = files(neighbour)
    theirs = [f"file://{path}" for path in before]
    outside = data_files(warehouse.directory.parent / f"{warehouse.name}-outside")
    many = [f"file:///nowhere/{number}.parquet" for number in range(120)]
    folder = warehouse.directory / "here"
    own = data_files(folder / "data", 2)
    with_snapshot(client, warehouse, "t", "here", [*own, *theirs, *outside, "not a location", f"{warehouse.base}/here", *many])
    event = purged("t")
    assert (set(), before, True) == (files(folder), files(neighbour), Path(outside[0].removeprefix("file://")).is_file())
    # Two data files, the list, its manifest, two metadata files.
    assert (6, len(theirs) + 1 + 1 + 1 + 120, 100) == (event["files-deleted"], event["files-left-count"], len(event["files-left"]))
    assert {*theirs, *outside} < {*event["files-left"]}
    assert "not a location" not in event["files-left"]


def test_what_a_manifest_of_another_place_names_is_not_shown(
    client: RestClient, warehouse: FreshWarehouse, purged: Callable[[str], dict[str, Any]]
) -> None:
    """Files in the table's own location that it names are deleted. Others are only counted, because they may be another table's."""
    folder = warehouse.directory / "here"
    theirs = manifest(warehouse.directory / "elsewhere" / "m.avro", [*data_files(folder / "data"), f"{warehouse.base}/secret.parquet"])
    assert 200 == client.create_table(["a"], "t", location=f"{warehouse.base}/here").status
    assert 200 == client.commit(["a"], "t", *snapshot_updates(manifest_list(folder / "metadata" / "l.avro", [theirs]))).status
    event = purged("t")
    assert (set(), 2, [theirs.manifest_path]) == (files(folder), event["files-left-count"], event["files-left"])
    assert (warehouse.directory / "elsewhere" / "m.avro").is_file()


def test_statistics_of_both_kinds_go(client: RestClient, warehouse: FreshWarehouse, purged: Callable[[str], dict[str, Any]]) -> None:
    """Only the table's document names them, no manifest does."""
    folder = with_snapshot(client, warehouse, "t", "here")
    file: dict[str, Any] = {"snapshot-id": 1, "file-size-in-bytes": 4}
    for kind, more in (("statistics", {"file-footer-size-in-bytes": 1, "blob-metadata": []}), ("partition-statistics", {})):
        (folder / "metadata" / kind).write_bytes(b"PFA1")
        file |= {"statistics-path": f"{warehouse.base}/here/metadata/{kind}"}
        response = client.commit(["a"], "t", {"action": f"set-{kind}", "snapshot-id": 1, kind: file | more})
        assert 200 == response.status, response.body
    assert "files-left" not in purged("t")
    assert set() == files(folder)


def test_manifests_that_a_snapshot_of_version_1_lists_itself_go(
    client: RestClient, warehouse: FreshWarehouse, purged: Callable[[str], dict[str, Any]]
) -> None:
    """Without a manifest list. The files they name are deleted too."""
    folder = warehouse.directory / "here"
    listed = manifest(folder / "metadata" / "m0.avro", data_files(folder / "data", 2))
    created = client.create_table(["a"], "t", location=f"{warehouse.base}/here", properties={"format-version": "1"})
    assert 1 == created.json["metadata"]["format-version"]
    snapshot = {"snapshot-id": 1, "timestamp-ms": created.json["metadata"]["last-updated-ms"], "manifests": [listed.manifest_path]}
    response = client.commit(["a"], "t", {"action": "add-snapshot", "snapshot": snapshot | {"summary": {"operation": "append"}}})
    assert 200 == response.status, response.body
    assert "files-left" not in purged("t")
    assert set() == files(folder)


def test_what_a_manifest_took_out_of_the_table_stays(
    client: RestClient, warehouse: FreshWarehouse, purged: Callable[[str], dict[str, Any]]
) -> None:
    """The snapshot does not contain it any more (Java: ManifestFiles.readPaths)."""
    folder = warehouse.directory / "here"
    added, taken_out = data_files(folder / "data", 2)
    listed = manifest_list(folder / "metadata" / "l.avro", [manifest(folder / "metadata" / "m.avro", [added], deleted=[taken_out])])
    assert 200 == client.create_table(["a"], "t", location=f"{warehouse.base}/here").status
    assert 200 == client.commit(["a"], "t", *snapshot_updates(listed)).status
    assert "files-left" not in purged("t")
    assert {Path(taken_out.removeprefix("file://"))} == files(folder)


@pytest.mark.parametrize("broken", ["missing manifest", "missing list", "corrupt manifest", "corrupt list", "bomb", "truncated"])
def test_a_manifest_that_cannot_be_read_keeps_nothing_waiting(
    client: RestClient, warehouse: FreshWarehouse, purged: Callable[[str], dict[str, Any]], broken: str
) -> None:
    """A missing one is skipped. An unreadable one stays with the files it names, and the event lists it. Everything else is deleted."""
    folder = warehouse.directory / "here"
    own = data_files(folder / "data", 2)
    good, bad = manifest(folder / "metadata" / "good.avro", own[:1]), manifest(folder / "metadata" / "bad.avro", own[1:])
    listed = manifest_list(folder / "metadata" / "l.avro", [bad, good])
    assert 200 == client.create_table(["a"], "t", location=f"{warehouse.base}/here").status
    assert 200 == client.commit(["a"], "t", *snapshot_updates(listed)).status
    file = folder / "metadata" / ("l.avro" if broken.endswith("list") else "bad.avro")
    match broken.partition(" ")[0]:
        case "missing":
            file.unlink()
        case "corrupt":
            file.write_bytes(b"Obj\x01" + b"\xff" * 1000)
        case "truncated":
            file.write_bytes(file.read_bytes()[:-20])
        case _:
            file.write_bytes(unpacks_to_gigabytes())
    event = purged("t")
    left = {path.name for path in files(folder)}
    match broken:
        case "missing manifest":
            assert {"00001.parquet"} == left
        case "missing list":
            assert {"00000.parquet", "00001.parquet", "good.avro", "bad.avro"} == left
        case "corrupt list":
            assert {"00000.parquet", "00001.parquet", "good.avro", "bad.avro", "l.avro"} == left
        case _:
            assert {"00001.parquet", "bad.avro"} == left
    assert ([f"file://{file}"] if not broken.startswith("missing") else []) == event.get("files-left", [])


@pytest.mark.parametrize("cut", ["manifest", "list"])
def test_what_a_cut_file_named_goes_where_an_intact_one_names_it_too(
    client: RestClient, warehouse: FreshWarehouse, purged: Callable[[str], dict[str, Any]], cut: str
) -> None:
    """A name is remembered once its file is processed, not once it is read. Only the damaged file stays."""
    folder = warehouse.directory / "here"
    own = data_files(folder / "data", 4)
    manifests = [manifest(folder / "metadata" / f"m{number}.avro", own) for number in range(2)]
    assert 200 == client.create_table(["a"], "t", location=f"{warehouse.base}/here").status
    for number in (1, 2):
        listed = manifest_list(folder / "metadata" / f"l{number}.avro", manifests, number)
        assert 200 == client.commit(["a"], "t", *snapshot_updates(listed, number)).status
    file = folder / "metadata" / ("m0.avro" if cut == "manifest" else "l1.avro")
    # Each entry is a separate block, so only the last one is lost.
    file.write_bytes(file.read_bytes()[:-20])
    assert [f"file://{file}"] == purged("t")["files-left"]
    assert {file} == files(folder)


def unpacks_to_gigabytes() -> bytes:
    """A manifest of two megabytes with one block, which is 2 GB of zeros."""
    data_file = {"type": "record", "name": "r2", "fields": [{"name": "file_path", "type": "string", "field-id": 100}]}
    fields = [{"name": "status", "type": "int", "field-id": 0}, {"name": "data_file", "type": data_file, "field-id": 2}]
    schema = orjson.dumps({"type": "record", "name": "manifest_entry", "fields": fields})
    packer = zlib.compressobj(1, wbits=-15)
    # After a full flush the same bytes can be repeated.
    packed = (packer.compress(bytes(64 * 1024 * 1024)) + packer.flush(zlib.Z_FULL_FLUSH)) * 32 + zlib.compressobj(1, wbits=-15).flush()
    members = sized(b"avro.schema") + sized(schema) + sized(b"avro.codec") + sized(b"deflate")
    return b"Obj\x01" + number(2) + members + number(0) + bytes(16) + number(1_000_000) + sized(packed) + bytes(16)


def number(value: int) -> bytes:
    """A non-negative Avro long."""
    rest, out = value << 1, bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def sized(value: bytes) -> bytes:
    return number(len(value)) + value


def create(client: RestClient, base: str, fields: dict[str, Any]) -> RestResponse:
    return client.create_table(["a"], "t", **fields)


def stage_and_create(client: RestClient, base: str, fields: dict[str, Any]) -> RestResponse:
    """A staged create of an ordinary table, whose completing commit sets the fields."""
    staged = client.create_table(["a"], "t", **{"stage-create": True}).json["metadata"]
    location = fields.get("location", staged["location"])
    updates = [
        *staged_create_updates(staged["table-uuid"], location),
        {"action": "set-properties", "updates": fields.get("properties", {})},
    ]
    return client.commit(["a"], "t", *updates, requirements=[{"type": "assert-create"}])


def changes(fields: dict[str, Any]) -> list[dict[str, Any]]:
    if "location" in fields:
        return [{"action": "set-location", "location": fields["location"]}]
    return [set_properties(fields["properties"])]


def commit(client: RestClient, base: str, fields: dict[str, Any]) -> RestResponse:
    assert 200 == client.create_table(["a"], "t").status
    return client.commit(["a"], "t", *changes(fields))


def transaction(client: RestClient, base: str, fields: dict[str, Any]) -> RestResponse:
    assert 200 == client.create_table(["a"], "t").status
    change = {"identifier": identifier(["a"], "t"), "requirements": [], "updates": changes(fields)}
    return client.call("POST", "/transactions/commit", {"table-changes": [change]})


def metadata_file(client: RestClient, base: str, fields: dict[str, Any]) -> str:
    """Writes a metadata file of no table with the fields set. Returns its location."""
    document = {**client.create_table(["a"], "model").json["metadata"], **{"location": f"{base}/free", **fields}}
    path = Path(base.removeprefix("file://")) / "imported" / "v1.metadata.json"
    path.parent.mkdir()
    path.write_bytes(orjson.dumps(document))
    return f"file://{path}"


def register_it(client: RestClient, base: str, fields: dict[str, Any]) -> RestResponse:
    return register(client, "t", metadata_file(client, base, fields))


def overwrite_it(client: RestClient, base: str, fields: dict[str, Any]) -> RestResponse:
    assert 200 == client.create_table(["a"], "t").status
    return register(client, "t", metadata_file(client, base, fields), overwrite=True)


COMMANDS = [create, stage_and_create, commit, transaction, register_it, overwrite_it]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("field", ["location", *PATH_PROPERTIES])
def test_no_place_of_a_table_lies_in_anothers(client: RestClient, warehouse: FreshWarehouse, command: Any, field: str) -> None:
    """Nested, enclosing and equal, to another's location and its path properties: 400. A free location is accepted."""
    base = warehouse.base
    assert 200 == client.create_table(["a"], "other", location=f"{base}/x/other", properties={"write.data.path": f"{base}/y/data"}).status

    def asking_for(place: str) -> dict[str, Any]:
        return {"location": f"{base}/{place}"} if field == "location" else {"properties": {field: f"{base}/{place}"}}

    refused = command(client, base, asking_for("y/data/below"))
    assert refused.location_taken
    assert refused.message.endswith(f": {base}/y/data/below")
    client.drop_table(["a"], "t")
    if command in (create, commit):
        for place in ("x/other", "x/other/below", "x", "y/data", "y"):
            assert create(client, base, asking_for(place)).location_taken
        assert 200 == create(client, base, asking_for("z")).status
        assert client.create_table(["a"], "u", location=f"{base}/z/below").location_taken


def test_a_table_keeps_the_locations_of_its_path_properties(
    client: RestClient, warehouse: FreshWarehouse, purged: Callable[[str], dict[str, Any]]
) -> None:
    """Files in a former write.data.path are purged with the table, and the location is claimed until then."""
    base, folder = warehouse.base, warehouse.directory
    first = {"write.data.path": f"{base}/first", "write.metadata.path": f"{base}/meta"}
    assert 200 == client.create_table(["a"], "t", location=f"{base}/here", properties=first).status
    names = [*data_files(folder / "first"), *data_files(folder / "second")]
    assert 200 == client.commit(["a"], "t", *appended(folder / "here", names[:1])).status
    assert 200 == client.commit(["a"], "t", set_properties({"write.data.path": f"{base}/second"})).status
    assert client.create_table(["a"], "u", location=f"{base}/first").location_taken
    later = manifest(folder / "here" / "metadata" / "m1.avro", names, 2)
    location = manifest_list(folder / "here" / "metadata" / "snap-2.avro", [later], 2)
    assert 200 == client.commit(["a"], "t", *snapshot_updates(location, 2)).status
    assert "files-left" not in purged("t")
    assert set() == files(folder)
    assert 200 == client.create_table(["a"], "u", location=f"{base}/first").status
