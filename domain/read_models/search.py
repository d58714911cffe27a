"""Search by name: how names are compared, and the effect of events on the names that can be found.

Names are compared by trigrams, as Postgres's extension pg_trgm does, which the embedded Postgres does not have (docs/decisions/0030).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from uuid import UUID

from ..events import (
    Event,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceExpired,
    NamespaceMoved,
    TableCreated,
    TableDropped,
    TableExpired,
    TableRegistered,
    TableRenamed,
    TableUnregistered,
    ViewCreated,
    ViewDropped,
    ViewExpired,
    ViewRegistered,
    ViewRenamed,
    decode,
)
from ..identifiers import ContentKind
from ..recorded import RecordedEvent

# A name with a wrong letter in the middle still has a third of its trigrams; unrelated words rarely share so many.
_SHARED_ONE_IN = 3

_NAMED: dict[type[Event], ContentKind] = {
    NamespaceCreated: "namespace",
    NamespaceMoved: "namespace",
    TableCreated: "table",
    TableRegistered: "table",
    TableRenamed: "table",
    ViewCreated: "view",
    ViewRegistered: "view",
    ViewRenamed: "view",
}
_DROPPED: tuple[type[NamespaceDropped | TableDropped | ViewDropped], ...] = (NamespaceDropped, TableDropped, ViewDropped)
_REMOVED: tuple[type[Event], ...] = (NamespaceExpired, TableExpired, ViewExpired, TableUnregistered)
SEARCHED = frozenset(each.TOPIC.rpartition(".")[0] for each in (*_NAMED, *_DROPPED, *_REMOVED))
"""The topics, without their versions, of the events that change what can be found."""


@dataclass(frozen=True, slots=True)
class SearchName:
    """The own name of a namespace, table or view, which may be soft-deleted."""

    warehouse_id: UUID
    kind: ContentKind
    name: str


def search_names(events: Iterable[RecordedEvent]) -> dict[UUID, SearchName | None]:
    """The last name that the events give each object; None: it is gone for good."""
    names: dict[UUID, SearchName | None] = {}
    for recorded in events:
        if recorded.topic.rpartition(".")[0] not in SEARCHED:
            continue
        event = decode(recorded.topic, recorded.data)
        kind = _NAMED.get(type(event))
        if kind is not None:
            names[recorded.stream_id] = SearchName(recorded.warehouse_id, kind, event.name)  # type: ignore[attr-defined]
        elif not isinstance(event, _DROPPED) or event.expires_at_ms is None:
            names[recorded.stream_id] = None
    return names


def trigrams(text: str) -> frozenset[str]:
    """The groups of three characters of each word, with two spaces before it and one after. Case and punctuation do not count.

    >>> sorted(trigrams("a_B"))
    ['  a', '  b', ' a ', ' b ']
    """
    words = "".join(each if each.isalnum() else " " for each in text.casefold()).split()
    return frozenset(padded[start : start + 3] for word in words for padded in [f"  {word} "] for start in range(len(padded) - 2))


def name_terms(warehouse_id: UUID, name: str) -> list[int]:
    """The terms under which a name is indexed, in order: its trigrams and the whole name."""
    return _terms(warehouse_id, trigrams(name), [name])


def search_terms(warehouse_id: UUID, text: str) -> list[int]:
    """The terms of a search. Each part of a dotted path may be a whole name."""
    parts = text.split(".")
    return _terms(warehouse_id, trigrams(text), [".".join(parts[start:]) for start in range(len(parts))] + parts)


def _terms(warehouse_id: UUID, grams: Iterable[str], names: Iterable[str]) -> list[int]:
    # Terms of different warehouses differ, so that a search reads nothing of another one. Two terms with the same hash only cost time: what
    # is found is compared by its name.
    texts = {*grams, *(f"={name.casefold()}" for name in names)}
    return sorted(
        int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=warehouse_id.bytes).digest(), signed=True)
        for text in texts
    )


def distance(text: str, path: Sequence[str]) -> float:
    """From 0 (the same words) to 1 (less than a third of the text's trigrams are in the path).

    It is pg_trgm's distance of the text to the path or to the last name in it, whichever is nearer.
    """
    wanted, whole = trigrams(text), trigrams(" ".join(path))
    if _SHARED_ONE_IN * len(wanted & whole) < max(1, len(wanted)):
        return 1.0
    return min(_distance(wanted, trigrams(path[-1])), _distance(wanted, whole))


def _distance(one: frozenset[str], other: frozenset[str]) -> float:
    shared = len(one & other)
    return 1.0 - shared / (len(one) + len(other) - shared)
