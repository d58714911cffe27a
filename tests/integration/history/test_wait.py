"""GET /history/v1/wait: waits until the log has reached a position, or a table a snapshot."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.drop_table import drop_table
from icecore.commands.tables.rename_table import rename_table
from icecore.domain.commands import CommitTable, DropTable, RenameTable
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.log import follow
from icecore.log.head import log_head
from icecore.queries import snapshot_ancestry
from icecore.queries.load_table import load_table
from tests.fixtures.catalog import context, opened_catalog
from tests.fixtures.command_runs import CommandRun, Step
from tests.integration.history.serving import Answered, Served
from tests.integration.history.test_event_pages import create, head, until_followed

TABLE = TabularIdentifier(NamespaceIdentifier(("a",)), "t")


@pytest.fixture
async def table(run: CommandRun) -> CommandRun:
    """The table `a.t`, without a snapshot."""
    await run.step(Step("create_namespace"))
    await run.step(Step("create_table", other=1))
    return run


async def commit(run: CommandRun, *updates: dict[str, Any]) -> int:
    """Commits, and returns the position."""
    return (await commit_table(run.catalog.commands, context("updateTable"), run.warehouse, CommitTable(TABLE, [], list(updates)))).position


async def metadata(run: CommandRun) -> dict[str, Any]:
    response = await load_table(run.catalog.queries, context("loadTable"), run.warehouse, TABLE)
    assert response.body is not None
    document: dict[str, Any] = orjson.loads(response.body)["metadata"]
    return document


async def add(run: CommandRun, snapshot_id: int, parent: int | None, *branches: str) -> int:
    """Adds a snapshot and sets branches to it."""
    document = await metadata(run)
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": document["last-sequence-number"] + 1,
        "timestamp-ms": document["last-updated-ms"] + 1,
        "manifest-list": f"{document['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    } | ({} if parent is None else {"parent-snapshot-id": parent})
    return await commit(run, {"action": "add-snapshot", "snapshot": snapshot}, *(point(branch, snapshot_id) for branch in branches))


def point(branch: str, snapshot_id: int) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": branch, "type": "branch", "snapshot-id": snapshot_id}


async def ask(served: Served, snapshot_id: int, seconds: float = 0) -> Answered:
    return await served.get("/wait", warehouse="demo", namespace="a", table="t", snapshot_id=snapshot_id, wait_seconds=seconds)


async def reached(served: Served, *snapshot_ids: int) -> list[bool]:
    return [(await ask(served, each)).json["reached"] for each in snapshot_ids]


async def test_a_position_that_is_there_is_reached(served: Served, run: CommandRun) -> None:
    """At once. The response has the end of the log."""
    position = await create(run, "n")
    assert {"reached": True, "position": position} == (await served.get("/wait", position=position)).json
    assert {"reached": False, "position": position} == (await served.get("/wait", position=position + 1, wait_seconds=0)).json
    assert {"reached": False, "position": position} == (await served.get("/wait", position=position + 1, wait_seconds=0.2)).json


async def test_a_position_to_come_is_waited_for(served: Served, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process commits, which wakes the waiting request."""
    monkeypatch.setattr(follow, "POLL_SECONDS_MAX", 60.0)
    async with opened_catalog(database, tmp_path / "warehouse") as other:
        elsewhere = await CommandRun.on(other)
        end = await head(served)
        asked = asyncio.create_task(served.get("/wait", position=end + 2, wait_seconds=60))
        await until_followed(served, 1)
        await create(elsewhere, "first")
        await create(elsewhere, "second")
        async with asyncio.timeout(20):
            assert {"reached": True, "position": end + 2} == (await asked).json


async def test_a_snapshot_to_come_is_waited_for(served: Served, table: CommandRun) -> None:
    """Other commits, a rename, and events of other tables do not end the wait."""
    asked = asyncio.create_task(ask(served, 2, 60))
    await until_followed(served, 1)
    await create(table, "other")
    await add(table, 1, None, "main")
    moved = RenameTable(TABLE, TabularIdentifier(TABLE.namespace, "moved"))
    await rename_table(table.catalog.commands, context("renameTable"), table.warehouse, moved)
    back = RenameTable(moved.destination, TABLE)
    await rename_table(table.catalog.commands, context("renameTable"), table.warehouse, back)
    position = await add(table, 2, 1, "main")
    response = (await asked).json
    assert (True, 2) == (response["reached"], response["current-snapshot-id"])
    assert position <= response["position"]


