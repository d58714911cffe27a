"""Rebuild: a new generation of the read models folded from the log beside the one that serves, and the switch to it, while writes go on.

First every stream of a snapshot is folded and copied; then the events appended since are folded on top, in rounds, each shorter than the
one before; the last few under the append's own lock, together with the switch. Readers and writers of the old generation notice nothing:
a command that was decided on it is decided again (`append` answers `generation`).
"""

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

import orjson
import structlog
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from migrations.named_sql import named_sql
from projections.overlap import OneBehind, fetched_ahead
from projections.rows import Row, Rows
from projections.stamped_rows import PART_TOMBSTONES, READ_MODELS, stamped
from projections.streams import StreamFold

_SQL = named_sql("projections", "rebuild.sql")
_log = structlog.get_logger("icecore.rebuild")

# Copied at once, so that an attempt's memory is bound by twice these and by its largest stream.
_COPY_EVENTS = 1_000
_COPY_BYTES = 16 * 1024 * 1024
# A fetch fits into a socket's buffer, so that Postgres gets it ready while the one before is folded.
_FETCH_ROWS = 100
_BATCH_EVENTS_MAX = 500
_BATCH_BYTES_MAX = 8 * 1024 * 1024
# The append lock is taken for no more than these; more rounds come first.
_LOCKED_EVENTS_MAX = 200
_ROUNDS_MAX = 100
# Streams whose folds are kept between rounds: those being written to.
_FOLDS_KEPT_MAX = 2_000
_DELETE_PAGES = 256

Connection = AsyncConnection[TupleRow]


class RebuildRunningError(Exception):
    """Another rebuild is under way; it will do."""


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """How many events were folded into how many rows, and the generation that serves now."""

    events: int
    rows: int
    seconds: float
    generation: int
    locked_seconds: float

    def __str__(self) -> str:
        per_second = self.events / self.seconds if self.seconds else 0.0
        return (
            f"generation {self.generation} serves: {self.events} events, {self.rows} rows, {self.seconds:.1f} s "
            f"({per_second:,.0f} events/s); writes waited {self.locked_seconds * 1000:.0f} ms at the switch"
        )


async def rebuild(dsn: str) -> RebuildReport:
    """Folds the log into the next generation and switches to it; what an attempt that died left behind goes first.

    Raises RebuildRunningError where another one runs.
    """
    started = time.monotonic()
    async with await _connect(dsn) as writer, await _connect(dsn) as reader:
        if await _value(writer, "lock_rebuild") is not True:
            raise RebuildRunningError("Another rebuild is running")
        kept = await _value(writer, "generation")
        # What is copied is of no use before the switch, and on disk with it.
        await writer.execute(_SQL["commit_without_waiting"])
        await _delete_others(writer, kept)
        attempt = _Attempt(reader, writer, kept + 1)
        await attempt.fold_all()
        await writer.execute(_SQL["analyze_coarsely"])
        await writer.execute(_SQL["analyze"])
        await attempt.catch_up()
        locked_seconds = await attempt.switch()
        seconds = time.monotonic() - started
        await _delete_others(writer, kept + 1)
    return RebuildReport(attempt.position, attempt.rows, seconds, kept + 1, locked_seconds)


