"""Transactions over HTTP: commits to several tables, all or none, without partial reads."""

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fixtures.rest_client import RestClient, RestResponse, set_properties, staged_create_updates
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog


def change(name: str, *updates: Any, requirements: Any = (), namespace: Any = ("a",)) -> dict[str, Any]:
    return {
        "identifier": {"namespace": list(namespace), "name": name},
        "requirements": list(requirements),
        "updates": list(updates) or [set_properties(k="v")],
    }


def commit(client: RestClient, *changes: Any) -> RestResponse:
    return client.call("POST", "/transactions/commit", {"table-changes": list(changes)})


def creation(client: RestClient, name: str, staged_as: str | None = None) -> dict[str, Any]:
    """The change that completes a staged create."""
    metadata = client.create_table(["a"], staged_as or name, **{"stage-create": True}).json["metadata"]
    updates = staged_create_updates(metadata["table-uuid"], metadata["location"])
    return change(name, *updates, requirements=[{"type": "assert-create"}])


def states(client: RestClient) -> dict[str, Any]:
    return {name: client.load_table(["a"], name).json for name in client.table_names("a")}


def value(client: RestClient, name: str) -> str | None:
    found: str | None = client.load_table(["a"], name).json["metadata"]["properties"].get("k")
    return found


def test_all_tables_change_under_one_command(client: RestClient, shared_catalog: SharedCatalog) -> None:
    """204. The tables' events have one command id and consecutive positions."""
    for name in ("t", "u", "v"):
        client.create_table(["a"], name)
    response = commit(client, *(change(name) for name in ("t", "u", "v")))
    assert (204, b"") == (response.status, response.body)
    assert ["v"] * 3 == [value(client, name) for name in ("t", "u", "v")]
    commands = shared_catalog.rows(
        "select command_id from icecore.events where notification_id between %s and %s", response.position - 2, response.position
    )
    assert (3, 1) == (len(commands), len(set(commands)))


WRONG = {"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (change("u", requirements=[WRONG]), (409, "CommitFailedException")),
        (change("absent"), (404, "NoSuchTableException")),
        (change("view"), (404, "NoSuchTableException")),
        (change("u", {"action": "set-current-schema", "schema-id": 99}), (400, "IllegalArgumentException")),
        (change("u", {"action": "set-location", "location": "file:///etc"}), (400, "BadRequestException")),
        (change("t"), (400, "BadRequestException")),
        (change("T"), (400, "BadRequestException")),
    ],
    ids=["requirement", "absent", "view", "update", "location", "twice", "twice in other case"],
)
def test_one_refusal_refuses_all(client: RestClient, warehouse: FreshWarehouse, bad: dict[str, Any], error: tuple[int, str]) -> None:
    """Nothing changes and no metadata file is left, wherever the refused change is."""
    for name in ("t", "u", "w"):
        client.create_table(["a"], name)
    client.create_view(["a"], "view")
    before, files = states(client), sorted(warehouse.directory.rglob("*.metadata.json"))
    for changes in ([change("t"), bad, change("w")], [bad, change("t"), change("w")], [change("t"), change("w"), bad]):
        assert error == commit(client, *changes).error
    assert before == states(client)
    assert files == sorted(warehouse.directory.rglob("*.metadata.json"))


def test_creations_and_commits_go_together(client: RestClient) -> None:
    """Staged tables are created in the same transaction as other changes."""
    client.create_table(["a"], "t")
    assert 204 == commit(client, creation(client, "new"), change("t"), creation(client, "newer")).status
    assert ["new", "newer", "t"] == client.table_names("a")
    assert "v" == value(client, "t")


def test_a_creation_of_a_taken_name_refuses_all(client: RestClient) -> None:
    """409 as for a single commit."""
    client.create_table(["a"], "t")
    taken = creation(client, "fresh")
    client.create_table(["a"], "fresh")
    refused = commit(client, change("t"), taken)
    assert (409, "CommitFailedException") == refused.error
    assert refused.message.startswith("Requirement failed: table already exists")
    assert value(client, "t") is None


def test_one_name_created_twice_is_refused(client: RestClient, warehouse: FreshWarehouse) -> None:
    """400 at once, not a conflict with itself."""
    refused = commit(client, creation(client, "new"), creation(client, "NEW", staged_as="other"))
    assert (400, "BadRequestException") == refused.error
    assert [] == client.table_names("a")
    assert [] == list(warehouse.directory.rglob("*.metadata.json"))


def test_changes_that_change_nothing_write_nothing(client: RestClient) -> None:
    """Only changed tables get an event."""
    locations = {name: client.create_table(["a"], name).json["metadata"]["location"] for name in ("t", "u")}
    before = states(client)
    unchanging = change("u", {"action": "set-location", "location": locations["u"]})
    response = commit(client, change("t"), unchanging)
    assert 204 == response.status
    assert before["u"] == client.load_table(["a"], "u").json
    again = commit(client, unchanging)
    assert (204, response.position) == (again.status, again.position)


@pytest.mark.parametrize("body", [{}, {"table-changes": []}, {"table-changes": None}, {"table-changes": [{"updates": []}]}])
def test_a_transaction_of_nothing_is_refused(client: RestClient, body: dict[str, Any]) -> None:
    """At least one change, each with its table."""
    assert (400, "BadRequestException") == client.call("POST", "/transactions/commit", body).error


def test_no_reader_sees_half(client: RestClient) -> None:
    """Two tables always change together. Every position of the log shows both with the same value."""
    for name in ("t", "u"):
        client.create_table(["a"], name, properties={"k": "0"})
    seen: list[tuple[str | None, str | None]] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            point = client.call_root("GET", f"/config?warehouse={client.warehouse}@{now}").json["overrides"]["prefix"].partition("@")[2]
            then = client.at(point)
            seen.append((value(then, "t"), value(then, "u")))

    reader = threading.Thread(target=read)
    reader.start()
    number = 0
    # Enough for the reader to see changes.
    while number < 25 or (len(set(seen)) < 3 and number < 500):
        number += 1
        assert 204 == commit(client, *(change(name, set_properties(k=str(number))) for name in ("t", "u"))).status
    stop.set()
    reader.join()
    assert len(set(seen)) >= 3
    assert [] == [pair for pair in seen if pair[0] != pair[1]]


def test_transactions_that_cross_do_not_block_one_another(client: RestClient) -> None:
    """Concurrent transactions with tables in opposite order all take effect, on all tables in the same order."""
    for name in ("t", "u", "w"):
        client.create_table(["a"], name)
    orders = [("t", "u", "w"), ("w", "u", "t"), ("u", "t", "w")] * 4
    calls: list[tuple[str, str, Any, object]] = [
        ("POST", "/transactions/commit", {"table-changes": [change(name, set_properties(k=str(n))) for name in order]}, None)
        for n, order in enumerate(orders)
    ]
    responses = client.together(calls)
    assert {204} == {response.status for response in responses}, {response.body for response in responses}
    last = max(range(len(responses)), key=lambda n: responses[n].position)
    assert [str(last)] * 3 == [value(client, name) for name in ("t", "u", "w")]
    assert [len(orders)] * 3 == [len(client.load_table(["a"], name).json["metadata"]["metadata-log"]) for name in ("t", "u", "w")]
