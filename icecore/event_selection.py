"""The options of `icecore log` that select events: by position, time, table and actor."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from .database.connections import Connection
from .domain.errors import BadRequest, NoSuchTable
from .domain.identifiers import NamespaceIdentifier, TabularIdentifier, uuid_or_none
from .domain.recorded import RecordedEvent
from .exit_codes import CommandFailed, ExitCode
from .log.head import log_head
from .log.positions import position_at
from .open_warehouse import named_warehouse
from .projections.names import NameLookup, find_table

_RESOLUTION = timedelta(microseconds=1)
"""The resolution of event times."""
_FIRST_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""Before any event."""


@dataclass(frozen=True, slots=True)
class EventOptions:
    """The options as typed. All given options must match.

    table -- `[WAREHOUSE[@POINT]:]NAMESPACE.TABLE`, or its id. since, until -- RFC 3339 with a zone, inclusive.
    """

    first: int = 1
    since: str | None = None
    until: str | None = None
    table: str | None = None
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class EventSelection:
    """Positions `first` to `last` (None: no end), and conditions on the events."""

    first: int
    last: int | None
    stream_id: UUID | None
    actor: str | None

    def matches(self, event: RecordedEvent) -> bool:
        return self.stream_id in (None, event.stream_id) and self.actor in (None, event.actor)


async def select_events(connection: Connection, options: EventOptions, *, follow: bool) -> EventSelection:
    """Resolves the options against the log. Raises CommandFailed and CatalogError for invalid options."""
    since, until = _time(options.since, "--since"), _time(options.until, "--until")
    if follow and until is not None:
        raise CommandFailed(ExitCode.USAGE, "--until and --follow cannot be combined: --follow has no end")
    if since is not None and until is not None and until < since:
        raise CommandFailed(ExitCode.USAGE, "--until is before --since")
    head = await log_head(connection)
    if options.first > head + 1:
        raise CommandFailed(ExitCode.USAGE, f"--from {options.first} is beyond the end of the log ({head})")
    first, last = options.first, None if follow else head
    if since is not None:
        before = await position_at(connection, max(since, _FIRST_TIME) - _RESOLUTION)
        if before is None:
            raise CommandFailed(ExitCode.USAGE, f"--since {options.since} is in the future")
        first = max(first, before + 1)
    if until is not None and (reached := await position_at(connection, until)) is not None:
        last = reached
    stream_id = None if options.table is None else await _table_id(connection, options.table)
    return EventSelection(first, last, stream_id, options.actor)


def _time(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise CommandFailed(ExitCode.USAGE, f"{option} must be an RFC 3339 time with a time zone, such as 2026-01-31T12:00:00Z")
    return time


async def _table_id(connection: Connection, text: str) -> UUID:
    """The id of the table with this name. Its events are selected under all its names."""
    table_id = uuid_or_none(text)
    if table_id is not None:
        return table_id
    reference, _, path = text.rpartition(":")
    *levels, name = path.split(".")
    if not levels:
        raise CommandFailed(ExitCode.USAGE, "--table must be [WAREHOUSE:]NAMESPACE.TABLE or the id of a table")
    table = TabularIdentifier.parse(NamespaceIdentifier.parse(levels), name)
    try:
        warehouse = await named_warehouse(connection, reference or None)
    except BadRequest:
        if reference:
            raise
        raise CommandFailed(
            ExitCode.USAGE, "--table must name its warehouse, because there is more than one: WAREHOUSE:NAMESPACE.TABLE"
        ) from None
    try:
        return await find_table(connection, NameLookup(warehouse.id, warehouse.exact_names, warehouse.as_of), table)
    except NoSuchTable as refusal:
        advice = "name a dropped table as it was at a time (WAREHOUSE@TIME:NAMESPACE.TABLE), or by its id"
        raise NoSuchTable(f"{refusal.message}; {advice}") from None
