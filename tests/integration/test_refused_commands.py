"""Refused commands leave nothing in memory: no reference cycle keeps their documents until a garbage collection."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from icecore.approval.contract import Hold, Refuse
from icecore.commands.execution.append_request import AppendRequest, AppendResult
from icecore.commands.execution.preloaded_parts import preload_parts
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables import register_table as registering
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.commit_transaction import commit_transaction
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.rename_table import rename_table
from icecore.compose import Application
from icecore.domain.commands import CommitTable, CommitTransaction, CreateNamespace, CreateTable, RenameTable
from icecore.domain.errors import BadRequest, CatalogError, ChangeHeld, ChangeRefused, CommitFailed, CommitStateUnknown, NoSuchTable
from icecore.domain.identifiers import TabularIdentifier
from icecore.projections import tables
from icecore.queries import cache_invalidator
from icecore.queries.load_table import load_table
from tests.fixtures.catalog import catalog, context, opened_catalog, served_catalog
from tests.fixtures.leftovers import nothing_left
from tests.fixtures.rest_client import RestClient
from tests.integration.approval.judging import Judge, asking
from tests.integration.test_large_tables import TABLE, demo, metadata_file, register

__all__ = ["catalog"]

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
OTHER = TabularIdentifier(TABLE.namespace, "other")
WRONG = {"type": "assert-table-uuid", "uuid": "01990000-0000-7000-8000-0000000000ff"}
UPDATE = {"action": "set-properties", "updates": {"a": "b"}}


async def refused(command: Awaitable[Any], error: type[CatalogError]) -> None:
    # Not pytest.raises, which keeps the exception.
    try:
        await command
    except error:
        pass
    else:
        pytest.fail(f"no {error.__name__}")
    # Waiting tasks are resumed by callbacks.
    await asyncio.sleep(0)


async def begin(catalog: Application) -> None:
    await create_namespace(catalog.commands, context("createNamespace"), await demo(catalog), CreateNamespace(TABLE.namespace, {}))


async def create(catalog: Application, table: TabularIdentifier, location: str | None = None) -> None:
    command = CreateTable(table.namespace, table.name, location, SCHEMA, None, None, {}, stage_create=False)
    await create_table(catalog.commands, context("createTable"), await demo(catalog), command)


async def commit(catalog: Application, *requirements: dict[str, Any], table: TabularIdentifier = TABLE) -> None:
    await commit_table(catalog.commands, context("updateTable"), await demo(catalog), CommitTable(table, requirements, [UPDATE]))


async def transaction(catalog: Application, *requirements: dict[str, Any]) -> None:
    command = CommitTransaction([CommitTable(TABLE, [], [UPDATE]), CommitTable(OTHER, requirements, [UPDATE])])
    await commit_transaction(catalog.commands, context("commitTransaction"), await demo(catalog), command)


async def test_of_a_registration_that_append_refuses(catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await begin(catalog)
    location = metadata_file(tmp_path)

    async def stage_and_lose(connections: Any, append_request: AppendRequest, table_id: Any) -> None:
        await preload_parts(connections, append_request, table_id)
        await create(catalog, OTHER, f"file://{tmp_path}/warehouse/large")

    monkeypatch.setattr(registering, "preload_parts", stage_and_lose)
    with nothing_left():
        await refused(register(catalog, location), BadRequest)


@pytest.mark.parametrize("known", [False, True])
async def test_of_a_commit_whose_requirement_does_not_hold(catalog: Application, tmp_path: Path, known: bool) -> None:
    """The queue reads the table, or has its state."""
    await begin(catalog)
    await register(catalog, metadata_file(tmp_path))
    if known:
        await commit(catalog)
    with nothing_left():
        await refused(commit(catalog, WRONG), CommitFailed)


async def test_of_commits_that_lose_to_each_other(catalog: Application, tmp_path: Path) -> None:
    """Of ten that add the second column one succeeds. The others are delayed and refused one by one."""
    await begin(catalog)
    await create(catalog, TABLE)
    fields = [*SCHEMA["fields"], {"id": 2, "name": "y", "required": False, "type": "long"}]
    schema = {"type": "struct", "schema-id": 1, "fields": fields}
    unchanged = {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1}
    command = CommitTable(TABLE, [unchanged], [{"action": "add-schema", "schema": schema}])
    warehouse = await demo(catalog)

    async def add_column() -> bool:
        try:
            await commit_table(catalog.commands, context("updateTable"), warehouse, command)
        except CommitFailed:
            return False
        return True

    with nothing_left():
        assert 1 == sum(await asyncio.gather(*(add_column() for _ in range(10))))
        await asyncio.sleep(0)


async def test_of_a_transaction_whose_requirement_does_not_hold(catalog: Application, tmp_path: Path) -> None:
    await begin(catalog)
    await register(catalog, metadata_file(tmp_path))
    await create(catalog, OTHER)
    with nothing_left():
        await refused(transaction(catalog, WRONG), CommitFailed)


@pytest.mark.parametrize("changes", [commit, transaction])
async def test_of_a_change_that_a_hook_refuses(
    catalog: Application, tmp_path: Path, changes: Callable[[Application], Awaitable[None]]
) -> None:
    await begin(catalog)
    await register(catalog, metadata_file(tmp_path))
    await create(catalog, OTHER)

    async def refuse(_: Any) -> Refuse:
        return Refuse("no")

    judge = Judge()
    judge.say = refuse
    # The judge records what it reviewed.
    judge.shown = type("Forgetful", (list,), {"append": lambda *_: None})()
    asking(judge)(catalog)
    with nothing_left():
        await refused(changes(catalog), ChangeRefused)


async def test_of_a_commit_whose_append_breaks_off(catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await begin(catalog)
    await register(catalog, metadata_file(tmp_path))

    async def broken(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
        raise CommitStateUnknown("lost")

    monkeypatch.setattr(catalog.commands.committer, "submit_batch", broken)
    with nothing_left():
        await refused(commit(catalog), CommitStateUnknown)


async def test_of_a_commit_and_a_load_of_what_cannot_be_read(catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several wait for the same read."""
    await begin(catalog)
    await create(catalog, TABLE)
    warehouse = await demo(catalog)

    async def unreadable(*_: Any) -> Any:
        await asyncio.sleep(0)
        raise CommitStateUnknown("unreadable")

    monkeypatch.setattr(tables, "load_current", unreadable)
    monkeypatch.setattr(catalog.commands.committer, "submit_batch", unreadable)
    with nothing_left():
        loads = [refused(load_table(catalog.queries, context("loadTable"), warehouse, TABLE), CommitStateUnknown) for _ in range(3)]
        commits = [refused(commit(catalog), CommitStateUnknown) for _ in range(3)]
        await asyncio.gather(*loads, *commits)
        await refused(load_table(catalog.queries, context("loadTable"), warehouse, OTHER), CommitStateUnknown)
        await refused(commit(catalog, table=OTHER), NoSuchTable)
        del loads, commits
        # The cached state is only confirmed.
        monkeypatch.undo()
        await load_table(catalog.queries, context("loadTable"), warehouse, TABLE)
        monkeypatch.setattr(cache_invalidator, "read_changes", unreadable)
        await asyncio.gather(
            *(refused(load_table(catalog.queries, context("loadTable"), warehouse, TABLE), CommitStateUnknown) for _ in range(3))
        )


