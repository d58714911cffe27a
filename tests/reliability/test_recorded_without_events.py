"""A request with a key that changes nothing is recorded only if the heads it was decided on have not changed meanwhile."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from uuid_utils.compat import uuid7

from icecore.access.request_context import RequestContext
from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.append_request import AppendRequest, AppendResult
from icecore.commands.execution.executor import CommandExecutor
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.commit_transaction import commit_transaction
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.rename_table import rename_table
from icecore.commands.views.commit_view import commit_view
from icecore.commands.views.create_view import create_view
from icecore.commands.views.rename_view import rename_view
from icecore.commands.warehouses.update_warehouse_config import update_warehouse_config
from icecore.compose import Application
from icecore.domain.byte_pieces import joined
from icecore.domain.commands import (
    CommitTable,
    CommitTransaction,
    CommitView,
    CreateNamespace,
    CreateTable,
    CreateView,
    RenameTable,
    RenameView,
)
from icecore.domain.errors import CommitFailed, NoSuchTable, NoSuchView
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.properties import PropertyUpdate
from icecore.domain.warehouse_config import UpdateWarehouseConfig
from icecore.queries.load_table import load_table
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog
from tests.fixtures.rest_client import SCHEMA, set_properties, view_version

NAMESPACE = NamespaceIdentifier(("n",))
FIRST, SECOND, ELSEWHERE, VIEW = (TabularIdentifier(NAMESPACE, name) for name in ("t", "u", "elsewhere", "v"))


WIDER = {"type": "struct", "schema-id": 1, "fields": [*SCHEMA["fields"], {"id": 9, "name": "w", "required": False, "type": "long"}]}
ADDING_COLUMN: list[dict[str, Any]] = [{"action": "add-schema", "schema": WIDER}, {"action": "set-current-schema", "schema-id": -1}]
RESTING = CommitTable(FIRST, [{"type": "assert-current-schema-id", "current-schema-id": 0}], [])
CHANGING = CommitTable(SECOND, [], [set_properties(mine="1")])


@dataclass(frozen=True, slots=True)
class Processes:
    """Two catalogs with separate queues on one database. The first gets the command, the second changes something meanwhile."""

    asked: Application
    other: Application
    warehouse: Warehouse


@pytest.fixture
async def processes(database: str, tmp_path: Path) -> AsyncIterator[Processes]:
    """The tables `t` and `u` and the view `v`."""
    async with AsyncExitStack() as opened:
        asked, other = [await opened.enter_async_context(opened_catalog(database, tmp_path / "warehouse")) for _ in range(2)]
        warehouse, write = await resolve_warehouse(asked.backends, PROJECT_ID, "demo"), asked.commands
        await create_namespace(write, context("createNamespace"), warehouse, CreateNamespace(NAMESPACE, {}))
        for name in ("t", "u"):
            table = CreateTable(NAMESPACE, name, None, SCHEMA, None, None, {}, stage_create=False)
            await create_table(write, context("createTable"), warehouse, table)
        view = CreateView(NAMESPACE, "v", None, SCHEMA, view_version("select 1"), {})
        await create_view(write, context("createView"), warehouse, view)
        yield Processes(asked, other, warehouse)


Command = Callable[[CommandExecutor, RequestContext, Warehouse], Awaitable[object]]


def transaction(*changes: CommitTable) -> Command:
    return partial(commit_transaction, command=CommitTransaction(changes))


async def run(processes: Processes, monkeypatch: pytest.MonkeyPatch, command: Command, meanwhile: Command) -> None:
    """Runs `command` with a key. The other process's change `meanwhile` is committed before the first append of `command`."""
    committer, waiting = processes.asked.commands.committer, [meanwhile]
    submit_batch = committer.submit_batch

    async def after_the_other(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
        if waiting:
            await waiting.pop()(processes.other.commands, context("meanwhile"), processes.warehouse)
        return await submit_batch(append_requests)

    monkeypatch.setattr(committer, "submit_batch", after_the_other)
    # The repeated response depends on the operation.
    asked = context("replaceView", key=uuid7(), request_hash=b"x" * 32)
    try:
        await command(processes.asked.commands, asked, processes.warehouse)
    finally:
        assert [] == waiting, "the command came to no append: the other process did nothing"


async def test_a_view_that_was_changed_meanwhile_is_answered_as_it_is(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response and the record of the key contain what the other process set."""
    view = partial(commit_view, command=CommitView(VIEW, [], []))
    newer = partial(commit_view, command=CommitView(VIEW, [], [set_properties(newer="1")]))
    responses: list[Any] = []

    async def kept(write: CommandExecutor, asked: RequestContext, warehouse: Warehouse) -> None:
        responses.append(await view(write, asked, warehouse))
        responses.append(await view(write, asked, warehouse))

    await run(processes, monkeypatch, kept, newer)
    assert [{"newer": "1"}] * 2 == [orjson.loads(response.body)["metadata"]["properties"] for response in responses]


async def test_a_configuration_that_was_changed_meanwhile_is_answered_as_it_is(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response and the record of the key contain the default that the other process set."""
    unchanged = partial(update_warehouse_config, command=UpdateWarehouseConfig(PropertyUpdate(), PropertyUpdate()))
    newer = UpdateWarehouseConfig(PropertyUpdate((), {"rest-page-size": "7"}), PropertyUpdate())
    responses: list[Any] = []

    async def kept(write: CommandExecutor, asked: RequestContext, warehouse: Warehouse) -> None:
        responses.append(await unchanged(write, asked, warehouse))
        responses.append(await unchanged(write, asked, warehouse))

    await run(processes, monkeypatch, kept, partial(update_warehouse_config, command=newer))
    assert [{"defaults": {"rest-page-size": "7"}, "overrides": {}}] * 2 == [orjson.loads(response.body) for response in responses]


@pytest.mark.parametrize(
    ("rename", "missing"),
    [
        (partial(rename_table, command=RenameTable(FIRST, FIRST)), NoSuchTable),
        (partial(rename_view, command=RenameView(VIEW, VIEW)), NoSuchView),
    ],
    ids=["table", "view"],
)
async def test_a_rename_to_its_own_name_is_refused_where_it_has_another_by_then(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, rename: Command, missing: type[Exception]
) -> None:
    """The other process renames the table first, so the rename must not be recorded as unchanged."""
    moved: Command = partial(rename_table, command=RenameTable(FIRST, ELSEWHERE))
    if missing is NoSuchView:
        moved = partial(rename_view, command=RenameView(VIEW, ELSEWHERE))
    with pytest.raises(missing):
        await run(processes, monkeypatch, rename, moved)


@pytest.mark.parametrize(
    "changes",
    [[RESTING], [RESTING, CommitTable(SECOND, [], [])], [RESTING, CHANGING], [CHANGING, RESTING]],
    ids=["alone", "beside another", "before a change", "after a change"],
)
async def test_a_table_that_a_transaction_leaves_as_it_is_must_stay_so(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, changes: list[CommitTable]
) -> None:
    """Another process adds a column to the table whose schema the transaction requires. The whole transaction is refused."""
    with pytest.raises(CommitFailed):
        await run(processes, monkeypatch, transaction(*changes), partial(commit_table, command=CommitTable(FIRST, [], ADDING_COLUMN)))
    response = await load_table(processes.other.queries, context("loadTable"), processes.warehouse, SECOND)
    assert response.body is not None
    assert "mine" not in orjson.loads(joined(response.body))["metadata"]["properties"]
