"""AppendRequest: the events of a command and everything derived from them for the append."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson
import pytest
from uuid_utils.compat import uuid7

from icecore.access.request_context import ANONYMOUS, RequestContext
from icecore.commands.execution.append_request import AppendRequest, IdempotencyRecord
from icecore.domain.events import (
    NamespaceCreated,
    NamespaceDropped,
    NamespacePropertiesChanged,
    TableCommitted,
    TableCreated,
    TableDropped,
    TableRenamed,
)
from icecore.domain.metadata.create import new_table_metadata
from icecore.domain.namespace import NamespaceState
from icecore.domain.table import ParsedCommit, TableState, decide_commit

PROJECT, WAREHOUSE, NAMESPACE, OTHER, STREAM, SECOND = (UUID(int=n) for n in range(1, 7))
CONTEXT = RequestContext("request", PROJECT, ANONYMOUS, "createTable", correlation_id="c", traceparent="t")
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
METADATA = new_table_metadata(
    table_uuid="00000000-0000-0000-0000-000000000009",
    location="file:///w/t",
    schema=SCHEMA,
    partition_spec=None,
    write_order=None,
    properties={},
    now_ms=1_800_000_000_000,
)
TABLE_CREATED = TableCreated(NAMESPACE, "T", "t", "local|file:///w/t/", "file:///w/t/metadata/00000-a.metadata.json", METADATA, False)
NAMESPACE_CREATED = NamespaceCreated(WAREHOUSE, "N", "n", "local|file:///w/n/", {"k": "v", "location": "file:///w/n"})


def plain(append_request: AppendRequest) -> tuple[dict[str, Any], list[bytes]]:
    """The command as sent to Postgres, and its bytes."""
    blobs: list[bytes] = []
    command: dict[str, Any] = orjson.loads(orjson.dumps(append_request.to_json(blobs)))
    return command, blobs


def a_table() -> TableState:
    state = AppendRequest(CONTEXT).add(STREAM, WAREHOUSE, None, [TABLE_CREATED])
    assert isinstance(state, TableState)
    return state


def a_namespace() -> NamespaceState:
    state = AppendRequest(CONTEXT).add(STREAM, WAREHOUSE, None, [NAMESPACE_CREATED])
    assert isinstance(state, NamespaceState)
    return state


def claims(command: dict[str, Any]) -> dict[str, Any]:
    """The claims that a command takes and releases; empty lists are omitted."""
    nothing: dict[str, Any] = {name: [] for name in ("parents", "empty", "release", "take", "release_locations", "take_locations")}
    return {**nothing, **command.get("claims", {})}


def test_a_new_stream_has_no_head_and_takes_what_it_claims() -> None:
    """Given nothing, when a table is added, then its name and location are claimed and nothing is released."""
    append_request = AppendRequest(CONTEXT)
    state = append_request.add(STREAM, WAREHOUSE, None, [TABLE_CREATED])
    command, _ = plain(append_request)
    assert [[str(STREAM), None]] == command["expected_heads"]
    assert [["tabular", str(NAMESPACE), "t", str(STREAM)]] == claims(command)["take"]
    assert [["local|file:///w/t/", str(STREAM), "tabular"]] == claims(command)["take_locations"]
    assert ([], []) == (claims(command)["release"], claims(command)["release_locations"])
    assert (1, "live") == (state.version, state.status)  # type: ignore[union-attr]


def test_a_known_stream_is_held_to_the_head_it_was_decided_on() -> None:
    """The head is an event id, not a number. The event gets the next version."""
    before = a_table()
    append_request = AppendRequest(CONTEXT)
    append_request.add(STREAM, WAREHOUSE, before, [TableDropped(False)], generation=3)
    command, _ = plain(append_request)
    assert [[str(STREAM), str(before.event_id)]] == command["expected_heads"]
    assert [[str(STREAM), 2, "table.dropped.v1"]] == [event[:3] for event in command["events"]]
    assert 3 == command["generation"]


def test_a_stream_that_is_only_relied_on_has_a_head_and_no_event() -> None:
    """A transaction must fail if a table that it left unchanged has changed."""
    before = a_table()
    append_request = AppendRequest(CONTEXT)
    append_request.depend_on(before)
    command, _ = plain(append_request)
    assert [[str(STREAM), str(before.event_id)]] == command["expected_heads"]
    assert not append_request.has_events
    assert {} == command["rows"]


@pytest.mark.parametrize(
    ("event", "released", "taken", "released_places"),
    [
        (TableRenamed(NAMESPACE, "U", "u"), [[NAMESPACE, "t"]], [[NAMESPACE, "u"]], 0),
        (TableRenamed(OTHER, "T", "t"), [[NAMESPACE, "t"]], [[OTHER, "t"]], 0),
        (TableRenamed(NAMESPACE, "tT", "t"), [], [], 0),
        (TableDropped(False), [[NAMESPACE, "t"]], [], 1),
        (TableDropped(True), [[NAMESPACE, "t"]], [], 0),
    ],
    ids=["renamed", "moved", "respelled", "dropped", "to be purged"],
)
def test_only_the_difference_of_claims_is_settled(event: Any, released: list[Any], taken: list[Any], released_places: int) -> None:
    """Claims held before and after are not sent."""
    append_request = AppendRequest(CONTEXT)
    append_request.add(STREAM, WAREHOUSE, a_table(), [event])
    command, _ = plain(append_request)
    assert [["tabular", str(scope), key, str(STREAM)] for scope, key in released] == claims(command)["release"]
    assert [["tabular", str(scope), key, str(STREAM)] for scope, key in taken] == claims(command)["take"]
    assert (released_places, 0) == (len(claims(command)["release_locations"]), len(claims(command)["take_locations"]))


def test_events_of_one_stream_are_numbered_on() -> None:
    """Created and dropped in one command: two versions, two rows, and no remaining claim."""
    append_request = AppendRequest(CONTEXT)
    append_request.add(STREAM, WAREHOUSE, None, [NAMESPACE_CREATED, NamespacePropertiesChanged({"k": "w"}, []), NamespaceDropped()])
    command, blobs = plain(append_request)
    assert [1, 2, 3] == [event[1] for event in command["events"]]
    assert [NAMESPACE_CREATED.encode()] == [blobs[command["events"][0][3] - 1]]
    rows = command["rows"]["namespaces"]
    assert [(1, 1, "live"), (2, 2, "live"), (3, 3, "dropped")] == [(row["position"], row["version"], row["status"]) for row in rows]
    documents = [b'{"k":"%s","location":"file:///w/n"}' % value for value in (b"v", b"w", b"w")]
    assert documents == [blobs[row["properties"] - 1] for row in rows]
    assert {("file:///w/n", "local|file:///w/n/")} == {(row["location"], row["location_key"]) for row in rows}
    assert "claims" not in command


def test_streams_of_one_command_are_numbered_through() -> None:
    """Rows refer to their event by its number in the command."""
    append_request = AppendRequest(CONTEXT, must_exist=[NAMESPACE], must_be_empty=[OTHER])
    append_request.add(STREAM, WAREHOUSE, a_namespace(), [NamespaceDropped()])
    append_request.add(SECOND, WAREHOUSE, None, [TABLE_CREATED])
    command, _ = plain(append_request)
    assert [[str(STREAM), 2], [str(SECOND), 1]] == [event[:2] for event in command["events"]]
    assert ([1], [2]) == tuple([row["position"] for row in command["rows"][table]] for table in ("namespaces", "tables"))
    assert [{"position": 1, "object_id": str(STREAM)}] == command["rows"]["names_closed"]
    name = {"object_id": str(SECOND), "from_position": 2, "to_position": None, "parent_id": str(NAMESPACE), "kind": "table"}
    assert [{**name, "name": "T", "name_key": "t"}] == command["rows"]["names"]
    assert ([str(NAMESPACE)], [str(OTHER)]) == (claims(command)["parents"], claims(command)["empty"])


def test_a_commit_adds_its_delta_and_no_more() -> None:
    """A small commit sends a head and the changed parts, not the document."""
    before = a_table()
    change = decide_commit(before, ParsedCommit.parse([], [{"action": "set-properties", "updates": {"k": "v"}}]), 1_800_000_000_001)
    assert change is not None
    event = TableCommitted("file:///w/t/metadata/00001-b.metadata.json", None, change.delta.to_json(), change.actions)
    append_request = AppendRequest(CONTEXT)
    append_request.add(STREAM, WAREHOUSE, before, [event])
    command, blobs = plain(append_request)
    assert {"tables", "table_parts"} == set(command["rows"])
    # The one part is the metadata log's entry for the previous file.
    assert [{"metadata-file": TABLE_CREATED.metadata_location, "timestamp-ms": METADATA["last-updated-ms"]}] == [
        orjson.loads(blobs[row["body"] - 1]) for row in command["rows"]["table_parts"]
    ]
    assert "names" not in command["rows"]


def test_the_envelope_is_the_context() -> None:
    """Principal, project and request id."""
    append_request = AppendRequest(CONTEXT)
    command, _ = plain(append_request)
    assert ("anonymous", str(PROJECT), "request", "c", "t") == tuple(
        command[k] for k in ("actor", "project", "request", "correlation", "traceparent")
    )
    assert str(append_request.command_id) == command["id"]
    assert "generation" not in command


def test_a_key_travels_with_its_record() -> None:
    """The hash, operation and status, and either the row that the body is built from, or the body."""
    key = uuid7()
    keyed = replace(CONTEXT, idempotency_key=key, request_hash=b"\x01\x02")
    by_row, _ = plain(AppendRequest(keyed, idempotency_record=IdempotencyRecord(200, STREAM, 4)))
    expected = {
        "key": str(key),
        "hash": "0102",
        "operation": "createTable",
        "status": 200,
        "object": str(STREAM),
        "version": 4,
        "body": None,
    }
    assert expected == by_row["idempotency"]
    by_body, blobs = plain(AppendRequest(keyed, idempotency_record=IdempotencyRecord(409, body=b"{}")))
    assert (409, None, b"{}") == (
        by_body["idempotency"]["status"],
        by_body["idempotency"]["object"],
        blobs[by_body["idempotency"]["body"] - 1],
    )


def test_without_a_key_nothing_is_remembered() -> None:
    """A record without a key is not sent."""
    command, blobs = plain(AppendRequest(CONTEXT, idempotency_record=IdempotencyRecord(200, body=b"{}")))
    assert "idempotency" not in command
    assert [] == blobs


def test_what_must_be_appended() -> None:
    """Events, or an answer to store. A command without either is answered at once."""
    assert not AppendRequest(CONTEXT).must_be_appended
    assert AppendRequest(replace(CONTEXT, idempotency_key=uuid7())).must_be_appended
    append_request = AppendRequest(CONTEXT)
    append_request.add(STREAM, WAREHOUSE, None, [NAMESPACE_CREATED])
    assert append_request.must_be_appended


def test_states_of_two_generations_do_not_go_together() -> None:
    """A bug: states from before a rebuild's switch must be read again."""
    append_request = AppendRequest(CONTEXT)
    append_request.add(STREAM, WAREHOUSE, a_namespace(), [NamespaceDropped()], generation=1)
    with pytest.raises(AssertionError):
        append_request.add(SECOND, WAREHOUSE, a_table(), [TableDropped(False)], generation=2)


def test_preloaded_parts_are_of_the_generation_the_state_was_read_in() -> None:
    """Their number is sent instead of the parts. Another generation is a bug."""
    for generation in (None, 1):
        append_request = AppendRequest(CONTEXT)
        append_request.add(STREAM, WAREHOUSE, None, [TABLE_CREATED], generation)
        append_request.take_preloaded(STREAM, 1, 7)
        command, _ = plain(append_request)
        assert (1, [[str(STREAM), 7]]) == (command["generation"], command["preloaded"])
        assert "table_parts" not in command["rows"]
    with pytest.raises(AssertionError):
        append_request.take_preloaded(STREAM, 2, 7)


def test_every_append_request_has_an_id_of_its_own() -> None:
    """It identifies copies of the same command."""
    assert AppendRequest(CONTEXT).command_id != AppendRequest(CONTEXT).command_id
