"""One part of a rebuild: the streams between two ids, as of one snapshot, folded and copied into a new generation.

A large log is folded by a process per core. Each beside the first runs this module. It is handed parts through its standard input, one
after the other as it asks for them, so that it takes as many as it comes to; when that is closed it ends: its parent has ended,
whichever way.
"""

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

import orjson
import uvloop
from psycopg import AsyncClientCursor, AsyncConnection

from migrations.named_sql import named_sql
from projections.overlap import OneBehind, fetched_ahead
from projections.postgres import Connection
from projections.rows import Row, Rows
from projections.stamped_rows import READ_MODELS, stamped
from projections.streams import StreamFold

_SQL = named_sql("projections", "rebuild.sql")

# Copied at once, so that a part's memory is bound by twice these and by its largest stream.
_COPY_EVENTS = 1_000
_COPY_BYTES = 16 * 1024 * 1024
# A fetch fits into a socket's buffer, so that Postgres gets it ready while the one before is folded.
_FETCH_ROWS = 100
_LOWEST, _HIGHEST = UUID(int=0), UUID(int=2**128 - 1)
# What a process says when it has come to the end of a part; its last word is how many rows it copied.
_NEXT = b"next\n"


class PartFailedError(Exception):
    """A process of the rebuild ended without its rows; what it died of stands on its standard error."""


@dataclass(frozen=True, slots=True)
class Part:
    """The streams from `first` to `last`, both among them."""

    first: UUID
    last: UUID


def parts_between(boundaries: Sequence[UUID]) -> list[Part]:
    """Every id is in one of the parts; each boundary begins one."""
    firsts = sorted({_LOWEST, *boundaries})
    lasts = [UUID(int=first.int - 1) for first in firsts[1:]]
    return [Part(first, last) for first, last in zip(firsts, [*lasts, _HIGHEST], strict=True)]


async def connect(dsn: str) -> Connection:
    return await AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=0, application_name="icecore-rebuild")


async def copy_parts(reader: Connection, writer: Connection, generation: int, parts: AsyncIterator[Part]) -> int:
    """Folds every stream of the parts as `reader`'s transaction sees it; how many rows were copied."""
    copied = 0

    async def copy(finished: dict[str, list[Row]]) -> None:
        nonlocal copied
        await _copy(writer, generation, finished)
        copied += sum(map(len, finished.values()))

    async with aclosing(_streams(reader, parts)) as streams, OneBehind() as copies:
        async for finished in _folded(streams):
            await copies.start(copy(finished))
    return copied


async def copy_parts_in_process(dsn: str, snapshot: str, generation: int, parts: Iterator[Part]) -> int:
    """The same by a process of its own, on a snapshot that was exported, as far as it comes with them; raises PartFailedError."""
    first = next(parts, None)
    if first is None:
        return 0
    command = [sys.executable, "-m", "projections.rebuild_part"]
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(ConnectionError):
            await _tell(process.stdin, {"dsn": dsn, "snapshot": snapshot, "generation": generation})
            await _tell(process.stdin, first)
            while (said := await process.stdout.readline()) == _NEXT:
                await _tell(process.stdin, next(parts, None))
        if await process.wait() != 0:
            raise PartFailedError(f"A process of the rebuild ended with {process.returncode}")
        return int(said)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _tell(process: asyncio.StreamWriter, given: object) -> None:
    process.write(orjson.dumps(given) + b"\n")
    await process.drain()


def fold_events(fold: StreamFold, events: Sequence[Row], rows: Rows, number: int) -> None:
    """Folds events of one stream; the first of them has the number `number` in `rows`."""
    for n, (_, version, _, event_id, topic, state, _, _) in enumerate(events, start=number):
        fold.apply(rows, n, version, event_id, topic, state)


def new_fold(event: Row) -> StreamFold:
    """For the stream whose first event this is."""
    return StreamFold(event[0], project_id=event[6], warehouse_id=event[7])


async def _streams(reader: Connection, parts: AsyncIterator[Part]) -> AsyncGenerator[list[Row], None]:
    """The events of each stream in turn."""
    async for part in parts:
        pending: list[Row] = []
        async with reader.cursor(name="rebuild_streams") as cursor, aclosing(fetched_ahead(cursor, _FETCH_ROWS)) as batches:
            await cursor.execute(_SQL["streams"], {"first": part.first, "last": part.last}, binary=True)
            async for batch in batches:
                for stream_id, events in groupby(batch, itemgetter(0)):
                    if pending and pending[-1][0] != stream_id:
                        yield pending
                        pending = []
                    pending.extend(events)
        if pending:
            yield pending


async def _folded(streams: AsyncIterator[list[Row]]) -> AsyncIterator[dict[str, list[Row]]]:
    """The rows of some streams by table, and of the next ones: as much as is copied at once."""
    finished: dict[str, list[Row]] = defaultdict(list)
    events, size = 0, 0
    async for stream in streams:
        rows = Rows()
        fold_events(new_fold(stream[0]), stream, rows, 1)
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


async def _copy(writer: Connection, generation: int, finished: dict[str, list[Row]]) -> None:
    """Copies rows that are finished, in one transaction."""
    async with writer.transaction(), writer.cursor() as cursor:
        for model in READ_MODELS:
            if not finished[model.table]:
                continue
            async with cursor.copy(_SQL[f"copy_{model.table}"]) as copy:
                copy.set_types(["int4", *model.types])
                for row in finished[model.table]:
                    await copy.write_row((generation, *row))


class _Parent:
    """What the parent sends, line by line."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._begun = b""
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    def _read(self) -> None:
        sent = os.read(sys.stdin.fileno(), 65_536)
        if not sent:
            # It has ended, whatever it was that this process was doing for it.
            os._exit(1)
        *lines, self._begun = (self._begun + sent).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line)

    async def said(self) -> Any:
        return orjson.loads(await self._lines.get())

    async def parts(self) -> AsyncIterator[Part]:
        """One that came unasked, then others until there are none left."""
        while (part := await self.said()) is not None:
            yield Part(UUID(part["first"]), UUID(part["last"]))
            sys.stdout.buffer.write(_NEXT)
            sys.stdout.buffer.flush()


async def _run() -> int:
    parent = _Parent()
    given = await parent.said()
    async with await connect(given["dsn"]) as writer, await connect(given["dsn"]) as reader:
        # First the lock, then the snapshot, which is there only while the parent's transaction is: a rebuild that begins when the
        # parent has ended so sees the lock of whoever may still write.
        await writer.execute(_SQL["lock_part"])
        await writer.execute(_SQL["commit_without_waiting"])
        await reader.execute(_SQL["begin_snapshot"])
        await AsyncClientCursor(reader).execute(_SQL["take_snapshot"], {"snapshot": given["snapshot"]})
        return await copy_parts(reader, writer, given["generation"], parent.parts())


if __name__ == "__main__":
    sys.stdout.write(f"{uvloop.run(_run())}\n")
