"""`icecore log` by table, time and actor."""

import json
from datetime import datetime, timedelta
from typing import Any

from tests.fixtures.operator_commands import icecore
from tests.fixtures.rest_client import SCHEMA, RestClient, identifier
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog


def test_events_are_selected_by_table_time_and_actor(client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog) -> None:
    """A table is found under all its names, and another table with the same name is not included."""

    def log(*arguments: str) -> list[dict[str, Any]]:
        done = icecore(shared_catalog.server.dsn, "log", "--json", *arguments)
        assert 0 == done.returncode, done.stderr
        # Silence would look like a command that does nothing.
        assert ("icecore: no event matches\n" if done.stdout == "" else "") == done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def events(*arguments: str) -> list[tuple[str, str]]:
        return [(each["topic"].removesuffix(".v1"), each["name"][-1]) for each in log(*arguments)]

    def create(name: str) -> int:
        response = client.call("POST", "/namespaces/a/tables", {"name": name, "schema": SCHEMA})
        assert 200 == response.status
        return response.position

    before = create("old")
    renamed = client.call("POST", "/tables/rename", {"source": identifier(["a"], "old"), "destination": identifier(["a"], "new")})
    assert 204 == renamed.status
    create("old")
    life = [("table.created", "old"), ("table.renamed", "new")]
    assert life == events("--table", f"{warehouse.name}:a.new")
    assert [("table.created", "old")] == events("--table", f"{warehouse.name}:a.old")
    assert life == events("--table", f"{warehouse.name}@{before}:a.old")
    assert 204 == client.call("DELETE", "/namespaces/a/tables/new").status
    found = log("--table", f"{warehouse.name}@{before}:a.old")
    assert found == log("--table", found[0]["stream-id"])
    assert 3 == len(found)
    assert found[:2] == log("--table", found[0]["stream-id"], "--limit", "2")
    # By time, inclusive at both ends.
    at = [event["recorded-at"] for event in found]
    table = ("--table", found[0]["stream-id"])
    assert found[1:] == log(*table, "--since", at[1])
    assert found[:2] == log(*table, "--until", at[1])
    assert found[1:2] == log(*table, "--since", at[1], "--until", at[1])
    later = (datetime.fromisoformat(at[1]) + timedelta(microseconds=1)).isoformat()
    assert found[2:] == log(*table, "--since", later)
    assert [] == log(*table, "--since", later, "--until", later)
    assert found == log(*table, "--until", "2999-01-01T00:00:00Z")
    # By actor.
    assert found == log(*table, "--actor", found[0]["actor"])
    assert [] == log(*table, "--actor", "nobody")


def test_a_table_without_a_warehouse_is_refused_if_there_are_several(
    client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog
) -> None:
    """Control: with its warehouse, it is found."""
    shared_catalog.new_warehouse()
    assert 200 == client.call("POST", "/namespaces/a/tables", {"name": "t", "schema": SCHEMA}).status
    refused = icecore(shared_catalog.server.dsn, "log", "--table", "a.t")
    message = "icecore: --table must name its warehouse, because there is more than one: WAREHOUSE:NAMESPACE.TABLE\n"
    assert (2, "", message) == (refused.returncode, refused.stdout, refused.stderr)
    assert 0 == icecore(shared_catalog.server.dsn, "log", "--table", f"{warehouse.name}:a.t").returncode
