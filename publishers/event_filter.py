"""Which events a sink or a replay is for: by type, warehouse and namespace."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.events import topics
from domain.identifiers import FILTER_NAME_RULE, dotted_key, is_filter_name, name_key
from domain.recorded import RecordedEvent
from publishers.description import Description
from publishers.event_data import TYPE_PREFIX
from publishers.pointers import Path

_PATTERN_LENGTH_MAX = 64
_WILDCARDS_MAX = 4
_VERSION = re.compile(r"\.v\d+$")


class FilterError(ValueError):
    """A filter that cannot be meant; the message says what could be. `member` -- of the filter: types, warehouses or namespaces."""

    def __init__(self, member: str, message: str) -> None:
        super().__init__(message)
        self.member = member


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Empty members let everything through.

    types -- `table.committed`, with `*` for any part; Icecore's prefix and the version may stand and are ignored.
    warehouses -- names or ids. namespaces -- dotted; each stands for itself and everything below it.
    """

    types: tuple[str, ...] = ()
    warehouses: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    _topics: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_topics", frozenset(topic for topic in topics() if any(_is_like(topic, each) for each in self.types)))

    @classmethod
    def parse(cls, types: tuple[str, ...] = (), warehouses: tuple[str, ...] = (), namespaces: tuple[str, ...] = ()) -> "EventFilter":
        """Raises FilterError for a type no event has, and for a name that is blank or a pattern."""
        parsed = tuple(_bare(pattern) for pattern in types)
        for given, pattern in zip(types, parsed, strict=True):
            if len(pattern) > _PATTERN_LENGTH_MAX or pattern.count("*") > _WILDCARDS_MAX:
                raise FilterError(
                    "types", f"types: a pattern has at most {_PATTERN_LENGTH_MAX} characters and {_WILDCARDS_MAX} of them '*'"
                )
            if not any(_is_like(topic, pattern) for topic in topics()):
                known = ", ".join(sorted(map(_bare, topics())))
                raise FilterError("types", f"No event has the type {given!r}; there are {known}")
        for member, names in (("warehouses", warehouses), ("namespaces", namespaces)):
            for name in names:
                if not is_filter_name(name):
                    raise FilterError(member, f"{member}: {name!r} {FILTER_NAME_RULE}")
        return cls(parsed, tuple(map(name_key, warehouses)), tuple(map(dotted_key, namespaces)))

    def may_match(self, event: RecordedEvent) -> bool:
        """What can be told before the event's names are read."""
        return not self.types or event.topic in self._topics

    def matches(self, description: Description) -> bool:
        """For an event that may match."""
        return self._matches(description.event, description.path, lambda: description.namespace_key)

    def matches_path(self, event: RecordedEvent, path: Path | None) -> bool:
        """The same for one that is not described yet, by the way to its namespace or warehouse."""
        if path is None:
            return self._matches(event, (), str)
        return self._matches(event, path.names, lambda: path.namespace_key)

    def _matches(self, event: RecordedEvent, path: Sequence[str], namespace_key: Callable[[], str]) -> bool:
        if self.warehouses:
            name = path[0] if path else ""
            if not {str(event.warehouse_id), name_key(name)} & set(self.warehouses):
                return False
        if self.namespaces:
            mine = namespace_key()
            return any(mine == wanted or mine.startswith(f"{wanted}.") for wanted in self.namespaces)
        return True

    def to_json(self) -> dict[str, Any]:
        return {"types": list(self.types), "warehouses": list(self.warehouses), "namespaces": list(self.namespaces)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "EventFilter":
        return cls(tuple(value["types"]), tuple(value["warehouses"]), tuple(value["namespaces"]))


def _is_like(topic: str, pattern: str) -> bool:
    """`*` stands for any text. Not by fnmatch, which keeps thousands of patterns compiled."""
    topic = _bare(topic)
    first, *others = pattern.split("*")
    if not others:
        return topic == pattern
    *middle, last = others
    if not topic.startswith(first):
        return False
    reached = len(first)
    for part in middle:
        found = topic.find(part, reached)
        if found < 0:
            return False
        reached = found + len(part)
    return topic.endswith(last) and len(topic) - len(last) >= reached


def _bare(topic: str) -> str:
    """`io.icecore.table.committed.v1` and `table.committed` are one."""
    return _VERSION.sub("", topic.strip().removeprefix(TYPE_PREFIX))
