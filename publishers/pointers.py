"""What an event refers to, as of its position: names that led to it, the row it made and the row before, read for a batch at once.

Rows of the read models never change once their position is passed, and a rebuild gives equal bytes: so does every read here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import orjson

from domain.documents import TABLE_KINDS, Json
from domain.proposal import ProposalState
from domain.recorded import RecordedEvent
from migrations.named_sql import named_sql
from projections import proposals
from projections.connections import Connection

_SQL = named_sql("publishers", "pointers.sql")
_SNAPSHOTS = 1 + TABLE_KINDS.index("snapshots")
# Events that leave every name in a path as it was; any other of these nouns empties the cache.
_NAMES_KEPT = frozenset({"warehouse.created", "namespace.created", "namespace.properties-changed"})

_PATHS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Path:
    """The way to a thing, outermost first; the first is the warehouse."""

    ids: tuple[UUID, ...]
    names: tuple[str, ...]


@dataclass(slots=True)
class TabularRow:
    """A table or view at one version; `body` is the table's head or the view's document."""

    namespace_id: UUID
    name: str
    metadata_location: str
    body: bytes
    _parsed: Json | None = None

    @property
    def document(self) -> Json:
        if self._parsed is None:
            self._parsed = orjson.loads(self.body)
        return self._parsed


@dataclass(slots=True)
class Pointers:
    """What one batch refers to."""

    tabulars: dict[tuple[UUID, int], TabularRow] = field(default_factory=dict)
    paths: dict[tuple[UUID, int], Path] = field(default_factory=dict)
    snapshots: dict[tuple[UUID, int], Json] = field(default_factory=dict)
    proposals: dict[tuple[UUID, int], ProposalState] = field(default_factory=dict)


class PointerReader:
    """Reads pointers for batches that follow one another in the order of the log."""

    def __init__(self) -> None:
        self._paths: dict[UUID, Path] = {}

    async def read(self, connection: Connection, events: Sequence[RecordedEvent], wanted: Sequence[RecordedEvent]) -> Pointers:
        """The pointers of those `wanted` of `events`, which come after those of every call before."""
        found = Pointers()
        for block in ("tables", "views"):
            noun = block[:-1]
            mine = [event for event in wanted if event.topic.partition(".")[0] == noun]
            if mine:
                # The version an event made, and the one before.
                keys = list({(event.stream_id, version): None for event in mine for version in (event.version - 1, event.version)})
                parameters = {"ids": [stream_id for stream_id, _ in keys], "versions": [version for _, version in keys]}
                cursor = await connection.execute(_SQL[block], parameters, binary=True)
                for stream_id, version, *row in await cursor.fetchall():
                    found.tabulars[stream_id, version] = TabularRow(*row)
        proposed = [(event.stream_id, event.version) for event in wanted if event.topic.startswith("proposal.")]
        if proposed:
            found.proposals = await proposals.read_versions(connection, proposed)
        await self._read_paths(connection, events, {event.position for event in wanted}, found)
        return found

    async def _read_paths(self, connection: Connection, events: Sequence[RecordedEvent], told: set[int], found: Pointers) -> None:
        wanted: dict[tuple[UUID, int], None] = {}
        # Where a thing's path is the same as at an earlier event of the batch: it is read once.
        same: dict[tuple[UUID, int], tuple[UUID, int]] = {}
        newest: dict[UUID, tuple[UUID, int]] = {}
        for event in events:
            noun, _, rest = event.topic.partition(".")
            if noun in ("warehouse", "namespace") and f"{noun}.{rest.rpartition('.')[0]}" not in _NAMES_KEPT:
                self._paths.clear()
                newest.clear()
            if event.position not in told:
                continue
            for object_id in _named_objects(event, found):
                key = (object_id, event.position)
                if object_id in self._paths:
                    found.paths[key] = self._paths[object_id]
                elif object_id in newest:
                    same[key] = newest[object_id]
                else:
                    wanted[key] = None
                    newest[object_id] = key
        if wanted:
            keys = list(wanted)
            parameters = {"ids": [object_id for object_id, _ in keys], "positions": [position for _, position in keys]}
            cursor = await connection.execute(_SQL["paths"], parameters, binary=True)
            for number, ids, names in await cursor.fetchall():
                found.paths[keys[number - 1]] = Path(tuple(ids), tuple(names))
        for key, read in same.items():
            if read in found.paths:
                found.paths[key] = found.paths[read]
        if len(self._paths) > _PATHS_MAX:
            self._paths.clear()
        for object_id, key in newest.items():
            if key in found.paths:
                self._paths[object_id] = found.paths[key]

    async def read_snapshots(self, connection: Connection, found: Pointers, wanted: Iterable[tuple[UUID, int, int]]) -> None:
        """Adds snapshots by (table, version, snapshot id): those an event refers to without holding them."""
        rows = list(wanted)
        if not rows:
            return
        ids, versions, snapshot_ids = (list(column) for column in zip(*rows, strict=True))
        parameters = {"ids": ids, "versions": versions, "snapshot_ids": snapshot_ids, "kind": _SNAPSHOTS}
        cursor = await connection.execute(_SQL["snapshots"], parameters, binary=True)
        for table_id, snapshot_id, body in await cursor.fetchall():
            found.snapshots[table_id, snapshot_id] = orjson.loads(body)


def _named_objects(event: RecordedEvent, found: Pointers) -> list[UUID]:
    """Those whose path the event is told with: a table's or view's namespaces (now and before), a proposal's warehouse, else itself."""
    if event.topic.startswith("proposal."):
        return [event.warehouse_id]
    if event.topic.partition(".")[0] not in ("table", "view"):
        return [event.stream_id]
    rows = (found.tabulars.get((event.stream_id, version)) for version in (event.version, event.version - 1))
    return list(dict.fromkeys(row.namespace_id for row in rows if row is not None))
