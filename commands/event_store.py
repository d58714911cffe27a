"""The eventsourcing library on our log: its repository, notification log, subscriptions and projections, and its way to append.

`icecore.events` is a superset of the library's table, so that what it reads it reads by its own statements. What it writes goes
through `icecore.append` like every command: its events are folded into rows and claims here, under the same rules. It is
synchronous and for history, tools and projections; requests go through commands/execution/committer.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, cast
from uuid import UUID

import orjson
from eventsourcing.application import Application
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import (
    DatabaseError,
    IntegrityError,
    InterfaceError,
    Mapper,
    OperationalError,
    ProgrammingError,
    StoredEvent,
)
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresFactory
from eventsourcing.utils import Environment, retry
from psycopg.conninfo import conninfo_to_dict
from uuid_utils.compat import uuid7

from access.request_context import Principal, RequestContext
from commands.execution.submission import Submission
from database.connection import OPTIONS
from database.named_sql import named_sql
from domain.documents import Json
from domain.events import Event, NamespaceDropped, decode, topics
from domain.read_models.stream_fold import StreamFold
from domain.streams import State

_SQL = named_sql("commands", "event_store.sql")
_APPEND = named_sql("commands.execution", "committer.sql")["append"]

_NIL = UUID(int=0)
_PRINCIPAL_DEFAULT = "eventsourcing"
_OPERATION = "eventsourcing"
# What stands in a command's way, and what in the library's words is a broken rule of the store.
_CONFLICTS = frozenset({"head", "parent", "not_empty", "claim", "location"})
_UNIQUE_VIOLATION = "23505"


@dataclass(frozen=True)
class LogEvent:
    """One of our events as the library's domain event; the ids of its envelope are there when it was read from its stream."""

    originator_id: UUID
    originator_version: int
    event: Event
    event_id: UUID | None = None
    project_id: UUID | None = None
    warehouse_id: UUID | None = None


@dataclass(frozen=True)
class StoredRow(StoredEvent):
    """A stored event with what of its envelope a fold needs."""

    event_id: UUID
    project_id: UUID
    warehouse_id: UUID


class IcecoreMapper(Mapper[UUID]):
    """Our encoding (orjson), our topics and our upcasters (domain/events.py); no compressor and no cipher."""

    def to_stored_event(self, domain_event: DomainEventProtocol[UUID]) -> StoredEvent:
        event = cast(LogEvent, domain_event)
        return StoredEvent(event.originator_id, event.originator_version, event.event.TOPIC, event.event.encode())

    def to_domain_event(self, stored_event: StoredEvent) -> LogEvent:
        event = decode(stored_event.topic, stored_event.state)
        assert isinstance(stored_event.originator_id, UUID)
        if isinstance(stored_event, StoredRow):
            envelope = (stored_event.event_id, stored_event.project_id, stored_event.warehouse_id)
            return LogEvent(stored_event.originator_id, stored_event.originator_version, event, *envelope)
        return LogEvent(stored_event.originator_id, stored_event.originator_version, event)


def fold_stream(initial: State | None, events: Iterable[LogEvent]) -> State | None:
    """The state of a stream, by the fold that makes the read models; a projector function for `Repository.get`."""
    state = initial
    for event in events:
        assert event.event_id is not None, "events are folded as they were read from their stream"
        assert event.project_id is not None
        assert event.warehouse_id is not None
        fold = StreamFold(event.originator_id, event.project_id, event.warehouse_id, state)
        state = fold.evolve(event.originator_version, event.event_id, event.event)
    return state


