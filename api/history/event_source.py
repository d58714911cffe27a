"""What the API needs of the log's events: the composition root passes one object with these methods."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

from ...domain.errors import BadRequest

Dialect = Literal["icecore", "lakekeeper"]
"""Whose names event types have."""


class PublishedEvent(Protocol):
    """One event as it is sent: its type, and its JSON in one line."""

    @property
    def position(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def body(self) -> bytes: ...


class PublishedEvents(Protocol):
    """What the log tells between one position and another.

    position -- the last that was read: to go on from. at_end -- nothing stood behind it. recorded_at -- of the last event that was
    read, None where there was none.
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
    """One run through the log, forwards: batches are small, pages as large as asked for within limits. ServiceUnavailable."""

    async def batch(self, after: int, *, to: int | None = None) -> PublishedEvents: ...
    async def page(self, after: int, *, to: int | None, events_max: int, make_room: Callable[[int], None]) -> PublishedEvents: ...


class EventSource(Protocol):
    """The log's events; publishers/pull.py says what each method does."""

    @property
    def is_stopping(self) -> bool: ...
    def reader(
        self, *, types: Sequence[str], warehouse_ids: Collection[UUID], namespaces: Sequence[str], dialect: Dialect
    ) -> EventReader: ...
    def iceberg_reader(
        self,
        warehouse_id: UUID,
        *,
        operation_types: Sequence[str],
        object_names: Sequence[Sequence[str]],
        object_uuids: Sequence[str],
        object_types: Sequence[str],
        exact_names: bool,
    ) -> EventReader: ...
    async def whole(self, event_id: UUID, dialect: Dialect) -> bytes | None: ...
    async def head(self) -> int: ...
    async def recorded_at(self, position: int) -> datetime | None: ...
    async def position_before(self, at: datetime) -> int | None: ...
    def following(self) -> AbstractContextManager[None]: ...
    async def arrived(self, after: int, seconds: float) -> bool: ...
    def stop(self) -> None: ...


async def refuse_beyond_end(source: EventSource, position: int) -> None:
    """BadRequest where the log has not reached `position`: nobody was given it, and what came since would be missed."""
    head = await source.head()
    if position > head:
        raise BadRequest(f"Position {position} is beyond the end of the log ({head}): it may belong to another log")
