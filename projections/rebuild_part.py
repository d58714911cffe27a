"""One part of a rebuild: folds the streams between two ids, as of one snapshot, and copies them into the new generation.

A large log is folded by one process per core. Helpers are forked before the first process has connections or an event loop. They request
one part after the other, and end when the first process ends.
"""

import asyncio
import multiprocessing
import os
import signal
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import ForkProcess
from operator import itemgetter
from typing import Any

import uvloop
from psycopg import AsyncClientCursor

from ..database.advisory_locks import AdvisoryLock, lock_session_shared
from ..database.connection import connect as open_connection
from ..database.connection import lift_time_limits
from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.read_models.definitions import READ_MODELS, Row
from ..domain.read_models.rows import Rows
from ..domain.read_models.stream_fold import StreamFold
from .model_sql import model_sql
from .stream_ranges import StreamRange

_SQL = named_sql("icecore.projections", "rebuild.sql")

# Limits on one copy, so that a part's memory is limited by these and by its largest stream.
_COPY_EVENTS = 1_000
_COPY_BYTES = 16 * 1024 * 1024
# A few milliseconds of folding. Between two fetches, other processes get their parts.
_FETCH_ROWS = 100

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class PartFailedError(Exception):
    """A helper process failed. The cause is on its standard error."""


async def connect(dsn: str) -> Connection:
    # Without `tcp_user_timeout`: while Postgres's storage is slow, a COPY may not be read for longer.
    connection = await open_connection(dsn, prepare_threshold=0, application_name="icecore-rebuild", tcp_user_timeout=0)
    await lift_time_limits(connection)
    return connection


async def copy_parts(reader: Connection, writer: Connection, generation: int, parts: AsyncIterator[StreamRange]) -> int:
    """Folds every stream of the parts as `reader`'s transaction sees it. Returns the number of rows copied."""
    copied = 0
    async with aclosing(_streams(reader, parts)) as streams:
        async for finished in _folded(streams):
            await _copy(writer, generation, finished)
            copied += sum(map(len, finished.values()))
    return copied


@dataclass(frozen=True, slots=True)
class Helper:
    """A process that waits for parts of a rebuild; `pipe` is this process's end of the pipe between them."""

    process: ForkProcess
    pipe: Pipe


@contextmanager
def forked_helpers(count: int) -> Iterator[list[Helper]]:
    """Forks processes for one rebuild, which end with the block. Call it before there are connections, threads or a running loop."""
    forking = multiprocessing.get_context("fork")
    helpers: list[Helper] = []
    try:
        for _ in range(count):
            ours, theirs = forking.Pipe()
            # Each helper closes its copies of our ends of the pipes: as long as one is open, the helpers would not notice our end.
            process = forking.Process(target=_help, args=(theirs, [*(helper.pipe for helper in helpers), ours]), daemon=True)
            with _signals_blocked():
                process.start()
                theirs.close()
                helpers.append(Helper(process, ours))
        yield helpers
    finally:
        for helper in helpers:
            helper.pipe.close()
        for helper in helpers:
            helper.process.join()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Handles signals after the block. Python ignores the exception of a handler that runs within a hook of the fork, such as logging's."""
    former = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


async def copy_parts_by(helper: Helper, dsn: str, snapshot: str, generation: int, parts: Iterator[StreamRange]) -> int:
    """As copy_parts, in a helper on an exported snapshot; it takes parts while there are any. Raises PartFailedError."""
    first = next(parts, None)
    if first is None:
        return 0
    try:
        helper.pipe.send((dsn, snapshot, generation))
        helper.pipe.send(first)
        while (received := await _received(helper.pipe)) is None:
            helper.pipe.send(next(parts, None))
    except (EOFError, OSError):
        raise PartFailedError("A process of the rebuild ended before it had written its rows") from None
    return int(received)


async def _received(pipe: Pipe) -> Any:
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pipe.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(pipe.fileno())
    return pipe.recv()


