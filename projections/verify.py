"""Verification: folds the log and compares it with every row derived from it, while the catalog serves.

It reads one snapshot. Its memory is bounded by the largest stream, not by the log.

It cannot see that the end of the log was removed together with all derived rows, or that the whole log was rewritten with new hashes.
To detect these, keep a position and its hash elsewhere (`VerifyReport.head`, `VerifyReport.head_hash`).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from itertools import count, islice
from typing import Any, LiteralString
from uuid import UUID

from psycopg import AsyncClientCursor, AsyncConnection, DataError, ProgrammingError
from psycopg.abc import Buffer
from psycopg.rows import TupleRow
from psycopg.sql import Composed
from psycopg.types.datetime import TimestamptzBinaryLoader

from ..database.connection import connect, lift_time_limits
from ..database.named_sql import named_sql
from ..domain.claims import Claim, NameClaim
from ..domain.read_models.definitions import PART_TOMBSTONES, READ_MODELS, ReadModel, Row
from ..domain.read_models.rows import Rows
from ..domain.read_models.stream_fold import StreamFold
from ..domain.recorded import RecordedEvent
from ..domain.streams import claims_of
from .model_sql import model_sql
from .stream_ranges import ALL_STREAMS, StreamRange
from .verify_chain import check_link
from .verify_records import check_old_metadata_files, check_records, check_secrets, check_sinks
from .verify_report import VerifyReport
from .verify_schema import check_migrations, check_schema
from .verify_search import SearchCheck
from .verify_statistics import StatisticsCheck
from .verify_tombstones import expected_tombstones, with_tombstones
from .watch import Watch, not_watched

_SQL = named_sql("icecore.projections", "verify.sql")
_CURSORS = count()

# Rows fetched at once from one table.
_FETCH_ROWS = 200

Connection = AsyncConnection[TupleRow]


async def verify(dsn: str, *, admin_roles: Collection[str] = (), watch: Watch = not_watched) -> VerifyReport:
    """Checks the schema and the hash chain, folds every stream, and compares every row, claim and command with the log.

    admin_roles -- roles that may write everything without a grant on the schema; any other such role is a difference.
    watch -- called with the number of events done, and of all events; each counts twice, as it is hashed and then folded.
    """
    started = time.monotonic()
    report = VerifyReport()
    async with await _begun(dsn) as connection:
        report.generation = await _generation(connection)
        await check_schema(connection, report, admin_roles)
        try:
            await check_migrations(connection, report)
            await _check_chain(connection, report, watch)
            await check_records(connection, report)
            await _check_streams(connection, report, ALL_STREAMS, watch=watch)
            await check_old_metadata_files(connection, report)
            await check_secrets(connection, report)
            await check_sinks(connection, report)
        except ProgrammingError:
            # A missing table or column cannot be read. The report contains that difference already.
            if report.ok:
                raise
        await connection.execute("rollback")
    report.seconds = time.monotonic() - started
    return report


async def verify_part(dsn: str, snapshot: str, part: StreamRange, events: Iterable[Row]) -> VerifyReport:
    """Folds the streams of a part, and compares their rows and claims, as an exported snapshot has them.

    events -- of the streams, ordered by stream and version: stream_id, version, position, event_id, topic, state, project_id,
    warehouse_id.
    """
    report = VerifyReport()
    async with await _begun(dsn, snapshot) as connection:
        report.generation = await _generation(connection)
        await _check_streams(connection, report, part, events=_batched(events))
        await connection.execute("rollback")
    return report


@asynccontextmanager
async def exported_snapshot(dsn: str) -> AsyncGenerator[tuple[str, int], None]:
    """A snapshot that other connections can take for the length of the block, and the position of the log's head in it."""
    async with await _begun(dsn) as connection:
        row = await (await connection.execute(_SQL["export_snapshot"])).fetchone()
        assert row is not None
        yield row[0], await _head(connection)
        await connection.execute("rollback")