async def test_a_snapshot_committed_during_the_look_is_in_the_log(
    served: Served, table: CommandRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit comes between reading the end of the log and reading the table. A read at the position of the response has it."""
    committed: list[int] = []

    async def read_then_commit(connection: Any) -> int:
        position = await log_head(connection)
        if not committed:
            committed.append(await add(table, 1, None, "main"))
        return position

    monkeypatch.setattr(snapshot_ancestry, "log_head", read_then_commit)
    response = (await ask(served, 1)).json
    assert [(True, response["position"])] == [(response["reached"], position) for position in committed]


async def test_what_was_or_leads_to_the_current_snapshot_is_reached(served: Served, table: CommandRun) -> None:
    """Ancestors, snapshots of merged branches, those before a roll-back, and expired ones; but not those that were never on the way to a
    current one.
    """
    assert [False] == await reached(served, 1)
    await add(table, 1, None, "main")
    await add(table, 2, 1, "main")
    assert [True, True, False] == await reached(served, 1, 2, 3)
    # A snapshot without a branch, as for an audit.
    await add(table, 3, 2)
    await add(table, 4, 3, "audit")
    assert [False, False] == await reached(served, 3, 4)
    await commit(table, point("main", 4))
    assert [True, True] == await reached(served, 3, 4)
    # After a roll-back, the former snapshot stays reached.
    await commit(table, point("main", 1), {"action": "remove-snapshot-ref", "ref-name": "audit"})
    assert [True] * 4 == await reached(served, 1, 2, 3, 4)
    await commit(table, {"action": "remove-snapshots", "snapshot-ids": [2, 3, 4]})
    assert [True, True, True] == await reached(served, 1, 2, 4)
    assert 1 == (await ask(served, 2)).json["current-snapshot-id"]


async def test_two_snapshots_of_one_commit_are_reached(served: Served, table: CommandRun) -> None:
    """The first one was never current after a commit."""
    document = await metadata(table)
    snapshots = [
        {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": document["last-updated-ms"] + number,
            "manifest-list": f"{document['location']}/metadata/snap-{number}.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        | ({"parent-snapshot-id": number - 1} if number > 1 else {})
        for number in (1, 2)
    ]
    updates = [[{"action": "add-snapshot", "snapshot": each}, point("main", each["snapshot-id"])] for each in snapshots]
    await commit(table, *updates[0], *updates[1])
    assert [True, True] == await reached(served, 1, 2)


async def test_a_table_that_is_dropped_is_not_waited_for(served: Served, table: CommandRun) -> None:
    """The waiting request gets 404."""
    asked = asyncio.create_task(ask(served, 1, 60))
    await until_followed(served, 1)
    await drop_table(table.catalog.commands, context("dropTable"), table.warehouse, DropTable(TABLE, purge_requested=False))
    assert (404, "NoSuchTableException") == (await asked).error
    assert (404, "NoSuchTableException") == (await ask(served, 1)).error


REFUSED: list[tuple[dict[str, str], tuple[int, str]]] = [
    ({}, (400, "BadRequestException")),
    ({"position": "x"}, (400, "BadRequestException")),
    ({"position": "1", "table": "t"}, (400, "BadRequestException")),
    ({"position": "1", "wait-seconds": "long"}, (400, "BadRequestException")),
    ({"warehouse": "demo", "namespace": "a", "table": "t"}, (400, "BadRequestException")),
    ({"warehouse": "demo", "table": "t", "snapshot-id": "1"}, (400, "BadRequestException")),
    ({"warehouse": "demo", "namespace": "a", "table": "t", "snapshot-id": "-1"}, (400, "BadRequestException")),
    ({"warehouse": "demo", "namespace": "a", "table": "t", "snapshot-id": "9" * 5000}, (400, "BadRequestException")),
    ({"warehouse": "demo", "namespace": "a", "table": "t", "snapshot-id": str(2**63)}, (400, "BadRequestException")),
    ({"warehouse": "demo", "namespace": "a\0", "table": "t", "snapshot-id": "1"}, (400, "BadRequestException")),
    ({"warehouse": "demo", "namespace": "a", "table": "\0", "snapshot-id": "1"}, (400, "BadRequestException")),
    ({"warehouse": "demo@1", "namespace": "a", "table": "t", "snapshot-id": "1"}, (400, "BadRequestException")),
    ({"warehouse": "none", "namespace": "a", "table": "t", "snapshot-id": "1"}, (404, "NoSuchWarehouseException")),
    ({"warehouse": "demo", "namespace": "a", "table": "none", "snapshot-id": "1"}, (404, "NoSuchTableException")),
    ({"warehouse": "demo", "namespace": "none", "table": "t", "snapshot-id": "1"}, (404, "NoSuchTableException")),
]


async def test_what_cannot_be_meant_is_refused(served: Served, table: CommandRun) -> None:
    """400, and the log is unchanged."""
    before = await head(served)
    answered = [(query, (await served.ask("GET", "/history/v1/wait", query=query)).error) for query, _ in REFUSED]
    assert REFUSED == answered
    assert before == await head(served)


async def test_the_only_warehouse_need_not_be_named(served: Served, table: CommandRun) -> None:
    """As elsewhere. Levels of a namespace are joined as in every path."""
    await add(table, 1, None, "main")
    answered = await served.get("/wait", namespace="A", table="T", snapshot_id=1)
    assert answered.json["reached"]
    await table.step(Step("create_namespace", 1))
    await table.step(Step("create_table", 1))
    nested = await served.get("/wait", namespace="a\x1fb", table="t", snapshot_id=1, wait_seconds=0)
    assert (False, None) == (nested.json["reached"], nested.json["current-snapshot-id"])
