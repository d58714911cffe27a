"""Rebuild: folds the log into a new generation of the read models while the catalog serves, and switches to it.

First it folds and copies every stream of a snapshot, for a large log with several processes. Then it folds newer events in rounds, each
shorter than the one before, and the last few under the append lock together with the switch. A command that was decided on the old
generation is decided again (`append` returns `generation`).
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
import structlog
import uvloop
from cachetools import LRUCache

from ..database.advisory_locks import AdvisoryLock, lock_session, lock_transaction, try_lock, unlock
from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.read_models.definitions import PART_TOMBSTONES, READ_MODELS, ReadModel, Row
from ..domain.read_models.rows import Rows
from ..domain.read_models.stream_fold import StreamFold
from .model_sql import model_sql
from .rebuild_part import (
    Helper,
    connect,
    copy_parts,
    copy_parts_by,
    fold_events,
    forked_helpers,
    new_fold,
)
from .stream_ranges import StreamRange, parts_between
from .watch import Watch, not_watched

_SQL = named_sql("icecore.projections", "rebuild.sql")
_log = structlog.get_logger("icecore.rebuild")

# One helper process for each of this many events.
_EVENTS_PER_PROCESS = 4_000
_PROCESSES_MAX = 8
# There are more parts than processes, and each process takes the next part when it has finished one, so that none waits long.
_EVENTS_PER_PART = 2_000
_PARTS_PER_PROCESS_MAX = 32
# Events sampled to divide the log.
_SAMPLE_EVENTS = 5_000
_BATCH_EVENTS_MAX = 500
_BATCH_BYTES_MAX = 8 * 1024 * 1024
# The append lock is taken for at most this many events; further rounds come before it.
_LOCKED_EVENTS_MAX = 200
_ROUNDS_MAX = 100
# Streams whose folds are cached between rounds, because they are being written to.
_FOLDS_KEPT_MAX = 2_000
_DELETE_PAGES = 256
_MODELS = (*READ_MODELS, PART_TOMBSTONES)


class RebuildRunningError(Exception):
    """Another rebuild is running."""


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """The number of events and rows, and the generation that serves now."""

    events: int
    rows: int
    seconds: float
    generation: int
    locked_seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "generation": self.generation,
            "events": self.events,
            "rows": self.rows,
            "seconds": self.seconds,
            "locked-seconds": self.locked_seconds,
        }

    def __str__(self) -> str:
        per_second = self.events / self.seconds if self.seconds else 0.0
        return (
            f"switched to generation {self.generation}: {self.events} events, {self.rows} rows, {self.seconds:.1f} s "
            f"({per_second:,.0f} events/s); writes waited {self.locked_seconds * 1000:.0f} ms at the switch"
        )


def rebuild_on_every_core(dsn: str, watched: AbstractContextManager[Watch] | None = None) -> RebuildReport:
    """`rebuild` with a process per core, in its own event loop; for a process that does nothing else.

    watched -- entered after the processes were forked, because it may start a thread.
    """
    with forked_helpers(min(os.cpu_count() or 1, _PROCESSES_MAX) - 1) as helpers, watched or nullcontext(not_watched) as watch:
        return uvloop.run(rebuild(dsn, helpers, watch))


async def rebuild(dsn: str, helpers: Sequence[Helper] = (), watch: Watch = not_watched) -> RebuildReport:
    """Folds the log into the next generation and switches to it, after deleting the rows of an unfinished attempt.

    helpers -- processes that fold parts of a large log. watch -- called with the number of parts begun, and of all parts.
    Raises RebuildRunningError if another rebuild is running.
    """
    started = time.monotonic()
    async with await connect(dsn) as writer, await connect(dsn) as reader:
        if not await try_lock(writer, AdvisoryLock.REBUILD):
            raise RebuildRunningError("Another rebuild is running")
        if not await try_lock(writer, AdvisoryLock.REBUILD_PARTS):
            raise RebuildRunningError("Processes of an earlier rebuild are still stopping")
        await unlock(writer, AdvisoryLock.REBUILD_PARTS)
        kept = await _value(writer, "generation")
        # Copied rows are unused before the switch, whose commit makes them durable. An earlier crash of Postgres ends the rebuild.
        await writer.execute(_SQL["commit_without_waiting"])
        await _delete_others(writer, kept, await _unfinished(writer, kept))
        attempt = _Attempt(dsn, reader, writer, kept + 1, helpers, watch)
        await attempt.fold_all()
        await writer.execute(_SQL["analyze_coarsely"])
        await writer.execute(_SQL["analyze"])
        await attempt.catch_up()
        locked_seconds = await attempt.switch()
        seconds = time.monotonic() - started
        await _delete_others(writer, kept + 1, _MODELS)
    return RebuildReport(attempt.position, attempt.rows, seconds, kept + 1, locked_seconds)


class _Attempt:
    """A generation that is being built; `position` is the last event that is in it."""

    def __init__(self, dsn: str, reader: Connection, writer: Connection, generation: int, helpers: Sequence[Helper], watch: Watch) -> None:
        self.position = 0
        self.rows = 0
        self._dsn = dsn
        self._reader = reader
        self._writer = writer
        self._generation = generation
        self._helpers = helpers
        self._watch = watch
        self._folds: LRUCache[UUID, StreamFold] = LRUCache(_FOLDS_KEPT_MAX)

    async def fold_all(self) -> None:
        """Folds every stream completely, as of one snapshot."""
        await self._reader.execute(_SQL["begin_snapshot"])
        self.position = await _value(self._reader, "head")
        helpers = self._helpers[: self.position // _EVENTS_PER_PROCESS]
        parts = _watched(await self._divided(1 + len(helpers)), self._watch)
        works = [copy_parts(self._reader, self._writer, self._generation, _each(parts))]
        if helpers:
            snapshot = await _value(self._reader, "export_snapshot")
            works += [copy_parts_by(helper, self._dsn, snapshot, self._generation, parts) for helper in helpers]
        self.rows += await _together(*works)
        await self._reader.execute("rollback")

    async def _divided(self, processes: int) -> list[StreamRange]:
        """The streams in parts with about the same number of events: one for a single process, at least one for each of several."""
        if processes == 1:
            return parts_between([])
        count = min(max(processes, self.position // _EVENTS_PER_PART), processes * _PARTS_PER_PROCESS_MAX)
        shares = [n / count for n in range(1, count)]
        percent = min(100.0, 100.0 * _SAMPLE_EVENTS / max(1, self.position))
        return parts_between(await _value(self._reader, "boundaries", {"shares": shares, "percent": percent}) or [])

    async def catch_up(self) -> None:
        """Folds what was appended meanwhile, in rounds, until little is left or the writers are faster."""
        for _ in range(_ROUNDS_MAX):
            head = await _value(self._reader, "head")
            if head - self.position <= _LOCKED_EVENTS_MAX:
                return
            await self._fold_upto(head)
        _log.warning("rebuild_behind", position=self.position, rounds=_ROUNDS_MAX)

    async def switch(self) -> float:
        """Folds the last events and switches, in one transaction that blocks appends. Returns for how many seconds it did."""
        # Folds once more without the lock, so that the folds of these streams are cached when the lock is held.
        await self._fold_upto(await _value(self._reader, "head"))
        await self._writer.execute(_SQL["commit_as_configured"])
        async with self._writer.transaction():
            await lock_transaction(self._writer, AdvisoryLock.APPEND)
            started = time.monotonic()
            await self._fold_upto(await _value(self._writer, "head"))
            cursor = await self._writer.execute(_SQL["switch"], {"generation": self._generation})
            if cursor.rowcount != 1:
                raise RebuildRunningError("Another process changed the generation")
        return time.monotonic() - started

    async def _fold_upto(self, head: int) -> None:
        """Folds the events after `position`, at least up to `head`, with the SQL function that also writes the rows of commits."""
        while self.position < head:
            parameters = {"after": self.position, "limit": _BATCH_EVENTS_MAX, "bytes_max": _BATCH_BYTES_MAX}
            # In the switch's transaction, both connections must see what was committed before the lock: they use READ COMMITTED.
            events = await (await self._reader.execute(_SQL["events_after"], parameters, binary=True)).fetchall()
            rows, blobs, before = Rows(), list[bytes](), self.position
            for event in events:
                fold_events(await self._fold_of(event, before), [event], rows, before)
            written = orjson.dumps(rows.to_json(blobs)).decode()
            await self._writer.execute(
                _SQL["write_rows"], {"rows": written, "blobs": blobs or [b""], "generation": self._generation, "before": before}
            )
            self.rows += rows.count
            self.position = events[-1][2]

    async def _fold_of(self, event: Row, before: int) -> StreamFold:
        """The stream's fold as of the position `before`, or later if events of this round were folded already."""
        stream_id = event[0]
        fold = self._folds.get(stream_id)
        if fold is None:
            fold = new_fold(event)
            if event[1] > 1:
                cursor = await self._reader.execute(_SQL["stream"], {"stream_id": stream_id, "upto": before}, binary=True)
                fold_events(fold, await cursor.fetchall(), Rows())
            self._folds[stream_id] = fold
        return fold