async def _begun(dsn: str, snapshot: str | None = None) -> Connection:
    """A connection in a transaction that reads one snapshot: its own, or an exported one."""
    connection = await connect(dsn, application_name="icecore-verify")
    connection.adapters.register_loader("timestamptz", _NearestTimeLoader)
    await connection.execute(_SQL["begin"])
    if snapshot is not None:
        # The statement takes a literal only.
        await AsyncClientCursor(connection).execute(_SQL["take_snapshot"], {"snapshot": snapshot})
    await connection.execute(_SQL["formats"])
    await lift_time_limits(connection, local=True)
    return connection


class _NearestTimeLoader(TimestamptzBinaryLoader):
    """Maps times that Python cannot represent, such as infinity, to the first or last year, in which no event was recorded."""

    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except DataError:
            is_past = bytes(data)[0] >= 0x80
            return datetime(1, 1, 1, tzinfo=UTC) if is_past else datetime(9999, 12, 31, 23, tzinfo=UTC)


async def _head(connection: Connection) -> int:
    row = await (await connection.execute(_SQL["head"])).fetchone()
    return 0 if row is None else row[0]


async def _generation(connection: Connection) -> int:
    row = await (await connection.execute(_SQL["generation"])).fetchone()
    return 0 if row is None else row[0]


# The chain, and the commands


async def _check_chain(connection: Connection, report: VerifyReport, watch: Watch) -> None:
    """Checks that positions are dense, times do not decrease and hashes are chained.

    Also checks the rows of commands, and the asynchronous read models.
    """
    commands = _Commands(_rows(connection, _SQL["commands"]), report)
    asynchronous: list[StatisticsCheck | SearchCheck] = [
        await StatisticsCheck.begin(connection, report),
        await SearchCheck.begin(connection, report),
    ]
    previous: RecordedEvent | None = None
    first = 0
    head = await _head(connection)
    async for batch in _rows(connection, _SQL["chain"]):
        for row in batch:
            event = RecordedEvent(*row)
            check_link(previous, event, report)
            for check in asynchronous:
                check.add(event)
            if previous is None or event.command_id != previous.command_id:
                if previous is not None:
                    await commands.expect(first, previous)
                first = event.position
            previous = event
        if previous is not None:
            watch(previous.position, 2 * head)
    if previous is not None:
        await commands.expect(first, previous)
        report.head, report.head_hash = previous.position, previous.hash
    await commands.expect_no_more()
    for check in asynchronous:
        await check.compare(connection, report)


class _OrderedRows:
    """Rows read in batches, in order. The next row is the last of `_rows`."""

    def __init__(self, batches: AsyncGenerator[list[Row], None]) -> None:
        self._batches = batches
        self._rows: list[Row] = []

    async def _more(self) -> bool:
        """Whether there is a next row; reads a batch if necessary."""
        if not self._rows:
            self._rows = [*reversed(await anext(self._batches, []))]
        return bool(self._rows)


class _Commands(_OrderedRows):
    """The rows of commands with events, compared with the log in the order of their first positions."""

    def __init__(self, batches: AsyncGenerator[list[Row], None], report: VerifyReport) -> None:
        super().__init__(batches)
        self._report = report

    async def expect(self, first: int, last: RecordedEvent) -> None:
        """Compares the command of the events from position `first` to `last`."""
        while await self._more() and self._rows[-1][0] < first:
            self._surplus(self._rows.pop())
        if not self._rows or self._rows[-1][0] != first:
            self._report.add("commands", f"command_id {last.command_id}", None, (first, last.position), None)
            return
        self._report.commands += 1
        _, *found = self._rows.pop()
        for column, wanted, value in zip(
            ("command_id", "last_position", "recorded_at"), (last.command_id, last.position, last.recorded_at), found, strict=True
        ):
            if wanted != value:
                self._report.add("commands", f"command_id {found[0]}, first_position {first}", column, wanted, value)

    async def expect_no_more(self) -> None:
        while await self._more():
            self._surplus(self._rows.pop())

    def _surplus(self, row: Row) -> None:
        first_position, command_id, last_position, _ = row
        self._report.add("commands", f"command_id {command_id}", None, None, (first_position, last_position))