def test_of_a_commit_that_breaks_on_a_fault_of_ours(database: str, tmp_path: Path) -> None:
    """Its trace is logged and released."""

    def prepare(catalog: Application) -> None:
        submit_batch = catalog.commands.committer.submit_batch

        async def broken(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
            if append_requests[0].context.operation == "updateTable":
                raise ZeroDivisionError
            return await submit_batch(append_requests)

        catalog.commands.committer.submit_batch = broken  # type: ignore[method-assign]

    with served_catalog(database, tmp_path / "warehouse", prepare=prepare) as server:
        client = RestClient(server.url)
        client.call("POST", "/namespaces", {"namespace": ["a"]})
        client.call("POST", "/namespaces/a/tables", {"name": "t", "schema": SCHEMA})
        with nothing_left():
            response = client.call("POST", "/namespaces/a/tables/t", {"requirements": [], "updates": [UPDATE]})
            # The connection's handler releases its last request when the next one arrives.
            client.call("GET", "/config")
        client.close()
    assert (500, "CommitStateUnknownException") == response.error


async def test_of_a_commit_that_a_hook_holds(catalog: Application) -> None:
    """Only a proposal in the log is kept."""
    await begin(catalog)
    await create(catalog, TABLE)

    async def hold(_: Any) -> Hold:
        return Hold("wait", 60.0)

    judge = Judge()
    judge.say = hold
    judge.shown = type("Forgetful", (list,), {"append": lambda *_: None})()
    asking(judge)(catalog)
    warehouse = await demo(catalog)
    with nothing_left():
        await refused(commit_table(catalog.commands, context("updateTable"), warehouse, CommitTable(TABLE, [], [UPDATE])), ChangeHeld)


async def test_of_a_commit_whose_name_has_become_stale(catalog: Application) -> None:
    """The queue has the table under a name that another process has given to another one."""
    await begin(catalog)
    await create(catalog, TABLE)
    await commit(catalog)
    warehouse = await demo(catalog)
    async with opened_catalog(catalog.dsn, Path("/", *warehouse.profile.base.segments)) as other:
        await rename_table(other.commands, context("renameTable"), await demo(other), RenameTable(TABLE, OTHER))
    with nothing_left():
        await refused(commit(catalog), NoSuchTable)
