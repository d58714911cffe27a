"""Responses of a queue to commands that append nothing depend only on committed states."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from psycopg import AsyncConnection
from uuid_utils.compat import uuid7

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.append_request import AppendRequest, AppendResult
from icecore.commands.execution.command_response import CommandResponse
from icecore.commands.execution.resolver import ResolvedStream
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.update_namespace_properties import update_namespace_properties
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.commit_transaction import commit_transaction
from icecore.commands.tables.create_table import create_table
from icecore.compose import Application
from icecore.database.advisory_locks import AdvisoryLock
from icecore.domain.byte_pieces import joined
from icecore.domain.commands import CommitTable, CommitTransaction, CreateNamespace, CreateTable, UpdateNamespaceProperties
from icecore.domain.errors import CatalogError, CommitFailed, CommitStateUnknown, ServiceUnavailable, TooManyRequests
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.table import TableState
from icecore.queries.load_namespace import load_namespace
from icecore.queries.load_table import load_table
from icecore.storage.large_documents import DocumentReservation
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog

NAMESPACE = NamespaceIdentifier(("n",))
TABLE = TabularIdentifier(NAMESPACE, "t")
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}


class Table:
    """One table in two catalogs with separate queues."""

    def __init__(self, catalogs: list[Application], warehouse: Warehouse, directory: Path) -> None:
        self.catalogs = catalogs
        self.warehouse = warehouse
        self.directory = directory

    async def commit(self, updates: list[dict[str, Any]], requirements: Sequence[dict[str, Any]] = (), process: int = 0) -> CommandResponse:
        command = CommitTable(TABLE, requirements, updates)
        return await commit_table(self.catalogs[process].commands, context("updateTable"), self.warehouse, command)

    async def transaction(self, updates: list[dict[str, Any]]) -> CommandResponse:
        command = CommitTransaction([CommitTable(TABLE, [], updates)])
        return await commit_transaction(self.catalogs[0].commands, context("commitTransaction"), self.warehouse, command)

    def waiting_commands(self) -> int:
        """The commands that wait in the first catalog's queues."""
        return self.catalogs[0].commands.queues.queued

    def metadata_files(self) -> int:
        return len([*self.directory.rglob("*.metadata.json")])

    async def metadata(self) -> dict[str, Any]:
        response = await load_table(self.catalogs[1].queries, context("loadTable"), self.warehouse, TABLE)
        assert response.body is not None
        metadata: dict[str, Any] = orjson.loads(response.body)["metadata"]
        return metadata


@pytest.fixture
async def table(database: str, tmp_path: Path) -> AsyncIterator[Table]:
    """A table whose state the first catalog's queue has cached."""
    async with AsyncExitStack() as opened:
        catalogs = [await opened.enter_async_context(opened_catalog(database, tmp_path / "warehouse")) for _ in range(2)]
        warehouse = await resolve_warehouse(catalogs[0].backends, PROJECT_ID, "demo")
        write = catalogs[0].commands
        await create_namespace(write, context("createNamespace"), warehouse, CreateNamespace(NAMESPACE, {}))
        await create_table(
            write, context("createTable"), warehouse, CreateTable(NAMESPACE, "t", None, SCHEMA, None, None, {}, stage_create=False)
        )
        made = Table(catalogs, warehouse, tmp_path / "warehouse")
        await made.commit([setting("known", "1")])
        yield made


def setting(key: str, value: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {key: value}}


def adding_column(name: str) -> list[dict[str, Any]]:
    fields = [*SCHEMA["fields"], {"id": 2, "name": name, "required": False, "type": "long"}]
    schema = {"type": "struct", "schema-id": 1, "fields": fields}
    return [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]


def last_field(number: int) -> dict[str, Any]:
    return {"type": "assert-last-assigned-field-id", "last-assigned-field-id": number}


