"""The negative controls: each breaks one promise on purpose, in a database or in a worker, and must turn its check red."""

import asyncio
import importlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import psycopg

VARIABLE = "ICECORE_TEST_SABOTAGE"


@dataclass(frozen=True, slots=True)
class Control:
    """A way to break the product.

    workers -- as few as the control needs, because fewer start faster.
    breaks_postgres -- its run needs a separate Postgres.
    check -- the check that must turn red.
    follows -- checks that turn red too, because they detect the same fault.
    """

    name: str
    check: str
    follows: frozenset[str] = frozenset()
    in_worker: Callable[[], None] | None = None
    in_database: tuple[tuple[str, str], ...] = ()
    """Parts of icecore.append and their replacements."""
    statements: tuple[str, ...] = ()
    workers: int = 1
    breaks_postgres: bool = False


async def sabotage_database(control: Control, dsn: str) -> None:
    """Applies a control to one database."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        for statement in control.statements:
            await connection.execute(statement.encode())
        if not control.in_database:
            return
        row = await (await connection.execute("select pg_get_functiondef('icecore.append'::regproc)")).fetchone()
        assert row is not None
        source: str = row[0]
        for there, instead in control.in_database:
            assert there in source, f"icecore.append has no {there!r} any more"
            source = source.replace(there, instead)
        await connection.execute(source.encode())


def inject_fault() -> None:
    """Applies the control that the environment names to this process."""
    control = CONTROLS[os.environ[VARIABLE]]
    if control.in_worker is not None:
        control.in_worker()


def _response_before_commit() -> None:
    from icecore.commands.execution.append_request import AppendResult
    from icecore.commands.execution.committer import Committer

    submit_batch = Committer.submit_batch
    late: set[asyncio.Task[Any]] = set()

    async def submitted_later(self: Committer, append_requests: Any) -> list[AppendResult]:
        async def later() -> None:
            await asyncio.sleep(0.3)
            await submit_batch(self, append_requests)

        task = asyncio.create_task(later())
        late.add(task)
        task.add_done_callback(late.discard)
        return [AppendResult("appended", 1) for _ in append_requests]

    Committer.submit_batch = submitted_later  # type: ignore[method-assign]


def _tables_one_by_one() -> None:
    from icecore.commands.execution.command_response import CommandResponse
    from icecore.commands.tables.commit_table import commit_table

    async def one_by_one(write: Any, context: Any, warehouse: Any, command: Any) -> CommandResponse:
        for change in command.changes:
            response = await commit_table(write, replace(context, idempotency_key=None), warehouse, change)
        return CommandResponse(204, None, response.position)

    edge: Any = importlib.import_module("icecore.api.iceberg.transactions")
    edge.execute_commit_transaction = one_by_one


def _cache_without_barrier() -> None:
    from icecore.queries.cache_invalidator import CacheInvalidator

    confirm = CacheInvalidator.confirm
    asked_at: dict[int, float] = {}

    async def now_and_then(self: CacheInvalidator) -> None:
        if time.monotonic() - asked_at.get(id(self), 0.0) > 0.3:
            asked_at[id(self)] = time.monotonic()
            await confirm(self)

    CacheInvalidator.confirm = now_and_then  # type: ignore[method-assign]
    CacheInvalidator.refresh_in_background = lambda self: None  # type: ignore[method-assign]


def _lost_response_is_a_conflict() -> None:
    from icecore.domain.errors import CommitFailed

    committer: Any = importlib.import_module("icecore.commands.execution.committer")
    committer.CommitStateUnknown = CommitFailed
    committer.DOUBT_SECONDS_MAX = -1


def _lost_response_is_nothing_done() -> None:
    from icecore.domain.errors import ServiceUnavailable

    committer: Any = importlib.import_module("icecore.commands.execution.committer")
    committer.CommitStateUnknown = lambda message: ServiceUnavailable(message, retry_after_seconds=1)
    committer.DOUBT_SECONDS_MAX = -1


def _lost_response_is_a_fault() -> None:
    from icecore.domain.errors import InternalError

    committer: Any = importlib.import_module("icecore.commands.execution.committer")
    committer.CommitStateUnknown = InternalError
    committer.DOUBT_SECONDS_MAX = -1


def _predecessor_forgotten() -> None:
    table: Any = importlib.import_module("icecore.domain.table")
    apply_updates = table.apply_updates

    def without_predecessor(*arguments: Any, **named: Any) -> Any:
        return apply_updates(*arguments, **{**named, "previous_metadata_location": None})

    table.apply_updates = without_predecessor


def _file_after_append() -> None:
    decision_writer: Any = importlib.import_module("icecore.commands.execution.decision_writer")
    write_metadata = decision_writer.write_metadata
    late: set[asyncio.Task[Any]] = set()

    async def written_later(*arguments: Any) -> None:
        async def later() -> None:
            await asyncio.sleep(1.0)
            await write_metadata(*arguments)

        task = asyncio.create_task(later())
        late.add(task)
        task.add_done_callback(late.discard)

    decision_writer.write_metadata = written_later


def _old_files_after_any_response() -> None:
    from icecore.commands.execution.executor import CommandExecutor
    from icecore.storage.locations import StorageLocation

    answered = CommandExecutor._response

    async def answered_and_deleted(self: CommandExecutor, context: Any, warehouse: Any, command_result: Any) -> Any:
        old = command_result.decision.append_request.old_metadata_files
        files = [StorageLocation.parse_structure(file.location, field="metadata-file") for file in old]
        await (await self.store(warehouse)).delete(files)
        return await answered(self, context, warehouse, command_result)

    CommandExecutor._response = answered_and_deleted  # type: ignore[method-assign]


def _no_time_limit() -> None:
    connection_watchdog: Any = importlib.import_module("icecore.database.connection_watchdog")
    connection_watchdog.SILENCE_SECONDS_MAX = 3600.0


CONTROLS = {
    control.name: control
    for control in (
        Control(
            "version check dropped",
            "linear",
            frozenset({"predecessor", "atomic", "models", "fresh", "responses"}),
            workers=2,
            in_database=(("is distinct from (v_item->>1)::uuid", "is distinct from (v_item->>1)::uuid and false"),),
            statements=(
                "alter table icecore.events drop constraint events_pkey",
                "alter table icecore.tables drop constraint tables_pkey",
                "alter table icecore.table_parts drop constraint table_parts_pkey",
            ),
        ),
        # `responses` follows: when a change is repeated, the property exists already, and the response has a position of another change.
        Control(
            "idempotency row dropped",
            "once",
            frozenset({"models", "refusals", "responses"}),
            in_database=(("      if v_record is not null then\n        v_record_row :=", "      if false then\n        v_record_row :="),),
        ),
        # `refusals` follows: a change that is repeated before the first copy is in the log conflicts with that copy.
        Control(
            "answered before the commit",
            "acknowledged",
            frozenset({"fresh", "responses", "refusals", "kept"}),
            _response_before_commit,
            workers=2,
        ),
        Control(
            "tables committed one by one", "atomic", frozenset({"once", "refusals", "acknowledged", "nothing done"}), _tables_one_by_one
        ),
        Control("cache without the barrier", "fresh", frozenset(), _cache_without_barrier),
        # `once` follows: a change without a key is repeated after a conflict.
        Control("a lost response reported as a conflict", "refusals", frozenset({"nothing done", "once"}), _lost_response_is_a_conflict),
        Control(
            "a lost response reported as nothing done",
            "nothing done",
            frozenset({"files", "kept", "once", "responses", "refusals"}),
            _lost_response_is_nothing_done,
        ),
        Control("a lost response reported as a fault", "responses", frozenset({"files", "kept"}), _lost_response_is_a_fault),
        Control("predecessor left out of the file", "predecessor", frozenset(), _predecessor_forgotten),
        Control(
            "rows that are not what the event says",
            "models",
            statements=(
                "create function icecore.spoil() returns trigger language plpgsql as"
                " $$ begin new.name := new.name || '?'; return new; end $$",
                "create trigger spoil before insert on icecore.tables for each row execute function icecore.spoil()",
            ),
        ),
        Control("metadata file written after the append", "files", frozenset({"kept"}), _file_after_append),
        Control("old metadata files deleted after any response", "kept", frozenset(), _old_files_after_any_response),
        Control("workers killed under the name of a stop", "graceful", workers=2),
        Control("no limit on silence", "away", frozenset(), _no_time_limit, breaks_postgres=True),
    )
}
