"""Queues: commands on one object in one and in two processes, on a real Postgres."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import psycopg
import pytest
import structlog
from psycopg import AsyncConnection
from uuid_utils.compat import uuid7

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution import committer, stream_queue, stream_queues
from icecore.commands.execution.append_request import AppendRequest, AppendResult
from icecore.commands.execution.command_response import CommandResponse
from icecore.commands.execution.resolver import ResolvedStream
from icecore.commands.execution.stream_queue import StreamQueue
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.commit_transaction import commit_transaction
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.drop_table import drop_table
from icecore.commands.tables.rename_table import rename_table
from icecore.compose import Application
from icecore.domain.commands import CommitTable, CommitTransaction, CreateNamespace, CreateTable, DropTable, RenameTable
from icecore.domain.errors import (
    AlreadyExists,
    BadRequest,
    CommitFailed,
    CommitStateUnknown,
    InternalError,
    NoSuchTable,
    ServiceUnavailable,
    TooManyRequests,
)
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.projections import names
from icecore.projections.verify import verify
from icecore.queries.load_table import load_table
from icecore.storage.local_store import LocalStore
from icecore.storage.locations import StorageLocation
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog

NAMESPACE = NamespaceIdentifier(("a",))
WRITERS = 32


class Process:
    """One catalog process with commands on tables of one namespace."""

    def __init__(self, catalog: Application, warehouse: Warehouse) -> None:
        self.catalog = catalog
        self.warehouse = warehouse

    async def create(self, name: str) -> None:
        schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
        command = CreateTable(NAMESPACE, name, None, schema, None, None, {}, stage_create=False)
        await create_table(self.catalog.commands, context("createTable"), self.warehouse, command)

    async def set(self, name: str, properties: dict[str, str], *requirements: dict[str, Any]) -> CommandResponse:
        return await commit_table(self.catalog.commands, context("updateTable"), self.warehouse, setting(name, properties, *requirements))

    async def metadata(self, name: str) -> dict[str, Any]:
        response = await load_table(self.catalog.queries, context("loadTable"), self.warehouse, identifier(name))
        assert response.body is not None
        metadata: dict[str, Any] = orjson.loads(response.body)["metadata"]
        return metadata


def identifier(name: str) -> TabularIdentifier:
    return TabularIdentifier(NAMESPACE, name)


def setting(name: str, properties: dict[str, str], *requirements: dict[str, Any]) -> CommitTable:
    return CommitTable(identifier(name), requirements, [{"action": "set-properties", "updates": properties}])


def metadata_files(directory: Path) -> int:
    return len([*directory.rglob("*.metadata.json")])


async def process(catalog: Application) -> Process:
    return Process(catalog, await resolve_warehouse(catalog.backends, PROJECT_ID, "demo"))


@pytest.fixture
async def one(catalog: Application) -> Process:
    """A process, and a table `t`."""
    opened = await process(catalog)
    await create_namespace(catalog.commands, context("createNamespace"), opened.warehouse, CreateNamespace(NAMESPACE, {}))
    await opened.create("t")
    return opened


@pytest.fixture
async def two(one: Process, database: str, tmp_path: Path) -> AsyncIterator[tuple[Process, Process]]:
    """Two processes on one database."""
    async with AsyncExitStack() as stack:
        yield one, await process(await stack.enter_async_context(opened_catalog(database, tmp_path / "warehouse")))


async def test_commits_that_do_not_conflict_go_in_batches(one: Process) -> None:
    """32 writers of properties on one table: every commit succeeds, and they are not appended one by one."""
    rounds = 8

    async def write(writer: int) -> None:
        for n in range(rounds):
            await one.set("t", {f"writer-{writer}": str(n)})

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    metadata = await one.metadata("t")
    written = {f"writer-{writer}": str(rounds - 1) for writer in range(WRITERS)}
    assert written == {key: value for key, value in metadata["properties"].items() if key.startswith("writer-")}
    figures = one.catalog.commands.queues.metrics
    assert WRITERS * rounds == sum(length * batches for length, batches in figures.batch_lengths.items())
    assert WRITERS * rounds / figures.batch_lengths.total() >= 8
    assert 0 == figures.conflicts
    assert (await verify(one.catalog.dsn)).ok


async def test_a_process_with_an_old_memory_decides_on_the_newest_state(two: tuple[Process, Process]) -> None:
    """The other process's changes are neither overwritten nor a reason to refuse."""
    first, second = two
    await first.set("t", {"a": "1"})
    await second.set("t", {"b": "1"})
    await first.set("t", {"c": "1"})
    properties = (await second.metadata("t"))["properties"]
    assert {"a": "1", "b": "1", "c": "1"} == {key: properties.get(key) for key in "abc"}


