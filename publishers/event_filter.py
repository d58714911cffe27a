"""Filters of sinks and replays: by type, warehouse and namespace."""

import re
from dataclasses import dataclass, field
from typing import Any

from ..domain.events import topics
from ..domain.recorded import RecordedEvent
from ..domain.scope_filter import ScopeFilter, kinds_like
from .enriched_event import EnrichedEvent
from .event_data import TYPE_PREFIX
from .references import Path

_VERSION = re.compile(r"\.v\d+$")


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A filter by type and scope. Empty members match everything.

    types -- such as `table.committed`, with `*` as a wildcard; Icecore's prefix and the version are optional and ignored.
    """

    types: tuple[str, ...] = ()
    scope: ScopeFilter = field(default_factory=ScopeFilter)
    _topics: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = kinds_like(self.types, {_bare(topic) for topic in topics()}, "types")
        object.__setattr__(self, "_topics", frozenset(topic for topic in topics() if _bare(topic) in kinds))

    @classmethod
    def parse(cls, types: tuple[str, ...] = (), warehouses: tuple[str, ...] = (), namespaces: tuple[str, ...] = ()) -> "EventFilter":
        """Raises FilterError for a type that no event has, and for a name that is blank or a pattern."""
        return cls(tuple(map(_bare, types)), ScopeFilter.parse(warehouses, namespaces))

    def may_match(self, event: RecordedEvent) -> bool:
        """Whether the event may match, before its names are read."""
        return not self.types or event.topic in self._topics

    def matches(self, enriched: EnrichedEvent) -> bool:
        """Whether an event that may match does match."""
        warehouse_name = enriched.path[0] if enriched.path else ""
        return self.scope.matches(enriched.event.warehouse_id, warehouse_name, lambda: (enriched.namespace_key,))

    def matches_path(self, event: RecordedEvent, path: Path | None) -> bool:
        """As `matches`, for an event that is not enriched yet, by the path to its namespace or warehouse."""
        if path is None:
            return self.scope.matches(event.warehouse_id, "", lambda: ("",))
        return self.scope.matches(event.warehouse_id, path.names[0], lambda: (path.namespace_key,))

    def to_json(self) -> dict[str, Any]:
        return {"types": list(self.types), "warehouses": list(self.scope.warehouses), "namespaces": list(self.scope.namespaces)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "EventFilter":
        """The inverse of `to_json`. Names are not checked again, because case folding may have made one too long."""
        return cls(tuple(value["types"]), ScopeFilter(tuple(value["warehouses"]), tuple(value["namespaces"])))


def _bare(topic: str) -> str:
    """The type without prefix and version: `table.committed` for `io.icecore.table.committed.v1`."""
    return _VERSION.sub("", topic.strip().removeprefix(TYPE_PREFIX))