def fold_events(fold: StreamFold, events: Sequence[Row], rows: Rows, before: int = 0) -> None:
    """Folds events of one stream. Positions in `rows` are relative to `before`."""
    for _, version, position, event_id, topic, state, _, _ in events:
        fold.apply(rows, position - before, version, event_id, topic, state)


def new_fold(event: Row) -> StreamFold:
    """A fold for the stream whose first event is `event`."""
    return StreamFold(event[0], project_id=event[6], warehouse_id=event[7])


async def _streams(reader: Connection, parts: AsyncIterator[StreamRange]) -> AsyncGenerator[list[Row], None]:
    """Yields the events of each stream."""
    async for part in parts:
        pending: list[Row] = []
        async with reader.cursor(name="rebuild_streams") as cursor:
            await cursor.execute(_SQL["streams"], {"first": part.first, "last": part.last}, binary=True)
            while batch := await cursor.fetchmany(_FETCH_ROWS):
                for stream_id, events in groupby(batch, itemgetter(0)):
                    if pending and pending[-1][0] != stream_id:
                        yield pending
                        pending = []
                    pending.extend(events)
        if pending:
            yield pending


async def _folded(streams: AsyncIterator[list[Row]]) -> AsyncIterator[dict[str, list[Row]]]:
    """Yields the rows of several streams by table, as many as are copied at a time."""
    finished: dict[str, list[Row]] = defaultdict(list)
    events, size = 0, 0
    async for stream in streams:
        rows = Rows()
        fold_events(new_fold(stream[0]), stream, rows)
        for table, more in rows.finished().items():
            finished[table] += more
        events += len(stream)
        size += sum([len(event[5]) for event in stream])
        if events >= _COPY_EVENTS or size >= _COPY_BYTES:
            yield finished
            finished, events, size = defaultdict(list), 0, 0
    yield finished


async def _copy(writer: Connection, generation: int, finished: dict[str, list[Row]]) -> None:
    """Copies finished rows in one transaction."""
    async with writer.transaction(), writer.cursor() as cursor:
        for model in READ_MODELS:
            if not finished[model.table]:
                continue
            async with cursor.copy(model_sql(_SQL["copy"], model)) as copy:
                copy.set_types(["int4", *model.types])
                for row in finished[model.table]:
                    await copy.write_row((generation, *row))


def _help(pipe: Pipe, of_others: Sequence[Pipe]) -> None:
    # The handlers of the first process would close here what it has opened.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    for other in of_others:
        other.close()
    uvloop.run(_copy_for(pipe))


async def _copy_for(pipe: Pipe) -> None:
    """Copies the parts that the first process sends. It sends None to request the next part, and at the end the number of rows copied."""
    received: asyncio.Queue[Any] = asyncio.Queue()

    def receive() -> None:
        try:
            received.put_nowait(pipe.recv())
        except (EOFError, OSError):
            # The first process has ended or closed the pipe, so this process ends at once.
            os._exit(1)

    async def parts() -> AsyncIterator[StreamRange]:
        while (part := await received.get()) is not None:
            yield part
            pipe.send(None)

    asyncio.get_running_loop().add_reader(pipe.fileno(), receive)
    dsn, snapshot, generation = await received.get()
    async with await connect(dsn) as writer, await connect(dsn) as reader:
        # First the lock, then the snapshot, which exists only during the first process's transaction. So a rebuild that begins after
        # that transaction sees the locks of all processes that may still write.
        await lock_session_shared(writer, AdvisoryLock.REBUILD_PARTS)
        await writer.execute(_SQL["commit_without_waiting"])
        await reader.execute(_SQL["begin_snapshot"])
        await AsyncClientCursor(reader).execute(_SQL["take_snapshot"], {"snapshot": snapshot})
        rows = await copy_parts(reader, writer, generation, parts())
    pipe.send(rows)