async def test_a_batch_that_loses_to_another_process_is_counted_and_tried_one_by_one(two: tuple[Process, Process], tmp_path: Path) -> None:
    """Only until a commit succeeds, then in batches again. Unused files are deleted."""
    first, second = two
    await first.set("t", {"warm": "the queue"})
    await second.set("t", {"b": "1"})
    figures = first.catalog.commands.queues.metrics
    assert 0 == figures.conflicts
    before, files = figures.batch_lengths.copy(), metadata_files(tmp_path)
    await asyncio.gather(*(first.set("t", {f"writer-{n}": "1"}) for n in range(3)))
    assert (1, {3: 1, 1: 1, 2: 1}) == (figures.conflicts, figures.batch_lengths - before)
    assert files + 3 == metadata_files(tmp_path)


async def test_the_files_of_a_batch_that_loses_are_deleted_at_once(two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch) -> None:
    """One slow deletion delays no other. An unexpected error of one is logged, and the commands are decided again."""
    first, second = two
    await first.set("t", {"warm": "the queue"})
    await second.set("t", {"b": "1"})
    deleting = asyncio.Barrier(3)

    async def discard(*_: object) -> None:
        await deleting.wait()
        raise RuntimeError("a deletion failed")

    monkeypatch.setattr(first.catalog.commands.decision_writer, "discard", discard)
    async with asyncio.timeout(10):
        with structlog.testing.capture_logs() as records:
            await asyncio.gather(*(first.set("t", {f"writer-{n}": "1"}) for n in range(3)))
    assert ["discard_failed"] * 3 == [record["event"] for record in records if record["log_level"] == "error"]
    assert {f"writer-{n}" for n in range(3)} < (await second.metadata("t"))["properties"].keys()