def next_append_fails(catalog: Application, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The next batch fails to append; later ones succeed."""
    submit_batch = catalog.commands.committer.submit_batch
    failures = [error]

    async def once(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
        if failures:
            raise failures.pop()
        return await submit_batch(append_requests)

    monkeypatch.setattr(catalog.commands.committer, "submit_batch", once)


@pytest.mark.parametrize("error", [ServiceUnavailable("away"), CommitStateUnknown("lost")])
async def test_nothing_to_change_is_not_answered_behind_a_commit_that_failed(
    table: Table, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The first commit adds a column and fails to append. The second commit, which adds the same column, must not be answered as
    unchanged.
    """
    next_append_fails(table.catalogs[0], monkeypatch, error)
    first, second = await asyncio.gather(table.commit(adding_column("y")), table.commit(adding_column("y")), return_exceptions=True)
    assert error is first
    assert isinstance(second, CommandResponse), second
    assert 2 == (await table.metadata())["last-column-id"]


@pytest.mark.parametrize("by", ["commit", "transaction"])
@pytest.mark.parametrize(
    ("error", "files_left"), [(ServiceUnavailable("away"), 0), (TooManyRequests("full"), 0), (CommitStateUnknown("lost"), 1)]
)
async def test_what_is_surely_not_appended_leaves_no_files(
    table: Table, monkeypatch: pytest.MonkeyPatch, by: str, error: CatalogError, files_left: int
) -> None:
    """If the outcome is unknown, they stay."""
    before = table.metadata_files()
    next_append_fails(table.catalogs[0], monkeypatch, error)
    with pytest.raises(type(error)):
        await (table.commit if by == "commit" else table.transaction)([setting("b", "1")])
    assert before + files_left == table.metadata_files()


async def test_the_state_behind_a_commit_in_doubt_is_read_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is in the log, so the next one must not be decided on the state before it."""
    queues, submit_batch = table.catalogs[0].commands.queues, table.catalogs[0].commands.committer.submit_batch

    async def response_lost(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
        await submit_batch(append_requests)
        raise CommitStateUnknown("lost")

    with monkeypatch.context() as patched:
        patched.setattr(table.catalogs[0].commands.committer, "submit_batch", response_lost)
        with pytest.raises(CommitStateUnknown):
            await table.commit([setting("a", "1")])
    await table.commit([setting("b", "1")])
    assert {"a", "b"} <= {*(await table.metadata())["properties"]}
    assert 0 == queues.metrics.conflicts


async def test_a_refusal_is_not_given_behind_a_commit_that_failed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first commit, whose append fails, violates the requirement of the second. The second succeeds."""
    next_append_fails(table.catalogs[0], monkeypatch, ServiceUnavailable("away"))
    first, second = await asyncio.gather(
        table.commit(adding_column("y"), [last_field(1)]), table.commit(adding_column("z"), [last_field(1)]), return_exceptions=True
    )
    assert isinstance(first, ServiceUnavailable)
    assert isinstance(second, CommandResponse), second


async def test_a_refusal_does_not_rest_on_a_state_that_the_batch_behind_it_disproves(table: Table) -> None:
    """Another process has added the column that the first command adds. The second detects that the queue's cached state is old."""
    await table.commit(adding_column("y"), [last_field(1)], process=1)
    asked, other = await asyncio.gather(
        table.commit([setting("seen", "1")], [last_field(2)]), table.commit([setting("b", "1")]), return_exceptions=True
    )
    assert isinstance(asked, CommandResponse), asked
    assert isinstance(other, CommandResponse), other


@pytest.mark.parametrize("confirmed_by", ["read", "append", "last event"])
async def test_a_state_is_as_old_as_its_request(table: Table, monkeypatch: pytest.MonkeyPatch, confirmed_by: str) -> None:
    """While the response that proves the queue's state is in flight, another process commits, and a request arrives that depends on that
    commit.
    """
    asked, answered = asyncio.Event(), asyncio.Event()
    write = table.catalogs[0].commands
    submit_batch, read, last_event_id = write.committer.submit_batch, ResolvedStream.read, ResolvedStream.last_event_id

    async def slow_append(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
        results = await submit_batch(append_requests)
        if not asked.is_set():
            asked.set()
            await answered.wait()
        return results

    async def slow_read(stream: ResolvedStream[TableState], reservation: DocumentReservation) -> tuple[TableState, int] | None:
        found = await read(stream, reservation)
        if not asked.is_set():
            asked.set()
            await answered.wait()
        return found

    async def slow_last_event_id(stream: ResolvedStream[TableState]) -> UUID | None:
        found = await last_event_id(stream)
        if not asked.is_set():
            asked.set()
            await answered.wait()
        return found

    if confirmed_by == "last event":
        monkeypatch.setattr(ResolvedStream, "last_event_id", slow_last_event_id)
    elif confirmed_by == "append":
        monkeypatch.setattr(write.committer, "submit_batch", slow_append)
    else:
        # After a transaction, the queue has no cached state.
        await table.transaction([setting("b", "1")])
        monkeypatch.setattr(ResolvedStream, "read", slow_read)
    first = asyncio.create_task(table.commit([setting("c", "1")], [] if confirmed_by == "append" else [last_field(7)]))
    await asked.wait()
    await table.commit(adding_column("y"), [last_field(1)], process=1)
    second = asyncio.create_task(table.commit([setting("seen", "1")], [last_field(2)]))
    waiting = 2 if confirmed_by == "read" else 1
    while table.waiting_commands() < waiting:
        await asyncio.sleep(0)
    answered.set()
    outcomes = await asyncio.gather(first, second, return_exceptions=True)
    assert isinstance(outcomes[1], CommandResponse), outcomes
    assert isinstance(outcomes[0], CommandResponse if confirmed_by == "append" else CommitFailed), outcomes


@pytest.mark.parametrize("keyed", [True, False])
async def test_what_changes_nothing_is_answered_as_things_are(table: Table, keyed: bool) -> None:
    """Another process has changed the state that the queue has cached. Neither the response nor the record of the key is from the cached
    state.
    """
    location = (await table.metadata())["location"]
    await table.commit([setting("newer", "1")], process=1)
    command = CommitTable(TABLE, [], [{"action": "set-location", "location": location}])
    keyed_context = context("updateTable", key=uuid7(), request_hash=b"x" * 32) if keyed else context("updateTable")
    for _ in range(2):
        response = await commit_table(table.catalogs[0].commands, keyed_context, table.warehouse, command)
        assert response.body is not None
        assert "1" == orjson.loads(joined(response.body))["metadata"]["properties"]["newer"]


@pytest.mark.parametrize("keyed", [True, False])
async def test_properties_that_are_there_are_answered_as_things_are(table: Table, keyed: bool) -> None:
    """The same for a namespace: another process removed properties, so that the update is a change."""

    async def change(process: int, removals: list[str], updates: dict[str, str], *, key: UUID | None = None) -> None:
        asked = context("updateProperties", key=key, request_hash=b"x" * 32)
        command = UpdateNamespaceProperties(NAMESPACE, removals, updates)
        await update_namespace_properties(table.catalogs[process].commands, asked, table.warehouse, command)

    await change(0, [], {"k": "v"})
    await change(1, ["k"], {})
    await change(0, [], {"k": "v"}, key=uuid7() if keyed else None)
    levels = await load_namespace(table.catalogs[1].queries, context("loadNamespaceMetadata"), table.warehouse, NAMESPACE)
    assert "v" == levels.properties["k"]


async def test_a_requirement_that_does_not_hold_is_refused_still(table: Table) -> None:
    """The control: a requirement that fails is still refused."""
    with pytest.raises(CommitFailed):
        await asyncio.gather(table.commit([setting("a", "1")], [last_field(7)]), table.commit([setting("b", "1")]))


async def test_commands_behind_a_commit_in_doubt_get_503(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response to the first commit is lost and the commit is repeated. The second one, which was not sent, and a transaction need not
    wait for it.
    """
    committer = table.catalogs[0].commands.committer
    submit_batch, doubt = committer.submit_batch, asyncio.Event()

    async def in_doubt(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
        await doubt.wait()
        return await submit_batch(append_requests)

    monkeypatch.setattr(committer, "submit_batch", in_doubt)
    first = asyncio.create_task(table.commit([setting("a", "1")]))
    await asyncio.sleep(0.2)
    waiting = [asyncio.create_task(table.commit([setting("b", "1")])), asyncio.create_task(table.transaction([setting("c", "1")]))]
    await asyncio.sleep(0.2)
    committer.on_unavailable("Postgres cannot be reached")
    async with asyncio.timeout(2):
        heard = await asyncio.gather(*waiting, return_exceptions=True)
    assert ["ServiceUnavailable", "ServiceUnavailable"] == [type(one).__name__ for one in heard]
    doubt.set()
    assert isinstance(await first, CommandResponse)
    assert isinstance(await table.commit([setting("d", "1")]), CommandResponse)
    assert {"a", "d"} == {*(await table.metadata())["properties"]} & {"a", "b", "c", "d"}


async def test_commands_behind_a_stuck_append_lock_get_its_reason(table: Table, database: str) -> None:
    """Another transaction holds the lock. The commit that waits for it, and those behind it, are not told that Postgres is unreachable."""
    async with await AsyncConnection.connect(database) as holder:
        await holder.execute("select pg_advisory_xact_lock(%s)", (int(AdvisoryLock.APPEND),))
        waiting = [asyncio.create_task(table.commit([setting("a", "1")]))]
        async with asyncio.timeout(10):
            while await (await holder.execute("select from pg_locks where locktype = 'advisory' and not granted")).fetchone() is None:
                await asyncio.sleep(0.01)
        waiting += [asyncio.create_task(table.commit([setting("b", "1")])), asyncio.create_task(table.transaction([setting("c", "1")]))]
        heard = await asyncio.gather(*waiting, return_exceptions=True)
    assert [("ServiceUnavailable", "Postgres is busy")] * 3 == [(type(one).__name__, str(one)) for one in heard]
    assert isinstance(await table.commit([setting("d", "1")]), CommandResponse)
