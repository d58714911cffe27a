"""A value that increases in the summaries of a table's snapshots, over HTTP: of two jobs that commit the same work, one wins."""

from typing import Any

import pytest

from icecore.domain.metadata.increasing_summary import KEY_PROPERTY, VALUE_PROPERTY
from tests.fixtures.rest_client import RestClient, table_path

KEY = "log-position"


@pytest.fixture
def table(client: RestClient) -> RestClient:
    """Of format version 1, whose snapshots have no sequence numbers, which would order them too."""
    client.create_namespace("a")
    assert 200 == client.create_table(["a"], "landed", properties={KEY_PROPERTY: KEY, "format-version": "1"}).status
    return client


def location(client: RestClient) -> str:
    found: str = client.load_table(["a"], "landed").json["metadata"]["location"]
    return found


def add_snapshot(client: RestClient, snapshot_id: int, value: str) -> dict[str, Any]:
    snapshot = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": 1_700_000_000_000,
        "manifest-list": f"{location(client)}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append", KEY: value},
        "schema-id": 0,
    }
    return {"action": "add-snapshot", "snapshot": snapshot}


@pytest.mark.parametrize("stage", [False, True])
def test_a_new_table_has_no_last_value(client: RestClient, stage: bool) -> None:
    """Whatever its creation says: the catalog sets it."""
    client.create_namespace("a")
    properties = {KEY_PROPERTY: KEY, VALUE_PROPERTY: "500", "format-version": "1"}
    created = client.create_table(["a"], "landed", properties=properties, **({"stage-create": True} if stage else {}))
    assert 200 == created.status
    assert VALUE_PROPERTY not in created.json["metadata"]["properties"]
    if not stage:
        assert 200 == client.commit(["a"], "landed", add_snapshot(client, 1, "10")).status


def test_a_commit_out_of_order_is_refused_with_its_own_type(table: RestClient) -> None:
    """409, and nothing changes. The value is a property of the table."""
    assert 200 == table.commit(["a"], "landed", add_snapshot(table, 1, "10")).status
    before = table.load_table(["a"], "landed").json
    assert "10" == before["metadata"]["properties"][VALUE_PROPERTY]
    refused = table.commit(["a"], "landed", add_snapshot(table, 2, "10"))
    assert (409, "SummaryOutOfOrderException") == refused.error
    assert before == table.load_table(["a"], "landed").json


def test_of_many_jobs_at_once_one_commits_each_value(table: RestClient) -> None:
    """Four jobs commit the same three pieces of work, without requirements."""
    for value in range(1, 4):
        body = [{"requirements": [], "updates": [add_snapshot(table, value * 10 + job, str(value))]} for job in range(4)]
        sent = [("POST", table_path(["a"], "landed"), each, None) for each in body]
        assert [200, 409, 409, 409] == sorted(response.status for response in table.together(sent))
    snapshots = table.load_table(["a"], "landed").json["metadata"]["snapshots"]
    assert ["1", "2", "3"] == [each["summary"][KEY] for each in snapshots]