# The streams: rows and claims


async def _check_streams(
    connection: Connection,
    report: VerifyReport,
    part: StreamRange,
    *,
    events: AsyncGenerator[list[Row], None] | None = None,
    watch: Watch = not_watched,
) -> None:
    """Folds every stream of a part and compares its rows and claims. Rows that remain belong to no stream.

    events -- of the part's streams; None: those of the log.
    """
    async with AsyncExitStack() as opened:
        parameters = {"generation": report.generation, "first": part.first, "last": part.last}
        preloaded = {row[0] async for batch in _rows(connection, _SQL["preloaded_parts"], parameters) for row in batch}
        models = [(model, _Groups(_rows(connection, model_sql(_SQL["rows"], model), parameters))) for model in READ_MODELS]
        tombstones = _Groups(_rows(connection, _SQL["part_tombstones"], parameters))
        names, locations = (_Groups(_rows(connection, _SQL[table], parameters)) for table in ("claims", "location_claims"))
        streams = _Groups(_rows(connection, _SQL["streams"], parameters) if events is None else events)
        for groups in (names, locations, streams, tombstones, *(groups for _, groups in models)):
            opened.push_async_callback(groups.close)
        looked_at = report.head
        while (stream_id := await streams.next_owner()) is not None:
            report.streams += 1
            _, of_stream = await streams.take(stream_id)
            folded, rows = _fold(of_stream, report)
            looked_at += len(of_stream)
            watch(looked_at, 2 * report.head)
            expected = rows.finished()
            if stream_id in preloaded:
                report.add("preloaded_parts", f"table_id {stream_id}", None, None, (stream_id,))
            stray_tombstones, closing = await tombstones.take(stream_id)
            _check_rows(PART_TOMBSTONES, [], stray_tombstones, report)
            for model, groups in models:
                strays, found = await groups.take(stream_id)
                if model.table == "table_parts":
                    strays = [row for row in strays if row[0] not in preloaded]
                    _check_rows(PART_TOMBSTONES, expected_tombstones(rows.parts_closed, found, closing), closing, report)
                    found = with_tombstones(found, closing)
                _check_rows(model, [], strays, report)
                _check_rows(model, expected[model.table], found, report)
            await _check_claims(claims_of(folded.state), stream_id, names, locations, report)
            await asyncio.sleep(0)
        for model, groups in [*models, (PART_TOMBSTONES, tombstones)]:
            async for batch in groups.rest():
                _check_rows(model, [], [row for row in batch if model.table != "table_parts" or row[0] not in preloaded], report)
        async for batch in names.rest():
            _check_claim_rows(set(), [_name_claim(row) for row in batch], "claims", report)
        async for batch in locations.rest():
            _check_claim_rows(set(), [_location_row(row) for row in batch], "location_claims", report)


def _fold(events: Sequence[Row], report: VerifyReport) -> tuple[StreamFold, Rows]:
    stream_id, _, _, _, _, _, project_id, warehouse_id = events[0]
    folded, rows = StreamFold(stream_id, project_id, warehouse_id), Rows()
    for number, (_, version, position, event_id, topic, state, _, _) in enumerate(events, start=1):
        if version != number:
            report.add("events", f"position {position}", "originator_version", number, version)
        try:
            folded.apply(rows, position, version, event_id, topic, bytes(state))
        except Exception as error:
            report.add(
                "events",
                f"position {position}",
                "state",
                f"a state of {topic} that can follow the event before",
                f"{type(error).__name__}: {error}",
            )
            break
    return folded, rows


