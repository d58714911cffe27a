"""Reads what events refer to as of their positions, for a whole batch at once: names, the row of the event and the row before.

Rows of the read models do not change after their position, and a rebuild results in equal bytes, so every read has the same result.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

import orjson
from cachetools import LRUCache

from ..database.connections import Connection
from ..domain.documents import Json
from ..domain.identifiers import dotted_key
from ..domain.memory_bytes import memory_bytes
from ..domain.proposal import ProposalState
from ..domain.recorded import RecordedEvent
from ..projections import names, proposals, versions

_KINDS: tuple[Literal["table", "view"], ...] = ("table", "view")

SnapshotKey = tuple[UUID, int, int]
"""A snapshot by its table, the version that made it current, and its id."""

NAMES_BYTES_MAX = 2 * 1024 * 1024
"""Room for about a thousand of the longest names, or twenty thousand ordinary ones."""


@dataclass(frozen=True, slots=True)
class Path:
    """The path to a warehouse or a namespace, beginning with the warehouse. keys -- the names as filters compare them."""

    names: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def namespace_key(self) -> str:
        """The keys below the warehouse, joined by dots."""
        return ".".join(self.keys[1:])


@dataclass(slots=True)
class TabularRow:
    """A table or view at one version.

    body -- the table's head or the view's document, once it is read. size -- its bytes; None for the row before an event, unless the
    event replaced the whole document.
    """

    namespace_id: UUID
    name: str
    metadata_location: str
    size: int | None
    body: bytes | None = None
    _parsed: Json | None = None

    @property
    def document(self) -> Json:
        if self._parsed is None:
            assert self.body is not None, "of a row before the event's, only where the event replaced all of it"
            self._parsed = orjson.loads(self.body)
        return self._parsed

    def drop_document(self) -> None:
        """Drops the document once its event is enriched: a parsed document takes many times its bytes."""
        self.body = self._parsed = None


@dataclass(slots=True)
class References:
    """What the events of a batch refer to, by their positions.

    rows, rows_before -- a table's or view's row after and before the event. paths -- of the object itself; for a table or view, of its
    namespace; for a proposal, of its warehouse. paths_before -- of the former namespace of a table or view that was moved.
    """

    rows: dict[int, TabularRow] = field(default_factory=dict)
    rows_before: dict[int, TabularRow] = field(default_factory=dict)
    paths: dict[int, Path] = field(default_factory=dict)
    paths_before: dict[int, Path] = field(default_factory=dict)
    snapshots: dict[tuple[UUID, int], Json] = field(default_factory=dict)
    proposals: dict[tuple[UUID, int], ProposalState] = field(default_factory=dict)

    def documents_bytes(self, position: int) -> int:
        """The size of the documents that an event refers to."""
        rows = (self.rows.get(position), self.rows_before.get(position))
        return sum(row.size or 0 for row in rows if row is not None)

    def drop_documents(self, position: int) -> None:
        """Drops the documents of an event once it is enriched."""
        for rows in (self.rows, self.rows_before):
            if position in rows:
                rows[position].drop_document()


@dataclass(frozen=True, slots=True)
class _PathEntry:
    """A warehouse or a namespace. Its name and its parent never change."""

    parent_id: UUID | None
    name: str
    key: str


class PathCache:
    """An LRU cache of warehouses and namespaces by id, which readers may share."""

    def __init__(self) -> None:
        self._cache: LRUCache[UUID, _PathEntry] = LRUCache(NAMES_BYTES_MAX, getsizeof=_entry_bytes)

    async def paths(self, connection: Connection, object_ids: Iterable[UUID]) -> dict[UUID, Path]:
        """The paths to these objects, by their ids."""
        used: dict[UUID, _PathEntry] = {}
        missing = [object_id for object_id in dict.fromkeys(object_ids) if not self._use(object_id, used)]
        if missing:
            for object_id, found in (await names.names_above(connection, missing)).items():
                used[object_id] = self._cache.get(object_id) or _PathEntry(*found, dotted_key(found.name))
        paths = {object_id: _path(object_id, used) for object_id in dict.fromkeys(object_ids) if object_id in used}
        self._keep(used)
        return paths

    def clear(self) -> None:
        self._cache.clear()

    def _use(self, object_id: UUID | None, used: dict[UUID, _PathEntry]) -> bool:
        """Adds the path to `used` and returns True, if all of it is known."""
        path: dict[UUID, _PathEntry] = {}
        while object_id is not None and object_id not in used:
            known = self._cache.get(object_id)
            if known is None:
                return False
            path[object_id] = known
            object_id = known.parent_id
        used |= path
        return True

    def _keep(self, used: dict[UUID, _PathEntry]) -> None:
        self._cache.update(used)


def _entry_bytes(name: _PathEntry) -> int:
    """The memory of an entry, with its own id, which takes as much as its parent's."""
    return memory_bytes((name.parent_id, name.parent_id, name.name, name.key, name))


