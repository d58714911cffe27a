"""Tables over HTTP: create, load, commit, rename, drop, their metadata files, and the error messages of the compatibility kit."""

import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.fixtures.rest_client import SCHEMA, RestClient, RestResponse, set_properties, staged_create_updates, table_path
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog

CODEC = "write.metadata.compression-codec"


def local(location: str) -> Path:
    assert location.startswith("file:///")
    return Path(location.removeprefix("file://"))


def document(location: str) -> dict[str, Any]:
    """The metadata document in a file."""
    data = local(location).read_bytes()
    loaded: dict[str, Any] = json.loads(gzip.decompress(data) if location.endswith(".gz.metadata.json") else data)
    return loaded


def snapshot(snapshot_id: int, sequence_number: int, location: str, parent: int | None = None) -> dict[str, Any]:
    fields = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence_number,
        "timestamp-ms": 1_700_000_000_000 + sequence_number,
        "manifest-list": f"{location}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    return fields if parent is None else {**fields, "parent-snapshot-id": parent}


def append(snapshot_id: int, sequence_number: int, location: str, parent: int | None = None) -> list[dict[str, Any]]:
    """The updates of an engine's append."""
    reference = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    return [{"action": "add-snapshot", "snapshot": snapshot(snapshot_id, sequence_number, location, parent)}, reference]


def test_a_created_table_answers_its_metadata_and_its_file_holds_the_same(client: RestClient) -> None:
    """Create, load and the file agree. The first file has number 0."""
    created = client.create_table(["a"], "t", properties={"k": "v"})
    assert 200 == created.status
    loaded = client.load_table(["a"], "t")
    assert created.json == loaded.json
    assert created.headers["etag"] == loaded.headers["etag"]
    assert created.json["metadata"] == document(created.json["metadata-location"])
    assert "00000" == Path(created.json["metadata-location"]).name.split("-")[0]
    # Java stores its default codec in new tables.
    assert {"k": "v", "write.parquet.compression-codec": "zstd"} == created.json["metadata"]["properties"]
    assert 2 == created.json["metadata"]["format-version"]
    assert 204 == client.call("HEAD", table_path(["a"], "t")).status