class _Attempt:
    """One generation on its way; `position` is how far the log is in it."""

    def __init__(self, reader: Connection, writer: Connection, generation: int) -> None:
        self.position = 0
        self.rows = 0
        self._reader = reader
        self._writer = writer
        self._generation = generation
        self._folds: OrderedDict[UUID, StreamFold] = OrderedDict()

    async def fold_all(self) -> None:
        """Every stream as of one snapshot, folded whole."""
        await self._reader.execute(_SQL["begin_snapshot"])
        self.position = await _value(self._reader, "head")
        async with aclosing(_streams(self._reader)) as streams, OneBehind() as copies:
            async for finished in _folded(streams):
                await copies.start(self._copy(finished))
        await self._reader.execute("rollback")

    async def catch_up(self) -> None:
        """Rounds over what was appended meanwhile, until little is left or writers stay ahead."""
        for _ in range(_ROUNDS_MAX):
            head = await _value(self._reader, "head")
            if head - self.position <= _LOCKED_EVENTS_MAX:
                return
            await self._fold_upto(head)
        _log.warning("rebuild_behind", position=self.position, rounds=_ROUNDS_MAX)

    async def switch(self) -> float:
        """The last events and the new generation, in one transaction that keeps appends out; how long it did, in seconds."""
        # What is left is folded once more without the lock, so that its streams are at hand under it.
        await self._fold_upto(await _value(self._reader, "head"))
        await self._writer.execute(_SQL["commit_as_configured"])
        async with self._writer.transaction():
            await self._writer.execute(_SQL["lock_append"])
            started = time.monotonic()
            await self._fold_upto(await _value(self._writer, "head"))
            cursor = await self._writer.execute(_SQL["switch"], {"generation": self._generation})
            if cursor.rowcount != 1:
                raise RebuildRunningError("The generation was changed by another")
        return time.monotonic() - started

    async def _fold_upto(self, head: int) -> None:
        """The events after `position` up to `head` at least, by the function that writes rows inline."""
        while self.position < head:
            parameters = {"after": self.position, "limit": _BATCH_EVENTS_MAX, "bytes_max": _BATCH_BYTES_MAX}
            # In the switch's transaction the lock's holder must see what it waited for: both connections read committed.
            events = await (await self._reader.execute(_SQL["events_after"], parameters, binary=True)).fetchall()
            rows, blobs, before = Rows(), list[bytes](), self.position
            for event in events:
                _fold(await self._fold_of(event, before), [event], rows, event[2] - before)
            written = orjson.dumps(rows.to_json(blobs)).decode()
            await self._writer.execute(
                _SQL["write_rows"], {"rows": written, "blobs": blobs or [b""], "generation": self._generation, "before": before}
            )
            self.rows += rows.count
            self.position = events[-1][2]

    async def _fold_of(self, event: Row, before: int) -> StreamFold:
        """The stream's fold as of the position `before`, or further: events of one round are folded as they come."""
        stream_id = event[0]
        fold = self._folds.get(stream_id)
        if fold is None:
            fold = _new_fold(event)
            if event[1] > 1:
                cursor = await self._reader.execute(_SQL["stream"], {"stream_id": stream_id, "upto": before}, binary=True)
                _fold(fold, await cursor.fetchall(), Rows(), 1)
            self._folds[stream_id] = fold
            if len(self._folds) > _FOLDS_KEPT_MAX:
                self._folds.popitem(last=False)
        else:
            self._folds.move_to_end(stream_id)
        return fold

    async def _copy(self, finished: dict[str, list[Row]]) -> None:
        """Copies rows that are finished, in one transaction, and forgets them."""
        async with self._writer.transaction(), self._writer.cursor() as cursor:
            for model in READ_MODELS:
                rows = finished[model.table]
                if not rows:
                    continue
                async with cursor.copy(_SQL[f"copy_{model.table}"]) as copy:
                    copy.set_types(["int4", *model.types])
                    for row in rows:
                        await copy.write_row((self._generation, *row))
                self.rows += len(rows)


def _new_fold(event: Row) -> StreamFold:
    return StreamFold(event[0], project_id=event[6], warehouse_id=event[7])


def _fold(fold: StreamFold, events: Sequence[Row], rows: Rows, number: int) -> None:
    """Folds events of one stream; the first of them has the number `number` in `rows`."""
    for n, (_, version, _, event_id, topic, state, _, _) in enumerate(events, start=number):
        fold.apply(rows, n, version, event_id, topic, state)


async def _folded(streams: AsyncIterator[list[Row]]) -> AsyncIterator[dict[str, list[Row]]]:
    """The rows of some streams by table, and of the next ones: as much as is copied at once."""
    finished: dict[str, list[Row]] = defaultdict(list)
    events, size = 0, 0
    async for stream in streams:
        rows = Rows()
        _fold(_new_fold(stream[0]), stream, rows, 1)
        for table, more in stamped(rows, [event[2] for event in stream]).items():
            finished[table] += more
        events += len(stream)
        size += sum([len(event[5]) for event in stream])
        if events >= _COPY_EVENTS or size >= _COPY_BYTES:
            yield finished
            finished, events, size = defaultdict(list), 0, 0
        # What is copied meanwhile, and fetched for later, gets its turn.
        await asyncio.sleep(0)
    yield finished


async def _streams(reader: Connection) -> AsyncGenerator[list[Row], None]:
    """The events of each stream in turn."""
    pending: list[Row] = []
    async with reader.cursor(name="rebuild_streams") as cursor, aclosing(fetched_ahead(cursor, _FETCH_ROWS)) as batches:
        await cursor.execute(_SQL["streams"], binary=True)
        async for batch in batches:
            for stream_id, events in groupby(batch, itemgetter(0)):
                if pending and pending[-1][0] != stream_id:
                    yield pending
                    pending = []
                pending.extend(events)
    if pending:
        yield pending


async def _delete_others(writer: Connection, kept: int) -> None:
    """Deletes the rows of other generations than `kept`, some pages at a time: no row is looked at twice."""
    # The job that closes parts moves rows from page to page: not behind us.
    await writer.execute(_SQL["lock_settling"])
    cursor = await writer.execute(_SQL["tables_with_others"], {"kept": kept})
    with_others = {table for (table,) in await cursor.fetchall()}
    for model in (*READ_MODELS, PART_TOMBSTONES):
        if model.table not in with_others:
            continue
        pages = await _value(writer, "pages", {"table": f"icecore.{model.table}"})
        for page in range(0, pages, _DELETE_PAGES):
            await writer.execute(_SQL[f"delete_{model.table}"], {"kept": kept, "first": page, "end": page + _DELETE_PAGES})
    await writer.execute(_SQL["unlock_settling"])


async def _value(connection: Connection, block: str, parameters: dict[str, Any] | None = None) -> int:
    row = await (await connection.execute(_SQL[block], parameters)).fetchone()
    assert row is not None
    value: int = row[0]
    return value


async def _connect(dsn: str) -> Connection:
    return await AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=0, application_name="icecore-rebuild")