def _path(object_id: UUID, known: dict[UUID, _PathEntry]) -> Path:
    path: list[_PathEntry] = []
    above: UUID | None = object_id
    while above is not None:
        path.append(known[above])
        above = path[-1].parent_id
    path.reverse()
    return Path(tuple(each.name for each in path), tuple(each.key for each in path))


class ReferenceReader:
    """Reads what events refer to. path_cache -- a cache that is shared with other readers."""

    def __init__(self, path_cache: PathCache | None = None) -> None:
        self.path_cache = path_cache or PathCache()

    async def read(self, connection: Connection, events: Sequence[RecordedEvent]) -> References:
        """The references of these events, without the documents of tables and views."""
        found = References()
        for kind in _KINDS:
            positions = [event.position for event in events if event.topic.partition(".")[0] == kind]
            if positions:
                for position, after, before in await versions.read_changes(connection, kind, positions):
                    found.rows[position] = TabularRow(*after)
                    if before is not None:
                        found.rows_before[position] = TabularRow(*before)
        proposed = [(event.stream_id, event.version) for event in events if event.topic.startswith("proposal.")]
        if proposed:
            found.proposals = await proposals.read_versions(connection, proposed)
        named = {event.position: _named_objects(event, found) for event in events}
        paths = await self.path_cache.paths(connection, [object_id for ids in named.values() for object_id in ids])
        for position, ids in named.items():
            for paths_of, object_id in zip((found.paths, found.paths_before), ids, strict=False):
                if object_id in paths:
                    paths_of[position] = paths[object_id]
        return found

    async def read_documents(self, connection: Connection, found: References, events: Sequence[RecordedEvent]) -> None:
        """Adds the documents that these events refer to."""
        for kind in _KINDS:
            wanted_rows: list[tuple[UUID, int, TabularRow]] = []
            for event in events:
                if event.topic.partition(".")[0] == kind:
                    wanted_rows += [(event.stream_id, event.version, row) for row in _with_document(found.rows, event)]
                    wanted_rows += [(event.stream_id, event.version - 1, row) for row in _with_document(found.rows_before, event)]
            if wanted_rows:
                wanted = [(object_id, version) for object_id, version, _ in wanted_rows]
                for number, body in await versions.read_bodies(connection, kind, wanted):
                    wanted_rows[number][2].body = body

    async def read_snapshots(
        self, connection: Connection, found: References, wanted: Sequence[SnapshotKey | None], bytes_max: int | None
    ) -> list[int]:
        """Adds snapshots that events refer to but do not contain: up to `bytes_max`, plus one. Returns their sizes; 0 for None."""
        sizes = [0] * len(wanted)
        wanted_rows = [(number, key) for number, key in enumerate(wanted) if key is not None]
        if not wanted_rows:
            return sizes
        for row, size, body in await versions.read_snapshots(connection, [key for _, key in wanted_rows], bytes_max):
            number, (table_id, _, snapshot_id) = wanted_rows[row]
            sizes[number] = size
            if body is not None:
                found.snapshots[table_id, snapshot_id] = orjson.loads(body)
        return sizes


def _with_document(rows: dict[int, TabularRow], event: RecordedEvent) -> list[TabularRow]:
    row = rows.get(event.position)
    return [] if row is None or row.size is None else [row]


def _named_objects(event: RecordedEvent, found: References) -> tuple[UUID, ...]:
    """The objects whose paths the event needs: a table's or view's namespace and its former one, a proposal's warehouse, else itself."""
    kind = event.topic.partition(".")[0]
    if kind == "proposal":
        return (event.warehouse_id,)
    if kind not in ("table", "view"):
        return (event.stream_id,)
    row = found.rows.get(event.position)
    if row is None:
        return ()
    before = found.rows_before.get(event.position)
    if before is None or before.namespace_id == row.namespace_id:
        return (row.namespace_id,)
    return (row.namespace_id, before.namespace_id)
