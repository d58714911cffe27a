"""The log for the eventsourcing library: its notification log, subscriptions and projections on `icecore.events`.

The asynchronous read models use it (projections/asynchronous/). It appends no events (docs/decisions/0014). It is synchronous: do not use
it in serving processes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, cast
from uuid import UUID
from weakref import WeakSet

from eventsourcing.application import Application
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import Mapper, Notification, StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore, PostgresFactory, PostgresSubscription
from eventsourcing.utils import Environment, EnvType
from psycopg import Connection
from psycopg.rows import DictRow, dict_row

from ..database.connection import NETWORK_OPTIONS, with_options
from ..database.connection_watchdog import sever
from ..database.named_sql import named_sql
from ..domain.recorded import RecordedEvent
from .follow import POLL_SECONDS_MAX

_SQL = named_sql("icecore.log", "event_store.sql")

BATCH_BYTES_MAX = 1024 * 1024
"""Limit on the states of one batch, plus one event. A subscription prefetches ten batches."""
_CONNECT_SECONDS_MAX = 5
# Without a limit, a statement that waits for a lock would keep its session in Postgres even after its connection was cut.
_STATEMENTS_END = "-c statement_timeout=8s"
_POSITION_MAX = 2**63 - 1
_DSN = "ICECORE_DSN"


@dataclass(frozen=True)
class LogNotification(Notification):
    """A stored event with its envelope."""

    recorded: RecordedEvent


class LogMapper(Mapper[UUID]):
    """The domain event is the recorded event; `icecore.domain.events.decode` decodes its data."""

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[UUID]:
        return cast("DomainEventProtocol[UUID]", cast(LogNotification, stored_event).recorded)


class LogSubscription(PostgresSubscription):
    """The library's subscription, which also polls: an event between its first read and its LISTEN would wait for the next append."""

    def _loop_on_pull(self) -> None:
        try:
            while not self._has_been_stopped:
                self._has_been_notified.clear()
                found = self._recorder.select_notifications(
                    self._last_notification_id or 0, self._select_limit, topics=self._topics, inclusive_of_start=False
                )
                if found:
                    self._notifications_queue.put(found)
                    self._last_notification_id = found[-1].id
                else:
                    self._has_been_notified.wait(POLL_SECONDS_MAX)
        except BaseException as error:
            if not self._has_been_stopped:
                self._thread_error = error
            self.stop()


class LogRecorder(PostgresApplicationRecorder):
    """Reads the log with the events' envelopes, without retries: the runner of a projection restarts it."""

    def create_table(self) -> None:
        """Migrations own the schema."""

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[LogNotification]:
        """At most `limit` events, in order; fewer if they are large (BATCH_BYTES_MAX). An empty list means the end of the log."""
        parameters = {
            "first": (start or 0) + (not inclusive_of_start),
            "last": _POSITION_MAX if stop is None else stop,
            "topics": [*topics],
            "limit": limit,
            "bytes_max": BATCH_BYTES_MAX,
        }
        with self.datastore.get_connection() as connection:
            rows = connection.execute(_SQL["notifications"], parameters, binary=True).fetchall()
        return [_notification(RecordedEvent(**row)) for row in rows]

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> LogSubscription:
        return LogSubscription(self, gt, topics)


def _notification(event: RecordedEvent) -> LogNotification:
    return LogNotification(event.stream_id, event.version, event.topic, event.data, event.position, event)


class _Severable(Connection[DictRow]):
    """A connection that `sever_connections` can find."""

    opened: ClassVar["WeakSet[_Severable]"] = WeakSet()

    def __init__(self, pgconn: Any) -> None:
        super().__init__(pgconn)
        _Severable.opened.add(self)


def sever_connections() -> None:
    """Cuts every connection of the library in this process, so that everything waiting on one fails with OperationalError."""
    for connection in [*_Severable.opened]:
        sever(connection)


_opened: ContextVar[list[PostgresDatastore]] = ContextVar("opened")


@contextmanager
def closed_on_failure() -> Iterator[None]:
    """Closes what the library opens in the block if it fails; otherwise its sessions and threads stay until a garbage collection."""
    opened: list[PostgresDatastore] = []
    token = _opened.set(opened)
    try:
        yield
    except BaseException:
        for datastore in opened:
            datastore.close()
        raise
    finally:
        _opened.reset(token)


class LogFactory(PostgresFactory):
    """The library's Postgres factory on our schema, with our connection options; selected by `environment`."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        pool = self.datastore.pool
        pool.conninfo = with_options(self.env[_DSN], _STATEMENTS_END)
        pool.kwargs = {"row_factory": dict_row, "application_name": "icecore-projections", **NETWORK_OPTIONS}
        pool.connection_class = _Severable
        _opened.get([]).append(self.datastore)

    def application_recorder(self) -> LogRecorder:
        return LogRecorder(self.datastore, events_table_name="events")


class LogApplication(Application[UUID]):
    """The library's application over our log: `notification_log`, `recorder.subscribe`, and what ProjectionRunner takes."""

    name = "Icecore"

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        """Uses only the settings passed, not the environment variables of this process."""
        return Environment(name, env)


def environment(dsn: str) -> dict[str, str]:
    """The library's settings for the log at `dsn`."""
    given = {"PERSISTENCE_MODULE": "icecore.log.event_store:LogFactory", "MAPPER_TOPIC": "icecore.log.event_store:LogMapper", _DSN: dsn}
    # The library requires its own connection parameters; the DSN replaces them.
    given |= {f"POSTGRES_{name}": "" for name in ("DBNAME", "HOST", "USER", "PASSWORD")}
    # One reads, one listens.
    given |= {"POSTGRES_POOL_SIZE": "1", "POSTGRES_MAX_OVERFLOW": "1", "POSTGRES_CONNECT_TIMEOUT": str(_CONNECT_SECONDS_MAX)}
    return given | {"POSTGRES_SCHEMA": "icecore", "CREATE_TABLE": "no"}
