"""Small events that refer to large documents: a page loads a limited part of them at a time, and contains every event."""

import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from icecore.api.paging import listing_digest, page_token
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.views.commit_view import commit_view
from icecore.commands.views.create_view import create_view
from icecore.domain.commands import CommitTable, CommitView, CreateTable, CreateView
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from tests.fixtures.catalog import context
from tests.fixtures.command_runs import SCHEMA, CommandRun
from tests.fixtures.rest_client import set_properties, view_version
from tests.fixtures.snapshots import snapshot_updates
from tests.integration.history.serving import Served
from tests.integration.history.test_event_pages import create, head
from tests.integration.history.test_event_stream import roll_back
from tests.integration.history.test_iceberg_events import query

ROUNDS = 40
LARGE = "x" * 700_000
PEAK_BYTES_MAX = 16_000_000
"""Limit on Python's memory during a page. Parsing reserves twelve times a document's bytes. Forty large ones are 28 MB."""
TABLE = TabularIdentifier(NamespaceIdentifier(("a",)), "t")


async def commit(run: CommandRun, *updates: dict[str, Any]) -> None:
    await commit_table(run.catalog.commands, context("updateTable"), run.warehouse, CommitTable(TABLE, [], updates))


async def create_first(run: CommandRun, properties: dict[str, str]) -> None:
    await create(run, "a")
    command = CreateTable(TABLE.namespace, TABLE.name, None, SCHEMA, None, None, properties, stage_create=False)
    await create_table(run.catalog.commands, context("createTable"), run.warehouse, command)


async def table_with_a_large_head(run: CommandRun, folder: Path) -> None:
    await create_first(run, {"large": LARGE})
    for number in range(ROUNDS):
        await commit(run, set_properties(n=str(number)))


async def large_view(run: CommandRun, folder: Path) -> None:
    await create(run, "a")
    command = CreateView(TABLE.namespace, TABLE.name, None, SCHEMA, view_version("select 1"), {"large": LARGE})
    await create_view(run.catalog.commands, context("createView"), run.warehouse, command)
    for number in range(ROUNDS):
        command = CommitView(TABLE, [], [set_properties(n=str(number))])
        await commit_view(run.catalog.commands, context("replaceView"), run.warehouse, command)


async def large_statistics_removed(run: CommandRun, folder: Path) -> None:
    await create_first(run, {})
    for number in range(1, ROUNDS + 1):
        snapshot, ref = snapshot_updates((folder / f"snap-{number}.avro").as_uri(), number)
        blob = {"type": "x", "snapshot-id": number, "sequence-number": number, "fields": [], "properties": {"large": LARGE}}
        sizes = {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
        path = (folder / f"statistics-{number}").as_uri()
        statistics = {"snapshot-id": number, "statistics-path": path, **sizes, "blob-metadata": [blob]}
        await commit(run, snapshot, ref, {"action": "set-statistics", "snapshot-id": number, "statistics": statistics})
    for number in range(1, ROUNDS + 1):
        await commit(run, {"action": "remove-statistics", "snapshot-id": number})


async def peak_while(asked: Callable[[], Awaitable[Any]]) -> tuple[Any, int]:
    """The response, and the peak of allocated memory meanwhile."""
    tracemalloc.start()
    try:
        return await asked(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("prepare", [table_with_a_large_head, large_view])
async def test_a_history_page_is_made_of_one_large_document_after_the_other(
    served: Served, run: CommandRun, tmp_path: Path, prepare: Callable[[CommandRun, Path], Awaitable[None]]
) -> None:
    await prepare(run, tmp_path / "warehouse")
    end, position = await head(served), await head(served) - ROUNDS
    seen: list[int] = []
    while position < end:
        page, peak = await peak_while(lambda: served.get("/events", after=position, page_size=10_000))  # noqa: B023
        assert peak < PEAK_BYTES_MAX
        seen += page.positions
        position = page.json["position"]
    assert list(range(end - ROUNDS + 1, end + 1)) == seen


@pytest.mark.parametrize("prepare", [table_with_a_large_head, large_view, roll_back, large_statistics_removed])
async def test_a_page_of_icebergs_events_is_made_of_one_large_document_after_the_other(
    served: Served, run: CommandRun, tmp_path: Path, prepare: Callable[[CommandRun, Path], Awaitable[None]]
) -> None:
    """If a page ends early, its token continues with the next event."""
    await prepare(run, tmp_path / "warehouse")
    async with served.catalog.backends.connection() as connection:
        cursor = await connection.execute("select event_id::text from icecore.events order by notification_id desc limit %s", [ROUNDS])
        ids = [row[0] for row in await cursor.fetchall()][::-1]
    token = page_token(listing_digest("queryEvents", run.warehouse.prefix), str(await head(served) - ROUNDS))
    listed: list[dict[str, Any]] = []
    while not listed or listed[-1]["event-id"] != ids[-1]:
        page, peak = await peak_while(lambda: query(served, page_size=10_000, continuation_token=token))  # noqa: B023
        assert 200 == page.status
        assert peak < PEAK_BYTES_MAX
        listed += page.json["events"]
        token = page.json["continuation-token"]
    assert ids == [event["event-id"] for event in listed]
    if prepare is large_statistics_removed:
        removals = [update for event in listed for update in event["operation"]["updates"]]
        assert [{"action": "remove-statistics", "snapshot-id": number} for number in range(1, ROUNDS + 1)] == removals
