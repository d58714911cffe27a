"""The base of asynchronous read models: a projection of the eventsourcing library that writes its view in batches of events."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from eventsourcing.persistence import IntegrityError, Tracking
from eventsourcing.postgres import PostgresDatastore, PostgresTrackingRecorder
from eventsourcing.projection import Projection
from psycopg import Cursor
from psycopg.rows import DictRow
from psycopg.sql import SQL, Identifier

from ...database.advisory_locks import AdvisoryLock
from ...database.named_sql import named_sql
from ...domain.recorded import RecordedEvent

_SQL = named_sql("icecore.projections.asynchronous", "projection.sql")
_CONNECTION_SQL = named_sql("icecore.database", "connection.sql")

GATHERED_EVENTS_MAX = 500
GATHERED_BYTES_MAX = 1024 * 1024
"""Limit on the states of the events that are collected, plus one event."""


class AsynchronousView(PostgresTrackingRecorder, ABC):
    """The rows of a read model, and its position in the log, which is updated in the same transaction.

    Events are collected until `flush`, which another thread may call, or until there are many: a transaction for each event would take
    too much of Postgres's time from commits.
    """

    def __init__(self, datastore: PostgresDatastore, **more: Any) -> None:
        super().__init__(datastore, **more)
        self._lock = threading.Lock()
        self._events: list[RecordedEvent] = []
        self._bytes = 0
        table = Identifier(datastore.schema, self.tracking_table_name)
        self._sql = {block: SQL(text).format(table=table) for block, text in _SQL.items()}

    @abstractmethod
    def remove_rows(self, cursor: Cursor[DictRow]) -> None:
        """Removes all rows, in the transaction of `cursor`."""

    @abstractmethod
    def write(self, cursor: Cursor[DictRow], events: Sequence[RecordedEvent]) -> None:
        """Folds the events into the rows, in the transaction of `cursor`."""

    def rebuild(self, application_name: str, batches: Iterable[Sequence[RecordedEvent]]) -> int:
        """Computes the rows again from all events of the log, and returns the position of the last.

        It is one transaction: until it ends, queries read the rows from before and the worker waits.
        """
        position = 0
        with self.datastore.transaction(commit=True) as cursor:
            cursor.execute(_CONNECTION_SQL["lift_time_limits"], {"local": True})
            # The first statement on a table, so that a concurrent projection waits here and then finds a changed position.
            cursor.execute(self._sql["set"], {"application_name": application_name, "position": position})
            cursor.execute(self._sql["remove_others"], {"application_name": application_name})
            self.remove_rows(cursor)
            for events in batches:
                self.write(cursor, events)
                position = events[-1].position
            self.analyze(cursor)
            cursor.execute(self._sql["set"], {"application_name": application_name, "position": position})
        return position

    def analyze(self, cursor: Cursor[DictRow]) -> None:
        """Gives the planner statistics of rebuilt rows, which autovacuum would do only after a minute. By default not needed."""

    def create_table(self) -> None:
        """Migrations own the schema."""

    def max_tracking_id(self, application_name: str) -> int | None:
        """As in the library, but without retries: the runner of the projection retries."""
        with self.datastore.get_connection() as connection, connection.cursor() as cursor:
            return self._max_tracking_id(application_name, cursor)

    def gather(self, event: RecordedEvent, tracking: Tracking) -> None:
        """Collects the event for the next flush. Raises as `flush`."""
        with self._lock:
            self._events.append(event)
            self._bytes += len(event.data)
            self._tracking = tracking
            if len(self._events) >= GATHERED_EVENTS_MAX or self._bytes >= GATHERED_BYTES_MAX:
                self._flush()

    def flush(self) -> None:
        """Writes the collected events. Raises IntegrityError if the rows are not at the position before them; discard the view then."""
        with self._lock:
            if self._events:
                self._flush()

    def _flush(self) -> None:
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, self._tracking)
            self.write(cursor, self._events)
        self._events, self._bytes = [], 0

    def _insert_tracking(self, curs: Cursor[DictRow], tracking: Tracking) -> None:
        """Moves the position by compare-and-set. The library would accept any later position, even after the rows were removed."""
        before = self._events[0].position - 1
        values = {"application_name": tracking.application_name, "position": tracking.notification_id, "before": before}
        if curs.execute(self._sql["move"], values, prepare=True).rowcount != 1:
            raise IntegrityError(f"{self.tracking_table_name} is not at {before}")


class AsynchronousProjection(Projection[AsynchronousView]):
    """name -- of the read model, and of its table `<name>_tracking`. LEADER_LOCK -- held by the process that runs the projection."""

    VIEW: ClassVar[type[AsynchronousView]]
    LEADER_LOCK: ClassVar[AdvisoryLock]

    def process_event(self, domain_event: RecordedEvent, tracking: Tracking) -> None:
        self.view.gather(domain_event, tracking)