class IcecoreRecorder(PostgresApplicationRecorder):
    """Reads by the library's statements, appends by `icecore.append`.

    `insert_events` takes as keywords what of the envelope is not the default: `actor`, `project_id`, `warehouse_id` (of a new
    stream), `request_id`, `correlation_id`, `traceparent`. Events under topics of ours are folded into rows and claims; others are
    events alone, for which `icecore verify` knows no fold.
    """

    def create_table(self) -> None:
        """Migrations own the schema."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """The positions; IntegrityError where another writer was first or a rule of ours is broken."""
        if not stored_events:
            return None
        known = {event.topic in _our_topics() for event in stored_events}
        if len(known) > 1:
            raise ProgrammingError("Events with and without a read model cannot be inserted together")
        command, blobs = (self._folded if known == {True} else self._bare)(stored_events, kwargs)
        last = self._append(orjson.dumps([command]).decode(), blobs)
        return list(range(last - len(stored_events) + 1, last + 1))

    @retry((InterfaceError, OperationalError), max_attempts=10, wait=0.2)
    def _append(self, batch: str, blobs: list[bytes]) -> int:
        """Sent again after a lost answer, the command is found by its id and not done twice."""
        with self.datastore.get_connection() as connection:
            row = connection.execute(_APPEND, {"batch": batch, "blobs": blobs}, binary=True).fetchone()
        assert row is not None
        outcome, detail = row["outcome"], row["detail"]
        if outcome == "appended":
            return int(row["position"])
        if outcome in _CONFLICTS or (outcome == "error" and str(detail).partition(":")[0] == _UNIQUE_VIOLATION):
            raise IntegrityError(f"{outcome}: {detail}")
        raise DatabaseError(f"{outcome}: {detail}")

    def _folded(self, stored_events: Sequence[StoredEvent], envelope: dict[str, Any]) -> tuple[Json, list[bytes]]:
        """A command of our events: with rows and claims, resting on what theirs rest on."""
        submission = Submission(_context(envelope))
        seen: set[UUID | str] = set()
        for stream_id, group in groupby(stored_events, lambda stored: stored.originator_id):
            assert isinstance(stream_id, UUID)
            if stream_id in seen:
                raise ProgrammingError("The events of one stream must stand together")
            seen.add(stream_id)
            stored = list(group)
            before = self._state(stream_id)
            self._check_versions(stored, 1 if before is None else before.version + 1)
            events = [decode(event.topic, event.state) for event in stored]
            for event in events:
                submission.alive += [parent for parent in _parents(event) if parent not in seen]
                if isinstance(event, NamespaceDropped):
                    submission.empty.append(stream_id)
            warehouse_id = _warehouse_of(stream_id, before, stored[0].topic, envelope)
            submission.add(stream_id, warehouse_id, before, events)
        blobs: list[bytes] = []
        return submission.to_json(blobs), blobs

    def _bare(self, stored_events: Sequence[StoredEvent], envelope: dict[str, Any]) -> tuple[Json, list[bytes]]:
        """A command of events nobody here knows a fold for."""
        command = Submission(_context(envelope)).to_json([])
        warehouse_id = envelope.get("warehouse_id", _NIL)
        first: dict[UUID | str, int] = {}
        for stored in stored_events:
            first.setdefault(stored.originator_id, stored.originator_version)
        command["heads"] = [(stream_id, self._event_id(stream_id, version - 1)) for stream_id, version in first.items()]
        command["events"] = [
            (stored.originator_id, stored.originator_version, stored.topic, number, uuid7(), warehouse_id)
            for number, stored in enumerate(stored_events, start=1)
        ]
        return command, [stored.state for stored in stored_events]

    def _state(self, stream_id: UUID) -> State | None:
        mapper = IcecoreMapper(transcoder=cast(Any, None))
        return fold_stream(None, map(mapper.to_domain_event, self.select_events(stream_id)))

    def _event_id(self, stream_id: UUID | str, version: int) -> UUID | None:
        """The head a stream has to have for its next version to follow; None before the first."""
        if version == 0:
            return None
        with self.datastore.get_connection() as connection:
            row = connection.execute(_SQL["event_id"], {"stream_id": stream_id, "version": version}).fetchone()
        if row is None:
            raise IntegrityError(f"{stream_id} has no version {version}")
        return cast(UUID, row["event_id"])

    @staticmethod
    def _check_versions(stored: Sequence[StoredEvent], first: int) -> None:
        versions = [event.originator_version for event in stored]
        if versions != list(range(first, first + len(stored))):
            raise IntegrityError(f"{stored[0].originator_id} goes on with version {first}, not with {versions}")

    @retry((InterfaceError, OperationalError), max_attempts=10, wait=0.2)
    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """As the library's, with the envelope's ids beside each event."""
        parameters = {"stream_id": originator_id, "gt": gt, "lte": lte, "limit": limit}
        with self.datastore.get_connection() as connection:
            rows = connection.execute(_SQL["stream_descending" if desc else "stream_ascending"], parameters, binary=True).fetchall()
        return [StoredRow(**row) for row in rows]


class IcecoreFactory(PostgresFactory):
    """The library's Postgres factory on our table; `environment` names it."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        pool = self.datastore.pool
        assert isinstance(pool.kwargs, dict), "the library's, which opens no connection before it is asked for one"
        pool.kwargs["options"] = OPTIONS

    def application_recorder(self) -> IcecoreRecorder:
        return IcecoreRecorder(self.datastore, events_table_name="events")


class IcecoreApplication(Application[UUID]):
    """The library's application over our log: `repository`, `notification_log`, `recorder.subscribe`, for `ProjectionRunner` too."""

    name = "Icecore"

    def state(self, stream_id: UUID, version: int | None = None) -> State:
        """A warehouse, namespace, table or view at a version of its stream (None: its last); AggregateNotFoundError."""
        return cast(State, self.repository.get(stream_id, version=version, projector_func=cast(Any, fold_stream)))


def environment(dsn: str) -> dict[str, str]:
    """The library's settings for the log at `dsn`."""
    place = conninfo_to_dict(dsn)
    return {
        "PERSISTENCE_MODULE": "commands.event_store:IcecoreFactory",
        "MAPPER_TOPIC": "commands.event_store:IcecoreMapper",
        "POSTGRES_SCHEMA": "icecore",
        "POSTGRES_DBNAME": str(place.get("dbname") or place.get("user") or "postgres"),
        "POSTGRES_HOST": str(place.get("host") or ""),
        "POSTGRES_PORT": str(place.get("port") or 5432),
        "POSTGRES_USER": str(place.get("user") or ""),
        "POSTGRES_PASSWORD": str(place.get("password") or ""),
    }


def _context(envelope: dict[str, Any]) -> RequestContext:
    return RequestContext(
        request_id=envelope.get("request_id") or str(uuid7()),
        project_id=envelope.get("project_id", _NIL),
        principal=Principal(envelope.get("actor", _PRINCIPAL_DEFAULT)),
        operation=_OPERATION,
        correlation_id=envelope.get("correlation_id"),
        traceparent=envelope.get("traceparent"),
    )


def _warehouse_of(stream_id: UUID, before: State | None, topic: str, envelope: dict[str, Any]) -> UUID:
    if topic.startswith("warehouse."):
        return stream_id
    if before is not None and hasattr(before, "warehouse_id"):
        return cast(UUID, before.warehouse_id)
    if "warehouse_id" not in envelope:
        raise ProgrammingError(f"A new stream with {topic} needs warehouse_id")
    return cast(UUID, envelope["warehouse_id"])


def _parents(event: Event) -> list[UUID]:
    """What must be alive for the event to hold: the parent of what it creates or moves."""
    return [parent for name in ("parent_id", "namespace_id") if (parent := getattr(event, name, None)) is not None]


@cache
def _our_topics() -> frozenset[str]:
    return frozenset(topics())