async def _together(*works: Coroutine[Any, Any, int]) -> int:
    """The sum of all results. The first error cancels the others, and is raised once they have ended."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return sum(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _each(parts: Iterator[StreamRange]) -> AsyncIterator[StreamRange]:
    for part in parts:
        yield part


async def _unfinished(writer: Connection, served: int) -> list[ReadModel]:
    """The read models in which an unfinished attempt has left rows."""
    # Older generations are deleted at the end with the current one: finding them would scan all rows that were just deleted.
    found = [(await writer.execute(model_sql(_SQL["has_later"], model), {"served": served}), model) for model in _MODELS]
    return [model for cursor, model in found if await cursor.fetchone() == (True,)]


async def _delete_others(writer: Connection, kept: int, models: Collection[ReadModel]) -> None:
    """Deletes the rows of generations other than `kept`, some pages at a time, so that no row is read twice."""
    # The job that closes parts moves rows to other pages, so it must not run meanwhile.
    await lock_session(writer, AdvisoryLock.CLOSE_PARTS_JOB)
    for model in models:
        pages = await _value(writer, "pages", {"table": f"icecore.{model.table}"})
        delete = model_sql(_SQL["delete"], model)
        for page in range(0, pages, _DELETE_PAGES):
            await writer.execute(delete, {"kept": kept, "first": page, "end": page + _DELETE_PAGES})
    await unlock(writer, AdvisoryLock.CLOSE_PARTS_JOB)


async def _value(connection: Connection, block: str, parameters: dict[str, Any] | None = None) -> Any:
    row = await (await connection.execute(_SQL[block], parameters)).fetchone()
    assert row is not None
    return row[0]


def _watched(parts: Sequence[StreamRange], watch: Watch) -> Iterator[StreamRange]:
    for number, part in enumerate(parts):
        watch(number, len(parts))
        yield part