def test_a_default_location_is_made_of_ids_alone(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Of the namespace and the table. Names are never part of a path."""
    location = client.create_table(["a"], "telling name").json["metadata"]["location"]
    namespace_id, table_id = map(UUID, location.removeprefix(f"{warehouse.base}/").split("/"))
    assert namespace_id != table_id


def test_a_location_the_client_names_is_taken(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Below the warehouse. One trailing slash is removed."""
    created = client.create_table(["a"], "t", location=f"{warehouse.base}/here/")
    assert f"{warehouse.base}/here" == created.json["metadata"]["location"]
    assert (warehouse.directory / "here" / "metadata").is_dir()


@pytest.mark.parametrize("place", ["here", "here/below", ""])
def test_a_location_belongs_to_one_table(client: RestClient, warehouse: FreshWarehouse, place: str) -> None:
    """Equal, nested and enclosing locations are refused without a trace."""
    client.create_table(["a"], "t", location=f"{warehouse.base}/x/here")
    refused = client.create_table(["a"], "u", location=f"{warehouse.base}/x/{place}")
    assert refused.location_taken
    assert ["t"] == client.table_names("a")
    assert 1 == len(list(warehouse.directory.rglob("*.metadata.json")))


def test_a_location_beside_another_is_free(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Whole segments are compared."""
    for name in ("here", "here-too", "her", "here.x"):
        assert 200 == client.create_table(["a"], name, location=f"{warehouse.base}/{name}").status


@pytest.mark.parametrize("location", ["file:///etc/x", "s3://bucket/x", "{base}/../x", "{base}", "relative", "{base}/a//b", "{base}/a*"])
def test_a_location_outside_is_refused(client: RestClient, warehouse: FreshWarehouse, location: str) -> None:
    """At create and at commit, with 400 and no trace."""
    client.create_table(["a"], "t")
    text = location.format(base=warehouse.base)
    position = client.commit(["a"], "t", set_properties(k="v")).position
    assert 400 == client.create_table(["a"], "u", location=text).status
    assert 400 == client.commit(["a"], "t", {"action": "set-location", "location": text}).status
    assert 400 == client.commit(["a"], "t", set_properties({"write.data.path": text})).status
    assert position + 1 == client.create_namespace("next").position


def test_refusals_of_create_say_what_the_kit_reads(client: RestClient) -> None:
    """Over a table, over a view, in no namespace."""
    client.create_table(["a"], "t")
    client.create_view(["a"], "v")
    refused = client.create_table(["a"], "T")
    assert ((409, "AlreadyExistsException"), "Table already exists: a.T") == (refused.error, refused.message)
    refused = client.create_table(["a"], "v")
    assert ((409, "AlreadyExistsException"), "View with same name already exists: a.v") == (refused.error, refused.message)
    refused = client.create_table(["b"], "t")
    assert ((404, "NoSuchNamespaceException"), "Namespace does not exist: b") == (refused.error, refused.message)
    refused = client.call("GET", "/namespaces/b/tables")
    assert ((404, "NoSuchNamespaceException"), "Namespace does not exist: b") == (refused.error, refused.message)


@pytest.mark.parametrize(
    "path", ["/namespaces/a/tables/u", "/namespaces/b/tables/t", "/namespaces/a/tables/v", "/namespaces/a%1Ft/tables/t"]
)
def test_what_is_no_table_is_not_found(client: RestClient, path: str) -> None:
    """A missing name, a missing namespace and a view, for every operation."""
    client.create_table(["a"], "t")
    client.create_view(["a"], "v")
    name = path.rpartition("/")[2]
    for method, tail, body in (
        ("GET", "", None),
        ("POST", "", {"requirements": [], "updates": [set_properties(k="v")]}),
        ("DELETE", "", None),
        ("POST", "/unregister", None),
        ("GET", "/credentials", None),
        ("POST", "/metrics", {"report-type": "scan-report"}),
    ):
        refused = client.call(method, path + tail, body)
        assert (404, "NoSuchTableException") == refused.error
        assert refused.message.startswith("Table does not exist: ")
        assert refused.message.endswith(name)
    assert (404, b"") == ((answer := client.call("HEAD", path)).status, answer.body)


def test_a_commit_answers_writes_and_numbers_its_file(client: RestClient) -> None:
    """Every commit writes the next number. The metadata log names the previous files, which exist."""
    locations = [client.create_table(["a"], "t").json["metadata-location"]]
    for number in range(1, 4):
        answer = client.commit(["a"], "t", set_properties(k=str(number)))
        assert 200 == answer.status
        locations.append(answer.json["metadata-location"])
        assert f"{number:05d}" == Path(locations[-1]).name.split("-")[0]
        assert answer.json["metadata"] == document(locations[-1])
        assert locations[:-1] == [entry["metadata-file"] for entry in answer.json["metadata"]["metadata-log"]]
    assert all(local(location).is_file() for location in locations)
    loaded = client.load_table(["a"], "t")
    assert (answer.json["metadata"], locations[-1]) == (loaded.json["metadata"], loaded.json["metadata-location"])
    assert answer.headers["etag"] == loaded.headers["etag"]


@pytest.mark.parametrize(("codec", "accepted"), [("none", "identity"), ("none", "gzip"), ("gzip", "identity"), ("gzip", "gzip")])
def test_a_commit_on_a_large_table_answers_what_it_writes(client: RestClient, codec: str, accepted: str) -> None:
    """Its document is not joined: beyond 256 KB the pieces are written and sent separately."""
    client.create_table(["a"], "t")
    assert 200 == client.commit(["a"], "t", set_properties({CODEC: codec, "large": "x" * 300_000})).status
    location = client.load_table(["a"], "t").json["metadata"]["location"]
    for number in range(1, 4):
        updates = append(number, number, location, number - 1 or None)
        body = {"requirements": [], "updates": updates}
        answer = client.call("POST", table_path(["a"], "t"), body, headers={"Accept-Encoding": accepted})
        assert (200, accepted == "gzip") == (answer.status, answer.headers.get("content-encoding") == "gzip")
        content = gzip.decompress(answer.body) if accepted == "gzip" else answer.body
        committed = json.loads(content)
        assert str(len(answer.body)) == answer.headers["content-length"]
        assert number == len(committed["metadata"]["snapshots"])
        assert committed["metadata"] == document(committed["metadata-location"])
        assert committed["metadata"] == client.load_table(["a"], "t").json["metadata"]


def test_a_commit_that_changes_nothing_writes_nothing(client: RestClient, warehouse: FreshWarehouse) -> None:
    """The same metadata location, position and ETag, without a file or event."""
    client.create_table(["a"], "t")
    first = client.commit(["a"], "t", set_properties(k="v"))
    location = first.json["metadata"]["location"]
    unchanging = [{"action": "set-location", "location": location}, {"action": "set-current-schema", "schema-id": 0}]
    again = client.commit(["a"], "t", *unchanging, {"action": "remove-snapshot-ref", "ref-name": "absent"})
    assert first.replayable == again.replayable
    assert 2 == len(list(warehouse.directory.rglob("*.metadata.json")))


REQUIREMENTS: list[tuple[dict[str, Any], str]] = [
    ({"type": "assert-create"}, "Requirement failed: table already exists"),
    ({"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}, "Requirement failed: UUID does not match"),
    ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5}, "Requirement failed: branch or tag main is missing"),
    ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 9}, "last assigned field id changed"),
    ({"type": "assert-current-schema-id", "current-schema-id": 9}, "Requirement failed: current schema changed"),
    ({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 9}, "last assigned partition id changed"),
    ({"type": "assert-default-spec-id", "default-spec-id": 9}, "default partition spec changed"),
    ({"type": "assert-default-sort-order-id", "default-sort-order-id": 9}, "default sort order changed"),
]


@pytest.mark.parametrize(("requirement", "message"), REQUIREMENTS, ids=lambda value: value["type"] if isinstance(value, dict) else "")
def test_a_requirement_that_does_not_hold_refuses_the_commit(
    client: RestClient, warehouse: FreshWarehouse, requirement: dict[str, Any], message: str
) -> None:
    """409 with the kit's message, without a file or change."""
    before = client.create_table(["a"], "t")
    refused = client.commit(["a"], "t", set_properties(k="v"), requirements=[requirement])
    assert (409, "CommitFailedException") == refused.error
    assert message in refused.message
    assert before.json == client.load_table(["a"], "t").json
    assert 1 == len(list(warehouse.directory.rglob("*.metadata.json")))


@pytest.mark.parametrize("body", [{"updates": [{"action": "reinvent"}]}, {"requirements": [{"type": "assert-weather"}], "updates": []}])
def test_unknown_updates_and_requirements_are_bad_requests(client: RestClient, body: dict[str, Any]) -> None:
    """As the spec requires."""
    client.create_table(["a"], "t")
    assert 400 == client.call("POST", table_path(["a"], "t"), {"requirements": [], **body}).status


def test_a_staged_create_leaves_nothing_until_its_commit(client: RestClient, warehouse: FreshWarehouse) -> None:
    """No name, no file (empty folders), no event. The commit with assert-create creates the table; a second one is refused."""
    staged = client.create_table(["a"], "t", **{"stage-create": True})
    assert (200, None) == (staged.status, staged.json["metadata-location"])
    assert (404, "NoSuchTableException") == client.load_table(["a"], "t").error
    assert [] == [path for path in warehouse.directory.rglob("*") if path.is_file()]
    metadata = staged.json["metadata"]
    updates = [*staged_create_updates(metadata["table-uuid"], metadata["location"]), set_properties(k="v")]
    created = client.commit(["a"], "t", *updates, requirements=[{"type": "assert-create"}])
    assert 200 == created.status
    assert (metadata["table-uuid"], metadata["location"]) == (created.json["metadata"]["table-uuid"], created.json["metadata"]["location"])
    assert created.json["metadata"] == client.load_table(["a"], "t").json["metadata"] == document(created.json["metadata-location"])
    refused = client.commit(["a"], "t", *updates, requirements=[{"type": "assert-create"}])
    assert (409, "CommitFailedException") == refused.error
    assert refused.message.startswith("Requirement failed: table already exists")


@pytest.mark.parametrize("kind", ["assert-create", "ASSERT-CREATE"])
def test_a_create_by_commit_without_a_location_is_refused(client: RestClient, warehouse: FreshWarehouse, kind: str) -> None:
    """400 with Java's message, for any case of the requirement. Nothing is written."""
    updates = [
        {"action": "assign-uuid", "uuid": "3b0ee7cb-6f0c-4b3f-bf4c-17a3e2dcd8f1"},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    assert 400 == client.commit(["a"], "t", *updates, requirements=[{"type": kind}]).status
    assert [] == list(warehouse.directory.rglob("*"))
    place = {"action": "set-location", "location": f"{warehouse.base}/t"}
    assert 200 == client.commit(["a"], "t", *updates, place, requirements=[{"type": kind}]).status
    assert ["t"] == client.table_names("a")


def test_two_staged_creates_of_one_name_have_one_winner(client: RestClient) -> None:
    """Staging claims nothing. The first commit gets the name, the second gets 409."""
    commits: list[tuple[str, str, Any, object]] = []
    for _ in range(2):
        metadata = client.create_table(["a"], "t", **{"stage-create": True}).json["metadata"]
        updates = staged_create_updates(metadata["table-uuid"], metadata["location"])
        commits.append(("POST", table_path(["a"], "t"), {"requirements": [{"type": "assert-create"}], "updates": updates}, None))
    answers = client.together(commits)
    assert [200, 409] == sorted(answer.status for answer in answers)


def test_etags_tell_versions_and_forms_apart_and_answer_304(client: RestClient) -> None:
    """One ETag per version and snapshots mode. A current one results in 304 without a body."""
    created = client.create_table(["a"], "t")
    location = created.json["metadata"]["location"]
    client.commit(["a"], "t", *append(1, 1, location))
    client.commit(["a"], "t", *append(2, 2, location, parent=1))
    every, referenced = client.load_table(["a"], "t"), client.load_table(["a"], "t", "?snapshots=refs")
    assert [1, 2] == [s["snapshot-id"] for s in every.json["metadata"]["snapshots"]]
    assert [2] == [s["snapshot-id"] for s in referenced.json["metadata"]["snapshots"]]
    without_snapshots = [{**a.json["metadata"], "snapshots": None} for a in (every, referenced)]
    assert without_snapshots[0] == without_snapshots[1]
    etags = {answer.headers["etag"] for answer in (created, every, referenced)}
    assert 3 == len(etags)
    for query, answer in (("", every), ("?snapshots=all", every), ("?snapshots=refs", referenced)):
        again = client.load_table(["a"], "t", query, If_None_Match=answer.headers["etag"])
        assert (304, b"", answer.headers["etag"]) == (again.status, again.body, again.headers["etag"])
    assert 200 == client.load_table(["a"], "t", "?snapshots=refs", If_None_Match=every.headers["etag"]).status
    assert 200 == client.load_table(["a"], "t", If_None_Match=created.headers["etag"]).status
    assert 304 == client.load_table(["a"], "t", If_None_Match=f'"other", {every.headers["etag"]}').status
    assert 400 == client.load_table(["a"], "t", "?snapshots=some").status


def test_a_rename_moves_the_name_alone(client: RestClient) -> None:
    """Within a namespace, to another, and to another spelling. Metadata and its file do not change."""
    client.create_namespace("b", "c")
    client.create_namespace("b")
    client.create_namespace("b", "c")
    before = client.create_table(["a"], "t").json
    for source, destination in (((["a"], "t"), (["a"], "u")), ((["a"], "u"), (["b", "c"], "u")), ((["b", "c"], "u"), (["b", "c"], "U"))):
        answer = client.rename_table(source, destination)
        assert (204, b"") == (answer.status, answer.body)
        assert before == client.load_table(*destination).json
    assert [] == client.table_names("a")
    assert ["U"] == client.table_names("b", "c")
    assert 200 == client.create_table(["a"], "t").status


def test_refusals_of_rename_say_what_the_kit_reads(client: RestClient) -> None:
    """Onto a table, onto a view, from nothing, into no namespace."""
    client.create_table(["a"], "t")
    client.create_table(["a"], "u")
    client.create_view(["a"], "v")
    for target, message in (
        ("u", "Cannot rename a.t to a.u. Table already exists"),
        ("v", "Cannot rename a.t to a.v. View already exists"),
    ):
        refused = client.rename_table((["a"], "t"), (["a"], target))
        assert ((409, "AlreadyExistsException"), message) == (refused.error, refused.message)
    refused = client.rename_table((["a"], "w"), (["a"], "x"))
    assert ((404, "NoSuchTableException"), "Table does not exist: a.w") == (refused.error, refused.message)
    refused = client.rename_table((["a"], "t"), (["b"], "t"))
    assert ((404, "NoSuchNamespaceException"), "Namespace does not exist: b") == (refused.error, refused.message)
    assert ["t", "u"] == client.table_names("a")


def test_a_rename_to_its_own_name_changes_nothing(client: RestClient) -> None:
    """204 without an event."""
    position = client.create_table(["a"], "t").position
    answer = client.rename_table((["a"], "t"), (["a"], "t"))
    assert (204, position) == (answer.status, answer.position)


def test_a_swap_of_names_by_two_renames_at_once_loses_no_table(client: RestClient) -> None:
    """Both tables stay reachable, whichever succeeds."""
    uuids = {client.create_table(["a"], name).json["metadata"]["table-uuid"] for name in ("t", "u")}
    body = [
        {"source": {"namespace": ["a"], "name": s}, "destination": {"namespace": ["a"], "name": d}} for s, d in (("t", "x"), ("u", "x"))
    ]
    answers = client.together([("POST", "/tables/rename", one, None) for one in body])
    assert [204, 409] == sorted(answer.status for answer in answers)
    found = {client.load_table(["a"], name).json["metadata"]["table-uuid"] for name in client.table_names("a")}
    assert uuids == found


def test_a_table_without_its_metadata_file_is_not_found(client: RestClient) -> None:
    """As in Java's FileIO, even if the client's ETag is current. When the file is restored, the table can be loaded."""
    created = client.create_table(["a"], "t")
    file = local(created.json["metadata-location"])
    file.rename(file.with_suffix(".away"))
    for headers in ({}, {"If_None_Match": created.headers["etag"]}):
        refused = client.load_table(["a"], "t", **headers)
        assert (404, "NotFoundException") == refused.error
        assert f"Failed to open input stream for file: {created.json['metadata-location']}" == refused.message
    file.with_suffix(".away").rename(file)
    assert created.body == client.load_table(["a"], "t").body


def test_metadata_is_packed_where_the_property_asks(client: RestClient) -> None:
    """gzip from the commit that sets it, plain after it is removed. Both can be read."""
    client.create_table(["a"], "t")
    packed = client.commit(["a"], "t", set_properties({CODEC: "gzip"})).json
    assert packed["metadata-location"].endswith(".gz.metadata.json")
    assert b"\x1f\x8b" == local(packed["metadata-location"]).read_bytes()[:2]
    assert packed["metadata"] == document(packed["metadata-location"])
    plain = client.commit(["a"], "t", set_properties({CODEC: "none"})).json
    assert not plain["metadata-location"].endswith(".gz.metadata.json")
    assert plain["metadata"] == document(plain["metadata-location"])
    refused = client.commit(["a"], "t", set_properties({CODEC: "lzma"}))
    assert 400 == refused.status


def test_metadata_goes_where_the_property_says(client: RestClient, warehouse: FreshWarehouse) -> None:
    """write.metadata.path inside the warehouse sets the folder. Outside it is refused."""
    client.create_table(["a"], "t")
    folder = f"{warehouse.base}/elsewhere"
    answer = client.commit(["a"], "t", set_properties({"write.metadata.path": folder}))
    assert folder == answer.json["metadata-location"].rpartition("/")[0]
    assert answer.json["metadata"] == document(answer.json["metadata-location"])
    assert 400 == client.commit(["a"], "t", set_properties({"write.metadata.path": "file:///tmp/away"})).status


def test_unregister_forgets_the_table_and_keeps_its_files(client: RestClient, warehouse: FreshWarehouse) -> None:
    """The answer has the last metadata. The name and the location are free, and commits fail."""
    created = client.create_table(["a"], "t", location=f"{warehouse.base}/here").json
    answer = client.call("POST", "/namespaces/a/tables/t/unregister")
    assert 200 == answer.status
    assert (created["metadata-location"], created["metadata"]) == (answer.json["metadata-location"], answer.json["metadata"])
    assert local(created["metadata-location"]).is_file()
    assert (404, "NoSuchTableException") == client.commit(["a"], "t", set_properties(k="v")).error
    assert 200 == client.create_table(["a"], "t", location=f"{warehouse.base}/here").status


def test_32_appends_at_once_leave_a_dense_line_of_versions(client: RestClient, shared_catalog: SharedCatalog) -> None:
    """Their requirements pass on every state, so all succeed, with versions without gaps or forks."""
    created = client.create_table(["a"], "t").json["metadata"]
    requirement = {"type": "assert-table-uuid", "uuid": created["table-uuid"]}
    bodies = [{"requirements": [requirement], "updates": [set_properties(**{f"k{n}": "v"})]} for n in range(32)]
    answers = client.together([("POST", table_path(["a"], "t"), body, None) for body in bodies])
    assert {200} == {answer.status for answer in answers}, {answer.body for answer in answers}
    metadata = client.load_table(["a"], "t").json["metadata"]
    assert {f"k{n}" for n in range(32)} == {key for key in metadata["properties"] if key.startswith("k")}
    assert 32 == len(metadata["metadata-log"])
    versions = shared_catalog.rows(
        "select originator_version from icecore.events where originator_id = %s order by notification_id",
        created["location"].rpartition("/")[2],
    )
    assert list(range(1, 34)) == [version for (version,) in versions]
    assert 32 == len({answer.json["metadata-location"] for answer in answers})


def test_appends_of_four_engines_that_retry_all_arrive(client: RestClient) -> None:
    """Writers that rebuild their snapshot after 409: none is lost, and the chain of parents has no fork."""
    created = client.create_table(["a"], "t").json["metadata"]
    failures: list[RestResponse] = []
    lock = threading.Lock()

    def engine(number: int) -> None:
        for turn in range(6):
            while True:
                metadata = client.load_table(["a"], "t").json["metadata"]
                current = metadata["current-snapshot-id"] if metadata["snapshots"] else None
                requirement = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": current}
                updates = append(number * 100 + turn + 1, metadata["last-sequence-number"] + 1, created["location"], current)
                answer = client.commit(["a"], "t", *updates, requirements=[requirement])
                if answer.status == 200:
                    break
                if answer.error != (409, "CommitFailedException"):
                    with lock:
                        failures.append(answer)
                    return

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(engine, range(4)))
    assert [] == failures
    snapshots = client.load_table(["a"], "t").json["metadata"]["snapshots"]
    assert 24 == len(snapshots)
    assert list(range(1, 25)) == [s["sequence-number"] for s in snapshots]
    assert [s["snapshot-id"] for s in snapshots[:-1]] == [s["parent-snapshot-id"] for s in snapshots[1:]]


def test_credentials_of_local_files_are_none(client: RestClient) -> None:
    """An empty list, which must not be cached."""
    client.create_table(["a"], "t")
    answer = client.call("GET", "/namespaces/a/tables/t/credentials")
    assert (200, {"storage-credentials": []}) == (answer.status, answer.json)
    assert "no-store" in answer.headers["cache-control"]


def test_null_fields_are_absent_fields(client: RestClient) -> None:
    """As PyIceberg and others send them."""
    nothing = {"location": None, "partition-spec": None, "write-order": None, "properties": None, "stage-create": None}
    assert 200 == client.create_table(["a"], "t", **nothing).status
