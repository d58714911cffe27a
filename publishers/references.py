"""Reads what events refer to as of their positions, for a whole batch at once: names, the row of the event and the row before.

Rows of the read models do not change after their position, and a rebuild results in equal bytes, so every read has the same result.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from uuid import UUID

import orjson
from cachetools import LRUCache

from ..database.connections import Connection
from ..domain.documents import Json
from ..domain.identifiers import dotted_key
from ..domain.memory_bytes import memory_bytes
from ..domain.proposal import ProposalState
from ..domain.recorded import RecordedEvent
from ..projections import names, projects, proposals, versions

_KINDS: tuple[Literal["table", "view"], ...] = ("table", "view")

SnapshotKey = tuple[UUID, int, int]
"""A snapshot by its table, the version that made it current, and its id."""

NAMES_BYTES_MAX = 2 * 1024 * 1024
"""Room for about a thousand of the longest names, or twenty thousand ordinary ones."""
_NAMES_OF_OBJECT_MAX = 16
"""Names of one object that are cached, the last ones read: it may have been renamed often."""


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
    namespace; for a proposal, task or maintenance run, of its warehouse; none for a project. paths_before -- the former path of a
    renamed warehouse or a moved namespace, and that of the former namespace of a table or view that was moved. projects -- names of
    projects by id and version.
    """

    rows: dict[int, TabularRow] = field(default_factory=dict)
    rows_before: dict[int, TabularRow] = field(default_factory=dict)
    paths: dict[int, Path] = field(default_factory=dict)
    paths_before: dict[int, Path] = field(default_factory=dict)
    snapshots: dict[tuple[UUID, int], Json] = field(default_factory=dict)
    proposals: dict[tuple[UUID, int], ProposalState] = field(default_factory=dict)
    projects: dict[tuple[UUID, int], str] = field(default_factory=dict)

    def documents_bytes(self, position: int) -> int:
        """The size of the documents that an event refers to."""
        rows = (self.rows.get(position), self.rows_before.get(position))
        return sum(row.size or 0 for row in rows if row is not None)

    def drop_documents(self, position: int) -> None:
        """Drops the documents of an event once it is enriched."""
        for rows in (self.rows, self.rows_before):
            if position in rows:
                rows[position].drop_document()


class _Named(NamedTuple):
    """A name and parent of a warehouse or a namespace, and the positions in which it holds.

    before_position -- of its next name; None: it had none when this was read.
    """

    parent_id: UUID | None
    name: str
    key: str
    from_position: int
    before_position: int | None

    def at(self, position: int) -> bool:
        return self.from_position <= position and (self.before_position is None or position < self.before_position)


