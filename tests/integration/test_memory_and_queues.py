"""Waiting for memory for large documents does not block an object's queue, and cannot deadlock."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from icecore.approval.contract import ALLOW, Refuse, Verdict
from icecore.approval.hooks import ApprovalHooks, ConfiguredHook
from icecore.commands.execution.command_response import CommandResponse
from icecore.commands.execution.stream_queues import QUEUE_WAIT_SECONDS_MAX
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.drop_namespace import drop_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.commit_transaction import commit_transaction
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.rename_table import rename_table
from icecore.commands.views.create_view import create_view
from icecore.commands.views.rename_view import rename_view
from icecore.compose import Application
from icecore.domain.byte_pieces import joined
from icecore.domain.commands import (
    CommitTable,
    CommitTransaction,
    CreateNamespace,
    CreateTable,
    CreateView,
    DropNamespace,
    RenameTable,
    RenameView,
)
from icecore.domain.errors import BadRequest, ChangeRefused, CommitFailed, NoSuchTable
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.log.head import log_head
from icecore.queries.load_table import load_table
from tests.fixtures.catalog import catalog, context, opened_catalog
from tests.integration.approval.judging import Judge, asking
from tests.integration.test_large_tables import TABLE, demo, metadata_file, register

__all__ = ["catalog"]

UPDATE = {"action": "set-properties", "updates": {"a": "b"}}


@pytest.fixture
async def begun(catalog: Application) -> Application:
    await create_namespace(catalog.commands, context("createNamespace"), await demo(catalog), CreateNamespace(TABLE.namespace, {}))
    return catalog


async def create(catalog: Application, name: str) -> None:
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
    command = CreateTable(TABLE.namespace, name, None, schema, None, None, {}, stage_create=False)
    await create_table(catalog.commands, context("createTable"), await demo(catalog), command)


async def commit(catalog: Application) -> None:
    await commit_table(catalog.commands, context("updateTable"), await demo(catalog), CommitTable(TABLE, [], [UPDATE]))


async def refused(catalog: Application) -> None:
    """A commit whose requirement fails."""
    command = CommitTable(TABLE, [{"type": "assert-last-assigned-field-id", "last-assigned-field-id": 7}], [UPDATE])
    await commit_table(catalog.commands, context("updateTable"), await demo(catalog), command)


async def transaction(catalog: Application, *tables: TabularIdentifier) -> CommandResponse:
    command = CommitTransaction([CommitTable(table, [], [UPDATE]) for table in tables or [TABLE]])
    return await commit_transaction(catalog.commands, context("commitTransaction"), await demo(catalog), command)


async def waiting(catalog: Application, command: Awaitable[Any], before: int) -> "asyncio.Task[Any]":
    """The running command, once that many requests wait for memory."""
    task = asyncio.ensure_future(command)
    async with asyncio.timeout(30):
        while len(catalog.commands.large_documents._waiting) <= before:
            await asyncio.sleep(0.01)
    assert isinstance(task, asyncio.Task)
    return task


async def test_a_registration_that_waits_for_memory_blocks_no_queue(begun: Application, tmp_path: Path) -> None:
    """Commits to the table to be overwritten are answered meanwhile."""
    await create(begun, TABLE.name)
    async with begun.commands.large_documents.reservation() as reservation:
        await reservation.reserve_all()
        overwriting = await waiting(begun, register(begun, metadata_file(tmp_path, snapshots=5_000), overwrite=True), 0)
        async with asyncio.timeout(QUEUE_WAIT_SECONDS_MAX / 2):
            await commit(begun)
        assert not overwriting.done()
    await overwriting


async def test_a_load_of_a_past_waits_for_memory(begun: Application, tmp_path: Path) -> None:
    """As does one of the current state. That of a small table does not, and a missing one is refused at once."""
    await register(begun, metadata_file(tmp_path, snapshots=10_000))
    await create(begun, "small")
    async with begun.backends.connection() as connection:
        past = f"@{await log_head(connection)}"
    small = TabularIdentifier(TABLE.namespace, "small")
    async with begun.commands.large_documents.reservation() as reservation:
        await reservation.reserve_all()
        loading = await waiting(begun, load_table(begun.queries, context("loadTable"), await demo(begun, past), TABLE), 0)
        assert (await load_table(begun.queries, context("loadTable"), await demo(begun, past), small)).body
        with pytest.raises(NoSuchTable):
            await load_table(begun.queries, context("loadTable"), await demo(begun, past), TabularIdentifier(TABLE.namespace, "nowhere"))
        assert not loading.done()
    body = (await loading).body
    assert body is not None
    assert joined(body) == joined((await load_table(begun.queries, context("loadTable"), await demo(begun), TABLE)).body or b"")


@pytest.mark.parametrize("commits_first", [False, True])
async def test_a_queue_that_waits_for_memory_yields_to_a_command_that_has_it(
    begun: Application, tmp_path: Path, commits_first: bool
) -> None:
    """A transaction holds the memory that the commit before it waits for; or the commit holds it and the transaction waits."""
    await register(begun, metadata_file(tmp_path, snapshots=10_000))
    documents = begun.commands.large_documents
    # Enough for the table, and not for two of it.
    documents.bytes_max = 4_000_000
    begun.commands.queues._queues.clear()
    order = [commit, transaction] if commits_first else [transaction, commit]
    async with documents.reservation() as reservation:
        await reservation.reserve_all()
        tasks = [await waiting(begun, command(begun), before) for before, command in enumerate(order)]
    async with asyncio.timeout(QUEUE_WAIT_SECONDS_MAX / 2):
        await asyncio.gather(*tasks)
    assert documents._bytes_in_use == 0


async def test_a_rename_that_waits_for_memory_blocks_no_queue(begun: Application, tmp_path: Path) -> None:
    """Commits to the table whose state is cached, which need no memory, are answered meanwhile."""
    await register(begun, metadata_file(tmp_path, snapshots=10_000))
    await commit(begun)
    command = RenameTable(TABLE, TabularIdentifier(TABLE.namespace, "other"))
    async with begun.commands.large_documents.reservation() as reservation:
        await reservation.reserve_all()
        renaming = await waiting(begun, rename_table(begun.commands, context("renameTable"), await demo(begun), command), 0)
        async with asyncio.timeout(QUEUE_WAIT_SECONDS_MAX / 2):
            await commit(begun)
        assert not renaming.done()
    assert 204 == (await renaming).status
    assert begun.commands.large_documents._bytes_in_use == 0


LARGE = "x" * 1_100_000


async def drop_a_large_namespace(catalog: Application) -> CommandResponse:
    namespace = NamespaceIdentifier(("large",))
    warehouse = await demo(catalog)
    await create_namespace(catalog.commands, context("createNamespace"), warehouse, CreateNamespace(namespace, {"k": LARGE}))
    return await drop_namespace(catalog.commands, context("dropNamespace"), warehouse, DropNamespace(namespace))


async def rename_a_large_view(catalog: Application) -> CommandResponse:
    schema = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1_800_000_000_000,
        "summary": {},
        "representations": [{"type": "sql", "sql": "select 1 as x", "dialect": "spark"}],
        "default-namespace": [*TABLE.namespace.levels],
    }
    warehouse, command = await demo(catalog), CreateView(TABLE.namespace, "v", None, schema, version, {"k": LARGE})
    await create_view(catalog.commands, context("createView"), warehouse, command)
    rename = RenameView(TabularIdentifier(TABLE.namespace, "v"), TabularIdentifier(TABLE.namespace, "w"))
    return await rename_view(catalog.commands, context("renameView"), warehouse, rename)


@pytest.mark.parametrize("command", [drop_a_large_namespace, rename_a_large_view])
async def test_large_views_and_namespaces_wait_for_memory_before_their_queues(
    begun: Application, command: Callable[[Application], Awaitable[CommandResponse]]
) -> None:
    """As for large tables. Their size is read first."""
    async with begun.commands.large_documents.reservation() as reservation:
        await reservation.reserve_all()
        task = await waiting(begun, command(begun), 0)
        assert {} == begun.commands.queues._queues
    assert 204 == (await task).status
    assert begun.commands.large_documents._bytes_in_use == 0


async def test_a_transaction_over_small_tables_needs_no_reserved_memory_and_has_a_limit(begun: Application) -> None:
    """If the tables together exceed the limit, the transaction is refused. A single one may have any size."""
    other = TabularIdentifier(TABLE.namespace, "other")
    for table in (TABLE, other):
        await create(begun, table.name)
    async with begun.commands.large_documents.reservation() as reservation:
        await reservation.reserve_all()
        async with asyncio.timeout(QUEUE_WAIT_SECONDS_MAX / 2):
            assert 204 == (await transaction(begun, TABLE, other)).status
    begun.commands.large_documents.bytes_max = 1
    with pytest.raises(BadRequest, match="together is larger than 1 bytes"):
        await transaction(begun, TABLE, other)
    assert 204 == (await transaction(begun)).status


async def test_a_refusal_that_waits_for_memory_yields_to_a_command_that_has_it(begun: Application, database: str, tmp_path: Path) -> None:
    """A commit is refused on a cached state that another process has changed. The transaction behind it has the memory to read the
    state.
    """
    await register(begun, metadata_file(tmp_path, snapshots=10_000))
    await commit(begun)
    async with opened_catalog(database, tmp_path / "warehouse") as other:
        await commit(other)
    begun.commands.large_documents.bytes_max = 1
    async with begun.commands.large_documents.reservation() as reservation:
        await reservation.reserve_all()
        tasks = [await waiting(begun, transaction(begun), 0), await waiting(begun, refused(begun), 1)]
    async with asyncio.timeout(QUEUE_WAIT_SECONDS_MAX / 2):
        response, refusal = await asyncio.gather(*tasks, return_exceptions=True)
    assert (204, CommitFailed) == (response.status, type(refusal))
    assert begun.commands.large_documents._bytes_in_use == 0


async def test_a_command_behind_a_refusal_that_waits_for_memory_is_still_decided(begun: Application, database: str, tmp_path: Path) -> None:
    """A hook refuses the first commit. The commit behind it in the batch waits with it, while the transaction proceeds."""
    await register(begun, metadata_file(tmp_path, snapshots=10_000))
    await commit(begun)
    async with opened_catalog(database, tmp_path / "warehouse") as other:
        await commit(other)
    judge = Judge()
    judge.say = lambda change: Refuse("bad") if "bad" in change.objects[0].after["properties"] else ALLOW  # type: ignore[index]
    asking(judge)(begun)
    bad = CommitTable(TABLE, [], [{"action": "set-properties", "updates": {"bad": "1"}}])
    begun.commands.large_documents.bytes_max = 4_000_000
    async with begun.commands.large_documents.reservation() as reservation:
        await reservation.reserve_all()
        passing = await waiting(begun, transaction(begun), 0)
        refusing = asyncio.create_task(commit_table(begun.commands, context("updateTable"), await demo(begun), bad))
        behind = await waiting(begun, commit(begun), 1)
    async with asyncio.timeout(QUEUE_WAIT_SECONDS_MAX / 2):
        response, refusal, _ = await asyncio.gather(passing, refusing, behind, return_exceptions=True)
    assert (204, ChangeRefused, None) == (response.status, type(refusal), behind.exception())


async def test_a_change_under_review_holds_only_its_own_memory(begun: Application, tmp_path: Path) -> None:
    """A metadata file has the whole limit only until it has been read, because a hook may take a minute."""
    await register(begun, metadata_file(tmp_path, snapshots=10_000))
    asked, answered = asyncio.Event(), asyncio.Event()

    class Slow:
        async def review(self, change: Any) -> Verdict:
            asked.set()
            await answered.wait()
            return ALLOW

    begun.commands.decision_writer.approval_hooks = ApprovalHooks([ConfiguredHook("slow", Slow(), 60, "refuse")], begun.backends.connection)
    registering = asyncio.create_task(register(begun, metadata_file(tmp_path, "other", 2_000), "other"))
    async with asyncio.timeout(30):
        await asked.wait()
    async with asyncio.timeout(10):
        await load_table(begun.queries, context("loadTable"), await demo(begun), TABLE)
    answered.set()
    await registering
    assert begun.commands.large_documents._bytes_in_use == 0
