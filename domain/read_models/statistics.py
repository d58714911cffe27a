"""The effect of events on the statistics of their warehouse: objects and commits by the hour in which they were recorded."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from ..recorded import RecordedEvent


@dataclass(frozen=True, slots=True)
class Counts:
    """Objects created minus objects removed, and commits to tables and views."""

    tables: int = 0
    views: int = 0
    namespaces: int = 0
    commits: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.tables + other.tables, self.views + other.views, self.namespaces + other.namespaces, self.commits + other.commits
        )


COUNTED = {
    # Gives a warehouse statistics from its first hour on.
    "warehouse.created": Counts(),
    "namespace.created": Counts(namespaces=1),
    "namespace.dropped": Counts(namespaces=-1),
    "namespace.undropped": Counts(namespaces=1),
    "table.created": Counts(tables=1),
    "table.registered": Counts(tables=1),
    "table.committed": Counts(commits=1),
    "table.dropped": Counts(tables=-1),
    "table.undropped": Counts(tables=1),
    "table.unregistered": Counts(tables=-1),
    "view.created": Counts(views=1),
    "view.registered": Counts(views=1),
    "view.committed": Counts(commits=1),
    "view.dropped": Counts(views=-1),
    "view.undropped": Counts(views=1),
}
"""The effect of each topic, without its version. Other events count nothing."""


@dataclass(frozen=True, slots=True)
class HourOfWarehouse:
    """`begins_at` -- UTC."""

    warehouse_id: UUID
    begins_at: datetime


Counted = dict[HourOfWarehouse, tuple[Counts, datetime]]
"""The sums for each hour, in the order of the log, and the time of the last event."""


def count(events: Iterable[RecordedEvent], counted: Counted) -> None:
    """Adds the events to the sums."""
    for event in events:
        added = COUNTED.get(event.topic.rpartition(".")[0])
        if added is not None:
            begins_at = event.recorded_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            hour = HourOfWarehouse(event.warehouse_id, begins_at)
            before, _ = counted.get(hour, (Counts(), None))
            counted[hour] = before + added, event.recorded_at