async def test_a_batch_with_a_repeated_key_counts_as_no_conflict(one: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests with one key in a batch: the first is answered twice, later ones are decided again, in batches as before."""
    write = one.catalog.commands
    table = await write.resolver.table(one.warehouse, identifier("t"))
    files, lengths, sent = metadata_files(tmp_path), write.queues.metrics.batch_lengths.copy(), []
    twin = partial(context, "updateTable", key=uuid7(), request_hash=b"x" * 32)
    async with asyncio.timeout(10), write.queues.locked([table.id]):
        queue = write.queues._queues[table.id]
        commit_succeeded, winners = queue._backoff.commit_succeeded, []
        monkeypatch.setattr(queue._backoff, "commit_succeeded", lambda: winners.append(commit_succeeded()))
        for asked in (twin(), twin(), context("updateTable"), context("updateTable")):
            command = setting("t", {f"k{len(sent)}": "v"})
            sent.append(asyncio.create_task(commit_table(write, asked, one.warehouse, command)))
            while write.queues.queued < len(sent):
                await asyncio.sleep(0)
    first, second, *behind = await asyncio.gather(*sent)
    assert (first.position, False, True) == (second.position, first.replayed, second.replayed)
    assert [first.position + 1, first.position + 2] == [response.position for response in behind]
    assert {"k0", "k2", "k3"} == {key for key in (await one.metadata("t"))["properties"] if key.startswith("k")}
    assert (0, {4: 1, 2: 1}) == (write.queues.metrics.conflicts, write.queues.metrics.batch_lengths - lengths)
    assert (2, files + 3) == (len(winners), metadata_files(tmp_path))


async def test_a_batch_has_only_so_many_bytes(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its documents are in memory until the append. The one that reaches the limit is the last of its batch."""
    await one.set("t", {"warm": "the queue"})
    monkeypatch.setattr(stream_queue, "STREAM_BATCH_BYTES_MAX", 1)
    figures = one.catalog.commands.queues.metrics
    before = figures.batch_lengths.copy()
    await asyncio.gather(*(one.set("t", {f"writer-{n}": "1"}) for n in range(3)))
    assert {1: 3} == figures.batch_lengths - before


async def test_a_refusal_rests_on_a_head_that_was_read_after_the_request(two: tuple[Process, Process]) -> None:
    """A requirement that passes on the newest state is not refused because of the cached one."""
    first, second = two
    await first.set("t", {"warm": "the queue"})
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
    wider = {**schema, "fields": [*schema["fields"], {"id": 2, "name": "y", "required": False, "type": "long"}]}
    updates = [{"action": "add-schema", "schema": wider}, {"action": "set-current-schema", "schema-id": -1}]
    await commit_table(second.catalog.commands, context("updateTable"), second.warehouse, CommitTable(identifier("t"), [], updates))
    newest = {"type": "assert-current-schema-id", "current-schema-id": 1}
    await first.set("t", {"k": "v"}, newest)
    with pytest.raises(CommitFailed, match="current schema changed"):
        await first.set("t", {"k": "w"}, {"type": "assert-current-schema-id", "current-schema-id": 0})


async def test_a_refusal_beside_a_commit_that_is_lost_is_decided_again(two: tuple[Process, Process]) -> None:
    """Both were decided on a cached state that another process has changed. The refused one succeeds now."""
    first, second = two
    await first.set("t", {"warm": "the queue"})
    schema = {"type": "struct", "fields": [{"id": n, "name": f"x{n}", "required": False, "type": "long"} for n in (1, 2)]}
    command = CommitTable(identifier("t"), [], [{"action": "add-schema", "schema": schema}])
    await commit_table(second.catalog.commands, context("updateTable"), second.warehouse, command)
    figures = first.catalog.commands.queues.metrics
    held, fails = ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": number} for number in (2, 1))
    late, ordinary, wrong = await asyncio.gather(
        first.set("t", {"late": "1"}, held),
        first.set("t", {"ordinary": "1"}),
        first.set("t", {"wrong": "1"}, fails),
        return_exceptions=True,
    )
    assert 1 == figures.conflicts
    assert [CommandResponse, CommandResponse, CommitFailed] == [type(each) for each in (late, ordinary, wrong)]


async def test_a_queue_remembers_nothing_that_a_transaction_changed(one: Process) -> None:
    """The next commit is decided on the newest state at once."""
    await one.create("u")
    for number in range(3):
        await one.set("t", {"number": f"{number}"})
        changes = [setting(name, {"both": f"{number}"}) for name in ("t", "u")]
        await commit_transaction(one.catalog.commands, context("commitTransaction"), one.warehouse, CommitTransaction(changes))
    await one.set("t", {"number": "3"})
    assert 0 == one.catalog.commands.queues.metrics.conflicts


async def test_a_refusal_on_what_is_known_reads_no_state(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing the stream's last event suffices. Reading a large table would take as long as a load."""
    await one.set("t", {"warm": "the queue"})

    async def away(*_: object) -> None:
        raise AssertionError("the state was read")

    monkeypatch.setattr(StreamQueue, "_read", away)
    with pytest.raises(CommitFailed, match="current schema changed"):
        await one.set("t", {"k": "w"}, {"type": "assert-current-schema-id", "current-schema-id": 7})


async def test_no_memory_for_a_response_is_reported_at_once(two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if another process changed the table, because a newer state would not free memory."""
    first, second = two
    await first.set("t", {"warm": "the queue"})
    await second.set("t", {"k": "v"})
    asked: list[int] = []

    def reserve_memory(size: int, _: object) -> None:
        asked.append(size)
        raise TooManyRequests("no room")

    async def away(*_: object) -> None:
        raise AssertionError("the state was read")

    monkeypatch.setattr(StreamQueue, "_read", away)
    crowded = replace(context("updateTable"), reserve_memory=reserve_memory)
    with pytest.raises(TooManyRequests, match="no room"):
        await commit_table(first.catalog.commands, crowded, first.warehouse, setting("t", {"k": "w"}))
    assert 1 == len(asked)


async def test_a_response_that_shares_few_bytes_with_those_before_is_counted_for_itself(
    one: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Responses to commits share the JSON of long lists in the metadata, until a list loses an element."""
    monkeypatch.setattr(stream_queue, "COUNTED_STATE_BYTES_MIN", 0)
    counted: list[object] = []
    asked = replace(context("updateTable"), reserve_memory=lambda _, shared: counted.append(shared))
    wide = [{"type": "struct", "fields": [{"id": n, "name": f"x{n}", "required": False, "type": "long"}]} for n in range(2, 102)]
    for updates in (
        [{"action": "add-schema", "schema": schema} for schema in wide],
        [{"action": "set-properties", "updates": {"a": "1"}}],
        [{"action": "remove-schemas", "schema-ids": [1]}],
        [{"action": "set-properties", "updates": {"a": "2"}}],
        [{"action": "set-properties", "updates": {"a": "3"}}],
    ):
        await commit_table(one.catalog.commands, asked, one.warehouse, CommitTable(identifier("t"), [], updates))
    assert [True, False, True] == [counted[index] is counted[index + 1] for index in range(1, 4)]


async def test_control_a_refusal_from_memory_alone_would_be_wrong(two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without the read before the refusal, a valid commit is refused."""

    async def settle_from_memory(_: StreamQueue[Any], refused: list[Any], __: object) -> None:
        for entry in refused:
            entry.finish()

    first, second = two
    await first.set("t", {"warm": "the queue"})
    schema = {"type": "struct", "fields": [{"id": 1, "name": "y", "required": False, "type": "long"}]}
    updates = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
    await commit_table(second.catalog.commands, context("updateTable"), second.warehouse, CommitTable(identifier("t"), [], updates))
    monkeypatch.setattr(StreamQueue, "_finish_unappended", settle_from_memory)
    with pytest.raises(CommitFailed):
        await first.set("t", {"k": "v"}, {"type": "assert-current-schema-id", "current-schema-id": 1})


async def test_the_first_commit_on_a_table_made_here_reads_nothing(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state after the creation is cached, so neither the name nor the state is read."""
    await one.set("t", {"a queue": "has read the generation"})
    await one.create("made")

    async def away(*_: object) -> None:
        raise AssertionError("the read models were asked")

    monkeypatch.setattr(names, "find", away)
    monkeypatch.setattr(StreamQueue, "_read", away)
    await one.set("made", {"a": "1"})
    monkeypatch.undo()
    assert "1" == (await one.metadata("made"))["properties"]["a"]
    assert (await verify(one.catalog.dsn)).ok


async def test_what_another_process_did_to_a_table_made_here_counts(two: tuple[Process, Process]) -> None:
    """`append` checks the cached state: another process's commit, rename, or other table of the name takes precedence."""
    first, second = two
    await first.set("t", {"a queue": "has read the generation"})
    for name in ("changed", "renamed", "replaced"):
        await first.create(name)
    await second.set("changed", {"b": "2"})
    await rename_table(
        second.catalog.commands, context("renameTable"), second.warehouse, RenameTable(identifier("renamed"), identifier("elsewhere"))
    )
    await drop_table(
        second.catalog.commands, context("dropTable"), second.warehouse, DropTable(identifier("replaced"), purge_requested=False)
    )
    await second.create("replaced")
    await first.set("changed", {"a": "1"})
    assert {"a": "1", "b": "2"} == {key: (await second.metadata("changed"))["properties"].get(key) for key in "ab"}
    with pytest.raises(NoSuchTable):
        await first.set("renamed", {"a": "1"})
    await first.set("replaced", {"a": "1"})
    assert "1" == (await second.metadata("replaced"))["properties"]["a"]
    assert (await verify(first.catalog.dsn)).ok


async def test_a_refused_commit_does_not_break_the_batch_around_it(one: Process) -> None:
    """The commits before and after it succeed. The invalid one is refused at once."""
    wrong = {"type": "assert-current-schema-id", "current-schema-id": 7}
    outcomes = await asyncio.gather(
        *(one.set("t", {f"k{n}": "v"}, *([wrong] if n % 3 == 2 else [])) for n in range(12)), return_exceptions=True
    )
    assert [n % 3 == 2 for n in range(12)] == [isinstance(outcome, CommitFailed) for outcome in outcomes]
    kept = {key for key in (await one.metadata("t"))["properties"] if key.startswith("k")}
    assert {f"k{n}" for n in range(12) if n % 3 != 2} == kept
    assert (4, {8: 1}) == (one.catalog.commands.queues.metrics.refused, one.catalog.commands.queues.metrics.batch_lengths)


async def test_a_file_that_cannot_be_written_fails_its_commit_alone(one: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later ones are decided again without it, and their unused files are deleted."""
    files = metadata_files(tmp_path)
    put_new, failures = LocalStore.put_new, iter([False, False, True])

    async def put(self: LocalStore, location: StorageLocation, data: bytes) -> None:
        if next(failures, False):
            raise ServiceUnavailable("The store is away")
        await put_new(self, location, data)

    monkeypatch.setattr(LocalStore, "put_new", put)
    outcomes = await asyncio.gather(*(one.set("t", {f"k{n}": "v"}) for n in range(8)), return_exceptions=True)
    (failed,) = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, ServiceUnavailable)]
    kept = {key for key in (await one.metadata("t"))["properties"] if key.startswith("k")}
    assert {f"k{n}" for n in range(8) if n != failed} == kept
    assert files + 7 == metadata_files(tmp_path)
    assert (await verify(one.catalog.dsn)).ok


async def commit(one: Process) -> None:
    await one.set("t", {"k": "v"})


async def commit_in_transaction(one: Process) -> None:
    command = CommitTransaction([setting("t", {"k": "v"})])
    await commit_transaction(one.catalog.commands, context("commitTransaction"), one.warehouse, command)


@pytest.mark.parametrize("change", [commit, commit_in_transaction])
async def test_a_command_that_postgres_reports_as_failed_leaves_no_file(
    one: Process, tmp_path: Path, database: str, change: Callable[[Process], Awaitable[None]]
) -> None:
    """Alone in its call, with an error of the whole call. Postgres has rolled it back, so no event names the file."""
    files = metadata_files(tmp_path)
    async with await AsyncConnection.connect(database, autocommit=True) as connection:
        await connection.execute("alter function icecore.append(jsonb, bytea[]) rename to append_away")
        with pytest.raises(InternalError, match="nothing was changed"):
            await change(one)
        await connection.execute("alter function icecore.append_away(jsonb, bytea[]) rename to append")
    assert files == metadata_files(tmp_path)
    await change(one)
    assert files + 1 == metadata_files(tmp_path)
    assert (await verify(one.catalog.dsn)).ok


@pytest.mark.parametrize("change", [commit, commit_in_transaction])
async def test_control_a_commit_whose_outcome_is_unknown_keeps_its_file(
    one: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Process], Awaitable[None]]
) -> None:
    """An error of the client library after the commit says nothing about the log, which names the file here."""
    send, files = committer._send, metadata_files(tmp_path)

    async def fail(*arguments: Any) -> Any:
        await send(*arguments)
        raise psycopg.DataError("the rows cannot be read")

    monkeypatch.setattr(committer, "_send", fail)
    with pytest.raises(CommitStateUnknown):
        await change(one)
    monkeypatch.undo()
    assert files + 1 == metadata_files(tmp_path)
    assert "v" == (await one.metadata("t"))["properties"]["k"]


async def test_a_creation_that_loses_its_name_leaves_no_file(
    two: tuple[Process, Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes the name after this one has written the file, so its append is refused."""
    first, second = two
    submit_batch, files = first.catalog.commands.committer.submit_batch, metadata_files(tmp_path)

    async def after_the_other(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
        assert files + 1 == metadata_files(tmp_path)
        await second.create("u")
        return await submit_batch(append_requests)

    monkeypatch.setattr(first.catalog.commands.committer, "submit_batch", after_the_other)
    with pytest.raises(AlreadyExists):
        await first.create("u")
    assert files + 1 == metadata_files(tmp_path)


async def test_a_drop_ends_the_batch(one: Process) -> None:
    """Earlier commits succeed. Later ones find no table."""
    drop = drop_table(one.catalog.commands, context("dropTable"), one.warehouse, DropTable(identifier("t"), purge_requested=False))
    before = [one.set("t", {f"before-{n}": "v"}) for n in range(5)]
    behind = [one.set("t", {f"behind-{n}": "v"}) for n in range(5)]
    outcomes = await asyncio.gather(*before, drop, *behind, return_exceptions=True)
    dropped = outcomes.pop(len(before))
    assert isinstance(dropped, CommandResponse)
    positions = [outcome.position for outcome in outcomes if isinstance(outcome, CommandResponse)]
    assert [*range(dropped.position - len(positions), dropped.position)] == sorted(positions)
    assert len(outcomes) - len(positions) == sum(isinstance(outcome, NoSuchTable) for outcome in outcomes)
    with pytest.raises(NoSuchTable):
        await one.set("t", {"late": "v"})


async def test_a_rename_is_not_starved_by_commits(one: Process) -> None:
    """It has its turn in the queue. Later commits with the old name find no table."""
    stop = asyncio.Event()

    async def write(writer: int) -> None:
        while not stop.is_set():
            await one.set("t", {f"writer-{writer}": str(time.monotonic_ns())})

    writers = [asyncio.create_task(write(writer)) for writer in range(8)]
    await asyncio.sleep(0.2)
    command = RenameTable(identifier("t"), identifier("u"))
    async with asyncio.timeout(5):
        response = await rename_table(one.catalog.commands, context("renameTable"), one.warehouse, command)
    assert response.status == 204
    stop.set()
    outcomes = await asyncio.gather(*writers, return_exceptions=True)
    assert {NoSuchTable} <= {type(outcome) for outcome in outcomes} <= {NoSuchTable, type(None)}, outcomes


async def test_transactions_over_the_same_tables_never_wait_for_each_other(one: Process) -> None:
    """Each joins all its queues in one step, in any order of names."""
    await one.create("u")

    async def transact(first: str, second: str, value: str) -> CommandResponse:
        changes = [setting(first, {"turn": value}), setting(second, {"turn": value})]
        return await commit_transaction(one.catalog.commands, context("commitTransaction"), one.warehouse, CommitTransaction(changes))

    async with asyncio.timeout(20):
        responses = await asyncio.gather(
            *(transact("t", "u", f"{n}") if n % 2 else transact("u", "t", f"{n}") for n in range(20)),
            *(one.set("t", {f"between-{n}": "v"}) for n in range(20)),
        )
    assert {204, 200} == {response.status for response in responses}
    assert (await one.metadata("t"))["properties"]["turn"] == (await one.metadata("u"))["properties"]["turn"]
    assert (await verify(one.catalog.dsn)).ok


async def test_a_transaction_rests_on_the_oldest_generation_it_read(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild switched between two reads. Append refuses it, and everything is read again."""
    await one.create("u")
    read_named, generations = ResolvedStream.read_named, []

    async def read(*asked: Any) -> tuple[Any, int]:
        state, generation = await read_named(*asked)
        generations.append(generation)
        return state, generation if len(generations) > 1 else generation - 1

    monkeypatch.setattr(ResolvedStream, "read_named", read)
    command = CommitTransaction([setting("t", {"k": "v"}), setting("u", {"k": "v"})])
    response = await commit_transaction(one.catalog.commands, context("commitTransaction"), one.warehouse, command)
    assert (204, 4) == (response.status, len(generations))


async def test_two_names_of_one_table_hold_its_queue_once(one: Process) -> None:
    """Possible after names were swapped. Waiting twice for the same queue would deadlock."""
    table = await one.catalog.commands.resolver.table(one.warehouse, identifier("t"))
    async with asyncio.timeout(stream_queues.QUEUE_WAIT_SECONDS_MAX / 2), one.catalog.commands.queues.locked([table.id, table.id]):
        pass
    await one.set("t", {"k": "v"})


async def test_two_processes_on_one_table_lose_no_commit(two: tuple[Process, Process]) -> None:
    """A queue that loses retries with a batch of one command until it succeeds."""
    await asyncio.gather(*(side.set("t", {f"{n}-{m}": "v"}) for n, side in enumerate(two) for m in range(40)))
    kept = {key for key in (await two[0].metadata("t"))["properties"] if "-" in key and key[0].isdigit()}
    assert {f"{n}-{m}" for n in range(2) for m in range(40)} == kept
    assert (await verify(two[0].catalog.dsn)).ok


async def test_all_commands_waiting_for_an_unreadable_state_get_the_error(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, not after the deadline. The next command reads the state again."""
    one.catalog.commands.queues._queues.clear()

    async def away(*_: object) -> None:
        raise ServiceUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(StreamQueue, "_read", away)
        async with asyncio.timeout(stream_queues.QUEUE_WAIT_SECONDS_MAX / 2):
            heard = await asyncio.gather(*(one.set("t", {f"k{n}": "v"}) for n in range(3)), return_exceptions=True)
    assert [ServiceUnavailable] * 3 == [type(each) for each in heard]
    await one.set("t", {"k": "v"})


async def test_of_queues_that_remember_too_much_the_newest_is_kept(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it exceeds the limit alone, because commits to a large table usually follow one another."""
    opened = one.catalog.commands.queues
    await one.create("u")
    monkeypatch.setattr(stream_queues, "QUEUES_KEPT_BYTES_MAX", 1)
    kept = []
    for name in ("t", "u", "t"):
        await one.set(name, {"k": "v"})
        (queue,) = opened._queues.values()
        kept.append((queue.state_bytes > 0, opened._counted_bytes == queue.state_bytes))
    assert [(True, True)] * 3 == kept
    await one.create("made")
    (queue,) = opened._queues.values()
    assert 0 < queue.state_bytes == opened._counted_bytes
    await one.set("t", {"k": "u"})
    monkeypatch.setattr(stream_queues, "NEWEST_QUEUE_BYTES_MAX", 1)
    await one.set("t", {"k": "w"})
    assert (0, 0) == (len(opened._queues), opened._counted_bytes)


async def test_whoever_gives_up_waiting_for_a_queue_leaves_it_what_it_knows(
    two: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal reads the head while a transaction that waits behind it is cancelled."""
    first, _ = two
    await first.set("t", {"warm": "the queue"})
    monkeypatch.setattr(stream_queues, "QUEUE_WAIT_SECONDS_MAX", 0.1)
    last_event_id = ResolvedStream.last_event_id

    async def slow(stream: ResolvedStream[Any]) -> UUID | None:
        await asyncio.sleep(0.4)
        return await last_event_id(stream)

    monkeypatch.setattr(ResolvedStream, "last_event_id", slow)
    wrong = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7}
    refused = asyncio.create_task(first.set("t", {"k": "v"}, wrong))
    await asyncio.sleep(0)
    command = CommitTransaction([setting("t", {"k": "v"})])
    with pytest.raises(TooManyRequests):
        await commit_transaction(first.catalog.commands, context("commitTransaction"), first.warehouse, command)
    with pytest.raises(CommitFailed):
        await refused


async def test_a_cancelled_review_fails_every_command(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the queue's work ends, each of its commands is answered, and the next one is processed."""

    async def cancelled(*_: Any) -> None:
        raise asyncio.CancelledError

    decision_writer = one.catalog.commands.decision_writer
    with monkeypatch.context() as patched:
        patched.setattr(decision_writer, "reviews_decisions_of", lambda _: True)
        patched.setattr(decision_writer, "review", cancelled)
        async with asyncio.timeout(5):
            with pytest.raises(CommitStateUnknown):
                await one.set("t", {"k": "v"})
    assert 200 == (await one.set("t", {"k": "w"})).status


async def test_a_commit_whose_time_is_up_may_come_again_with_its_key(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """That others committed first is not a property of the change, so the refusal is not stored for the key."""
    lost, submit_batch = [AppendResult("version_conflict", 0)], one.catalog.commands.committer.submit_batch
    monkeypatch.setattr(one.catalog.commands, "_retry_seconds_max", 0.0)

    async def lose(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
        return lost if append_requests[0].has_events else await submit_batch(append_requests)

    asked = context("updateTable", key=uuid7())
    with monkeypatch.context() as patched:
        patched.setattr(one.catalog.commands.committer, "submit_batch", lose)
        with pytest.raises(CommitFailed, match="kept changing"):
            await commit_table(one.catalog.commands, asked, one.warehouse, setting("t", {"k": "v"}))
    assert 200 == (await commit_table(one.catalog.commands, asked, one.warehouse, setting("t", {"k": "v"}))).status


async def test_a_full_queue_asks_to_come_again_later(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue's length and waiting time are limited."""
    monkeypatch.setattr(stream_queues, "STREAM_QUEUE_COMMANDS_MAX", 2)
    outcomes = await asyncio.gather(*(one.set("t", {f"k{n}": "v"}) for n in range(20)), return_exceptions=True)
    assert {TooManyRequests, CommandResponse} == {type(outcome) for outcome in outcomes}, outcomes


async def test_a_blocked_queue_refuses_its_waiting_commands(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the timeout the request gets 429, and its commit does not take effect later."""
    monkeypatch.setattr(stream_queues, "QUEUE_WAIT_SECONDS_MAX", 0.3)
    put_new, release = LocalStore.put_new, asyncio.Event()

    async def put(self: LocalStore, location: StorageLocation, data: bytes) -> None:
        await release.wait()
        await put_new(self, location, data)

    monkeypatch.setattr(LocalStore, "put_new", put)
    first = asyncio.create_task(one.set("t", {"first": "v"}))
    await asyncio.sleep(0.1)
    with pytest.raises(TooManyRequests):
        await one.set("t", {"second": "v"})
    release.set()
    assert (await first).status == 200
    assert "second" not in (await one.metadata("t"))["properties"]


async def test_a_transaction_whose_file_is_refused_leaves_no_other_file(
    one: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any refusal before the append."""
    await one.create("u")
    files = metadata_files(tmp_path)
    put_new, failures = LocalStore.put_new, iter([False, True])

    async def put(self: LocalStore, location: StorageLocation, data: bytes) -> None:
        if next(failures):
            raise BadRequest("no such place")
        await put_new(self, location, data)

    monkeypatch.setattr(LocalStore, "put_new", put)
    command = CommitTransaction([setting("t", {"k": "v"}), setting("u", {"k": "v"})])
    with pytest.raises(BadRequest):
        await commit_transaction(one.catalog.commands, context("commitTransaction"), one.warehouse, command)
    assert files == metadata_files(tmp_path)
