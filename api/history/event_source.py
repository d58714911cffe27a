"""The interface of the log's events to the API. The composition root passes one object with these methods."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

from ...domain.errors import BadRequest

Dialect = Literal["icecore", "lakekeeper"]
"""Whether event types have Icecore's or Lakekeeper's names."""


class PublishedEvent(Protocol):
    """One event as it is sent: its type, and its JSON in one line."""

    @property
    def position(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def body(self) -> bytes: ...


class PublishedEvents(Protocol):
    """The events between two positions of the log.

    position -- the last position read, from which to continue. at_end -- whether it is the end of the log. recorded_at -- of the last event
    read; None if there was none.
    """

    @property
    def events(self) -> Sequence[PublishedEvent]: ...
    @property
    def position(self) -> int: ...
    @property
    def at_end(self) -> bool: ...
    @property
    def recorded_at(self) -> datetime | None: ...


class EventReader(Protocol):
    """Reads the log forwards: batches are small, pages as large as requested within limits. Raises ServiceUnavailable."""

    async def batch(self, after: int, *, to: int | None = None) -> PublishedEvents: ...
    async def page(self, after: int, *, to: int | None, events_max: int, reserve_memory: Callable[[int], None]) -> PublishedEvents: ...


class EventSource(Protocol):
    """The log's events; publishers/pull.py says what each method does."""

    @property
    def is_stopping(self) -> bool: ...
    def reader(
        self, project_id: UUID, *, types: Sequence[str], warehouse_ids: Collection[UUID], namespaces: Sequence[str], dialect: Dialect
    ) -> EventReader: ...
    def iceberg_reader(
        self,
        project_id: UUID,
        warehouse_id: UUID,
        *,
        operation_types: Sequence[str],
        object_names: Sequence[Sequence[str]],
        object_uuids: Sequence[str],
        object_types: Sequence[str],
        exact_names: bool,
    ) -> EventReader: ...
    async def load_event(self, project_id: UUID, event_id: UUID, dialect: Dialect) -> bytes | None: ...
    async def head(self) -> int: ...
    async def recorded_at(self, position: int) -> datetime | None: ...
    async def position_before(self, at: datetime) -> int | None: ...
    def subscription(self) -> AbstractContextManager[None]: ...
    async def wait_for_event(self, after: int, seconds: float) -> bool: ...
    def stop(self) -> None: ...


async def refuse_beyond_end(source: EventSource, position: int) -> None:
    """Raises BadRequest if the log has not reached `position`. The client has it from another log, and would miss events."""
    head = await source.head()
    if position > head:
        raise BadRequest(f"Position {position} is beyond the end of the log ({head}); perhaps it is a position of another catalog")