class PathCache:
    """An LRU cache of the names of warehouses and namespaces by id, which readers at different positions may share.

    The last name of an object is used for positions up to `_confirmed`. Before a later one is looked up, objects that were renamed since
    are removed.
    """

    def __init__(self) -> None:
        self._cache: LRUCache[UUID, tuple[_Named, ...]] = LRUCache(NAMES_BYTES_MAX, getsizeof=_names_bytes)
        self._confirmed = 0
        self._removals = 0

    async def paths(self, connection: Connection, wanted: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], Path]:
        """The path of each object as of its position. Without those that had no name by then."""
        if not wanted:
            return {}
        await self._confirm(connection, max(position for _, position in wanted))
        removals = self._removals
        # Beside the cache, which may be too small for all names of a batch.
        used: dict[UUID, tuple[_Named, ...]] = {}
        # First as of one position for all: the parents they share are looked up once. Then those renamed since, each as of its own.
        at: int | None = max(position for _, position in wanted)
        while missing := self._missing(wanted, used):
            asked = [(object_id, position if at is None else at) for object_id, position in missing.items()]
            for object_id, parent_id, name, from_position, before_position in await names.names_at(connection, asked):
                named = _Named(parent_id, name, dotted_key(name), from_position, before_position)
                known = used.get(object_id, ())
                used[object_id] = known if named in known else (*known, named)
            if at is None:
                # What had no name by then, which another read would not change.
                nameless = {each for each in missing.items() if _path(*each, used) is None}
                wanted = [each for each in wanted if each not in nameless]
            at = None
        paths = {each: path for each in wanted if (path := _path(*each, used)) is not None}
        if removals == self._removals:
            # Else another reader has found a later rename, so these names may be outdated.
            self._cache.update({object_id: known[-_NAMES_OF_OBJECT_MAX:] for object_id, known in used.items()})
        return paths

    def clear(self) -> None:
        self._cache.clear()
        self._confirmed = 0
        self._removals += 1

    async def _confirm(self, connection: Connection, position: int) -> None:
        if position <= self._confirmed:
            return
        after, removals = self._confirmed, self._removals
        renamed = await names.renamed_parents(connection, after, position)
        if removals != self._removals and not self._confirmed:
            # Cleared meanwhile.
            return
        for object_id in renamed:
            self._cache.pop(object_id, None)
        self._removals += bool(renamed)
        self._confirmed = max(self._confirmed, position)

    def _missing(self, wanted: Collection[tuple[UUID, int]], used: dict[UUID, tuple[_Named, ...]]) -> dict[UUID, int]:
        """Objects whose path is not known, each with one position. Adds the known names to `used`."""
        missing: dict[UUID, int] = {}
        for object_id, position in wanted:
            above: UUID | None = object_id
            while above is not None:
                if above not in used and (known := self._cache.get(above)) is not None:
                    used[above] = known
                named = _at(used.get(above, ()), position)
                if named is None:
                    missing.setdefault(object_id, position)
                    break
                above = named.parent_id
        return missing


def _names_bytes(known: tuple[_Named, ...]) -> int:
    """The memory of an entry, with its own id, which takes as much as its parent's."""
    return sum(memory_bytes((each.parent_id, each.parent_id, each.name, each.key, each)) for each in known)


def _at(known: Iterable[_Named], position: int) -> _Named | None:
    return next((each for each in known if each.at(position)), None)


def _path(object_id: UUID, position: int, known: dict[UUID, tuple[_Named, ...]]) -> Path | None:
    path: list[_Named] = []
    above: UUID | None = object_id
    while above is not None:
        named = _at(known.get(above, ()), position)
        if named is None:
            return None
        path.append(named)
        above = named.parent_id
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
        of_projects = [event for event in events if event.topic.startswith("project.")]
        if of_projects:
            wanted = {(event.stream_id, version) for event in of_projects for version in (event.version - 1, event.version)}
            found.projects = await projects.read_names(connection, wanted)
        named = {event.position: _named_objects(event, found) for event in events}
        paths = await self.path_cache.paths(connection, {each for of_event in named.values() for each in of_event})
        for position, of_event in named.items():
            for paths_of, each in zip((found.paths, found.paths_before), of_event, strict=False):
                if each in paths:
                    paths_of[position] = paths[each]
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


def _named_objects(event: RecordedEvent, found: References) -> tuple[tuple[UUID, int], ...]:
    """The objects whose paths the event needs, each with the position as of which: a table's or view's namespace and its former one, the
    warehouse of a proposal, task or maintenance run, else the object itself, and a renamed warehouse or moved namespace with its former
    path.
    """
    kind, position = event.topic.partition(".")[0], event.position
    if kind == "project":
        return ()
    if kind in ("proposal", "task", "maintenance"):
        return ((event.warehouse_id, position),)
    if event.topic.startswith(("warehouse.renamed.", "namespace.moved.")):
        return ((event.stream_id, position), (event.stream_id, position - 1))
    if kind not in ("table", "view"):
        return ((event.stream_id, position),)
    row = found.rows.get(position)
    if row is None:
        return ()
    before = found.rows_before.get(position)
    if before is None or before.namespace_id == row.namespace_id:
        return ((row.namespace_id, position),)
    return ((row.namespace_id, position), (before.namespace_id, position))