def _check_rows(model: ReadModel, expected: Sequence[Row], found: Sequence[Row], report: VerifyReport) -> None:
    if model is not PART_TOMBSTONES:  # which say of rows that were counted
        report.rows += len(found)
    if expected == found:
        return
    wanted = {row[: model.key_columns]: row for row in expected}
    for row in found:
        key = row[: model.key_columns]
        other = wanted.pop(key, None)
        if other is None:
            report.add(model.table, _key(model, key), None, None, row)
        elif other != row:
            for column, value, value_found in zip(model.columns, other, row, strict=True):
                if value != value_found:
                    report.add(model.table, _key(model, key), column, value, value_found)
    for key, row in wanted.items():
        report.add(model.table, _key(model, key), None, row, None)


async def _check_claims(claims: frozenset[Claim], stream_id: UUID, names: "_Groups", locations: "_Groups", report: VerifyReport) -> None:
    strays, found = await names.take(stream_id)
    held = {("claims", c.kind, c.scope, c.key, c.owner) for c in claims if isinstance(c, NameClaim)}
    _check_claim_rows(held, [_name_claim(row) for row in (*strays, *found)], "claims", report)
    strays, found = await locations.take(stream_id)
    located = {("location_claims", c.key, c.owner, c.kind) for c in claims if not isinstance(c, NameClaim)}
    _check_claim_rows(located, [_location_row(row) for row in (*strays, *found)], "location_claims", report)


def _name_claim(row: Row) -> Row:
    owner, kind, scope, key = row
    return ("claims", kind, scope, key, owner)


def _location_row(row: Row) -> Row:
    owner, key, kind = row
    return ("location_claims", key, owner, kind)


_CLAIM_COLUMNS = {"claims": ("kind", "scope", "key", "owner"), "location_claims": ("key", "owner", "kind")}


def _check_claim_rows(expected: set[Row], found: Sequence[Row], table: str, report: VerifyReport) -> None:
    """All columns of a claim are its key, so a claim that differs is reported as one surplus and one missing row."""
    report.claims += len(found)
    for claim in found:
        if claim not in expected:
            report.add(table, _claim_key(table, claim), None, None, claim[1:])
    for claim in expected.difference(found):
        report.add(table, _claim_key(table, claim), None, claim[1:], None)


def _claim_key(table: str, claim: Row) -> str:
    return ", ".join(f"{column} {value}" for column, value in zip(_CLAIM_COLUMNS[table], claim[1:], strict=True))


# Reading in order


class _Groups(_OrderedRows):
    """Ordered rows, grouped by their first column, the owner. Owners are taken in ascending order."""

    async def next_owner(self) -> UUID | None:
        return self._rows[-1][0] if await self._more() else None

    async def take(self, owner: UUID) -> tuple[list[Row], list[Row]]:
        """The rows of owners before `owner`, which belong to no stream, and its own."""
        strays: list[Row] = []
        own: list[Row] = []
        while await self._more() and self._rows[-1][0] <= owner:
            row = self._rows.pop()
            (own if row[0] == owner else strays).append(row)
        return strays, own

    async def rest(self) -> AsyncIterator[list[Row]]:
        while await self._more():
            rest, self._rows = [*reversed(self._rows)], []
            yield rest

    async def close(self) -> None:
        await self._batches.aclose()


async def _batched(rows: Iterable[Row]) -> AsyncGenerator[list[Row], None]:
    remaining = iter(rows)
    while batch := [*islice(remaining, _FETCH_ROWS)]:
        yield batch


async def _rows(
    connection: Connection, query: LiteralString | Composed, parameters: dict[str, Any] | None = None
) -> AsyncGenerator[list[Row], None]:
    """Yields the rows of a query, _FETCH_ROWS at a time, from a server-side cursor."""
    async with connection.cursor(name=f"verify_{next(_CURSORS)}") as cursor:
        await cursor.execute(query, parameters or {}, binary=True)
        while batch := await cursor.fetchmany(_FETCH_ROWS):
            yield batch


def _key(model: ReadModel, key: Row) -> str:
    return ", ".join(f"{column} {value}" for column, value in zip(model.columns, key, strict=False))
